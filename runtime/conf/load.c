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
#include "conf/read.h"

static bool is_null(const struct dt_tree *node)
{
    static const char *const nulls[] = {"~", "null", "Null", "NULL"};
    if (node->kind != DT_TREE_SCALAR || node->quoted)
        return false;
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
        if (strcmp(node->text, nulls[i]) == 0)
            return true;
    return false;
}

static bool is_empty(const struct dt_tree *node)
{
    return node->kind == DT_TREE_SCALAR && !node->quoted && !*node->text;
}

/* Stores the value of a key, given by its name or an alias. If both are given,
 * the values must be equal.
 */
static void set_key(struct dt_conf_reader *reader, int row,
                    const struct dt_tree *node)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    struct dt_conf_place *place = &reader->conf->place[row], before = *place;
    char *old = before.line > 0 && !reader->failed[row]
                    ? dt_conf_value_text(reader, key)
                    : NULL;
    *place = node->place;
    if (is_null(node))
        *place = before;
    else if (is_empty(node))
        dt_conf_note(&reader->problems, node->key_place, key->path,
                     "no value: write null for the default");
    if (is_null(node) || is_empty(node)) {
        free(old);
        return;
    }
    if (dt_conf_value_set(reader, key, node) < 0)
        reader->failed[row] = true;
    char *now =
        old && !reader->failed[row] ? dt_conf_value_text(reader, key) : NULL;
    if (now && strcmp(old, now) != 0)
        dt_conf_note(&reader->problems, node->place, key->path,
                     "%s%.200s here (%.60s), but %.200s in line %d",
                     key->clash ? key->clash : "", now, node->key, old,
                     before.line);
    free(now);
    free(old);
}

/* Whether the switch applies to this value. */
static bool is_switch(const struct dt_conf_switch *s,
                      const struct dt_tree *node)
{
    return s && (!s->when || (node->kind == DT_TREE_SCALAR &&
                              strcasecmp(node->text, s->when) == 0));
}

/* Stores the value that a switch such as `bf16: true` stands for. */
static void take_switch(struct dt_conf_reader *reader,
                        const struct dt_conf_switch *s,
                        const struct dt_tree *node)
{
    struct dt_tree meant = *node;
    bool on = true;
    const struct dt_conf_key key = {.path = s->alias, .type = DT_CONF_BOOL};
    if (!s->when && (dt_conf_bool(reader, &key, node, &on) < 0 || !on))
        return;
    meant.text = strdup(s->value);
    if (meant.text)
        set_key(reader, dt_conf_key_find(s->path), &meant);
    else
        reader->problems.out_of_memory = true;
    free(meant.text);
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return *text == '\0';
}

static void take_env(struct dt_conf_reader *reader, const struct dt_tree *map)
{
    struct dt_conf *conf = reader->conf;
    size_t count = 0;
    for (const struct dt_tree *c = map->child; c; c = c->next)
        count++;
    conf->env = calloc(count + 1, sizeof(conf->env[0]));
    reader->problems.out_of_memory |= !conf->env;
    for (const struct dt_tree *c = map->child; c && conf->env; c = c->next) {
        char key[64];
        snprintf(key, sizeof(key), "env.%.50s", c->key);
        if (!is_name(c->key)) {
            dt_conf_note(&reader->problems, c->key_place, key,
                         "not a name of a variable");
        } else if (c->kind != DT_TREE_SCALAR || is_null(c) || is_empty(c)) {
            dt_conf_note(&reader->problems, c->place, key,
                         "expected a string (\"\" for an empty one)");
        } else {
            struct dt_conf_env *env = &conf->env[conf->env_count++];
            env->name = strdup(c->key);
            env->value = strdup(c->text);
            env->place = c->key_place;
            reader->problems.out_of_memory |= !env->name || !env->value;
        }
    }
}

static void note_unknown(struct dt_conf_reader *reader,
                         const struct dt_tree *node, const char *path)
{
    char buffer[256];
    const char *nearest = reader->problems.count < DT_CONF_NOTES_MAX
                              ? dt_conf_nearest(path, buffer, sizeof(buffer))
                              : NULL;
    if (nearest)
        dt_conf_note(&reader->problems, node->key_place, path,
                     "unknown key; did you mean %s?", nearest);
    else
        dt_conf_note(&reader->problems, node->key_place, path, "unknown key");
}

static void walk_tree(struct dt_conf_reader *reader, const struct dt_tree *map,
                      const char *prefix)
{
    for (const struct dt_tree *c = map->child; c; c = c->next) {
        char path[256];
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "",
                 c->key);
        int row = dt_conf_key_match(path);
        const struct dt_conf_switch *s = dt_conf_switch_match(path);
        const char *waits = dt_conf_later_match(path);
        bool section = c->kind == DT_TREE_MAP && dt_conf_section_match(path);
        if (is_switch(s, c))
            take_switch(reader, s, c);
        else if (row >= 0 && !section) /* `distributed` may be either */
            set_key(reader, row, c);
        else if (waits)
            dt_conf_note(&reader->problems, c->key_place, path,
                         "not supported yet: it needs %s", waits);
        else if (!dt_conf_section_match(path))
            note_unknown(reader, c, path);
        else if (c->kind == DT_TREE_MAP && strcmp(path, "env") == 0)
            take_env(reader, c);
        else if (c->kind == DT_TREE_MAP)
            walk_tree(reader, c, path);
        else if (!is_empty(c) && !is_null(c))
            dt_conf_note(&reader->problems, c->place, path,
                         "expected a section with keys");
    }
}

static void set_defaults(struct dt_conf_reader *reader)
{
    for (size_t i = 0; i < dt_conf_key_count; i++) {
        const struct dt_conf_key *key = &dt_conf_keys[i];
        struct dt_tree scalar = {.text = (char *)key->fallback}, *list = NULL;
        if (!key->fallback)
            continue;
        if (key->fallback[0] == '[')
            list = dt_tree_parse(key->fallback, strlen(key->fallback),
                                 &reader->problems);
        dt_conf_value_set(reader, key, list ? list : &scalar);
        dt_tree_destroy(list);
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

/* Stores all values of the tree, then derives defaults and checks the rules,
 * which need every value.
 */
static void read_tree(struct dt_conf_reader *reader, const struct dt_tree *tree)
{
    if (tree->kind != DT_TREE_MAP) {
        dt_conf_note(&reader->problems, tree->place, NULL,
                     "expected `key: value` lines");
        return;
    }
    walk_tree(reader, tree, "");
    if (reader->problems.out_of_memory)
        return;
    reader->conf->trains = has_training_key(reader->conf);
    dt_conf_derive(reader);
    dt_conf_check(reader);
    if (dt_conf_fingerprint(reader->conf) < 0)
        reader->problems.out_of_memory = true;
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
    }
    free(conf->env);
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

struct dt_conf *dt_conf_load_text(const char *file, const char *text,
                                  size_t bytes,
                                  struct dt_conf_problems *problems,
                                  struct dt_conf_problems *warnings)
{
    struct dt_conf_reader reader = {.problems = {.file = file},
                                    .warnings = {.file = file}};
    char *directory = NULL;
    reader.failed = calloc(dt_conf_key_count, sizeof(reader.failed[0]));
    reader.conf = create_conf(file);
    reader.directory = directory =
        reader.conf ? directory_of(reader.conf->file) : NULL;
    if (reader.failed && directory) {
        set_defaults(&reader);
        struct dt_tree *tree = dt_tree_parse(text, bytes, &reader.problems);
        if (tree)
            read_tree(&reader, tree);
        dt_tree_destroy(tree);
    }
    if (!reader.failed || !directory || reader.problems.count > 0 ||
        reader.problems.out_of_memory) {
        dt_conf_destroy(reader.conf);
        reader.conf = NULL;
    }
    free(reader.failed);
    free(directory);
    dt_conf_notes_move(&reader.problems, problems);
    dt_conf_notes_move(&reader.warnings, warnings);
    return reader.conf;
}

struct dt_conf *dt_conf_load(const char *path,
                             struct dt_conf_problems *problems,
                             struct dt_conf_problems *warnings)
{
    struct dt_error err = {.text = "out of memory"};
    char *text = strcmp(path, "/dev/null") == 0
                     ? strdup("{}")
                     : dt_file_read(path, DT_TREE_BYTES_MAX, &err);
    if (text) {
        struct dt_conf *conf =
            dt_conf_load_text(path, text, strlen(text), problems, warnings);
        free(text);
        return conf;
    }
    *warnings = (struct dt_conf_problems){0};
    *problems = (struct dt_conf_problems){.text = calloc(1, sizeof(char *))};
    if (problems->text && (problems->text[0] = strdup(err.text)))
        problems->count = 1;
    return NULL;
}
