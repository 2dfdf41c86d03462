/* SPDX-License-Identifier: Apache-2.0 */
/* read_parquet.c - assembles the rows of a Parquet file from its columns */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/forms/parquet.h"
#include "data/forms/reader.h"
#include "data/forms/row_json.h"

struct rows {
    struct dt_parquet file;
    struct dt_parquet_leaf *leaves;
    struct dt_line_out *out;
};

/* Passes the one entry that each leaf of a node has for a null or an empty
 * list.
 */
static int pass(struct rows *rows, const struct dt_parquet_node *node,
                struct dt_error *err)
{
    for (size_t i = node->leaf; i < node->leaf + node->leaves; i++) {
        int rc = dt_parquet_leaf_look(&rows->leaves[i], err);
        if (rc <= 0)
            return rc < 0 ? -1
                          : dt_parquet_bad(&rows->file,
                                           "columns differ in "
                                           "their rows",
                                           err);
        rows->leaves[i].loaded = false;
    }
    return 0;
}

/* Looks at the first leaf of a node, which has a value. -1: err. */
static struct dt_parquet_leaf *first_leaf(struct rows *rows,
                                          const struct dt_parquet_node *node,
                                          struct dt_error *err)
{
    struct dt_parquet_leaf *leaf = &rows->leaves[node->leaf];
    int rc = dt_parquet_leaf_look(leaf, err);
    if (rc > 0)
        return leaf;
    if (rc == 0)
        dt_parquet_bad(&rows->file, "columns differ in their rows", err);
    return NULL;
}

/* --- values --- */

static uint64_t bits_of(const struct dt_parquet_value *value)
{
    uint64_t bits = 0;
    for (size_t i = value->count; i-- > 0;)
        bits = bits << 8 | value->bytes[i];
    return bits;
}

static void put_number(struct dt_line_out *out,
                       const struct dt_parquet_leaf *leaf)
{
    const uint64_t bits = bits_of(&leaf->value);
    const bool is_unsigned = leaf->node->meaning == PARQUET_UNSIGNED;
    const uint32_t low = (uint32_t)bits;
    float single;
    double real;
    switch (leaf->node->type) {
    case PARQUET_BOOLEAN:
        dt_row_json_bool(out, bits != 0);
        return;
    case PARQUET_FLOAT:
        memcpy(&single, &low, sizeof(single));
        dt_row_json_double(out, (double)single);
        return;
    case PARQUET_DOUBLE:
        memcpy(&real, &bits, sizeof(real));
        dt_row_json_double(out, real);
        return;
    case PARQUET_INT32:
        dt_row_json_integer(out, is_unsigned ? (int64_t)low : (int32_t)low);
        return;
    default:
        if (is_unsigned)
            dt_row_json_unsigned(out, bits);
        else
            dt_row_json_integer(out, (int64_t)bits);
    }
}

static int put_leaf(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err)
{
    struct dt_parquet_leaf *leaf = first_leaf(rows, node, err);
    if (!leaf)
        return -1;
    const char *text = (const char *)leaf->value.bytes;
    if (leaf->def < node->def)
        dt_row_json_null(rows->out);
    else if (node->meaning == PARQUET_OTHER)
        dt_row_json_other(rows->out, "a column of dates, bytes or decimals");
    else if (node->meaning == PARQUET_TEXT)
        dt_line_out_string(rows->out, text, leaf->value.count);
    else if (node->meaning == PARQUET_JSON)
        dt_row_json_text(rows->out, text, leaf->value.count);
    else
        put_number(rows->out, leaf);
    leaf->loaded = false;
    return 0;
}

/* --- the tree --- */

static int put_node(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err);

/* What a node is where it is there. */
static int put_present(struct rows *rows, const struct dt_parquet_node *node,
                       struct dt_error *err)
{
    const struct dt_parquet_node *nodes = rows->file.nodes;
    size_t child = (size_t)(node - nodes) + 1;
    if (node->children == 0)
        return put_leaf(rows, node, err);
    if (node->is_list && node->children == 1 &&
        nodes[child].repetition == PARQUET_REPEATED)
        return put_node(rows, &nodes[child], err);
    dt_line_out_put(rows->out, "{", 1);
    for (size_t i = 0; i < node->children; i++, child = nodes[child].next) {
        dt_row_json_name(rows->out, nodes[child].name, nodes[child].name_bytes,
                         i == 0);
        if (put_node(rows, &nodes[child], err) < 0)
            return -1;
    }
    dt_line_out_put(rows->out, "}", 1);
    return 0;
}

/* An item of a list. In a node that says it is a list, a repeated group of one
 * field is only the place of that field, but for the names that old writers
 * gave to groups that are items themselves (LogicalTypes.md, Lists).
 */
static int put_item(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err)
{
    const bool place =
        node->children == 1 && node > rows->file.nodes && node[-1].is_list &&
        !(node->name_bytes == 5 && memcmp(node->name, "array", 5) == 0) &&
        !(node->name_bytes > 6 &&
          memcmp(node->name + node->name_bytes - 6, "_tuple", 6) == 0);
    return place ? put_node(rows, node + 1, err) : put_present(rows, node, err);
}

static int put_list(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err)
{
    struct dt_parquet_leaf *leaf = first_leaf(rows, node, err);
    if (!leaf)
        return -1;
    if (leaf->def < node->def) {
        dt_line_out_put(rows->out, "[]", 2);
        return pass(rows, node, err);
    }
    dt_line_out_put(rows->out, "[", 1);
    for (bool more = true; more;) {
        if (put_item(rows, node, err) < 0 ||
            dt_line_out_check(rows->out, err) < 0)
            return -1;
        int rc = dt_parquet_leaf_look(leaf, err);
        if (rc < 0)
            return -1;
        more = rc > 0 && leaf->rep >= node->rep;
        dt_line_out_put(rows->out, ",", more);
    }
    dt_line_out_put(rows->out, "]", 1);
    return 0;
}

static int put_node(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err)
{
    if (node->repetition == PARQUET_REPEATED)
        return put_list(rows, node, err);
    if (node->repetition == PARQUET_OPTIONAL && node->children > 0) {
        const struct dt_parquet_leaf *leaf = first_leaf(rows, node, err);
        if (!leaf)
            return -1;
        if (leaf->def < node->def) {
            dt_row_json_null(rows->out);
            return pass(rows, node, err);
        }
    }
    return put_present(rows, node, err);
}

/* --- the file --- */

static int check_row(struct rows *rows, struct dt_error *err)
{
    for (size_t i = 0; i < rows->file.leaf_count; i++) {
        int rc = dt_parquet_leaf_look(&rows->leaves[i], err);
        if (rc < 0)
            return -1;
        if (rc == 0 || rows->leaves[i].rep != 0)
            return dt_parquet_bad(&rows->file, "columns differ in their rows",
                                  err);
    }
    return 0;
}

/* 1: there are enough rows. */
static int put_group(struct rows *rows, size_t group, struct dt_error *err)
{
    const struct dt_parquet *file = &rows->file;
    const size_t n = file->leaf_count;
    for (size_t i = 0; i < n; i++)
        dt_parquet_leaf_start(&rows->leaves[i], file->chunks[group * n + i]);
    for (uint64_t r = 0; r < file->rows[group]; r++) {
        if (check_row(rows, err) < 0 || put_present(rows, file->nodes, err) < 0)
            return -1;
        int more = dt_line_out_end(rows->out, err);
        if (more)
            return more;
    }
    return 0;
}

int dt_read_parquet(struct dt_bytes *bytes, struct dt_line_out *out,
                    struct dt_error *err)
{
    struct rows rows = {.out = out};
    int rc = dt_parquet_init(&rows.file, bytes->input, bytes->path, err);
    const size_t n = rows.file.leaf_count;
    if (rc == 0) {
        rows.leaves = calloc(n, sizeof(*rows.leaves));
        rc = rows.leaves ? 0
                         : dt_error_set(err, EX_OSERR, "%s: out of memory",
                                        bytes->path);
    }
    for (size_t i = 0; rc == 0 && i < rows.file.node_count; i++) {
        const struct dt_parquet_node *node = &rows.file.nodes[i];
        if (node->children > 0)
            continue;
        rows.leaves[node->leaf].file = &rows.file;
        rows.leaves[node->leaf].node = node;
    }
    for (size_t g = 0; rc == 0 && g < rows.file.group_count; g++)
        rc = put_group(&rows, g, err);
    for (size_t i = 0; rows.leaves && i < n; i++)
        dt_parquet_leaf_fini(&rows.leaves[i]);
    free(rows.leaves);
    dt_parquet_fini(&rows.file);
    return rc < 0 ? -1 : 0;
}
