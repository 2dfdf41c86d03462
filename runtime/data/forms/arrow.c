/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrow.c - the rows of an Arrow stream, or of an Arrow file
 *
 * A file is a stream after a magic; its footer is not needed to read in order.
 *
 * Facts are from Columnar.rst and from Schema.fbs and Message.fbs of Apache
 * Arrow.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "data/forms/forms_impl.h"

enum kind {
    ARROW_NULL,
    ARROW_BOOL,
    ARROW_INTEGER,
    ARROW_UNSIGNED,
    ARROW_FLOAT,
    ARROW_TEXT,       /* offsets of `width` bytes, then text */
    ARROW_JSON,       /* likewise, JSON values as text */
    ARROW_BYTES,      /* likewise, any bytes */
    ARROW_FIXED,      /* `width` bytes, not read: dates, decimals */
    ARROW_LIST,       /* offsets of `width` bytes, one child */
    ARROW_FIXED_LIST, /* `width` items of one child each */
    ARROW_STRUCT,
};

/* Bytes of a column of the current batch. */
struct buffer {
    const uint8_t *at;
    uint64_t bytes;
};

/* A column, or part of one, in depth-first order: the children of field i begin
 * at i + 1, and field `next` is the first after its descendants.
 */
struct field {
    char *name;
    size_t name_bytes;
    enum kind kind;
    size_t width;
    size_t children, next;
    /* in the batch: */
    uint64_t count, nulls;
    struct buffer valid, offsets, data;
};

struct arrow {
    const char *path;
    struct field *fields; /* 0 is a struct of all columns */
    size_t count;
};

/* --- the schema --- */

enum { DEPTH_MAX = 16, FIELDS_MAX = 10000 };

/* Numbers of the union Type. */
enum type {
    NONE,
    NULLS,
    INT,
    FLOATING_POINT,
    BINARY,
    UTF8,
    BOOL,
    DECIMAL,
    DATE,
    TIME,
    TIMESTAMP,
    INTERVAL,
    LIST,
    STRUCT,
    UNION,
    FIXED_SIZE_BINARY,
    FIXED_SIZE_LIST,
    MAP,
    DURATION,
    LARGE_BINARY,
    LARGE_UTF8,
    LARGE_LIST
};

/* Sets EX_DATAERR "path: not a whole Arrow file: <defect>"; returns -1. */
static int bad(const struct arrow *arrow, const char *what,
               struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "%s: not a whole Arrow file: %s",
                        arrow->path, what);
}

static int refuse(const struct arrow *arrow, const struct field *field,
                  const char *what, struct dt_error *err)
{
    char name[100];
    snprintf(name, sizeof(name), "%.*s",
             (int)(field->name_bytes < 80 ? field->name_bytes : 80),
             field->name);
    dt_line_printable(name, name, sizeof(name));
    return dt_error_set(err, EX_DATAERR, "%s: column %s: %s", arrow->path, name,
                        what);
}

/* The size of a value in bytes, for dates, decimals and similar types. */
static size_t fixed_width(int type, struct dt_flat_table t)
{
    switch (type) {
    case DECIMAL:
        return (size_t)dt_flat_number(t, 2, 4, 128) / 8;
    case DATE:
        return dt_flat_number(t, 0, 2, 1) == 0 ? 4 : 8;
    case TIME:
        return (size_t)dt_flat_number(t, 1, 4, 32) / 8;
    case INTERVAL: {
        int64_t unit = dt_flat_number(t, 0, 2, 0);
        return unit == 0 ? 4 : unit == 1 ? 8 : 16;
    }
    case FIXED_SIZE_BINARY:
        return (size_t)dt_flat_number(t, 0, 4, 0);
    default: /* TIMESTAMP, DURATION */
        return 8;
    }
}

static enum kind kind_of(int type, bool is_signed)
{
    switch (type) {
    case NULLS:
        return ARROW_NULL;
    case INT:
        return is_signed ? ARROW_INTEGER : ARROW_UNSIGNED;
    case FLOATING_POINT:
        return ARROW_FLOAT;
    case BINARY:
    case LARGE_BINARY:
        return ARROW_BYTES;
    case UTF8:
    case LARGE_UTF8:
        return ARROW_TEXT;
    case BOOL:
        return ARROW_BOOL;
    case LIST:
    case LARGE_LIST:
    case MAP:
        return ARROW_LIST;
    case STRUCT:
        return ARROW_STRUCT;
    case FIXED_SIZE_LIST:
        return ARROW_FIXED_LIST;
    default:
        return ARROW_FIXED;
    }
}

/* Sets kind and width of a field of this type. -1: err. */
static int set_type(const struct arrow *arrow, struct field *field, int type,
                    struct dt_flat_table t, struct dt_error *err)
{
    if (type <= NONE || type == UNION || type > LARGE_LIST)
        return refuse(arrow, field,
                      "a union, a view or run-ends of Arrow, which are not "
                      "read: write plain columns",
                      err);
    field->kind = kind_of(type, dt_flat_number(t, 1, 1, 0) != 0);
    switch (field->kind) {
    case ARROW_INTEGER:
    case ARROW_UNSIGNED:
        field->width = (size_t)dt_flat_number(t, 0, 4, 0) / 8;
        break;
    case ARROW_FLOAT: /* half, single, double: halves are not read */
        field->width = (size_t)2 << (dt_flat_number(t, 0, 2, 0) & 3);
        field->kind = field->width == 2 ? ARROW_FIXED : ARROW_FLOAT;
        break;
    case ARROW_TEXT:
    case ARROW_BYTES:
    case ARROW_LIST:
        field->width = type >= LARGE_BINARY ? 8 : 4;
        break;
    case ARROW_FIXED_LIST:
        field->width = (size_t)dt_flat_number(t, 0, 4, 0);
        break;
    case ARROW_FIXED:
        field->width = fixed_width(type, t);
        break;
    default:
        break;
    }
    const bool number = field->kind == ARROW_INTEGER ||
                        field->kind == ARROW_UNSIGNED ||
                        field->kind == ARROW_FLOAT;
    if (field->width > 1 << 20 ||
        (number && field->width != 1 && field->width != 2 &&
         field->width != 4 && field->width != 8))
        return bad(arrow, "a type of an unknown width", err);
    return 0;
}

static int add_fields(struct arrow *arrow, struct dt_flat_vector fields,
                      int depth, struct dt_error *err);

static int set_name(struct arrow *arrow, struct field *field,
                    struct dt_flat_table table, struct dt_error *err)
{
    const struct dt_flat_vector name = dt_flat_vector(table, 0, 1);
    field->name = malloc(name.count + 1);
    if (!field->name)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", arrow->path);
    if (name.count > 0)
        memcpy(field->name, name.buffer.bytes + name.at, name.count);
    field->name_bytes = name.count;
    return 0;
}

static bool is_string(struct dt_flat_table table, int field, const char *text)
{
    const struct dt_flat_vector s = dt_flat_vector(table, field, 1);
    return s.count == strlen(text) &&
           memcmp(s.buffer.bytes + s.at, text, s.count) == 0;
}

/* Whether the metadata of a field declare its texts to be JSON. */
static bool is_json(struct dt_flat_table table)
{
    const struct dt_flat_vector pairs = dt_flat_vector(table, 6, 4);
    for (size_t i = 0; i < pairs.count; i++) {
        const struct dt_flat_table pair = dt_flat_item(pairs, i);
        if (is_string(pair, 0, "ARROW:extension:name"))
            return is_string(pair, 1, "arrow.json");
    }
    return false;
}

/* Adds a field and its descendants. */
static int add_field(struct arrow *arrow, struct dt_flat_table table, int depth,
                     struct dt_error *err)
{
    const size_t f = arrow->count;
    struct field *field = &arrow->fields[f];
    const struct dt_flat_vector children = dt_flat_vector(table, 5, 4);
    if (table.at == 0 || f == FIELDS_MAX || depth == DEPTH_MAX)
        return bad(arrow, "its schema is damaged or too large", err);
    arrow->count++;
    if (set_name(arrow, field, table, err) < 0 ||
        set_type(arrow, field, (int)dt_flat_number(table, 2, 1, 0),
                 dt_flat_child(table, 3), err) < 0)
        return -1;
    if (field->kind == ARROW_TEXT && is_json(table))
        field->kind = ARROW_JSON;
    if (dt_flat_child(table, 4).at > 0)
        return refuse(arrow, field,
                      "dictionary-encoded, which is not read: write it as "
                      "plain strings",
                      err);
    const bool list =
        field->kind == ARROW_LIST || field->kind == ARROW_FIXED_LIST;
    if (list ? children.count != 1
             : field->kind != ARROW_STRUCT && children.count > 0)
        return bad(arrow, "its schema is damaged", err);
    field->children = children.count;
    if (add_fields(arrow, children, depth + 1, err) < 0)
        return -1;
    field->next = arrow->count;
    return 0;
}

static int add_fields(struct arrow *arrow, struct dt_flat_vector fields,
                      int depth, struct dt_error *err)
{
    for (size_t i = 0; i < fields.count; i++)
        if (add_field(arrow, dt_flat_item(fields, i), depth, err) < 0)
            return -1;
    return 0;
}

/* Reads the fields of a Schema. Release with arrow_fini, also after a failure.
 * -1: EX_DATAERR with path and column, a type that is not read; EX_OSERR.
 */
static int arrow_init(struct arrow *arrow, const char *path,
                      struct dt_flat_table schema, struct dt_error *err)
{
    const struct dt_flat_vector fields = dt_flat_vector(schema, 1, 4);
    *arrow = (struct arrow){.path = path};
    arrow->fields = calloc(FIELDS_MAX, sizeof(*arrow->fields));
    if (!arrow->fields)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    if (dt_flat_number(schema, 0, 2, 0) != 0)
        return bad(arrow, "its numbers are not little-endian", err);
    if (fields.count == 0)
        return bad(arrow, "it has no columns", err);
    arrow->fields[0].kind = ARROW_STRUCT;
    arrow->fields[0].children = fields.count;
    arrow->count = 1;
    if (add_fields(arrow, fields, 1, err) < 0)
        return -1;
    arrow->fields[0].next = arrow->count;
    return 0;
}

static void arrow_fini(struct arrow *arrow)
{
    for (size_t i = 0; i < arrow->count; i++)
        free(arrow->fields[i].name);
    free(arrow->fields);
    *arrow = (struct arrow){0};
}

/* --- a batch --- */

enum { UNPACKED_BYTES = 1 << 30 }; /* of a compressed batch */

/* The nodes and the buffers of a batch that have not been taken. */
struct batch {
    struct arrow *arrow;
    struct dt_flat_vector nodes, buffers;
    size_t node, buffer;
    const uint8_t *body;
    uint64_t bytes;
    int codec; /* -1: none, 1: zstd */
    uint8_t *unpacked;
    size_t unpacked_bytes, unpacked_room;
};

/* --- buffers --- */

/* Unpacks a buffer, after those unpacked before it. */
static int unpack(struct batch *b, struct buffer *buffer, struct dt_error *err)
{
    if (buffer->bytes < 8)
        return bad(b->arrow, "a compressed buffer is damaged", err);
    const uint64_t bytes = dt_little(buffer->at, 8);
    buffer->at += 8;
    buffer->bytes -= 8;
    if (bytes == UINT64_MAX) /* not compressed */
        return 0;
    if (bytes > b->unpacked_room - b->unpacked_bytes)
        return bad(b->arrow, "a compressed buffer is damaged", err);
    uint8_t *to = b->unpacked + b->unpacked_bytes;
    if (dt_codec_unpack(DT_CODEC_ZSTD, buffer->at, buffer->bytes, to, bytes,
                        err) < 0)
        return dt_error_prefix(err, "%s", b->arrow->path);
    *buffer = (struct buffer){to, bytes};
    b->unpacked_bytes += bytes;
    return 0;
}

/* The size of all buffers, unpacked; 0: too large. */
static uint64_t unpacked_size(const struct batch *b)
{
    uint64_t sum = 1;
    for (size_t i = 0; i < b->buffers.count; i++) {
        const uint64_t at = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 0);
        if (at <= b->bytes && b->bytes - at >= 8 &&
            dt_flat_item_number(b->buffers, i, 16, 8) >= 8) {
            uint64_t bytes = dt_little(b->body + at, 8);
            sum += bytes == UINT64_MAX ? 0 : bytes;
            if (bytes != UINT64_MAX &&
                (bytes > UNPACKED_BYTES || sum > UNPACKED_BYTES))
                return 0;
        }
    }
    return sum;
}

/* Takes the next buffer, which must have at least `least` bytes. */
static int take_buffer(struct batch *b, uint64_t least, struct buffer *buffer,
                       struct dt_error *err)
{
    const size_t i = b->buffer++;
    if (i >= b->buffers.count)
        return bad(b->arrow, "buffers are missing", err);
    const uint64_t at = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 0);
    const uint64_t bytes = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 8);
    if (at > b->bytes || bytes > b->bytes - at)
        return bad(b->arrow, "a buffer is outside of its batch", err);
    *buffer = (struct buffer){b->body + at, bytes};
    if (b->codec >= 0 && bytes > 0 && unpack(b, buffer, err) < 0)
        return -1;
    return buffer->bytes >= least ? 0
                                  : bad(b->arrow, "a buffer is too short", err);
}

/* --- fields --- */

static uint64_t offset_at(const struct field *field, uint64_t i)
{
    return dt_little(field->offsets.at + i * field->width, field->width);
}

/* Checks that offsets ascend and end within `most`. */
static int check_offsets(const struct batch *b, const struct field *field,
                         uint64_t most, struct dt_error *err)
{
    for (uint64_t i = 0; i < field->count; i++)
        if (offset_at(field, i) > offset_at(field, i + 1))
            return bad(b->arrow, "offsets that do not ascend", err);
    return field->count == 0 || offset_at(field, field->count) <= most
               ? 0
               : bad(b->arrow, "an offset is outside of its buffer", err);
}

/* Takes offsets of a field; without rows, there need be none. */
static int take_offsets(struct batch *b, struct field *field,
                        struct dt_error *err)
{
    uint64_t bytes = field->count > 0 ? (field->count + 1) * field->width : 0;
    return take_buffer(b, bytes, &field->offsets, err);
}

/* The most rows that a batch can have. No type that is worth a column has more
 * than 8 rows in a byte; columns of nulls alone have no bytes at all.
 */
static uint64_t most_rows(const struct batch *b)
{
    return 8 * (b->bytes + b->unpacked_room) + 64;
}

static int take_fields(struct batch *b, size_t f, uint64_t least,
                       struct dt_error *err);

/* Takes the buffers after the one of validity bits. */
static int take_data(struct batch *b, size_t f, struct dt_error *err)
{
    struct field *field = &b->arrow->fields[f];
    struct field *child = field + 1;
    switch (field->kind) {
    case ARROW_NULL:
        return 0;
    case ARROW_BOOL:
        return take_buffer(b, (field->count + 7) / 8, &field->data, err);
    case ARROW_INTEGER:
    case ARROW_UNSIGNED:
    case ARROW_FLOAT:
    case ARROW_FIXED:
        return take_buffer(b, field->count * field->width, &field->data, err);
    case ARROW_TEXT:
    case ARROW_JSON:
    case ARROW_BYTES:
        if (take_offsets(b, field, err) < 0 ||
            take_buffer(b, 0, &field->data, err) < 0)
            return -1;
        return check_offsets(b, field, field->data.bytes, err);
    case ARROW_LIST:
        if (take_offsets(b, field, err) < 0 ||
            take_fields(b, f + 1, 0, err) < 0)
            return -1;
        return check_offsets(b, field, child->count, err);
    case ARROW_FIXED_LIST:
        return take_fields(b, f + 1, field->count * field->width, err);
    case ARROW_STRUCT:
        break;
    }
    for (size_t c = f + 1; c < field->next; c = b->arrow->fields[c].next)
        if (take_fields(b, c, field->count, err) < 0)
            return -1;
    return 0;
}

/* Takes field f, of at least `least` rows, and its descendants. */
static int take_fields(struct batch *b, size_t f, uint64_t least,
                       struct dt_error *err)
{
    struct field *field = &b->arrow->fields[f];
    const size_t i = b->node++;
    if (i >= b->nodes.count)
        return bad(b->arrow, "columns are missing", err);
    field->count = (uint64_t)dt_flat_item_number(b->nodes, i, 16, 0);
    field->nulls = (uint64_t)dt_flat_item_number(b->nodes, i, 16, 8);
    if (field->count < least || field->count > most_rows(b))
        return bad(b->arrow, "a column has too few or too many rows", err);
    const uint64_t bits = field->nulls > 0 ? (field->count + 7) / 8 : 0;
    if (field->kind != ARROW_NULL &&
        take_buffer(b, bits, &field->valid, err) < 0)
        return -1;
    return take_data(b, f, err);
}

/* Sets the buffers of all fields to those of a RecordBatch with this body.
 * Compressed buffers are unpacked into *unpacked, which the caller frees. All
 * offsets are checked. -1: EX_DATAERR, EX_OSERR.
 */
static int open_batch(struct arrow *arrow, struct dt_flat_table batch,
                      const uint8_t *body, size_t bytes, uint8_t **unpacked,
                      struct dt_error *err)
{
    struct field *root = &arrow->fields[0];
    const struct dt_flat_table compression = dt_flat_child(batch, 3);
    struct batch b = {.arrow = arrow,
                      .nodes = dt_flat_vector(batch, 1, 16),
                      .buffers = dt_flat_vector(batch, 2, 16),
                      .body = body,
                      .bytes = bytes,
                      .codec = -1};
    if (compression.at > 0)
        b.codec = (int)dt_flat_number(compression, 0, 1, 0);
    if (b.codec >= 0 && b.codec != 1)
        return dt_error_set(err, EX_DATAERR,
                            "%s: an Arrow file compressed with lz4, which is "
                            "not read: write it with compression=\"zstd\"",
                            arrow->path);
    if (b.codec == 1) {
        b.unpacked_room = unpacked_size(&b);
        *unpacked = b.unpacked = malloc(b.unpacked_room + 1);
        if (b.unpacked_room == 0 || !b.unpacked)
            return bad(arrow, "a batch of more than 1 GiB", err);
    }
    root->count = (uint64_t)dt_flat_number(batch, 0, 8, 0);
    root->nulls = 0;
    if (root->count > most_rows(&b))
        return bad(arrow, "a batch of too many rows", err);
    return take_data(&b, 0, err);
}

/* --- rows --- */

static double float_at(const struct field *field, uint64_t i)
{
    const uint64_t bits =
        dt_little(field->data.at + i * field->width, field->width);
    const uint32_t low = (uint32_t)bits;
    float single;
    double real;
    if (field->width == 4) {
        memcpy(&single, &low, sizeof(single));
        return (double)single;
    }
    memcpy(&real, &bits, sizeof(real));
    return real;
}

static int64_t integer_at(const struct field *field, uint64_t i)
{
    const size_t shift = 64 - 8 * field->width;
    uint64_t bits = dt_little(field->data.at + i * field->width, field->width);
    return (int64_t)(bits << shift) >> shift;
}

static void put_text(const struct field *field, uint64_t i,
                     struct dt_line_out *out)
{
    const uint64_t begin = offset_at(field, i);
    const size_t count = offset_at(field, i + 1) - begin;
    const char *text = (const char *)field->data.at + begin;
    if (field->kind == ARROW_JSON)
        dt_row_json_text(out, text, count);
    else
        dt_line_out_string(out, text, count);
}

static int put_bytes(const struct field *field, uint64_t i,
                     struct dt_line_out *out, struct dt_error *err)
{
    const uint64_t begin = offset_at(field, i);
    return dt_row_json_bytes(out, field->data.at + begin,
                             offset_at(field, i + 1) - begin, err);
}

static bool bit_at(const uint8_t *bits, uint64_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* Writes row i of field f, which has it. -1: as dt_line_out_check. */
static int put_value(const struct arrow *arrow, size_t f, uint64_t i,
                     struct dt_line_out *out, struct dt_error *err);

static int put_items(const struct arrow *arrow, size_t f, uint64_t begin,
                     uint64_t end, struct dt_line_out *out,
                     struct dt_error *err)
{
    dt_line_out_put(out, "[", 1);
    for (uint64_t i = begin; i < end; i++) {
        dt_line_out_put(out, ",", i > begin);
        if (put_value(arrow, f + 1, i, out, err) < 0)
            return -1;
    }
    dt_line_out_put(out, "]", 1);
    return 0;
}

static int put_struct(const struct arrow *arrow, size_t f, uint64_t i,
                      struct dt_line_out *out, struct dt_error *err)
{
    const struct field *fields = arrow->fields;
    dt_line_out_put(out, "{", 1);
    for (size_t c = f + 1; c < fields[f].next; c = fields[c].next) {
        dt_row_json_name(out, fields[c].name, fields[c].name_bytes, c == f + 1);
        if (put_value(arrow, c, i, out, err) < 0)
            return -1;
    }
    dt_line_out_put(out, "}", 1);
    return 0;
}

static int put_value(const struct arrow *arrow, size_t f, uint64_t i,
                     struct dt_line_out *out, struct dt_error *err)
{
    const struct field *field = &arrow->fields[f];
    if (field->kind == ARROW_NULL ||
        (field->nulls > 0 && !bit_at(field->valid.at, i))) {
        dt_row_json_null(out);
        return 0;
    }
    switch (field->kind) {
    case ARROW_BOOL:
        dt_row_json_bool(out, bit_at(field->data.at, i));
        break;
    case ARROW_INTEGER:
        dt_row_json_integer(out, integer_at(field, i));
        break;
    case ARROW_UNSIGNED:
        dt_row_json_unsigned(
            out, dt_little(field->data.at + i * field->width, field->width));
        break;
    case ARROW_FLOAT:
        dt_row_json_double(out, float_at(field, i));
        break;
    case ARROW_TEXT:
    case ARROW_JSON:
        put_text(field, i, out);
        break;
    case ARROW_BYTES:
        if (put_bytes(field, i, out, err) < 0)
            return -1;
        break;
    case ARROW_LIST:
        return put_items(arrow, f, offset_at(field, i), offset_at(field, i + 1),
                         out, err);
    case ARROW_FIXED_LIST:
        return put_items(arrow, f, i * field->width, (i + 1) * field->width,
                         out, err);
    case ARROW_STRUCT:
        return put_struct(arrow, f, i, out, err);
    default:
        dt_row_json_other(out, DT_ROW_NOT_READ);
    }
    return dt_line_out_check(out, err);
}

/* --- the stream --- */

enum { METADATA_BYTES = 256 << 20 };

enum header { SCHEMA = 1, DICTIONARY_BATCH = 2, RECORD_BATCH = 3 };

struct stream {
    const struct dt_input *input;
    uint64_t at, bytes; /* of the file */
    struct arrow arrow;
    bool has_schema;
    uint8_t *metadata, *body, *unpacked; /* of the current message */
    size_t metadata_bytes, body_bytes;
};

/* Reads bytes of the file into new memory, which replaces *to. */
static int read_bytes(struct stream *s, uint64_t count, uint8_t **to,
                      struct dt_error *err)
{
    free(*to);
    *to = NULL;
    if (count > s->bytes - s->at)
        return bad(&s->arrow, "cut short", err);
    *to = malloc(count + 1);
    if (!*to)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", s->arrow.path);
    if (dt_input_at(s->input, s->at, *to, count, err) < 0)
        return -1;
    s->at += count;
    return 0;
}

/* Reads the next message. 1, or 0 at the end of the stream. */
static int read_message(struct stream *s, struct dt_error *err)
{
    uint8_t begin[8];
    if (s->at == s->bytes)
        return 0;
    if (s->bytes - s->at < sizeof(begin))
        return bad(&s->arrow, "cut short", err);
    if (dt_input_at(s->input, s->at, begin, sizeof(begin), err) < 0)
        return -1;
    if (dt_little(begin, 4) != UINT32_MAX)
        return bad(&s->arrow, "a message does not begin as it should", err);
    s->at += sizeof(begin);
    s->metadata_bytes = dt_little(begin + 4, 4);
    if (s->metadata_bytes == 0)
        return 0;
    if (s->metadata_bytes > METADATA_BYTES)
        return bad(&s->arrow, "a message is too large", err);
    if (read_bytes(s, s->metadata_bytes, &s->metadata, err) < 0)
        return -1;
    const struct dt_flat_table message =
        dt_flat_root(s->metadata, s->metadata_bytes);
    const uint64_t body = (uint64_t)dt_flat_number(message, 3, 8, 0);
    if (read_bytes(s, body, &s->body, err) < 0)
        return -1;
    s->body_bytes = body;
    return 1;
}

/* Writes the rows of a batch. 1: there are enough. */
static int put_batch(struct stream *s, struct dt_flat_table batch,
                     struct dt_line_out *out, struct dt_error *err)
{
    free(s->unpacked);
    s->unpacked = NULL;
    if (!s->has_schema)
        return bad(&s->arrow, "a batch before the schema", err);
    if (open_batch(&s->arrow, batch, s->body, s->body_bytes, &s->unpacked,
                   err) < 0)
        return -1;
    for (uint64_t i = 0; i < s->arrow.fields[0].count; i++) {
        if (put_value(&s->arrow, 0, i, out, err) < 0)
            return -1;
        int more = dt_line_out_end(out, err);
        if (more)
            return more;
    }
    return 0;
}

static int read_all(struct stream *s, struct dt_line_out *out,
                    struct dt_error *err)
{
    int rc;
    while ((rc = read_message(s, err)) > 0) {
        const struct dt_flat_table message =
            dt_flat_root(s->metadata, s->metadata_bytes);
        const struct dt_flat_table header = dt_flat_child(message, 2);
        const int64_t type = dt_flat_number(message, 1, 1, 0);
        if (type == SCHEMA && !s->has_schema) {
            s->has_schema = true;
            rc = arrow_init(&s->arrow, s->arrow.path, header, err);
        } else if (type == RECORD_BATCH) {
            rc = put_batch(s, header, out, err);
        } else {
            rc = bad(&s->arrow, "a message of an unknown type", err);
        }
        if (rc)
            return rc < 0 ? -1 : 0;
    }
    if (rc == 0 && !s->has_schema)
        return bad(&s->arrow, "it has no schema", err);
    return rc;
}

int dt_read_arrow(struct dt_bytes *bytes, struct dt_line_out *out,
                  struct dt_error *err)
{
    static const char magic[] = "ARROW1\0";
    char begin[sizeof(magic)] = "";
    struct stream s = {.input = bytes->input,
                       .bytes = dt_input_bytes(bytes->input),
                       .arrow = {.path = bytes->path}};
    if (s.bytes >= sizeof(begin) &&
        dt_input_at(s.input, 0, begin, sizeof(begin), err) < 0)
        return -1;
    if (memcmp(begin, magic, sizeof(magic)) == 0)
        s.at = sizeof(magic);
    int rc = read_all(&s, out, err);
    arrow_fini(&s.arrow);
    free(s.metadata);
    free(s.body);
    free(s.unpacked);
    return rc;
}
