/* SPDX-License-Identifier: Apache-2.0 */
/* arrow_batch.c - checks the buffers of a batch, and writes its rows as JSON */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "data/forms/arrow.h"
#include "data/forms/row_json.h"

enum { UNPACKED_BYTES = 1 << 30 }; /* of a batch that is compressed */

/* What is left of the nodes and the buffers of a batch. */
struct batch {
    struct dt_arrow *arrow;
    struct dt_flat_vector nodes, buffers;
    size_t node, buffer;
    const uint8_t *body;
    uint64_t bytes;
    int codec; /* -1: none, 1: zstd */
    uint8_t *unpacked;
    size_t unpacked_bytes, unpacked_room;
};

static uint64_t little(const uint8_t *from, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

/* --- buffers --- */

/* Unpacks a buffer behind those that were unpacked before it. */
static int unpack(struct batch *b, struct dt_arrow_buffer *buffer,
                  struct dt_error *err)
{
    if (buffer->bytes < 8)
        return dt_arrow_bad(b->arrow, "a compressed buffer is damaged", err);
    const uint64_t bytes = little(buffer->at, 8);
    buffer->at += 8;
    buffer->bytes -= 8;
    if (bytes == UINT64_MAX) /* stored as it is */
        return 0;
    if (bytes > b->unpacked_room - b->unpacked_bytes)
        return dt_arrow_bad(b->arrow, "a compressed buffer is damaged", err);
    uint8_t *to = b->unpacked + b->unpacked_bytes;
    if (dt_codec_unpack(DT_CODEC_ZSTD, buffer->at, buffer->bytes, to, bytes,
                        err) < 0)
        return dt_error_prefix(err, "%s", b->arrow->path);
    *buffer = (struct dt_arrow_buffer){to, bytes};
    b->unpacked_bytes += bytes;
    return 0;
}

/* The bytes that all buffers take when they are unpacked; 0: too many. */
static uint64_t unpacked_size(const struct batch *b)
{
    uint64_t sum = 1;
    for (size_t i = 0; i < b->buffers.count; i++) {
        const uint64_t at = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 0);
        if (at <= b->bytes && b->bytes - at >= 8 &&
            dt_flat_item_number(b->buffers, i, 16, 8) >= 8) {
            uint64_t bytes = little(b->body + at, 8);
            sum += bytes == UINT64_MAX ? 0 : bytes;
            if (bytes != UINT64_MAX &&
                (bytes > UNPACKED_BYTES || sum > UNPACKED_BYTES))
                return 0;
        }
    }
    return sum;
}

/* Takes the next buffer, which has at least `least` bytes. */
static int take_buffer(struct batch *b, uint64_t least,
                       struct dt_arrow_buffer *buffer, struct dt_error *err)
{
    const size_t i = b->buffer++;
    if (i >= b->buffers.count)
        return dt_arrow_bad(b->arrow, "buffers are missing", err);
    const uint64_t at = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 0);
    const uint64_t bytes = (uint64_t)dt_flat_item_number(b->buffers, i, 16, 8);
    if (at > b->bytes || bytes > b->bytes - at)
        return dt_arrow_bad(b->arrow, "a buffer is outside of its batch", err);
    *buffer = (struct dt_arrow_buffer){b->body + at, bytes};
    if (b->codec >= 0 && bytes > 0 && unpack(b, buffer, err) < 0)
        return -1;
    return buffer->bytes >= least
               ? 0
               : dt_arrow_bad(b->arrow, "a buffer is too short", err);
}

/* --- fields --- */

static uint64_t offset_at(const struct dt_arrow_field *field, uint64_t i)
{
    return little(field->offsets.at + i * field->width, field->width);
}

/* Offsets ascend and end within `most`. */
static int check_offsets(const struct batch *b,
                         const struct dt_arrow_field *field, uint64_t most,
                         struct dt_error *err)
{
    for (uint64_t i = 0; i < field->count; i++)
        if (offset_at(field, i) > offset_at(field, i + 1))
            return dt_arrow_bad(b->arrow, "offsets that do not ascend", err);
    return field->count == 0 || offset_at(field, field->count) <= most
               ? 0
               : dt_arrow_bad(b->arrow, "an offset is outside of its buffer",
                              err);
}

/* Takes offsets of a field; none are needed for no rows. */
static int take_offsets(struct batch *b, struct dt_arrow_field *field,
                        struct dt_error *err)
{
    uint64_t bytes = field->count > 0 ? (field->count + 1) * field->width : 0;
    return take_buffer(b, bytes, &field->offsets, err);
}

/* No type that is worth a column has more than 8 rows in a byte; columns of
 * nulls alone have no bytes at all.
 */
static uint64_t most_rows(const struct batch *b)
{
    return 8 * (b->bytes + b->unpacked_room) + 64;
}

static int take_fields(struct batch *b, size_t f, uint64_t least,
                       struct dt_error *err);

/* The buffers behind those that tell which values are there. */
static int take_data(struct batch *b, size_t f, struct dt_error *err)
{
    struct dt_arrow_field *field = &b->arrow->fields[f];
    struct dt_arrow_field *child = field + 1;
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

/* Takes field f, of at least `least` rows, and all below it. */
static int take_fields(struct batch *b, size_t f, uint64_t least,
                       struct dt_error *err)
{
    struct dt_arrow_field *field = &b->arrow->fields[f];
    const size_t i = b->node++;
    if (i >= b->nodes.count)
        return dt_arrow_bad(b->arrow, "columns are missing", err);
    field->count = (uint64_t)dt_flat_item_number(b->nodes, i, 16, 0);
    field->nulls = (uint64_t)dt_flat_item_number(b->nodes, i, 16, 8);
    if (field->count < least || field->count > most_rows(b))
        return dt_arrow_bad(b->arrow, "a column has too few or too many rows",
                            err);
    const uint64_t bits = field->nulls > 0 ? (field->count + 7) / 8 : 0;
    if (field->kind != ARROW_NULL &&
        take_buffer(b, bits, &field->valid, err) < 0)
        return -1;
    return take_data(b, f, err);
}

int dt_arrow_open_batch(struct dt_arrow *arrow, struct dt_flat_table batch,
                        const uint8_t *body, size_t bytes, uint8_t **unpacked,
                        struct dt_error *err)
{
    struct dt_arrow_field *root = &arrow->fields[0];
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
            return dt_arrow_bad(arrow, "a batch of more than 1 GiB", err);
    }
    root->count = (uint64_t)dt_flat_number(batch, 0, 8, 0);
    root->nulls = 0;
    if (root->count > most_rows(&b))
        return dt_arrow_bad(arrow, "a batch of too many rows", err);
    return take_data(&b, 0, err);
}

/* --- rows --- */

static double float_at(const struct dt_arrow_field *field, uint64_t i)
{
    const uint64_t bits =
        little(field->data.at + i * field->width, field->width);
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

static int64_t integer_at(const struct dt_arrow_field *field, uint64_t i)
{
    const size_t shift = 64 - 8 * field->width;
    uint64_t bits = little(field->data.at + i * field->width, field->width);
    return (int64_t)(bits << shift) >> shift;
}

static void put_text(const struct dt_arrow_field *field, uint64_t i,
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

static bool bit_at(const uint8_t *bits, uint64_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

static int put_items(const struct dt_arrow *arrow, size_t f, uint64_t begin,
                     uint64_t end, struct dt_line_out *out,
                     struct dt_error *err)
{
    dt_line_out_put(out, "[", 1);
    for (uint64_t i = begin; i < end; i++) {
        dt_line_out_put(out, ",", i > begin);
        if (dt_arrow_put(arrow, f + 1, i, out, err) < 0)
            return -1;
    }
    dt_line_out_put(out, "]", 1);
    return 0;
}

static int put_struct(const struct dt_arrow *arrow, size_t f, uint64_t i,
                      struct dt_line_out *out, struct dt_error *err)
{
    const struct dt_arrow_field *fields = arrow->fields;
    dt_line_out_put(out, "{", 1);
    for (size_t c = f + 1; c < fields[f].next; c = fields[c].next) {
        dt_row_json_name(out, fields[c].name, fields[c].name_bytes, c == f + 1);
        if (dt_arrow_put(arrow, c, i, out, err) < 0)
            return -1;
    }
    dt_line_out_put(out, "}", 1);
    return 0;
}

int dt_arrow_put(const struct dt_arrow *arrow, size_t f, uint64_t i,
                 struct dt_line_out *out, struct dt_error *err)
{
    const struct dt_arrow_field *field = &arrow->fields[f];
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
            out, little(field->data.at + i * field->width, field->width));
        break;
    case ARROW_FLOAT:
        dt_row_json_double(out, float_at(field, i));
        break;
    case ARROW_TEXT:
    case ARROW_JSON:
        put_text(field, i, out);
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
        dt_row_json_other(out, "a column of dates, bytes or decimals");
    }
    return dt_line_out_check(out, err);
}
