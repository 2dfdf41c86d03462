/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - parses YAML, or JSON, into a tree with file positions
 *
 * The input is untrusted: its size, nesting and number of values are limited.
 * Anchors, aliases, merge keys and tags are refused, so a tree is never larger
 * than its text.
 */
#ifndef DT_CONF_TREE_H
#define DT_CONF_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/keys/draft.h"

enum {
    DT_TREE_BYTES_MAX = 1024 * 1024,
    DT_TREE_DEPTH_MAX = 16,
    DT_TREE_NODES_MAX = 16384,
};

enum dt_tree_kind { DT_TREE_SCALAR, DT_TREE_LIST, DT_TREE_MAP };

struct dt_tree {
    enum dt_tree_kind kind;
    struct dt_conf_place place; /* of the value */
    char *text;                 /* scalar: as written, without quotes */
    bool quoted;                /* scalar: always a string */
    char *written; /* scalar: the text before its variables, or NULL */
    bool unknown;  /* scalar: a variable in it is not known, which is noted */
    char *key;     /* its key in a map, or NULL */
    struct dt_conf_place key_place;
    struct dt_tree *child; /* first item of a list or map */
    struct dt_tree *next;  /* next item of the same list or map */
};

/* Parses a document of `bytes` bytes. Duplicate keys and refused features are
 * noted and left out of the tree. The caller frees it with dt_tree_destroy.
 * NULL: nothing is left; a note says why, or notes->out_of_memory is set.
 */
struct dt_tree *dt_tree_parse(const char *text, size_t bytes,
                              struct dt_conf_notes *notes);

/* The same for JSON, in which comments (//, # and slash-star) and commas before
 * } and ] are allowed. All places are those of a DeepSpeed file.
 */
struct dt_tree *dt_tree_parse_json(const char *text, size_t bytes,
                                   struct dt_conf_notes *notes);
void dt_tree_destroy(struct dt_tree *tree); /* NULL is fine */

/* For both parsers. Whether one more value, the `nodes`th, may stand at this
 * depth; and whether a map has no such key yet. Otherwise a note says so.
 */
bool dt_tree_may_grow(struct dt_conf_notes *notes, struct dt_conf_place place,
                      int depth, size_t nodes);
bool dt_tree_key_is_new(struct dt_conf_notes *notes, const struct dt_tree *map,
                        const char *key, struct dt_conf_place place);

#endif /* DT_CONF_TREE_H */
