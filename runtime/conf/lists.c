/* SPDX-License-Identifier: Apache-2.0 */
/* lists.c - reads lists and sections: words, numbers, anything, and files */
#include "config.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/foreign.h"
#include "base/json.h"
#include "conf/conf_impl.h"

char *dt_conf_parse_path(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node)
{
    struct dt_error err;
    if (node->kind != DT_TREE_SCALAR || node->unknown) {
        dt_conf_expected(reader, key, node);
        return NULL;
    }
    char *path = dt_conf_check_braces(
                     node->written ? node->written : node->text, &err) == 0
                     ? dt_conf_path(reader->draft.directory, node->text, &err)
                     : NULL;
    if (!path)
        dt_conf_note_error(&reader->draft.problems, node->place, key->path,
                           &err);
    return path;
}

/* Whether text looks like the name of a model on a hub, as organization/model.
 */
static bool is_hub_name(const char *text)
{
    const char *slash = strchr(text, '/');
    return slash && slash > text && slash[1] && !strchr(slash + 1, '/') &&
           !strchr("./~", text[0]);
}

int dt_conf_check_exists(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node, const char *path,
                         mode_t type)
{
    struct stat st;
    struct dt_error foreign;
    if (dt_conf_is_later(path))
        return 0;
    const char *why =
        type == S_IFDIR ? "not a directory" : "not a regular file";
    if (stat(path, &st) < 0 || access(path, R_OK) < 0)
        why = strerror(errno);
    else if ((st.st_mode & S_IFMT) == type)
        return 0;
    else if (type == S_IFDIR && S_ISREG(st.st_mode) &&
             dt_foreign_file(path, &foreign) < 0)
        why = foreign.text + strlen(path) + strlen(": ");
    bool hub = type == S_IFDIR && is_hub_name(node->text);
    dt_conf_note(&reader->draft.problems, node->place, key->path, "%s%s: %s%s",
                 hub ? "E129 " : "", path, why,
                 hub ? " (names on a hub are not looked up)" : "");
    return -1;
}

void dt_conf_list_clear(struct dt_conf_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->text[i]);
    free(list->text);
    free(list->weight);
    *list = (struct dt_conf_list){0};
}

static int list_add(struct dt_conf_reader *reader, struct dt_conf_list *list,
                    const char *text, double weight)
{
    const size_t n = list->count + 1;
    char **texts = reallocarray(list->text, n, sizeof(*texts));
    list->text = texts ? texts : list->text;
    double *weights = reallocarray(list->weight, n, sizeof(*weights));
    list->weight = weights ? weights : list->weight;
    char *copy = strdup(text);
    if (!texts || !weights || !copy) {
        free(copy);
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    texts[list->count] = copy;
    weights[list->count++] = weight;
    return 0;
}

/* --- data files --- */

enum { STATE_BYTES = 1 << 24 }; /* of state.json, at most */

/* An item that is read, and where its files go. */
struct item {
    struct dt_conf_reader *reader;
    const struct dt_conf_key *key;
    const struct dt_tree *scalar; /* with the path */
    double weight;
    struct dt_conf_list *list;
};

static int note(const struct item *item, const char *path, const char *text)
{
    dt_conf_note(&item->reader->draft.problems, item->scalar->place,
                 item->key->path, "%s: %s", path, text);
    return -1;
}

/* Appends a regular file to the list. -1: noted. */
static int add_file(const struct item *item, const char *path)
{
    if (dt_conf_check_exists(item->reader, item->key, item->scalar, path,
                             S_IFREG) < 0)
        return -1;
    return list_add(item->reader, item->list, path, item->weight);
}

/* --- patterns --- */

/* A pattern of `path` in which the directory of the configuration stands for
 * itself, whatever characters it has.
 */
static void make_pattern(const struct item *item, const char *path,
                         char out[2 * PATH_MAX])
{
    const char *directory = item->reader->draft.directory;
    size_t literal = strlen(directory), n = 0;
    if (strncmp(path, directory, literal) != 0)
        literal = 0;
    for (size_t i = 0; path[i] && n + 2 < 2 * PATH_MAX; i++) {
        if (i < literal && strchr("*?[\\", path[i]))
            out[n++] = '\\';
        out[n++] = path[i];
    }
    out[n] = '\0';
}

static int add_matches(const struct item *item, const char *path)
{
    char pattern[2 * PATH_MAX];
    glob_t found;
    make_pattern(item, path, pattern);
    int rc = glob(pattern, GLOB_ERR, NULL, &found);
    if (rc == GLOB_NOMATCH)
        return note(item, path, "no file has such a name");
    if (rc == GLOB_ABORTED)
        return note(item, path, "a directory of the pattern cannot be read");
    if (rc != 0) {
        item->reader->draft.problems.out_of_memory = true;
        return -1;
    }
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        rc = add_file(item, found.gl_pathv[i]);
    globfree(&found);
    return rc;
}

/* --- directories --- */

static json_t *read_json(const char *path, struct dt_error *err)
{
    char *text = dt_file_read(path, STATE_BYTES, err);
    json_t *root = text ? dt_json_parse(path, text, err) : NULL;
    free(text);
    return root;
}

/* The names in state.json are in the directory itself. */
static int add_listed(const struct item *item, const char *directory,
                      const char *state, const json_t *files)
{
    char path[PATH_MAX];
    if (json_array_size(files) == 0)
        return note(item, state, "_data_files: expected an array of files");
    for (size_t i = 0; i < json_array_size(files); i++) {
        const char *name = json_string_value(
            json_object_get(json_array_get(files, i), "filename"));
        if (!name || !*name || strchr(name, '/') ||
            (size_t)snprintf(path, sizeof(path), "%s/%s", directory, name) >=
                sizeof(path))
            return note(item, state,
                        "_data_files: expected names of files in the same "
                        "directory");
        if (add_file(item, path) < 0)
            return -1;
    }
    return 0;
}

/* A directory as datasets.Dataset.save_to_disk makes it. */
static int add_saved(const struct item *item, const char *directory)
{
    char path[PATH_MAX + 32];
    struct stat st;
    struct dt_error err;
    snprintf(path, sizeof(path), "%s/dataset_dict.json", directory);
    if (stat(path, &st) == 0)
        return note(item, directory,
                    "a dataset of several splits: name the directory of one, "
                    "such as train in it");
    snprintf(path, sizeof(path), "%s/state.json", directory);
    if (stat(path, &st) < 0)
        return note(item, directory,
                    "a directory without the state.json of "
                    "datasets.save_to_disk: name its files, a pattern such as "
                    "*.parquet is fine");
    json_t *state = read_json(path, &err);
    if (!state)
        return dt_conf_note_error(&item->reader->draft.problems,
                                  item->scalar->place, item->key->path, &err);
    int rc = add_listed(item, directory, path,
                        json_object_get(state, "_data_files"));
    json_decref(state);
    return rc;
}

/* Appends the files that a scalar names, each with the weight: a file, those
 * that match a pattern of glob(7) in the order of their names, or those of a
 * directory of datasets.save_to_disk. -1: noted.
 */
static int add_named(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key,
                     const struct dt_tree *scalar, double weight,
                     struct dt_conf_list *list)
{
    const struct item item = {reader, key, scalar, weight, list};
    struct stat st;
    char *path = dt_conf_parse_path(reader, key, scalar);
    int rc;
    if (!path)
        return -1;
    if (dt_conf_is_later(path))
        rc = list_add(reader, list, path, weight);
    else if (stat(path, &st) < 0 && strpbrk(path, "*?["))
        rc = add_matches(&item, path);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        rc = add_saved(&item, path);
    else
        rc = add_file(&item, path);
    free(path);
    return rc;
}

/* --- lists --- */

static int parse_weight(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node, double *weight)
{
    if (node->kind == DT_TREE_SCALAR &&
        dt_conf_parse_number(node->text, weight) && *weight > 0 &&
        *weight <= 1e6)
        return 0;
    dt_conf_note(&reader->draft.problems, node->place, key->path,
                 "weight: expected a number above 0 and up to 1e6: how many "
                 "times an epoch has the file");
    return -1;
}

/* The scalar with the path of a data file: the item itself, or its key `path`,
 * with the weight from its key `weight`. NULL: noted.
 */
static const struct dt_tree *file_item(struct dt_conf_reader *reader,
                                       const struct dt_conf_key *key,
                                       const struct dt_tree *item,
                                       double *weight)
{
    const struct dt_tree *path = NULL;
    bool good = true;
    *weight = 1.0;
    if (item->kind != DT_TREE_MAP)
        return item;
    for (const struct dt_tree *c = item->child; c; c = c->next) {
        if (strcmp(c->key, "path") == 0) {
            path = c;
        } else if (strcmp(c->key, "weight") == 0) {
            good &= parse_weight(reader, key, c, weight) == 0;
        } else {
            dt_conf_note(&reader->draft.problems, c->key_place, key->path,
                         "unknown key %.*s: a file has path and weight",
                         DT_CONF_SHOWN_BYTES, c->key);
            good = false;
        }
    }
    if (!path)
        dt_conf_note(&reader->draft.problems, item->place, key->path,
                     "a section here needs the key path");
    return good ? path : NULL;
}

/* Appends the files of an item. -1: noted. */
static int add_files(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *item,
                     struct dt_conf_list *list)
{
    double weight;
    const struct dt_tree *scalar = file_item(reader, key, item, &weight);
    return scalar ? add_named(reader, key, scalar, weight, list) : -1;
}

/* Appends the text of an item, without a weight; a word as the schema spells
 * it, since its readers compare it exactly. -1: noted.
 */
static int add_text(struct dt_conf_reader *reader,
                    const struct dt_conf_key *key, const struct dt_tree *item,
                    struct dt_conf_list *list)
{
    const struct dt_conf_word *word =
        key->words ? dt_conf_parse_word(reader, key, item) : NULL;
    if (key->words && !word)
        return -1;
    return item->kind == DT_TREE_SCALAR && !item->unknown
               ? list_add(reader, list, word ? word->name : item->text, 0.0)
               : dt_conf_expected(reader, key, item);
}

/* Whether an item stands for a list of one. If any text is allowed, "a b"
 * probably means two items.
 */
static bool stands_alone(const struct dt_conf_key *key,
                         const struct dt_tree *item)
{
    return key->type == DT_CONF_FILES || key->words ||
           (key->single && item->kind == DT_TREE_SCALAR &&
            !strpbrk(item->text, " ,"));
}

/* Stores a list. */
int dt_conf_list_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    struct dt_conf_list list = {0};
    bool is_list = node->kind == DT_TREE_LIST;
    bool files = key->type == DT_CONF_FILES;
    const struct dt_tree *first = is_list ? node->child : node;
    int rc = 0;
    if (!first || !(is_list || stands_alone(key, node)))
        return dt_conf_expected(reader, key, node);
    for (const struct dt_tree *i = first; i; i = is_list ? i->next : NULL)
        if ((files ? add_files : add_text)(reader, key, i, &list) < 0)
            rc = -1;
    struct dt_conf_list *slot =
        (struct dt_conf_list *)((char *)reader->values + key->offset);
    dt_conf_list_clear(rc < 0 ? &list : slot);
    if (rc == 0)
        *slot = list;
    return rc;
}

/* --- sections --- */

int dt_conf_weights_set(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node)
{
    struct dt_conf_list list = {0}, *slot;
    size_t count = 0;
    for (const struct dt_tree *c = node->child; c; c = c->next)
        count++;
    if (node->kind != DT_TREE_MAP || count == 0)
        return dt_conf_expected(reader, key, node);
    list.text = calloc(count, sizeof(list.text[0]));
    list.weight = calloc(count, sizeof(list.weight[0]));
    bool good = list.text && list.weight;
    reader->draft.problems.out_of_memory |= !good;
    for (const struct dt_tree *c = node->child; c && good; c = c->next) {
        if (c->kind != DT_TREE_SCALAR || c->quoted ||
            !dt_conf_parse_number(c->text, &list.weight[list.count])) {
            dt_conf_note(&reader->draft.problems, c->place, key->path,
                         "%.*s: expected a number", DT_CONF_SHOWN_BYTES,
                         c->key);
            good = false;
        } else if ((list.text[list.count] = strdup(c->key))) {
            list.count++;
        } else {
            good = false;
            reader->draft.problems.out_of_memory = true;
        }
    }
    slot = (struct dt_conf_list *)((char *)reader->values + key->offset);
    dt_conf_list_clear(good ? slot : &list);
    if (good)
        *slot = list;
    return good ? 0 : -1;
}

/* Prints a scalar as JSON: with the type that YAML 1.2 gives it. */
static void print_scalar(const struct dt_tree *node, FILE *out)
{
    double number;
    long whole;
    bool plain = !node->quoted;
    if (plain && (dt_conf_is_null(node) || dt_conf_is_empty(node)))
        fputs("null", out);
    else if (plain && (strcmp(node->text, "true") == 0 ||
                       strcmp(node->text, "false") == 0))
        fputs(node->text, out);
    else if (plain && !strpbrk(node->text, ".eE") &&
             dt_conf_parse_int(node->text, &whole))
        fprintf(out, "%ld", whole);
    else if (plain && dt_conf_parse_number(node->text, &number))
        fprintf(out, "%.17g", number);
    else
        dt_conf_string_print(node->text, out);
}

/* Prints a tree, whose depth is limited, as JSON. */
static void print_tree(const struct dt_tree *node, FILE *out)
{
    bool map = node->kind == DT_TREE_MAP;
    if (node->kind == DT_TREE_SCALAR) {
        print_scalar(node, out);
        return;
    }
    putc(map ? '{' : '[', out);
    for (const struct dt_tree *c = node->child; c; c = c->next) {
        fputs(c == node->child ? "" : ", ", out);
        if (map) {
            dt_conf_string_print(c->key, out);
            fputs(": ", out);
        }
        print_tree(c, out);
    }
    putc(map ? '}' : ']', out);
}

int dt_conf_free_set(struct dt_conf_reader *reader,
                     const struct dt_conf_key *key, const struct dt_tree *node)
{
    char **slot = (char **)((char *)reader->values + key->offset), *text = NULL;
    size_t bytes = 0;
    if (node->kind != DT_TREE_MAP)
        return dt_conf_expected(reader, key, node);
    FILE *stream = open_memstream(&text, &bytes);
    bool good = stream != NULL;
    if (stream) {
        print_tree(node, stream);
        good = !ferror(stream);
        good = fclose(stream) == 0 && text && good;
    }
    if (!good) {
        free(text);
        reader->draft.problems.out_of_memory = true;
        return -1;
    }
    free(*slot);
    *slot = text;
    return 0;
}
