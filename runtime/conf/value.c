/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - one value of a file is typed, checked and stored */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/read.h"

static void *field(struct dt_conf *conf, size_t offset)
{
    return (char *)conf + offset;
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

/* Notes "expected ..., got ..."; returns -1. */
static int expected(struct dt_conf_reader *reader,
                    const struct dt_conf_key *key, const struct dt_tree *node)
{
    char wanted[512];
    double number;
    dt_conf_key_expects(key, wanted, sizeof(wanted));
    if (node->kind != DT_TREE_SCALAR)
        dt_conf_note(&reader->problems, node->place, key->path,
                     "expected %s, got a %s", wanted,
                     node->kind == DT_TREE_LIST ? "list" : "section");
    else if (!dt_conf_parse_float(node->text, &number))
        dt_conf_note(&reader->problems, node->place, key->path,
                     "expected %s, got \"%.*s\"", wanted, DT_CONF_SHOWN_BYTES,
                     node->text);
    else if (node->quoted)
        dt_conf_note(&reader->problems, node->place, key->path,
                     "expected %s, got the string \"%.*s\": remove the quotes",
                     wanted, DT_CONF_SHOWN_BYTES, node->text);
    else
        dt_conf_note(&reader->problems, node->place, key->path,
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
        dt_conf_note(&reader->warnings, node->place, key->path,
                     "%s is a boolean only in old YAML: write %s", node->text,
                     *value ? "true" : "false");
    } else {
        return expected(reader, key, node);
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
    return expected(reader, key, node);
}

static int parse_int(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node,
                     long *value)
{
    long number;
    if (is_plain(node) && dt_conf_parse_int(node->text, &number) &&
        in_range(key, (double)number)) {
        *value = number;
        return 0;
    }
    return expected(reader, key, node);
}

static int set_count(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    long *steps = field(reader->conf, key->offset);
    double *ratio = field(reader->conf, key->second), number;
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
    char **slot = field(reader->conf, offset);
    if (!text) {
        reader->problems.out_of_memory = true;
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
        return expected(reader, key, node);
    return store_text(reader, key->offset, strdup(node->text));
}

/* The word that node is, else NULL and a note: also for words that wait. */
static const struct dt_conf_word *parse_word(struct dt_conf_reader *reader,
                                             const struct dt_conf_key *key,
                                             const struct dt_tree *node)
{
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (node->kind != DT_TREE_SCALAR || strcasecmp(node->text, w->name))
            continue;
        if (!w->waits)
            return w;
        dt_conf_note(&reader->problems, node->place, key->path,
                     "%s waits for %s, which this version does not have",
                     w->name, w->waits);
        return NULL;
    }
    expected(reader, key, node);
    return NULL;
}

static int set_enum(struct dt_conf_reader *reader,
                    const struct dt_conf_key *key, const struct dt_tree *node)
{
    const struct dt_conf_word *word = parse_word(reader, key, node);
    if (!word)
        return -1;
    *(int *)field(reader->conf, key->offset) = (int)word->value;
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
        if (item->kind == DT_TREE_SCALAR && strcasecmp(item->text, "none") == 0)
            count = 0;
        else if (count == sizeof(chosen) / sizeof(chosen[0]))
            return expected(reader, key, node);
        else if (!(chosen[count++] = parse_word(reader, key, item)))
            rc = -1;
        if (node->kind != DT_TREE_LIST)
            break;
    }
    if (rc < 0)
        return -1;
    for (const struct dt_conf_word *w = key->words; w->name; w++)
        if (!w->waits)
            *(bool *)field(reader->conf, (size_t)w->value) = false;
    while (count-- > 0)
        *(bool *)field(reader->conf, (size_t)chosen[count]->value) = true;
    return 0;
}

static int set_betas(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    double first, second;
    const struct dt_tree *item = node->child;
    if (node->kind != DT_TREE_LIST || !item || !item->next || item->next->next)
        return expected(reader, key, node);
    if (parse_float(reader, key, item, &first) < 0 ||
        parse_float(reader, key, item->next, &second) < 0)
        return -1;
    *(double *)field(reader->conf, key->offset) = first;
    *(double *)field(reader->conf, key->second) = second;
    return 0;
}

static int set_unused(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key, const struct dt_tree *node)
{
    if (node->kind != DT_TREE_SCALAR)
        return expected(reader, key, node);
    dt_conf_note(&reader->warnings, node->place, key->path, "no effect: %s",
                 key->help);
    return 0;
}

static int set_ignored(struct dt_conf_reader *reader,
                       const struct dt_conf_key *key,
                       const struct dt_tree *node)
{
    bool value;
    if (key->words ? !parse_word(reader, key, node)
                   : dt_conf_bool(reader, key, node, &value) < 0)
        return -1;
    dt_conf_note(&reader->warnings, node->place, key->path, "no effect: %s",
                 key->help);
    return 0;
}

/* The absolute path that a scalar means, malloc'ed, or NULL and a note. */
static char *parse_path(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node)
{
    struct dt_error err;
    if (node->kind != DT_TREE_SCALAR) {
        expected(reader, key, node);
        return NULL;
    }
    char *path = dt_conf_path(reader->directory, node->text, &err);
    if (!path && err.status == EX_OSERR)
        reader->problems.out_of_memory = true;
    else if (!path)
        dt_conf_note(&reader->problems, node->place, key->path, "%s", err.text);
    return path;
}

/* Whether text looks like organisation/model on a hub. */
static bool is_hub_name(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash && slash > text && slash[1] && !strchr(slash + 1, '/') &&
           !strchr("./~$", text[0]);
}

/* Notes a path that is not there or not a `type` of stat(2). */
static int check_exists(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node, const char *path,
                        mode_t type)
{
    struct stat st;
    const char *why =
        type == S_IFDIR ? "not a directory" : "not a regular file";
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        why = strerror(errno);
    else if ((st.st_mode & S_IFMT) == type)
        return 0;
    dt_conf_note(&reader->problems, node->place, key->path, "%s: %s%s", path,
                 why,
                 type == S_IFDIR && is_hub_name(node->text)
                     ? " (E129 names on a hub are not looked up)"
                     : "");
    return -1;
}

static int set_dir(struct dt_conf_reader *reader, const struct dt_conf_key *key,
                   const struct dt_tree *node, size_t offset)
{
    char *path = parse_path(reader, key, node);
    if (!path)
        return -1;
    if (key->type != DT_CONF_DIR &&
        check_exists(reader, key, node, path, S_IFDIR) < 0) {
        free(path);
        return -1;
    }
    return store_text(reader, offset, path);
}

static int set_old_or_word(struct dt_conf_reader *reader,
                           const struct dt_conf_key *key,
                           const struct dt_tree *node)
{
    int *value = field(reader->conf, key->offset);
    for (const struct dt_conf_word *w = key->words; w->name; w++) {
        if (node->kind == DT_TREE_SCALAR &&
            strcasecmp(node->text, w->name) == 0) {
            *value = (int)w->value;
            return 0;
        }
    }
    if (set_dir(reader, key, node, key->second) < 0)
        return -1;
    *value = key->other;
    return 0;
}

static void clear_list(struct dt_conf_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    free(list->text);
    *list = (struct dt_conf_list){0};
}

/* The scalar of one data file: the item itself or its key `path`. */
static const struct dt_tree *file_item(struct dt_conf_reader *reader,
                                       const struct dt_conf_key *key,
                                       const struct dt_tree *item)
{
    const struct dt_tree *path = NULL;
    bool only_path = true;
    if (item->kind != DT_TREE_MAP)
        return item;
    for (const struct dt_tree *c = item->child; c; c = c->next) {
        if (strcmp(c->key, "path") == 0) {
            path = c;
            continue;
        }
        only_path = false;
        if (strcmp(c->key, "weight") == 0 || strcmp(c->key, "split") == 0)
            dt_conf_note(&reader->problems, c->key_place, key->path,
                         "%s waits for mixtures of datasets, which this "
                         "version does not have",
                         c->key);
        else
            dt_conf_note(&reader->problems, c->key_place, key->path,
                         "unknown key %.*s", DT_CONF_SHOWN_BYTES, c->key);
    }
    if (!path)
        dt_conf_note(&reader->problems, item->place, key->path,
                     "a section here needs the key path");
    return only_path ? path : NULL;
}

/* The file that an item names, malloc'ed, or NULL and a note. */
static char *parse_file(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *item)
{
    const struct dt_tree *scalar = file_item(reader, key, item);
    char *path = scalar ? parse_path(reader, key, scalar) : NULL;
    if (path && check_exists(reader, key, scalar, path, S_IFREG) < 0) {
        free(path);
        path = NULL;
    }
    return path;
}

/* The text of an item, malloc'ed, or NULL and a note. */
static char *parse_text(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *item)
{
    if (key->words && !parse_word(reader, key, item))
        return NULL;
    if (item->kind != DT_TREE_SCALAR) {
        expected(reader, key, item);
        return NULL;
    }
    char *text = strdup(item->text);
    reader->problems.out_of_memory |= !text;
    return text;
}

/* A list, or one item that needs none: not so for free words, where "a b" is
 * probably meant to be two.
 */
static int set_list(struct dt_conf_reader *reader,
                    const struct dt_conf_key *key, const struct dt_tree *node)
{
    struct dt_conf_list list = {0};
    bool is_list = node->kind == DT_TREE_LIST;
    bool files = key->type == DT_CONF_FILES;
    const struct dt_tree *first = is_list ? node->child : node;
    size_t count = 0;
    int rc = 0;
    for (const struct dt_tree *i = first; i; i = is_list ? i->next : NULL)
        count++;
    if (count == 0 || !(is_list || files || key->words))
        return expected(reader, key, node);
    list.text = calloc(count, sizeof(list.text[0]));
    if (!list.text) {
        reader->problems.out_of_memory = true;
        return -1;
    }
    for (const struct dt_tree *i = first; i; i = is_list ? i->next : NULL) {
        char *text =
            files ? parse_file(reader, key, i) : parse_text(reader, key, i);
        if (text)
            list.text[list.count++] = text;
        else
            rc = -1;
    }
    struct dt_conf_list *slot = field(reader->conf, key->offset);
    clear_list(rc < 0 ? &list : slot);
    if (rc == 0)
        *slot = list;
    return rc;
}

int dt_conf_value_set(struct dt_conf_reader *reader,
                      const struct dt_conf_key *key, const struct dt_tree *node)
{
    void *slot = field(reader->conf, key->offset);
    switch (key->type) {
    case DT_CONF_BOOL:
        return dt_conf_bool(reader, key, node, slot);
    case DT_CONF_INT:
        return parse_int(reader, key, node, slot);
    case DT_CONF_U64:
        return is_plain(node) && dt_conf_parse_u64(node->text, slot)
                   ? 0
                   : expected(reader, key, node);
    case DT_CONF_FLOAT:
        return parse_float(reader, key, node, slot);
    case DT_CONF_SIZE:
        return node->kind == DT_TREE_SCALAR &&
                       dt_conf_parse_size(node->text, slot)
                   ? 0
                   : expected(reader, key, node);
    case DT_CONF_COUNT:
        return set_count(reader, key, node);
    case DT_CONF_STRING:
        return set_string(reader, key, node);
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        return set_dir(reader, key, node, key->offset);
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
        return set_list(reader, key, node);
    case DT_CONF_ENUM:
        return set_enum(reader, key, node);
    case DT_CONF_SET:
        return set_set(reader, key, node);
    case DT_CONF_OLD_OR_WORD:
        return set_old_or_word(reader, key, node);
    case DT_CONF_BETAS:
        return set_betas(reader, key, node);
    case DT_CONF_IGNORED:
        return set_ignored(reader, key, node);
    case DT_CONF_UNUSED:
        return set_unused(reader, key, node);
    }
    return -1;
}

void dt_conf_value_clear(struct dt_conf *conf, const struct dt_conf_key *key)
{
    size_t offset = key->offset;
    switch (key->type) {
    case DT_CONF_FILES:
    case DT_CONF_STRINGS:
        clear_list(field(conf, offset));
        break;
    case DT_CONF_OLD_OR_WORD:
        offset = key->second;
        /* fall through */
    case DT_CONF_STRING:
    case DT_CONF_DIR:
    case DT_CONF_OLD_DIR:
        free(*(char **)field(conf, offset));
        *(char **)field(conf, offset) = NULL;
        break;
    default:
        break;
    }
}
