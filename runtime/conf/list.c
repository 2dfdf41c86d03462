/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - reads paths, and lists of words and of files with weights */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/read.h"

char *dt_conf_parse_path(struct dt_conf_reader *reader,
                         const struct dt_conf_key *key,
                         const struct dt_tree *node)
{
    struct dt_error err;
    if (node->kind != DT_TREE_SCALAR) {
        dt_conf_expected(reader, key, node);
        return NULL;
    }
    char *path = dt_conf_path(reader->directory, node->text, &err);
    if (!path && err.status == EX_OSERR)
        reader->problems.out_of_memory = true;
    else if (!path)
        dt_conf_note(&reader->problems, node->place, key->path, "%s", err.text);
    return path;
}

/* Whether text, or the value of a variable in it, looks like the name of a
 * model on a hub, as organization/model.
 */
static bool is_hub_name(const char *text, const char *path,
                        const char *directory)
{
    size_t n = strlen(directory);
    if (text[0] == '$' && strncmp(path, directory, n) == 0 && path[n] == '/')
        text = path + n + 1;
    const char *slash = strchr(text, '/');
    return slash && slash > text && slash[1] && !strchr(slash + 1, '/') &&
           !strchr("./~$", text[0]);
}

int dt_conf_check_exists(struct dt_conf_reader *reader,
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
    bool hub =
        type == S_IFDIR && is_hub_name(node->text, path, reader->directory);
    dt_conf_note(&reader->problems, node->place, key->path, "%s%s: %s%s",
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

static int parse_weight(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *node, double *weight)
{
    if (node->kind == DT_TREE_SCALAR &&
        dt_conf_parse_number(node->text, weight) && *weight > 0 &&
        *weight <= 1e6)
        return 0;
    dt_conf_note(&reader->problems, node->place, key->path,
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
            dt_conf_note(&reader->problems, c->key_place, key->path,
                         "unknown key %.*s: a file has path and weight",
                         DT_CONF_SHOWN_BYTES, c->key);
            good = false;
        }
    }
    if (!path)
        dt_conf_note(&reader->problems, item->place, key->path,
                     "a section here needs the key path");
    return good ? path : NULL;
}

/* The path of the file that an item names, malloc'ed, or NULL and a note. */
static char *parse_file(struct dt_conf_reader *reader,
                        const struct dt_conf_key *key,
                        const struct dt_tree *item, double *weight)
{
    const struct dt_tree *scalar = file_item(reader, key, item, weight);
    char *path = scalar ? dt_conf_parse_path(reader, key, scalar) : NULL;
    if (path && dt_conf_check_exists(reader, key, scalar, path, S_IFREG) < 0) {
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
    if (key->words && !dt_conf_parse_word(reader, key, item))
        return NULL;
    if (item->kind != DT_TREE_SCALAR) {
        dt_conf_expected(reader, key, item);
        return NULL;
    }
    char *text = strdup(item->text);
    reader->problems.out_of_memory |= !text;
    return text;
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
    size_t count = 0;
    int rc = 0;
    for (const struct dt_tree *i = first; i; i = is_list ? i->next : NULL)
        count++;
    if (count == 0 || !(is_list || stands_alone(key, node)))
        return dt_conf_expected(reader, key, node);
    list.text = calloc(count, sizeof(list.text[0]));
    list.weight = calloc(count, sizeof(list.weight[0]));
    if (!list.text || !list.weight) {
        dt_conf_list_clear(&list);
        reader->problems.out_of_memory = true;
        return -1;
    }
    for (const struct dt_tree *i = first; i; i = is_list ? i->next : NULL) {
        char *text = files
                         ? parse_file(reader, key, i, &list.weight[list.count])
                         : parse_text(reader, key, i);
        if (text)
            list.text[list.count++] = text;
        else
            rc = -1;
    }
    struct dt_conf_list *slot =
        (struct dt_conf_list *)((char *)reader->values + key->offset);
    dt_conf_list_clear(rc < 0 ? &list : slot);
    if (rc == 0)
        *slot = list;
    return rc;
}
