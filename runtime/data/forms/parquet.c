/* SPDX-License-Identifier: Apache-2.0 */
/* parquet.c - the columns of a Parquet file, and its rows */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/forms/forms_impl.h"

enum {
    TAIL_BYTES = 8, /* length of the footer, PAR1 */
    FOOTER_BYTES = 256 << 20,
    NODES_MAX = 10000,
    DEPTH_MAX = 16,
};

int dt_parquet_bad(const struct dt_parquet *file, const char *what,
                   struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s: not a whole Parquet file: %s",
                        file->path, what);
}

/* --- the tree --- */

/* The meaning of a leaf with this ConvertedType; -1: none. */
static enum dt_parquet_meaning meaning_of_converted(int converted)
{
    switch (converted) {
    case -1:
    case 15: /* INT_8 to INT_64 */
    case 16:
    case 17:
    case 18:
        return PARQUET_NUMBER;
    case 11: /* UINT_8 to UINT_64 */
    case 12:
    case 13:
    case 14:
        return PARQUET_UNSIGNED;
    case 0: /* UTF8 */
    case 4: /* ENUM */
        return PARQUET_TEXT;
    case 19: /* JSON */
        return PARQUET_JSON;
    default:
        return PARQUET_OTHER;
    }
}

/* The properties of an element of the schema, apart from its node. */
struct element {
    int converted, logical; /* -1: none */
};

/* The kind of a LogicalType, the number of the only field of the union. */
static int read_logical(struct dt_thrift *t)
{
    struct dt_thrift_field field = {0};
    int logical = -1;
    while (dt_thrift_next(t, &field)) {
        logical = field.id;
        dt_thrift_skip(t, field.type);
    }
    return logical;
}

static void read_element(struct dt_thrift *t, struct dt_parquet_node *node,
                         struct element *element)
{
    struct dt_thrift_field field = {0};
    *element = (struct element){-1, -1};
    *node = (struct dt_parquet_node){.name = "", .type = PARQUET_FIXED_BYTES};
    while (dt_thrift_next(t, &field)) {
        if (field.id == 4)
            node->name = dt_thrift_binary(t, &field, &node->name_bytes);
        else if (field.id == 1)
            node->type =
                (enum dt_parquet_type)(dt_thrift_integer(t, &field) & 7);
        else if (field.id == 3)
            node->repetition =
                (enum dt_parquet_repetition)(dt_thrift_integer(t, &field) % 3);
        else if (field.id == 5)
            node->children = (size_t)dt_thrift_integer(t, &field);
        else if (field.id == 6)
            element->converted = (int)dt_thrift_integer(t, &field);
        else if (field.id == 10 && field.type == THRIFT_STRUCT)
            element->logical = read_logical(t);
        else
            dt_thrift_skip(t, field.type);
    }
}

static void set_meaning(struct dt_parquet_node *node, const struct element *e)
{
    node->meaning = meaning_of_converted(e->converted);
    if (e->logical == 1 || e->logical == 4) /* STRING, ENUM */
        node->meaning = PARQUET_TEXT;
    else if (e->logical == 12)
        node->meaning = PARQUET_JSON;
    else if (e->logical >= 0 && e->logical != 10) /* INTEGER */
        node->meaning = PARQUET_OTHER;
    node->is_list = (e->converted >= 1 && e->converted <= 3) ||
                    e->logical == 2 || e->logical == 3; /* MAP, LIST */
    if (node->type == PARQUET_BYTES && e->converted < 0 && e->logical < 0) {
        node->meaning = PARQUET_BINARY;
        return;
    }
    bool text = node->meaning == PARQUET_TEXT || node->meaning == PARQUET_JSON;
    if (text != (node->type == PARQUET_BYTES) || node->type == PARQUET_INT96 ||
        node->type == PARQUET_FIXED_BYTES)
        node->meaning = PARQUET_OTHER;
}

/* Sets levels, leaves and next of node i and its descendants. -1: err. */
static int link_nodes(struct dt_parquet *file, size_t i, int depth,
                      struct dt_error *err)
{
    struct dt_parquet_node *node = &file->nodes[i];
    size_t next = i + 1;
    if (depth == DEPTH_MAX)
        return dt_parquet_bad(file, "its columns are nested too deep", err);
    node->leaf = file->leaf_count;
    file->leaf_count += node->children == 0 && i > 0;
    for (size_t c = 0; c < node->children; c++) {
        if (next >= file->node_count)
            return dt_parquet_bad(file, "its schema ends early", err);
        struct dt_parquet_node *child = &file->nodes[next];
        child->def = node->def + (child->repetition != PARQUET_REQUIRED);
        child->rep = node->rep + (child->repetition == PARQUET_REPEATED);
        if (link_nodes(file, next, depth + 1, err) < 0)
            return -1;
        next = child->next;
    }
    node->leaves = file->leaf_count - node->leaf;
    node->next = next;
    return 0;
}

static int read_schema(struct dt_parquet *file, struct dt_thrift *t,
                       const struct dt_thrift_field *field,
                       struct dt_error *err)
{
    size_t count = dt_thrift_list(t, field, THRIFT_STRUCT);
    if (file->nodes || count == 0 || count > NODES_MAX)
        return dt_parquet_bad(file, "it has no schema, or a large one", err);
    file->nodes = calloc(count, sizeof(*file->nodes));
    if (!file->nodes)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", file->path);
    for (; file->node_count < count; file->node_count++) {
        struct element element;
        struct dt_parquet_node *node = &file->nodes[file->node_count];
        read_element(t, node, &element);
        set_meaning(node, &element);
    }
    if (t->bad || link_nodes(file, 0, 0, err) < 0 ||
        file->nodes[0].next != count || file->leaf_count == 0)
        return dt_parquet_bad(file, "its schema is damaged", err);
    return 0;
}

/* --- row groups --- */

/* ColumnMetaData */
static void read_column(struct dt_thrift *t, struct dt_parquet_chunk *chunk)
{
    uint64_t codec = UINT64_MAX, bytes = 0, data = 0, dictionary = 0;
    const struct dt_thrift_number numbers[] = {{4, &codec, false},
                                               {5, &chunk->values, false},
                                               {7, &bytes, false},
                                               {9, &data, false},
                                               {11, &dictionary, false}};
    dt_thrift_numbers(t, numbers, sizeof(numbers) / sizeof(numbers[0]));
    chunk->codec = (int)codec;
    chunk->begin = dictionary > 0 && dictionary < data ? dictionary : data;
    t->bad |= __builtin_add_overflow(chunk->begin, bytes, &chunk->end);
}

/* ColumnChunk */
static int read_chunk(struct dt_parquet *file, struct dt_thrift *t,
                      struct dt_parquet_chunk *chunk, struct dt_error *err)
{
    struct dt_thrift_field field = {0};
    *chunk = (struct dt_parquet_chunk){.codec = -1};
    while (dt_thrift_next(t, &field)) {
        if (field.id == 1)
            return dt_parquet_bad(file, "its columns are in other files", err);
        if (field.id == 3 && field.type == THRIFT_STRUCT)
            read_column(t, chunk);
        else
            dt_thrift_skip(t, field.type);
    }
    if (t->bad || chunk->codec < 0 || chunk->end > dt_input_bytes(file->input))
        return dt_parquet_bad(file, "a column is outside of it", err);
    return 0;
}

static int read_group(struct dt_parquet *file, struct dt_thrift *t,
                      struct dt_error *err)
{
    struct dt_thrift_field field = {0};
    const size_t group = file->group_count++, n = file->leaf_count;
    bool columns = false;
    while (dt_thrift_next(t, &field)) {
        if (field.id == 3) {
            file->rows[group] = (uint64_t)dt_thrift_integer(t, &field);
        } else if (field.id == 1) {
            if (dt_thrift_list(t, &field, THRIFT_STRUCT) != n || columns)
                return dt_parquet_bad(file, "columns are missing", err);
            for (size_t i = 0; i < n; i++)
                if (read_chunk(file, t, &file->chunks[group * n + i], err) < 0)
                    return -1;
            columns = true;
        } else {
            dt_thrift_skip(t, field.type);
        }
    }
    return columns ? 0 : dt_parquet_bad(file, "columns are missing", err);
}

static int read_groups(struct dt_parquet *file, struct dt_thrift *t,
                       const struct dt_thrift_field *field,
                       struct dt_error *err)
{
    size_t count = dt_thrift_list(t, field, THRIFT_STRUCT), all;
    const size_t left = (size_t)(t->end - t->at);
    if (!file->nodes || file->rows)
        return dt_parquet_bad(file, "its footer is not in order", err);
    /* a chunk takes more than 8 bytes of the footer */
    if (__builtin_mul_overflow(count, file->leaf_count, &all) ||
        all > left / 8 || count > left)
        return dt_parquet_bad(file, "columns are missing", err);
    file->rows = calloc(count + 1, sizeof(*file->rows));
    file->chunks = calloc(all + 1, sizeof(*file->chunks));
    if (!file->rows || !file->chunks)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", file->path);
    for (size_t i = 0; i < count; i++)
        if (read_group(file, t, err) < 0)
            return -1;
    return 0;
}

/* --- the footer --- */

/* FileMetaData */
static int read_footer(struct dt_parquet *file, size_t bytes,
                       struct dt_error *err)
{
    struct dt_thrift t = {file->footer, file->footer + bytes, false};
    struct dt_thrift_field field = {0};
    int rc = 0;
    while (rc == 0 && dt_thrift_next(&t, &field)) {
        if (field.id == 2)
            rc = read_schema(file, &t, &field, err);
        else if (field.id == 4)
            rc = read_groups(file, &t, &field, err);
        else
            dt_thrift_skip(&t, field.type);
    }
    if (rc == 0 && (t.bad || !file->rows))
        rc = dt_parquet_bad(file, "its footer is damaged", err);
    return rc;
}

/* Reads the footer of an opened file. Release with close_file, also after a
 * failure. -1: EX_DATAERR with the path, EX_IOERR, EX_OSERR.
 */
static int open_footer(struct dt_parquet *file, struct dt_input *input,
                       const char *path, struct dt_error *err)
{
    uint8_t tail[TAIL_BYTES];
    *file = (struct dt_parquet){.input = input, .path = path};
    const uint64_t size = dt_input_bytes(input);
    if (size < 4 + TAIL_BYTES)
        return dt_parquet_bad(file, "it is too short", err);
    if (dt_input_at(input, size - TAIL_BYTES, tail, sizeof(tail), err) < 0)
        return -1;
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return dt_parquet_bad(file,
                              memcmp(tail + 4, "PARE", 4) == 0
                                  ? "it is encrypted"
                                  : "it is cut short, or something follows it",
                              err);
    const uint64_t bytes = dt_little(tail, 4);
    if (bytes > size - 4 - TAIL_BYTES || bytes > FOOTER_BYTES)
        return dt_parquet_bad(file, "its footer is larger than it", err);
    file->footer = malloc(bytes + 1);
    if (!file->footer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    if (dt_input_at(input, size - TAIL_BYTES - bytes, file->footer, bytes,
                    err) < 0)
        return -1;
    return read_footer(file, bytes, err);
}

static void close_file(struct dt_parquet *file)
{
    free(file->footer);
    free(file->nodes);
    free(file->rows);
    free(file->chunks);
    *file = (struct dt_parquet){0};
}

/* --- rows --- */

struct rows {
    struct dt_parquet file;
    struct dt_parquet_leaf *leaves;
    struct dt_line_out *out;
};

/* Skips the one entry that each leaf of a node has for a null or an empty list.
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

/* Loads the first leaf of a node; it must have a value. -1: err. */
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

static void put_number(struct dt_line_out *out,
                       const struct dt_parquet_leaf *leaf)
{
    const uint64_t bits = dt_little(leaf->value.bytes, leaf->value.count);
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

/* Writes a value that is present. */
static int put_value(struct dt_line_out *out,
                     const struct dt_parquet_leaf *leaf, struct dt_error *err)
{
    const char *text = (const char *)leaf->value.bytes;
    const size_t count = leaf->value.count;
    switch (leaf->node->meaning) {
    case PARQUET_TEXT:
        dt_line_out_string(out, text, count);
        return 0;
    case PARQUET_JSON:
        dt_row_json_text(out, text, count);
        return 0;
    case PARQUET_BINARY:
        return dt_row_json_bytes(out, text, count, err);
    case PARQUET_OTHER:
        dt_row_json_other(out, DT_ROW_NOT_READ);
        return 0;
    default:
        put_number(out, leaf);
        return 0;
    }
}

static int put_leaf(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err)
{
    struct dt_parquet_leaf *leaf = first_leaf(rows, node, err);
    if (!leaf)
        return -1;
    if (leaf->def < node->def)
        dt_row_json_null(rows->out);
    else if (put_value(rows->out, leaf, err) < 0)
        return -1;
    leaf->loaded = false;
    return 0;
}

/* --- the tree --- */

static int put_node(struct rows *rows, const struct dt_parquet_node *node,
                    struct dt_error *err);

/* Writes a node that is present. */
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

/* Writes an item of a list. In a node that is marked as a list, a repeated
 * group of one field is only a wrapper of that field, except for the names that
 * old writers gave to groups that are items themselves (LogicalTypes.md,
 * Lists).
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
    int rc = open_footer(&rows.file, bytes->input, bytes->path, err);
    const size_t n = rows.file.leaf_count;
    if (rc == 0) {
        rows.leaves = calloc(n, sizeof(*rows.leaves));
        rc = rows.leaves ? 0
                         : dt_error_set(err, EX_OSERR, "%s: out of memory",
                                        bytes->path);
    }
    for (size_t i = 0; rc == 0 && i < rows.file.node_count; i++) {
        struct dt_parquet_node *node = &rows.file.nodes[i];
        if (node->children > 0)
            continue;
        if (node->meaning == PARQUET_BINARY && !out->keep)
            node->meaning = PARQUET_OTHER;
        rows.leaves[node->leaf].file = &rows.file;
        rows.leaves[node->leaf].node = node;
    }
    for (size_t g = 0; rc == 0 && g < rows.file.group_count; g++)
        rc = put_group(&rows, g, err);
    for (size_t i = 0; rows.leaves && i < n; i++)
        dt_parquet_leaf_fini(&rows.leaves[i]);
    free(rows.leaves);
    close_file(&rows.file);
    return rc < 0 ? -1 : 0;
}
