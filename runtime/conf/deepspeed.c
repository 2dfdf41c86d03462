/* SPDX-License-Identifier: Apache-2.0 */
/* deepspeed.c - turns a DeepSpeed configuration into values of our keys */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_impl.h"

enum { PATH_BYTES = 256, SUMMARY_BYTES = 1024 };

/* From this many steps on, an interval between reports means never. */
static const double never_steps = 1e6;

struct taker {
    struct dt_conf_reader *reader;
    struct dt_conf_notes *tells; /* NULL: warnings only */
    bool is_yaml;
    char summary[SUMMARY_BYTES]; /* names of keys without effect */
    struct dt_conf_place first;  /* the place of the first one */
};

/* A key that a file gives. */
struct given {
    const struct dt_deepspeed_key *key;
    const struct dt_tree *node;
    const struct dt_tree *map; /* that holds it */
    const char *path;          /* as the file spells it */
};

/* --- values --- */

static bool is_word(const struct dt_tree *node, const char *word)
{
    return node && node->kind == DT_TREE_SCALAR &&
           strcasecmp(node->text, word) == 0;
}

/* Whether the value is one of the words, which have blanks between. */
static bool is_one_of(const struct dt_tree *node, const char *words)
{
    size_t n;
    for (; words && *words; words += n + strspn(words + n, " ")) {
        n = strcspn(words, " ");
        if (node->kind == DT_TREE_SCALAR && strlen(node->text) == n &&
            strncasecmp(node->text, words, n) == 0)
            return true;
    }
    return false;
}

static const struct dt_tree *child_of(const struct dt_tree *map,
                                      const char *name)
{
    for (const struct dt_tree *c = map->child; c; c = c->next)
        if (c->key && strcmp(c->key, name) == 0)
            return c;
    return NULL;
}

/* Whether a value switches its feature off: false, 0, none ..., a section that
 * says `enabled: false`, or one that holds only such values.
 */
static bool is_off(const struct dt_tree *node)
{
    if (node->kind == DT_TREE_SCALAR)
        return dt_conf_is_null(node) || is_one_of(node, "false 0 none auto");
    const struct dt_tree *enabled = child_of(node, "enabled");
    if (enabled && node->kind == DT_TREE_MAP)
        return is_off(enabled);
    for (const struct dt_tree *c = node->child; c; c = c->next)
        if (!is_off(c))
            return false;
    return true;
}

static const struct dt_conf_key *ours(const struct given *g)
{
    return &dt_conf_keys[dt_conf_key_find(g->key->key)];
}

/* --- the report --- */

static void tell(struct taker *t, const struct given *g, const char *how,
                 const char *text)
{
    if (t->tells)
        dt_conf_note(t->tells, g->node->place, g->path, "%s%s", how, text);
}

static void tell_unused(struct taker *t, const struct given *g,
                        const char *text)
{
    size_t used = strlen(t->summary);
    tell(t, g, "no effect: ", text);
    if (used == 0)
        t->first = g->node->place;
    snprintf(t->summary + used, sizeof(t->summary) - used, "%s%s",
             used ? ", " : "", g->node->key);
}

/* Warns of all keys without effect at once: a file often has a dozen. */
static void warn_of_unused(struct taker *t)
{
    if (t->summary[0] && !t->tells)
        dt_conf_note(&t->reader->draft.warnings, t->first, NULL,
                     "no effect here: %s; `disttrain check --explain %s` says "
                     "why",
                     t->summary,
                     t->is_yaml ? "KEY" : t->reader->draft.warnings.deepspeed);
}

static void refuse(struct taker *t, const struct given *g, const char *text)
{
    dt_conf_note(&t->reader->draft.problems, g->node->place, g->path, "%s",
                 text);
}

/* --- actions --- */

/* Gives our key the value of the file, or `text` in its place. */
static void set_value(struct taker *t, const struct given *g, const char *text)
{
    struct dt_conf_reader *reader = t->reader;
    struct dt_tree meant = *g->node;
    size_t before = reader->draft.problems.count;
    if (text) {
        meant.quoted = false;
        meant.text = strdup(text);
        reader->draft.problems.out_of_memory |= !meant.text;
        if (!meant.text)
            return;
    }
    dt_conf_set(reader, dt_conf_key_find(g->key->key), &meant);
    if (text)
        free(meant.text);
    if (!t->tells || reader->draft.problems.count > before)
        return;
    char *now = dt_conf_value_text(&reader->draft, ours(g));
    if (now && dt_conf_given(reader->draft.conf, g->key->key))
        dt_conf_note(t->tells, g->node->place, g->path, "becomes %s: %.200s",
                     g->key->key, now);
    free(now);
}

static void take_stage(struct taker *t, const struct given *g)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    long stage = -1;
    if (is_word(g->node, "true") || is_word(g->node, "false"))
        stage = is_word(g->node, "true");
    else if (g->node->kind != DT_TREE_SCALAR ||
             !dt_conf_parse_int(g->node->text, &stage))
        stage = -1;
    if (stage < 0 || stage > 3)
        refuse(t, g, "expected 0, 1, 2 or 3");
    else
        set_value(t, g, strategies[stage]);
}

/* DeepSpeed's Adam is AdamW unless adam_w_mode is false. */
static void take_optimizer(struct taker *t, const struct given *g)
{
    const struct dt_tree *params = child_of(g->map, "params");
    const struct dt_tree *mode =
        params ? child_of(params, "adam_w_mode") : NULL;
    bool coupled = is_word(mode, "false");
    set_value(t, g, is_word(g->node, "adam") && !coupled ? "adamw" : NULL);
}

/* Refuses `false` if the YAML file says the opposite. */
static void take_false(struct taker *t, const struct given *g)
{
    struct dt_conf_reader *reader = t->reader;
    struct dt_conf_place place =
        dt_conf_place_of(reader->draft.conf, g->key->key);
    char *now = dt_conf_given(reader->draft.conf, g->key->key)
                    ? dt_conf_value_text(&reader->draft, ours(g))
                    : NULL;
    if (now && place.source == DT_CONF_OF_FILE &&
        g->node->place.source == DT_CONF_OF_DEEPSPEED &&
        strcmp(now, g->key->value) == 0)
        dt_conf_note(
            &reader->draft.problems, g->node->place, g->path,
            "%sfalse here, but %s is %s in %s: write \"auto\" here "
            "to take that",
            ours(g)->clash ? ours(g)->clash : "", g->key->key, now,
            dt_conf_where(&reader->draft.problems, place, g->node->place));
    else
        tell(t, g, "off", "");
    free(now);
}

static void take_switch(struct taker *t, const struct given *g)
{
    struct dt_conf *conf = t->reader->draft.conf;
    const struct dt_conf_key key = {.path = g->path, .type = DT_CONF_BOOL};
    int row = dt_conf_key_find(g->key->key);
    bool on;
    if (dt_conf_bool(t->reader, &key, g->node, &on) < 0)
        return;
    if (!on) {
        take_false(t, g);
        return;
    }
    /* Offloaded inputs imply recomputation: this adds to `true`. */
    if (dt_conf_keys[row].type == DT_CONF_BOOL_OR_WORD &&
        !dt_conf_is_overridden(t->reader, row, g->node->place) &&
        conf->model.gradient_checkpointing == DT_CONF_CHECKPOINT_RECOMPUTE)
        conf->place[row].line = 0;
    set_value(t, g, g->key->value);
    if (g->key->text)
        dt_conf_note(&t->reader->draft.warnings, g->node->place, g->path, "%s",
                     g->key->text);
}

/* Lowers a number of ours, unless YAML gives it. */
static void take_limit(struct taker *t, const struct given *g)
{
    const long *now =
        (const long *)((const char *)t->reader->draft.conf + ours(g)->offset);
    double value;
    char text[32];
    if (g->node->kind != DT_TREE_SCALAR || g->node->quoted ||
        !dt_conf_parse_number(g->node->text, &value) || value < 0) {
        refuse(t, g, "expected a number of elements");
        return;
    }
    double limit = fmax(floor(value * g->key->scale), ours(g)->min);
    if (dt_conf_given(t->reader->draft.conf, g->key->key)) {
        tell_unused(t, g, "the YAML file says what to take");
    } else if (limit >= (double)*now) {
        tell_unused(t, g, g->key->text);
    } else {
        snprintf(text, sizeof(text), "%.0f", limit);
        set_value(t, g, text);
    }
}

static void take_group(struct taker *t, const struct given *g)
{
    long ranks;
    if (g->node->kind == DT_TREE_SCALAR &&
        dt_conf_parse_int(g->node->text, &ranks) && ranks <= 1)
        tell(t, g, "off", "");
    else
        set_value(t, g, NULL);
}

static void take_interval(struct taker *t, const struct given *g)
{
    double steps;
    if (dt_conf_given(t->reader->draft.conf, g->key->key))
        tell_unused(t, g, "logging.steps is given in YAML");
    else if (is_word(g->node, "Infinity") ||
             (g->node->kind == DT_TREE_SCALAR &&
              dt_conf_parse_number(g->node->text, &steps) &&
              steps >= never_steps))
        tell_unused(t, g, "so many steps mean never, and logging.steps stays");
    else
        set_value(t, g, NULL);
}

/* Adds a word to a list of ours, whatever else it has. */
static void take_report(struct taker *t, const struct given *g)
{
    struct dt_conf *conf = t->reader->draft.conf;
    const struct dt_conf_key key = {.path = g->path, .type = DT_CONF_BOOL};
    const struct dt_conf_word *word = ours(g)->words;
    bool on;
    if (dt_conf_bool(t->reader, &key, g->node, &on) < 0)
        return;
    if (!on) {
        tell(t, g, "off", "");
        return;
    }
    if (dt_conf_is_overridden(t->reader, dt_conf_key_find(g->key->key),
                              g->node->place))
        return;
    while (strcmp(word->name, g->key->value) != 0)
        word++;
    *(bool *)((char *)conf + word->value) = true;
    if (t->tells)
        dt_conf_note(t->tells, g->node->place, g->path, "adds %s to %s",
                     word->name, g->key->key);
}

static void take_unused(struct taker *t, const struct given *g)
{
    if (is_one_of(g->node, g->key->value))
        tell(t, g, "as always: ", g->key->text);
    else if (g->node->kind == DT_TREE_MAP && is_off(g->node))
        tell(t, g, "off", "");
    else
        tell_unused(t, g, g->key->text);
}

static void take_key(struct taker *t, const struct given *g)
{
    switch (g->key->action) {
    case DT_DS_SECTION:
        refuse(t, g, "expected a section with keys");
        break;
    case DT_DS_SET:
        set_value(t, g, NULL);
        break;
    case DT_DS_STAGE:
        take_stage(t, g);
        break;
    case DT_DS_OPTIMIZER:
        take_optimizer(t, g);
        break;
    case DT_DS_ON:
        take_switch(t, g);
        break;
    case DT_DS_ONLY_ON:
        if (is_word(g->node, "true"))
            set_value(t, g, g->key->value);
        else
            refuse(t, g, g->key->text);
        break;
    case DT_DS_LIMIT:
        take_limit(t, g);
        break;
    case DT_DS_GROUP:
        take_group(t, g);
        break;
    case DT_DS_PRINT:
        take_interval(t, g);
        break;
    case DT_DS_REPORT:
        take_report(t, g);
        break;
    case DT_DS_NO_EFFECT:
        take_unused(t, g);
        break;
    case DT_DS_MUST_BE:
        if (is_one_of(g->node, g->key->value))
            tell(t, g, "as always", "");
        else
            refuse(t, g, g->key->text);
        break;
    case DT_DS_REFUSED:
        if (is_off(g->node))
            tell(t, g, "off", "");
        else
            refuse(t, g, g->key->text);
        break;
    }
}

/* --- sections --- */

/* Notes a key that is not in the table. DeepSpeed ignores those at the top of
 * its file.
 */
static void note_unknown(struct taker *t, const struct dt_tree *node,
                         const char *path, const char *section)
{
    bool ignored = !t->is_yaml && section[0] == '\0';
    const char *nearest = dt_deepspeed_nearest(section, node->key);
    if (!nearest && t->is_yaml && section[0] == '\0')
        nearest = dt_deepspeed_nearest("zero_optimization", node->key);
    struct dt_conf_notes *notes =
        ignored ? &t->reader->draft.warnings : &t->reader->draft.problems;
    dt_conf_note(notes, node->key_place, path, "unknown key%s%s%s%s",
                 ignored ? ", which DeepSpeed ignores too" : "",
                 nearest ? "; did you mean " : "", nearest ? nearest : "",
                 nearest ? "?" : "");
}

/* The row of a name. `deepspeed` in YAML also holds keys of the section
 * zero_optimization, and the path of a file.
 */
static const struct dt_deepspeed_key *find_key(const struct taker *t,
                                               const char *section,
                                               const char *name)
{
    const struct dt_deepspeed_key *key = dt_deepspeed_find(section, name);
    if (!key && t->is_yaml && section[0] == '\0')
        key = dt_deepspeed_find("yaml", name);
    if (!key && t->is_yaml && section[0] == '\0')
        key = dt_deepspeed_find("zero_optimization", name);
    return key;
}

/* A scale that is not static follows DeepSpeed's rule, unless YAML says which.
 */
static void choose_scaler(struct taker *t, const struct dt_tree *fp16)
{
    static const char path[] = "precision.loss_scaler";
    const struct dt_tree *enabled = child_of(fp16, "enabled");
    const struct dt_tree *scale = child_of(fp16, "loss_scale");
    double value = 0;
    if (scale && scale->kind == DT_TREE_SCALAR)
        dt_conf_parse_number(scale->text, &value);
    if (!is_word(enabled, "true") || value > 0 ||
        dt_conf_given(t->reader->draft.conf, path))
        return;
    struct dt_tree rule = *enabled;
    char word[] = "deepspeed";
    rule.text = word;
    dt_conf_set(t->reader, dt_conf_key_find(path), &rule);
}

/* Takes the keys of a map, which is the section of the table. */
static void take_map(struct taker *t, const struct dt_tree *map,
                     const char *path, const char *section)
{
    for (const struct dt_tree *c = map->child; c; c = c->next) {
        char shown[PATH_BYTES];
        snprintf(shown, sizeof(shown), "%s%s%s", path, *path ? "." : "",
                 c->key);
        struct given g = {find_key(t, section, c->key), c, map, shown};
        if (!g.key)
            note_unknown(t, c, shown, section);
        else if (g.key->action == DT_DS_SECTION && c->kind == DT_TREE_MAP)
            take_map(t, c, shown, g.key->path);
        else if (is_word(c, "auto") && g.key->key)
            tell(t, &g, "auto: see ", g.key->key);
        else if (is_word(c, "auto") || dt_conf_is_null(c))
            tell(t, &g, "left out", "");
        else if (g.key->action == DT_DS_SECTION && g.key->key)
            take_stage(t, &g);
        else
            take_key(t, &g);
    }
    if (strcmp(section, "fp16") == 0)
        choose_scaler(t, map);
}

void dt_deepspeed_take_map(struct dt_conf_reader *reader,
                           const struct dt_tree *map, const char *path)
{
    struct taker t = {.reader = reader, .is_yaml = true};
    take_map(&t, map, path, dt_deepspeed_section(path));
    warn_of_unused(&t);
}

/* Whether a section of precision says anything but false. */
static bool decides(const struct dt_tree *root, const char *name)
{
    const struct dt_tree *section = child_of(root, name);
    const struct dt_tree *enabled = section && section->kind == DT_TREE_MAP
                                        ? child_of(section, "enabled")
                                        : NULL;
    return enabled && !is_word(enabled, "false");
}

/* Appends a sentence to those of a warning. */
static void add_default(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s", used ? "; " : "", more);
}

/* Warns of what neither file gives, and DeepSpeed takes otherwise than we do.
 */
static void warn_of_defaults(struct dt_conf_reader *reader,
                             const struct dt_tree *root)
{
    const struct dt_conf *conf = reader->draft.conf;
    const struct dt_tree *optimizer = child_of(root, "optimizer");
    const struct dt_tree *params =
        optimizer ? child_of(optimizer, "params") : NULL;
    char text[512] = "";
    if (!child_of(root, "gradient_clipping") &&
        !dt_conf_given(conf, "training.max_grad_norm"))
        add_default(text, sizeof(text),
                    "without gradient_clipping it clips nothing, and "
                    "training.max_grad_norm is 1");
    if (optimizer && !is_word(params, "auto") &&
        !(params && child_of(params, "lr")) &&
        !dt_conf_given(conf, "optimizer.lr"))
        add_default(text, sizeof(text),
                    "without a rate it takes 0.001, and optimizer.lr is 2e-05");
    if (!child_of(root, "scheduler") && !dt_conf_given(conf, "scheduler.name"))
        add_default(text, sizeof(text),
                    "without a scheduler its rate is constant, and "
                    "scheduler.name is linear");
    if (text[0])
        dt_conf_note(&reader->draft.warnings, root->place, NULL,
                     "DeepSpeed has other defaults than those here: %s; write "
                     "what you want in %.200s",
                     text, reader->draft.warnings.file);
}

void dt_deepspeed_take_file(struct dt_conf_reader *reader,
                            const struct dt_tree *root,
                            struct dt_conf_notes *tells)
{
    struct taker t = {.reader = reader, .tells = tells};
    if (root->kind != DT_TREE_MAP) {
        dt_conf_note(&reader->draft.problems, root->place, NULL,
                     "expected { and keys");
        return;
    }
    take_map(&t, root, "", "");
    warn_of_unused(&t);
    if (!tells)
        warn_of_defaults(reader, root);
    if (!tells && !dt_conf_given(reader->draft.conf, "precision.compute") &&
        !decides(root, "fp16") && !decides(root, "bf16") &&
        !decides(root, "bfloat16"))
        dt_conf_note(&reader->draft.warnings, root->place, "precision.compute",
                     "neither fp16 nor bf16 is enabled, which means fp32 in "
                     "DeepSpeed and bf16 on GPUs here: write fp32 or bf16 in "
                     "%.500s",
                     reader->draft.warnings.file);
}
