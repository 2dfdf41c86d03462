/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - reads a file into a checked configuration, or lists its problems */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "conf/conf_impl.h"

/* Whether the switch applies to this value. */
static bool is_switch(const struct dt_conf_switch *s,
                      const struct dt_tree *node)
{
    return s && (!s->when || (node->kind == DT_TREE_SCALAR &&
                              strcasecmp(node->text, s->when) == 0));
}

/* Gives a key the value that another key stands for. */
static void take_meant(struct dt_conf_reader *reader, const char *path,
                       const char *value, const struct dt_tree *node)
{
    struct dt_tree meant = *node;
    meant.text = strdup(value);
    if (meant.text)
        dt_conf_set(reader, dt_conf_key_find(path), &meant);
    else
        reader->draft.problems.out_of_memory = true;
    free(meant.text);
}

/* Stores the value that a switch such as `bf16: true` stands for, or keeps the
 * place of false.
 */
static void take_switch(struct dt_conf_reader *reader,
                        const struct dt_conf_switch *s,
                        const struct dt_tree *node)
{
    bool on = true;
    const struct dt_conf_key key = {.path = s->alias, .type = DT_CONF_BOOL};
    if (dt_conf_is_null(node) || dt_conf_is_empty(node) ||
        (!s->when && dt_conf_bool(reader, &key, node, &on) < 0))
        return;
    const size_t i = (size_t)(s - dt_conf_switches);
    if (on && s->less && node->place.source == DT_CONF_OF_FILE)
        reader->on[i] = reader->on[i] ? reader->on[i] : node;
    else if (on)
        take_meant(reader, s->path, s->value, node);
    else if (reader->off_at[i].line == 0)
        reader->off_at[i] = node->place;
    if (on && strcmp(s->alias, "use_peft") == 0)
        reader->peft_at = node->place;
}

/* Takes the switches that agree with a part of their value, when all others are
 * known: completion_only_loss with assistant_only_loss.
 */
static void take_narrowed(struct dt_conf_reader *reader)
{
    for (size_t i = 0; dt_conf_switches[i].alias; i++) {
        const struct dt_conf_switch *s = &dt_conf_switches[i];
        const int row = dt_conf_key_find(s->path);
        if (!reader->on[i])
            continue;
        char *now = dt_conf_value_text(&reader->draft, &dt_conf_keys[row]);
        if (now && (!dt_conf_given(reader->draft.conf, s->path) ||
                    strcmp(now, s->less) != 0))
            take_meant(reader, s->path, s->value, reader->on[i]);
        reader->on[i] = NULL;
        free(now);
    }
}

/* Whether the algorithm has no use for what a switch is about. */
static bool is_of_others(const struct dt_conf *conf,
                         const struct dt_conf_switch *s)
{
    return conf->algorithm != DT_CONF_SFT &&
           strcmp(s->path, "data.loss_on") == 0;
}

/* Says where false would be read differently than it is meant. */
static void check_switches(struct dt_conf_reader *reader)
{
    const struct dt_conf *conf = reader->draft.conf;
    for (size_t i = 0; dt_conf_switches[i].alias; i++) {
        const struct dt_conf_switch *s = &dt_conf_switches[i];
        const struct dt_conf_place at = reader->off_at[i];
        const int row = dt_conf_key_find(s->path);
        if (at.line == 0 || reader->draft.failed[row] ||
            dt_conf_is_overridden(reader, row, at))
            continue;
        char *now = dt_conf_value_text(&reader->draft, &dt_conf_keys[row]);
        if (now && dt_conf_given(conf, s->path) && strcmp(now, s->value) == 0)
            dt_conf_note(
                &reader->draft.problems, at, s->alias,
                "false here, but %s is %s in %s: remove one of them", s->path,
                now,
                dt_conf_where(&reader->draft.problems, conf->place[row], at));
        else if (now && s->off && !dt_conf_given(conf, s->path) &&
                 strcmp(now, s->agrees) != 0 && !is_of_others(conf, s))
            dt_conf_note(&reader->draft.warnings, at, s->alias, "%s", s->off);
        else if (now && s->less && strcmp(now, s->less) == 0)
            dt_conf_note(&reader->draft.warnings, at, s->alias, "%s", s->more);
        free(now);
    }
}

/* Takes a key of another trainer. */
static void take_foreign(struct dt_conf_reader *reader,
                         const struct dt_conf_foreign *f,
                         const struct dt_tree *node, const char *path)
{
    size_t used = strlen(reader->unused);
    if (dt_conf_is_null(node) || dt_conf_is_empty(node))
        return;
    if (f->path) {
        take_meant(reader, f->path, f->meant, node);
        if (strcmp(node->key, "finetuning_type") == 0)
            reader->lora_at = node->place;
    } else if (f->meant) {
        dt_conf_note(&reader->draft.problems, node->key_place, path, "%s",
                     f->meant);
    } else {
        if (used == 0)
            reader->unused_at = node->key_place;
        snprintf(reader->unused + used, sizeof(reader->unused) - used, "%s%s",
                 used ? ", " : "", dt_conf_foreign_name(path));
    }
}

/* Says which defaults are not those of LLaMA-Factory. */
static void warn_of_lora(struct dt_conf_reader *reader)
{
    bool alpha = dt_conf_given(reader->draft.conf, "adapter.alpha");
    bool target = dt_conf_given(reader->draft.conf, "adapter.target_modules");
    if (reader->lora_at.line > 0 && (!alpha || !target))
        dt_conf_note(
            &reader->draft.warnings, reader->lora_at, "finetuning_type",
            "LLaMA-Factory's default of%s%s%s: write %s%s%s",
            alpha ? "" : " lora_alpha is twice lora_rank, 8 here",
            alpha || target ? "" : ", and that of",
            target ? "" : " lora_target is all, q_proj and v_proj here",
            alpha ? "" : "lora_alpha", alpha || target ? "" : " and ",
            target ? "" : "lora_target");
}

/* TRL's defaults of an adapter are not those of PEFT: a file of TRL's that
 * leaves them out gets them, and a line that says so.
 */
static void take_trl_lora(struct dt_conf_reader *reader)
{
    struct dt_conf *conf = reader->draft.conf;
    bool r, alpha, dropout;
    if (reader->peft_at.line == 0 || dt_conf_given(conf, "adapter.path"))
        return;
    if ((r = dt_conf_is_left(conf, "adapter.r")))
        conf->adapter.r = 16;
    if ((alpha = dt_conf_is_left(conf, "adapter.alpha")))
        conf->adapter.alpha = 32;
    if ((dropout = dt_conf_is_left(conf, "adapter.dropout")))
        conf->adapter.dropout = 0.05;
    if (r || alpha || dropout)
        dt_conf_note(&reader->draft.warnings, reader->peft_at, "use_peft",
                     "takes TRL's defaults:%s%s%s", r ? " lora_r 16" : "",
                     alpha ? " lora_alpha 32" : "",
                     dropout ? " lora_dropout 0.05" : "");
}

/* Warns of all keys without effect at once: a file often has a dozen. */
static void warn_of_foreign(struct dt_conf_reader *reader)
{
    warn_of_lora(reader);
    take_trl_lora(reader);
    if (reader->unused[0])
        dt_conf_note(&reader->draft.warnings, reader->unused_at, NULL,
                     "no effect here: %s; `disttrain check --explain KEY` says "
                     "why",
                     reader->unused);
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '\0';
}

static bool has_variable(const struct dt_conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->env_count; i++)
        if (conf->env[i].name && strcmp(conf->env[i].name, name) == 0)
            return true;
    return false;
}

/* Linux takes 128 KiB for a variable, and the plugin adds to the name. */
enum { ENV_KIB = 120 };

/* Takes variables, except for those that an override gives. */
static void take_env(struct dt_conf_reader *reader, const struct dt_tree *map)
{
    struct dt_conf *conf = reader->draft.conf;
    size_t count = conf->env_count;
    for (const struct dt_tree *c = map->child; c; c = c->next)
        count++;
    struct dt_conf_env *more =
        reallocarray(conf->env, count + 1, sizeof(conf->env[0]));
    conf->env = more ? more : conf->env;
    reader->draft.problems.out_of_memory |= !more;
    for (const struct dt_tree *c = map->child; c && more; c = c->next) {
        char key[64];
        snprintf(key, sizeof(key), "env.%.50s", c->key);
        if (has_variable(conf, c->key) || c->unknown)
            continue;
        if (!is_name(c->key)) {
            dt_conf_note(&reader->draft.problems, c->key_place, key,
                         "not a name of a variable");
        } else if (c->kind != DT_TREE_SCALAR || dt_conf_is_null(c) ||
                   dt_conf_is_empty(c)) {
            dt_conf_note(&reader->draft.problems, c->place, key,
                         "expected a string (\"\" for an empty one)");
        } else if (strlen(c->key) + strlen(c->text) > ENV_KIB * 1024) {
            dt_conf_note(&reader->draft.problems, c->place, key,
                         "expected at most %d KiB, name and value together, "
                         "got %zu bytes",
                         ENV_KIB, strlen(c->key) + strlen(c->text));
        } else {
            struct dt_conf_env *env = &conf->env[conf->env_count++];
            env->name = strdup(c->key);
            env->value = strdup(c->text);
            env->written = c->written ? strdup(c->written) : NULL;
            env->place = c->key_place;
            reader->draft.problems.out_of_memory |= !env->name || !env->value;
        }
    }
}

static void note_unknown(struct dt_conf_reader *reader,
                         const struct dt_tree *node, const char *path)
{
    char buffer[256];
    const char *nearest = reader->draft.problems.count < DT_CONF_NOTES_MAX
                              ? dt_conf_nearest(path, buffer, sizeof(buffer))
                              : NULL;
    if (nearest)
        dt_conf_note(&reader->draft.problems, node->key_place, path,
                     "unknown key; did you mean %s?", nearest);
    else
        dt_conf_note(&reader->draft.problems, node->key_place, path,
                     "unknown key");
}

/* The row of a path. If keys of several algorithms have the name, it is that of
 * the file's algorithm.
 */
static int match_row(const struct dt_conf_reader *reader, const char *path)
{
    int first = dt_conf_key_match(path, 0), row = first;
    while (row >= 0 && reader->algorithm &&
           !dt_conf_path_below(dt_conf_keys[row].path, reader->algorithm))
        row = dt_conf_key_match(path, row + 1);
    return row >= 0 ? row : first;
}

/* Whether a key outside of sections, as other trainers have them, has no value:
 * axolotl lists those that are not given in this way.
 */
static bool is_listed_only(const char *path, int row,
                           const struct dt_tree *node)
{
    return dt_conf_is_empty(node) && !strchr(path, '.') &&
           node->place.source != DT_CONF_OF_OVERRIDE &&
           strcmp(path, dt_conf_keys[row].path) != 0;
}

/* Stores the value of a key, and says where null is meant as one. */
static void take_key(struct dt_conf_reader *reader, int row,
                     const struct dt_tree *node, const char *path)
{
    const char *meant = dt_conf_null_match(path);
    if (meant && dt_conf_is_null(node) &&
        !dt_conf_is_overridden(reader, row, node->place))
        dt_conf_note(&reader->draft.warnings, node->place, path, "%s", meant);
    dt_conf_set(reader, row, node);
}

/* Whether a key is not read: for the value of another one, or as an override
 * has another value.
 */
static bool is_outranked(const struct dt_conf_reader *reader, const char *path,
                         const struct dt_conf_foreign *f)
{
    const char *dot = strrchr(path, '.');
    return (f && f->over && f != reader->over) ||
           (reader->over &&
            strcmp(dot ? dot + 1 : path, reader->over->over) == 0);
}

static void walk_tree(struct dt_conf_reader *reader, const struct dt_tree *map,
                      const char *prefix)
{
    for (const struct dt_tree *c = map->child; c; c = c->next) {
        char path[256];
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "",
                 c->key);
        int row = match_row(reader, path);
        const struct dt_conf_switch *s = dt_conf_switch_match(path);
        const struct dt_conf_foreign *f = dt_conf_foreign_match(
            path, c->kind == DT_TREE_SCALAR ? c->text : NULL,
            reader->algorithm);
        const char *waits = dt_conf_later_match(path);
        bool section = c->kind != DT_TREE_SCALAR && dt_conf_section_match(path);
        if (c->kind == DT_TREE_MAP && dt_deepspeed_section(path))
            dt_deepspeed_take_map(reader, c, path);
        else if (is_outranked(reader, path, f))
            continue;
        else if (f)
            take_foreign(reader, f, c, path);
        else if (is_switch(s, c))
            take_switch(reader, s, c);
        else if (row >= 0 && !section && is_listed_only(path, row, c))
            continue;
        else if (row >= 0 && !section) /* `optimizer` may be either */
            take_key(reader, row, c, path);
        else if (waits)
            dt_conf_note(&reader->draft.problems, c->key_place, path,
                         "not supported yet: it needs %s", waits);
        else if (!dt_conf_section_match(path))
            note_unknown(reader, c, path);
        else if (c->kind == DT_TREE_MAP && strcmp(path, "env") == 0)
            take_env(reader, c);
        else if (c->kind == DT_TREE_MAP)
            walk_tree(reader, c, path);
        else if (!dt_conf_is_empty(c) && !dt_conf_is_null(c))
            dt_conf_note(&reader->draft.problems, c->place, path,
                         "expected a section with keys");
    }
}

/* Whether the file trains. A file that only launches has no training key. */
static bool has_training_key(const struct dt_conf *conf)
{
    for (size_t i = 0; i < dt_conf_key_count; i++)
        if (conf->place[i].line > 0 && dt_conf_key_trains(&dt_conf_keys[i]))
            return true;
    return false;
}

/* The name of the DeepSpeed file in messages: like that of the file, if it is
 * below the same directory. malloc'ed; NULL: out of memory.
 */
static char *shown_path(const struct dt_conf_reader *reader, const char *path)
{
    const char *file = reader->draft.problems.file, *slash = strrchr(file, '/');
    int prefix = slash ? (int)(slash + 1 - file) : 0;
    struct dt_error err;
    char *shown = NULL,
         *directory = dt_conf_path(reader->draft.directory, ".", &err);
    size_t n = directory ? strlen(directory) : 0;
    bool below = n > 0 && strncmp(path, directory, n) == 0 && path[n] == '/';
    free(directory);
    if (!below)
        return strdup(path);
    return asprintf(&shown, "%.*s%s", prefix, file, path + n + 1) < 0 ? NULL
                                                                      : shown;
}

static const char deepspeed_key[] = "distributed.deepspeed_config";

/* Parses the DeepSpeed file. NULL: noted. */
static struct dt_tree *parse_deepspeed(struct dt_conf_reader *reader,
                                       const char *path)
{
    struct dt_error err;
    struct dt_tree *tree = NULL;
    char *text = dt_file_read(path, DT_TREE_BYTES_MAX, &err);
    if (!text)
        dt_conf_note_error(&reader->draft.problems,
                           dt_conf_place_of(reader->draft.conf, deepspeed_key),
                           deepspeed_key, &err);
    else
        tree = dt_tree_parse_json(text, strlen(text), &reader->draft.problems);
    free(text);
    return tree;
}

/* Reads the DeepSpeed file, if there is one. Its values are values of ours from
 * now on: a dump has them, and not the name of that file.
 */
static void take_deepspeed(struct dt_conf_reader *reader)
{
    const char *path = reader->draft.conf->distributed.deepspeed_config;
    if (!path)
        return;
    reader->deepspeed = shown_path(reader, path);
    reader->draft.problems.deepspeed = reader->draft.warnings.deepspeed =
        reader->deepspeed;
    reader->draft.problems.out_of_memory |= !reader->deepspeed;
    struct dt_tree *tree =
        reader->deepspeed ? parse_deepspeed(reader, path) : NULL;
    if (tree)
        dt_deepspeed_take_file(reader, tree, NULL);
    dt_tree_destroy(tree);
    reader->draft.conf->place[dt_conf_key_find(deepspeed_key)].line = 0;
}

/* Notes which algorithm a tree asks for. */
static void find_algorithm(struct dt_conf_reader *reader,
                           const struct dt_tree *tree)
{
    for (const struct dt_tree *c = tree->child; c; c = c->next) {
        const struct dt_conf_foreign *f =
            c->kind == DT_TREE_SCALAR
                ? dt_conf_foreign_match(c->key, c->text, NULL)
                : NULL;
        if (c->kind == DT_TREE_SCALAR && strcmp(c->key, "algorithm") == 0)
            reader->algorithm = c->text;
        else if (f && f->path && strcmp(f->path, "algorithm") == 0)
            reader->algorithm = f->meant;
    }
}

/* Notes the value, in the last tree that has one, with which another key is not
 * read.
 */
static void find_over(struct dt_conf_reader *reader, const struct dt_tree *tree)
{
    for (const struct dt_tree *c = tree->child; c; c = c->next) {
        const struct dt_conf_foreign *f =
            c->kind == DT_TREE_SCALAR
                ? dt_conf_foreign_match(c->key, c->text, NULL)
                : NULL;
        if (c->kind == DT_TREE_MAP && strcmp(c->key, "training") == 0)
            find_over(reader, c);
        else if (f && (f->over || (reader->over &&
                                   dt_conf_foreign_has(reader->over, c->key))))
            reader->over = f->over ? f : NULL;
    }
}

/* Stores the values of the overrides, the last one first, and of the file. */
static void take_values(struct dt_conf_reader *reader, struct dt_tree *tree)
{
    const struct dt_conf_overrides *overrides = &reader->draft.conf->overrides;
    struct dt_tree **set = calloc(overrides->count + 1, sizeof(*set));
    reader->draft.problems.out_of_memory |= !set;
    dt_conf_expand(reader, tree, "");
    find_algorithm(reader, tree);
    find_over(reader, tree);
    for (size_t i = 0; set && i < overrides->count; i++) {
        set[i] = dt_conf_override_tree(reader, overrides->text[i], (int)i + 1);
        if (set[i]) {
            dt_conf_expand(reader, set[i], "");
            find_algorithm(reader, set[i]);
            find_over(reader, set[i]);
        }
    }
    for (size_t i = overrides->count; set && i-- > 0;)
        if (set[i])
            walk_tree(reader, set[i], "");
    walk_tree(reader, tree, "");
    take_narrowed(reader);
    warn_of_foreign(reader);
    reader->algorithm = NULL;
    for (size_t i = 0; set && i < overrides->count; i++)
        dt_tree_destroy(set[i]);
    free(set);
}

/* Stores all values of the tree, then derives defaults and checks the rules,
 * which need every value.
 */
static void read_tree(struct dt_conf_reader *reader, struct dt_tree *tree)
{
    if (tree->kind != DT_TREE_MAP) {
        dt_conf_note(&reader->draft.problems, tree->place, NULL,
                     "expected `key: value` lines");
        return;
    }
    take_values(reader, tree);
    reader->draft.conf->trains = has_training_key(reader->draft.conf);
    take_deepspeed(reader);
    dt_conf_take_reward_path(reader);
    if (reader->draft.problems.out_of_memory)
        return;
    dt_conf_derive(&reader->draft);
    if (reader->draft.conf->trains)
        check_switches(reader);
    dt_conf_check(&reader->draft);
    if (dt_conf_fingerprint(reader->draft.conf) < 0)
        reader->draft.problems.out_of_memory = true;
}

void dt_conf_destroy(struct dt_conf *conf)
{
    if (!conf)
        return;
    for (size_t i = 0; i < dt_conf_key_count; i++)
        dt_conf_value_clear(conf, &dt_conf_keys[i]);
    for (size_t i = 0; i < conf->env_count; i++) {
        free(conf->env[i].name);
        free(conf->env[i].value);
        free(conf->env[i].written);
    }
    free(conf->env);
    dt_conf_overrides_fini(&conf->overrides);
    free(conf->place);
    free(conf->file);
    free(conf);
}

/* Creates an empty configuration for a file. NULL: out of memory. */
static struct dt_conf *create_conf(const char *file)
{
    char here[PATH_MAX], *absolute;
    struct dt_conf *conf = calloc(1, sizeof(*conf));
    if (!conf)
        return NULL;
    conf->place = calloc(dt_conf_key_count, sizeof(conf->place[0]));
    if (file[0] == '/')
        conf->file = strdup(file);
    else if (getcwd(here, sizeof(here)) &&
             asprintf(&absolute, "%s/%s", strcmp(here, "/") ? here : "",
                      file) >= 0)
        conf->file = absolute;
    if (!conf->place || !conf->file) {
        dt_conf_destroy(conf);
        return NULL;
    }
    return conf;
}

static char *directory_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash == file ? strdup("/") : strndup(file, (size_t)(slash - file));
}

/* Creates a configuration of defaults. False: out of memory. */
static bool open_reader(struct dt_conf_reader *reader, const char *file)
{
    reader->draft.problems.file = reader->draft.warnings.file = file;
    reader->draft.failed =
        calloc(dt_conf_key_count, sizeof(reader->draft.failed[0]));
    reader->overridden =
        calloc(dt_conf_key_count, sizeof(reader->overridden[0]));
    reader->values = reader->draft.conf = create_conf(file);
    reader->draft.directory =
        reader->draft.conf ? directory_of(reader->draft.conf->file) : NULL;
    if (!reader->draft.failed || !reader->overridden ||
        !reader->draft.directory)
        return false;
    for (size_t i = 0; i < dt_conf_key_count; i++)
        dt_conf_set_default(reader, &dt_conf_keys[i]);
    return true;
}

/* Keeps the notes, and the configuration if it is good. */
static void close_reader(struct dt_conf_reader *reader, bool good)
{
    if (!good || reader->draft.problems.count > 0 ||
        reader->draft.problems.out_of_memory) {
        dt_conf_destroy(reader->draft.conf);
        reader->draft.conf = NULL;
    }
    free(reader->draft.failed);
    free(reader->overridden);
    free(reader->draft.directory);
    free(reader->deepspeed);
}

/* Gives the configuration a copy of the overrides. False: out of memory. */
static bool copy_overrides(struct dt_conf *conf,
                           const struct dt_conf_overrides *overrides)
{
    struct dt_error err;
    for (size_t i = 0; overrides && i < overrides->count; i++)
        if (dt_conf_overrides_add(&conf->overrides, overrides->text[i], &err) <
            0)
            return false;
    return true;
}

static struct dt_conf *load_text(const char *file, const char *text,
                                 size_t bytes,
                                 const struct dt_conf_overrides *overrides,
                                 struct dt_conf_problems *problems,
                                 struct dt_conf_problems *warnings)
{
    struct dt_conf_reader reader = {0};
    bool good = open_reader(&reader, file) &&
                copy_overrides(reader.draft.conf, overrides);
    struct dt_tree *tree =
        good ? dt_tree_parse(text, bytes, &reader.draft.problems) : NULL;
    if (tree)
        read_tree(&reader, tree);
    dt_tree_destroy(tree);
    close_reader(&reader, tree != NULL);
    dt_conf_notes_move(&reader.draft.problems, problems);
    dt_conf_notes_move(&reader.draft.warnings, warnings);
    return reader.draft.conf;
}

struct dt_conf *dt_conf_load_text(const char *file, const char *text,
                                  size_t bytes,
                                  struct dt_conf_problems *problems,
                                  struct dt_conf_problems *warnings)
{
    return load_text(file, text, bytes, NULL, problems, warnings);
}

/* Notes in `tells` the fate of each key, and its problems. */
static void tell_deepspeed(struct dt_conf_reader *reader, const char *text,
                           struct dt_conf_notes *tells)
{
    struct dt_tree *tree =
        dt_tree_parse_json(text, strlen(text), &reader->draft.problems);
    if (tree) {
        dt_deepspeed_take_file(reader, tree, tells);
        dt_conf_derive_distributed(&reader->draft);
        dt_conf_check_distributed(&reader->draft);
    }
    dt_tree_destroy(tree);
}

int dt_conf_explain_deepspeed_text(const char *file, const char *text,
                                   FILE *out, struct dt_error *err)
{
    struct dt_conf_reader reader = {.draft.problems.deepspeed = file,
                                    .draft.warnings.deepspeed = file};
    struct dt_conf_notes tells = {.file = file, .deepspeed = file};
    struct dt_conf_problems lines;
    bool good = open_reader(&reader, file);
    if (good)
        tell_deepspeed(&reader, text, &tells);
    bool failed = reader.draft.problems.count > 0;
    dt_conf_notes_join(&tells, &reader.draft.problems);
    dt_conf_notes_join(&tells, &reader.draft.warnings);
    good = good && !tells.out_of_memory;
    dt_conf_notes_move(&tells, &lines);
    for (size_t i = 0; i < lines.count && good; i++)
        fprintf(out, "%s\n", lines.text[i]);
    dt_conf_problems_fini(&lines);
    close_reader(&reader, false);
    if (!good)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", file);
    return failed ? dt_error_set(err, EX_CONFIG,
                                 "%s: has keys that cannot be used", file)
                  : 0;
}

int dt_conf_explain_deepspeed(const char *path, FILE *out, struct dt_error *err)
{
    char *text = dt_file_read(path, DT_TREE_BYTES_MAX, err);
    int rc = text ? dt_conf_explain_deepspeed_text(path, text, out, err) : -1;
    free(text);
    return rc;
}

static void learn_key(void *ctx, const char *key, const char *value, bool given)
{
    (void)ctx;
    (void)given;
    dt_secret_learn_named(key, value);
}

struct dt_conf *dt_conf_load(const char *path,
                             const struct dt_conf_overrides *overrides,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings)
{
    struct dt_error err = {.text = "out of memory"};
    char *text = strcmp(path, "/dev/null") == 0
                     ? strdup("{}")
                     : dt_file_read(path, DT_TREE_BYTES_MAX, &err);
    if (text) {
        struct dt_conf *conf =
            load_text(path, text, strlen(text), overrides, problems, warnings);
        free(text);
        if (conf)
            dt_conf_each(conf, learn_key, NULL);
        return conf;
    }
    *warnings = (struct dt_conf_problems){0};
    *problems = (struct dt_conf_problems){.text = calloc(1, sizeof(char *))};
    if (problems->text && (problems->text[0] = strdup(err.text)))
        problems->count = 1;
    return NULL;
}
