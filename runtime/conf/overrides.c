/* SPDX-License-Identifier: Apache-2.0 */
/* overrides.c - keys that are given twice: by --set KEY=VALUE and the file,
 * by another name or by a DeepSpeed file
 */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "conf/conf_impl.h"

enum { KEY_BYTES = 256 };

/* --- the list --- */

/* The length of the key at the start of KEY=VALUE; 0: there is none. */
static size_t key_length(const char *text)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || strchr("_.-", text[n]))
        if (text[n++] == '\0')
            return 0;
    return text[n] == '=' && n > 0 && n < KEY_BYTES && text[0] != '-' &&
                   text[0] != '.' && text[n - 1] != '.'
               ? n
               : 0;
}

int dt_conf_overrides_add(struct dt_conf_overrides *overrides, const char *text,
                          struct dt_error *err)
{
    if (key_length(text) == 0)
        return dt_error_set(err, EX_USAGE,
                            "expected KEY=VALUE, such as optimizer.lr=1e-5, "
                            "got '%.60s'",
                            text);
    char **more = reallocarray(overrides->text, overrides->count + 1,
                               sizeof(overrides->text[0]));
    char *copy = strdup(text);
    overrides->text = more ? more : overrides->text;
    if (!more || !copy) {
        free(copy);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    overrides->text[overrides->count++] = copy;
    return 0;
}

int dt_conf_overrides_decode(struct dt_conf_overrides *overrides,
                             const char *list, struct dt_error *err)
{
    char *copy = strdup(list), *rest = copy, *word;
    int rc = copy ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    while (rc == 0 && (word = strsep(&rest, " ")) != NULL) {
        dt_escape_undo(word);
        rc = dt_conf_overrides_add(overrides, word, err);
    }
    free(copy);
    return rc;
}

void dt_conf_overrides_fini(struct dt_conf_overrides *overrides)
{
    for (size_t i = 0; i < overrides->count; i++)
        free(overrides->text[i]);
    free(overrides->text);
    *overrides = (struct dt_conf_overrides){0};
}

const char *dt_conf_trained_override(const struct dt_conf *conf)
{
    char key[KEY_BYTES];
    for (size_t i = 0; i < conf->overrides.count; i++) {
        const char *text = conf->overrides.text[i];
        snprintf(key, sizeof(key), "%.*s", (int)key_length(text), text);
        int row = dt_conf_key_match(key, 0);
        if (row >= 0 && dt_conf_key_trains(&dt_conf_keys[row]))
            return text;
    }
    return NULL;
}

/* --- values --- */

/* A tree of one scalar, as it is. NULL: out of memory. */
static struct dt_tree *create_scalar(const char *text)
{
    struct dt_tree *node = calloc(1, sizeof(*node));
    if (node && !(node->text = strdup(text))) {
        free(node);
        return NULL;
    }
    return node;
}

/* Parses a list, a section or a quoted string. What is wrong is noted for the
 * key, without places in the value.
 */
static struct dt_tree *parse_flow(struct dt_conf_reader *reader,
                                  struct dt_conf_place place, const char *key,
                                  const char *text)
{
    struct dt_conf_notes *notes = calloc(1, sizeof(*notes));
    if (!notes)
        return NULL;
    notes->file = "value";
    struct dt_tree *tree = dt_tree_parse(text, strlen(text), notes);
    reader->draft.problems.out_of_memory |= notes->out_of_memory;
    for (size_t i = 0; i < notes->count; i++) {
        const char *said = notes->note[i].text;
        const char *where =
            dt_conf_place_text(notes->note[i].place, notes->file, NULL);
        dt_conf_note(&reader->draft.problems, place, key, "%s",
                     said + strlen(where) + strlen(": "));
        free(notes->note[i].text);
    }
    free(notes);
    return tree;
}

/* The value as a tree; other text than YAML's flow style is taken as it is, so
 * that the shell's quotes are enough. NULL: noted, or out of memory.
 */
static struct dt_tree *parse_value(struct dt_conf_reader *reader,
                                   struct dt_conf_place place, const char *key,
                                   const char *text)
{
    size_t before = reader->draft.problems.count;
    struct dt_tree *tree = *text && strchr("[{\"'", *text)
                               ? parse_flow(reader, place, key, text)
                               : create_scalar(text);
    if (!tree && reader->draft.problems.count == before)
        reader->draft.problems.out_of_memory = true;
    return tree;
}

static void set_places(struct dt_tree *tree, struct dt_conf_place place)
{
    for (; tree; tree = tree->next) {
        tree->place = tree->key_place = place;
        set_places(tree->child, place);
    }
}

/* Puts the value into sections: `a.b` becomes {a: {b: value}}. Owns the value.
 * NULL: out of memory.
 */
static struct dt_tree *nest(char *key, struct dt_tree *value)
{
    while (value) {
        char *dot = strrchr(key, '.');
        struct dt_tree *section = calloc(1, sizeof(*section));
        value->key = strdup(dot ? dot + 1 : key);
        if (!section || !value->key) {
            free(section);
            break;
        }
        section->kind = DT_TREE_MAP;
        section->child = value;
        value = section;
        if (!dot)
            return value;
        *dot = '\0';
    }
    dt_tree_destroy(value);
    return NULL;
}

/* --- keys --- */

/* Whether a part of the key, up to a dot, is a key whose section is the user's:
 * with one key of it set, the others of the file would be lost.
 */
static bool is_part(struct dt_conf_reader *reader, struct dt_conf_place place,
                    const char *key)
{
    char part[KEY_BYTES];
    for (const char *dot = key; (dot = strchr(dot, '.')); dot++) {
        snprintf(part, sizeof(part), "%.*s", (int)(dot - key), key);
        int row = dt_conf_key_match(part, 0);
        if (row < 0 || (dt_conf_keys[row].type != DT_CONF_FREE &&
                        dt_conf_keys[row].type != DT_CONF_WEIGHTS))
            continue;
        dt_conf_note(&reader->draft.problems, place, key,
                     "set the whole section: %s={%s: VALUE}", part, dot + 1);
        return true;
    }
    return false;
}

struct dt_tree *dt_conf_override_tree(struct dt_conf_reader *reader,
                                      const char *text, int number)
{
    struct dt_conf_place place = {
        .line = number, .column = 1, .source = DT_CONF_OF_OVERRIDE};
    char key[KEY_BYTES];
    size_t n = key_length(text);
    snprintf(key, sizeof(key), "%.*s", (int)n, text);
    if (is_part(reader, place, key))
        return NULL;
    struct dt_tree *value = parse_value(reader, place, key, text + n + 1);
    if (!value)
        return NULL;
    struct dt_tree *tree = nest(key, value);
    reader->draft.problems.out_of_memory |= !tree;
    set_places(tree, place);
    return tree;
}

/* An override of the first drops what the file says of the second, which is
 * another name for it, or would hide it.
 */
static const char *const rivals[][2] = {
    {"distributed.strategy", "distributed.zero_stage"},
    {"distributed.zero_stage", "distributed.strategy"},
    {"precision.compute", "precision.opt_level"},
    {"precision.opt_level", "precision.compute"},
    {"optimizer.betas", "optimizer.beta1"},
    {"optimizer.betas", "optimizer.beta2"},
    {"training.epochs", "training.max_steps"},
    {"scheduler.warmup_ratio", "scheduler.warmup_steps"},
    {"scheduler.warmup_steps", "scheduler.warmup_ratio"},
    {"scheduler.min_lr", "scheduler.min_lr_rate"},
    {"scheduler.min_lr_rate", "scheduler.min_lr"},
};

bool dt_conf_is_overridden(const struct dt_conf_reader *reader, int row,
                           struct dt_conf_place place)
{
    int by = reader->overridden[row];
    return by > 0 && (place.source != DT_CONF_OF_OVERRIDE || place.line < by);
}

void dt_conf_override(struct dt_conf_reader *reader, int row, int number)
{
    reader->overridden[row] = number;
    for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++)
        if (strcmp(rivals[i][0], dt_conf_keys[row].path) == 0) {
            int other = dt_conf_key_find(rivals[i][1]);
            if (reader->overridden[other] == 0)
                reader->overridden[other] = 1; /* not of later overrides */
        }
}

/* --- values that are given twice --- */

/* Notes that the key has the value `now` here and `old` at `before`. */
static void note_clash(struct dt_conf_reader *reader,
                       const struct dt_conf_key *key,
                       const struct dt_tree *node, const char *now,
                       const char *old, struct dt_conf_place before)
{
    bool other = before.source != node->place.source;
    dt_conf_note(&reader->draft.problems, node->place, key->path,
                 "%s%.200s here (%.60s), but %.200s in %s%s",
                 key->clash ? key->clash : "", now, node->key, old,
                 dt_conf_where(&reader->draft.problems, before, node->place),
                 other ? ": write \"auto\" here to take that" : "");
}

/* Whether a value of the file leaves the choice to a DeepSpeed file. */
static bool yields(const char *old, struct dt_conf_place before,
                   const struct dt_tree *node)
{
    return strcmp(old, "deepspeed") == 0 ||
           (strcmp(old, "auto") == 0 && before.source == DT_CONF_OF_FILE &&
            node->place.source == DT_CONF_OF_DEEPSPEED);
}

void dt_conf_set(struct dt_conf_reader *reader, int row,
                 const struct dt_tree *node)
{
    const struct dt_conf_key *key = &dt_conf_keys[row];
    struct dt_conf_place *place = &reader->draft.conf->place[row],
                         before = *place;
    if (dt_conf_is_overridden(reader, row, node->place))
        return;
    if (node->place.source == DT_CONF_OF_OVERRIDE)
        dt_conf_override(reader, row, node->place.line);
    if (dt_conf_is_null(node))
        return;
    *place = node->place;
    if (dt_conf_is_empty(node)) {
        dt_conf_note(&reader->draft.problems, node->key_place, key->path,
                     "no value: write null for the default");
        return;
    }
    char *old = before.line > 0 && !reader->draft.failed[row]
                    ? dt_conf_value_text(&reader->draft, key)
                    : NULL;
    if (dt_conf_value_set(reader, key, node) < 0)
        reader->draft.failed[row] = true;
    char *now = old && !reader->draft.failed[row]
                    ? dt_conf_value_text(&reader->draft, key)
                    : NULL;
    if (now && strcmp(old, now) != 0 && !yields(old, before, node))
        note_clash(reader, key, node, now, old, before);
    free(now);
    free(old);
}
