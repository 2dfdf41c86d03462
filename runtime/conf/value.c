/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - parses, checks and stores one value of a file */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "conf/conf_impl.h"

/* --- numbers --- */

static const char decimal[] = "0123456789";

bool dt_conf_parse_float(const char *text, double *value)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t whole = strspn(p, decimal);
    p += whole;
    size_t fraction = *p == '.' ? strspn(p + 1, decimal) + 1 : 0;
    p += fraction;
    if (whole == 0 && fraction < 2)
        return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t digits = strspn(p, decimal);
        if (digits == 0)
            return false;
        p += digits;
    }
    *value = strtod(text, NULL);
    return *p == '\0' && isfinite(*value);
}

static bool parse_digits(const char *text, int base, uint64_t *value)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    char set[sizeof(digits)];
    memcpy(set, digits, sizeof(digits));
    if (base < 16)
        set[base] = '\0';
    if (*text == '\0' || text[strspn(text, set)] != '\0')
        return false;
    errno = 0;
    *value = strtoull(text, NULL, base);
    return errno == 0;
}

static bool parse_u64(const char *text, uint64_t *value)
{
    const char *p = text + (*text == '+');
    double number;
    if (strncmp(text, "0x", 2) == 0)
        return parse_digits(text + 2, 16, value);
    if (strncmp(text, "0o", 2) == 0)
        return parse_digits(text + 2, 8, value);
    if (parse_digits(p, 10, value))
        return true;
    if (!strpbrk(text, ".eE") || !dt_conf_parse_float(text, &number) ||
        number < 0 || number > 0x1p53 || number != floor(number))
        return false;
    *value = (uint64_t)number;
    return true;
}

bool dt_conf_parse_int(const char *text, long *value)
{
    bool minus = *text == '-';
    uint64_t magnitude;
    if ((minus && (text[1] == '+' || strncmp(text + 1, "0x", 2) == 0 ||
                   strncmp(text + 1, "0o", 2) == 0)) ||
        !parse_u64(text + minus, &magnitude) || magnitude > LONG_MAX)
        return false;
    *value = minus ? -(long)magnitude : (long)magnitude;
    return true;
}

bool dt_conf_parse_number(const char *text, double *value)
{
    long whole;
    if (dt_conf_parse_float(text, value))
        return true;
    if (!dt_conf_parse_int(text, &whole))
        return false;
    *value = (double)whole;
    return true;
}

bool dt_conf_parse_size(const char *text, long *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                 {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
                 {"GB", 1e9},     {"TB", 1e12}};
    char number[32];
    double value = 0;
    size_t n = strlen(text);
    if (dt_conf_parse_int(text, bytes))
        return *bytes > 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t unit = strlen(units[i].name);
        if (n <= unit || n - unit >= sizeof(number) ||
            strcasecmp(text + n - unit, units[i].name) != 0)
            continue;
        unit += text[n - unit - 1] == ' ';
        snprintf(number, sizeof(number), "%.*s", (int)(n - unit), text);
        if (!dt_conf_parse_float(number, &value))
            return false;
        value *= units[i].bytes;
        break;
    }
    *bytes = value >= 1 && value < 0x1p62 ? (long)value : 0;
    return *bytes > 0;
}

/* --- values --- */

static void *field_of(void *values, size_t offset)
{
    return (char *)values + offset;
}

static bool is_plain(const struct dt_tree *node)
{
    return node->kind == DT_TREE_SCALAR && !node->quoted;
}

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(text, *words) == 0)
            return true;
    return false;
}

bool dt_conf_is_null(const struct dt_tree *node)
{
    static const char *const nulls[] = {"~", "null", "Null", "NULL"};
    if (node->kind != DT_TREE_SCALAR || node->quoted)
        return false;
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++)
        if (strcmp(node->text, nulls[i]) == 0)
            return true;
    return false;
}

bool dt_conf_is_empty(const struct dt_tree *node)
{
    return node->kind == DT_TREE_SCALAR && !node->quoted && !*node->text;
}

int dt_conf_expected(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    char wanted[512];
    double number;
    if (node->unknown)
        return -1;
    dt_conf_key_expects(key, wanted, sizeof(wanted));
    if (node->kind != DT_TREE_SCALAR)
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "expected %s, got a %s", wanted,
                     node->kind == DT_TREE_LIST ? "list" : "section");
    else if (!dt_conf_parse_float(node->text, &number))
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "expected %s, got \"%.*s\"", wanted, DT_CONF_SHOWN_BYTES,
                     node->text);
    else if (node->quoted)
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "expected %s, got the string \"%.*s\": remove the quotes",
                     wanted, DT_CONF_SHOWN_BYTES, node->text);
    else
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "expected %s, got %.*s", wanted, DT_CONF_SHOWN_BYTES,
                     node->text);
    return -1;
}

int dt_conf_bool(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                 const struct dt_tree *node, bool *value)
{
    static const char *const yes[] = {"yes", "on", NULL};
    static const char *const no[] = {"no", "off", NULL};
    bool plain = is_plain(node);
    if (plain && strcasecmp(node->text, "true") == 0)
        *value = true;
    else if (plain && strcasecmp(node->text, "false") == 0)
        *value = false;
    else if (plain && (is_word(node->text, yes) || is_word(node->text, no))) {
        *value = is_word(node->text, yes);
        dt_conf_note(&reader->draft.warnings, node->place, key->path,
                     "%s is a boolean only in old YAML: write %s", node->text,
                     *value ? "true" : "false");
    } else {
        return dt_conf_expected(reader, key, node);
    }
    return 0;
}

static bool in_range(const struct dt_conf_key *key, double value)
{
    if (key->min == 0 && key->max == 0)
        return true;
    return (key->above_min ? value > key->min : value >= key->min) &&
           (key->below_max ? value < key->max : value <= key->max);
}

static int parse_float(struct dt_conf_reader *reader,
                       const struct dt_conf_key *key,
                       const struct dt_tree *node, double *value)
{
    double number;
    if (is_plain(node) && dt_conf_parse_number(node->text, &number) &&
        in_range(key, number)) {
        *value = number;
        return 0;
    }
    return dt_conf_expected(reader, key, node);
}

static int parse_int(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node,
                     long *value)
{
    long number;
    bool whole = is_plain(node) && dt_conf_parse_int(node->text, &number);
    if (whole && key->endless && (double)number > key->max)
        number = (long)key->max;
    if (whole && in_range(key, (double)number)) {
        *value = number;
        return 0;
    }
    return dt_conf_expected(reader, key, node);
}

static int set_count(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    long *steps = field_of(reader->values, key->offset);
    double *ratio = field_of(reader->values, key->second), number;
    if (is_plain(node) && dt_conf_parse_float(node->text, &number) &&
        number > 0 && number < 1) {
        *steps = LONG_MAX;
        *ratio = number;
        return 0;
    }
    if (parse_int(reader, key, node, steps) < 0)
        return -1;
    *ratio = 0;
    return 0;
}

/* Moves `text` (NULL: out of memory) into the char * at `offset`. */
static int store_text(struct dt_conf_reader *reader, size_t offset, char *text)
{
    char **slot = field_of(reader->values, offset);
    if (!text) {
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    free(*slot);
    *slot = text;
    return 0;
}

static int set_string(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key, const struct dt_tree *node)
{
    if (node->kind != DT_TREE_SCALAR || !*node->text)
        return dt_conf_expected(reader, key, node);
    return store_text(reader, key->offset, strdup(node->text));
}

/* The word of key->words that node is, or NULL without a note. */
static const struct dt_conf_word *find_word(const struct dt_conf_key *key,
                                            const struct dt_tree *node)
{
    for (const struct dt_conf_word *w = key->words; w->name; w++)
        if (node->kind == DT_TREE_SCALAR &&
            strcasecmp(node->text, w->name) == 0)
            return w;
    return NULL;
}

/* A word that is known but not supported yet gets a note, too. */
const struct dt_conf_word *dt_conf_parse_word(struct dt_conf_reader *reader,
                                              const struct dt_conf_key *key,
                                              const struct dt_tree *node)
{
    const struct dt_conf_word *word = find_word(key, node);
    if (word && !word->waits)
        return word;
    if (word)
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "%s is not supported yet: it needs %s", word->name,
                     word->waits);
    else
        dt_conf_expected(reader, key, node);
    return NULL;
}

static int set_enum(struct dt_conf_reader *reader,
                    const struct dt_conf_key *key, const struct dt_tree *node)
{
    const struct dt_conf_word *word = dt_conf_parse_word(reader, key, node);
    if (!word)
        return -1;
    *(int *)field_of(reader->values, key->offset) = (int)word->value;
    return 0;
}

static int set_bool_or_word(struct dt_conf_reader *reader,
                            const struct dt_conf_key *key,
                            const struct dt_tree *node)
{
    const struct dt_conf_word *word = find_word(key, node);
    bool value = false;
    if (!word && dt_conf_bool(reader, key, node, &value) < 0)
        return -1;
    *(int *)field_of(reader->values, key->offset) =
        word ? (int)word->value : value;
    return 0;
}

static int set_int_or_word(struct dt_conf_reader *reader,
                           const struct dt_conf_key *key,
                           const struct dt_tree *node)
{
    const struct dt_conf_word *word = find_word(key, node);
    long *value = field_of(reader->values, key->offset);
    if (!word)
        return parse_int(reader, key, node, value);
    *value = word->value;
    return 0;
}

static int set_set(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                   const struct dt_tree *node)
{
    const struct dt_conf_word *chosen[16];
    size_t count = 0;
    int rc = 0;
    const struct dt_tree *item =
        node->kind == DT_TREE_LIST ? node->child : node;
    for (; item; item = item->next) {
        bool none =
            item->kind == DT_TREE_SCALAR && strcasecmp(item->text, "none") == 0;
        if (none && node->kind == DT_TREE_LIST && node->child->next) {
            dt_conf_note(&reader->draft.problems, item->place, key->path,
                         "none cannot be used with other words");
            rc = -1;
        } else if (none)
            break;
        else if (count == sizeof(chosen) / sizeof(chosen[0]))
            return dt_conf_expected(reader, key, node);
        else if (!(chosen[count++] = dt_conf_parse_word(reader, key, item)))
            rc = -1;
        if (node->kind != DT_TREE_LIST)
            break;
    }
    if (rc < 0)
        return -1;
    for (const struct dt_conf_word *w = key->words; w->name; w++)
        if (!w->waits)
            *(bool *)field_of(reader->values, (size_t)w->value) = false;
    while (count-- > 0)
        *(bool *)field_of(reader->values, (size_t)chosen[count]->value) = true;
    return 0;
}

/* The first of the two items of a list, or NULL and a note. */
static const struct dt_tree *pair_of(struct dt_conf_reader *reader,
                                     const struct dt_conf_key *key,
                                     const struct dt_tree *node)
{
    const struct dt_tree *item = node->child;
    if (node->kind == DT_TREE_LIST && item && item->next && !item->next->next)
        return item;
    dt_conf_expected(reader, key, node);
    return NULL;
}

static int set_betas(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    double first, second;
    const struct dt_tree *item = pair_of(reader, key, node);
    if (!item || parse_float(reader, key, item, &first) < 0 ||
        parse_float(reader, key, item->next, &second) < 0)
        return -1;
    *(double *)field_of(reader->values, key->offset) = first;
    *(double *)field_of(reader->values, key->second) = second;
    return 0;
}

static int set_range(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    long first, last;
    const struct dt_tree *item = pair_of(reader, key, node);
    if (!item || parse_int(reader, key, item, &first) < 0 ||
        parse_int(reader, key, item->next, &last) < 0)
        return -1;
    if (last < first)
        return dt_conf_expected(reader, key, item->next);
    *(long *)field_of(reader->values, key->offset) = first;
    *(long *)field_of(reader->values, key->second) = last;
    return 0;
}

/* The word that the file has for a key, if it is another trainer's. */
static const char *written_name(const struct dt_conf_key *key,
                                const struct dt_tree *node)
{
    const char *dot = strrchr(key->path, '.');
    return node->key && strcmp(node->key, key->path) != 0 &&
                   strcmp(node->key, dot ? dot + 1 : key->path) != 0
               ? node->key
               : key->path;
}

static int set_ignored(struct dt_conf_reader *reader,
                       const struct dt_conf_key *key,
                       const struct dt_tree *node)
{
    bool value;
    if (key->type == DT_CONF_UNUSED && node->kind != DT_TREE_SCALAR)
        return dt_conf_expected(reader, key, node);
    if (key->words && !dt_conf_parse_word(reader, key, node))
        return -1;
    if (key->type == DT_CONF_IGNORED && !key->words &&
        dt_conf_bool(reader, key, node, &value) < 0)
        return -1;
    dt_conf_note(&reader->draft.warnings, node->place, written_name(key, node),
                 "%s", key->help);
    return 0;
}

static int set_dir(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                   const struct dt_tree *node, size_t offset)
{
    char *path = dt_conf_parse_path(reader, key, node);
    if (!path)
        return -1;
    if (key->type != DT_CONF_DIR &&
        dt_conf_check_exists(reader, key, node, path,
                             key->type == DT_CONF_FILE_OR_WORD ? S_IFREG
                                                               : S_IFDIR) < 0) {
        free(path);
        return -1;
    }
    return store_text(reader, offset, path);
}

/* Whether a word is meant to be a file, and not a misspelled name. */
static bool names_template(const struct dt_tree *node)
{
    return node->kind == DT_TREE_SCALAR &&
           (strchr(node->text, '/') || dt_str_ends_with(node->text, ".jinja"));
}

/* Whether a value is the text of a template, as other trainers take it. */
static bool is_template(const struct dt_tree *node)
{
    return node->kind == DT_TREE_SCALAR &&
           (strstr(node->text, "{%") || strstr(node->text, "{{"));
}

static int set_old_or_word(struct dt_conf_reader *reader,
                           const struct dt_conf_key *key,
                           const struct dt_tree *node)
{
    const struct dt_conf_word *word = find_word(key, node);
    int *value = field_of(reader->values, key->offset);
    if (word) {
        *value = (int)word->value;
        return 0;
    }
    if (key->type == DT_CONF_FILE_OR_WORD && is_template(node)) {
        dt_conf_note(&reader->draft.problems, node->place, key->path,
                     "a template itself: write it to a file NAME.jinja, and "
                     "the name here");
        return -1;
    }
    if (key->type == DT_CONF_FILE_OR_WORD && !names_template(node))
        return dt_conf_expected(reader, key, node);
    if (set_dir(reader, key, node, key->second) < 0)
        return -1;
    *value = key->other;
    return 0;
}

/* Whether a value other than a text has a variable that only the job has. */
static bool is_later(const struct dt_conf_key *key, const struct dt_tree *node)
{
    if (node->kind != DT_TREE_SCALAR || !dt_conf_is_later(node->text))
        return false;
    switch (key->type) {
    case DT_CONF_STRING:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        return false;
    default:
        return true;
    }
}

int dt_conf_value_set(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key, const struct dt_tree *node)
{
    void *slot = field_of(reader->values, key->offset);
    if (node->unknown)
        return -1;
    if (is_later(key, node))
        return 0;
    switch (key->type) {
    case DT_CONF_BOOL:
        return dt_conf_bool(reader, key, node, slot);
    case DT_CONF_INT:
        return parse_int(reader, key, node, slot);
    case DT_CONF_U64:
        return is_plain(node) && parse_u64(node->text, slot)
                   ? 0
                   : dt_conf_expected(reader, key, node);
    case DT_CONF_FLOAT:
        return parse_float(reader, key, node, slot);
    case DT_CONF_SIZE:
        return node->kind == DT_TREE_SCALAR &&
                       dt_conf_parse_size(node->text, slot)
                   ? 0
                   : dt_conf_expected(reader, key, node);
    case DT_CONF_COUNT:
        return set_count(reader, key, node);
    case DT_CONF_STRING:
        return set_string(reader, key, node);
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        return set_dir(reader, key, node, key->offset);
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
        return dt_conf_list_set(reader, key, node);
    case DT_CONF_ENUM:
        return set_enum(reader, key, node);
    case DT_CONF_BOOL_OR_WORD:
        return set_bool_or_word(reader, key, node);
    case DT_CONF_INT_OR_WORD:
        return set_int_or_word(reader, key, node);
    case DT_CONF_SET:
        return set_set(reader, key, node);
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        return set_old_or_word(reader, key, node);
    case DT_CONF_BETAS:
        return set_betas(reader, key, node);
    case DT_CONF_RANGE:
        return set_range(reader, key, node);
    case DT_CONF_IGNORED:
    case DT_CONF_UNUSED:
        return set_ignored(reader, key, node);
    case DT_CONF_WEIGHTS:
        return dt_conf_weights_set(reader, key, node);
    case DT_CONF_FREE:
        return dt_conf_free_set(reader, key, node);
    case DT_CONF_REWARDS:
        return dt_conf_rewards_set(reader, key, node);
    }
    return -1;
}

void dt_conf_value_clear(void *values, const struct dt_conf_key *key)
{
    size_t offset = key->offset;
    switch (key->type) {
    case DT_CONF_REWARDS:
        dt_conf_rewards_clear(field_of(values, offset));
        break;
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
    case DT_CONF_WEIGHTS:
        dt_conf_list_clear(field_of(values, offset));
        break;
    case DT_CONF_OLD_OR_WORD:
    case DT_CONF_FILE_OR_WORD:
        offset = key->second;
        /* fall through */
    case DT_CONF_STRING:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
    case DT_CONF_FREE:
        free(*(char **)field_of(values, offset));
        *(char **)field_of(values, offset) = NULL;
        break;
    default:
        break;
    }
}

void dt_conf_set_default(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key)
{
    struct dt_tree scalar = {.text = (char *)key->fallback}, *list = NULL;
    if (!key->fallback)
        return;
    if (key->fallback[0] == '[')
        list = dt_tree_parse(key->fallback, strlen(key->fallback),
                             &reader->draft.problems);
    dt_conf_value_set(reader, key, list ? list : &scalar);
    dt_tree_destroy(list);
}
