/* SPDX-License-Identifier: Apache-2.0 */
/* list.c - reads lists of words and of files with weights */
#include "config.h"

#include <string.h>

#include "conf/conf_impl.h"

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
    return scalar ? dt_conf_add_files(reader, key, scalar, weight, list) : -1;
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
               ? dt_conf_list_add(reader, list, word ? word->name : item->text,
                                  0.0)
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
