/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.c - reads the fields of a protobuf message */
#include "config.h"

#include <string.h>

#include "tokenizer/protobuf.h"

enum { VARINT_BYTES = 10 };

static int refuse_at(const struct dt_pb *pb, const char *what,
                     struct dt_error *err)
{
    return dt_error_set(err, EX_DATAERR, "byte %zu: %s", pb->at, what);
}

static int read_varint(struct dt_pb *pb, uint64_t *value, struct dt_error *err)
{
    *value = 0;
    for (unsigned i = 0; i < VARINT_BYTES && pb->at < pb->bytes; i++) {
        unsigned char byte = pb->data[pb->at++];
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (byte < 0x80)
            return 0;
    }
    return refuse_at(pb, "a number is too long or cut short", err);
}

static int read_fixed(struct dt_pb *pb, size_t bytes, uint64_t *value,
                      struct dt_error *err)
{
    *value = 0;
    if (pb->bytes - pb->at < bytes)
        return refuse_at(pb, "a number is cut short", err);
    for (size_t i = 0; i < bytes; i++)
        *value |= (uint64_t)pb->data[pb->at++] << 8 * i;
    return 0;
}

int dt_pb_next(struct dt_pb *pb, struct dt_pb_field *field,
               struct dt_error *err)
{
    uint64_t key;
    *field = (struct dt_pb_field){0};
    if (pb->at == pb->bytes)
        return 0;
    if (read_varint(pb, &key, err) < 0)
        return -1;
    field->number = key >> 3;
    field->wire = (enum dt_pb_wire)(key & 7);
    switch (field->wire) {
    case DT_PB_VARINT:
        return read_varint(pb, &field->value, err) < 0 ? -1 : 1;
    case DT_PB_FIXED64:
        return read_fixed(pb, 8, &field->value, err) < 0 ? -1 : 1;
    case DT_PB_FIXED32:
        return read_fixed(pb, 4, &field->value, err) < 0 ? -1 : 1;
    case DT_PB_BYTES:
        if (read_varint(pb, &field->value, err) < 0)
            return -1;
        if (field->value > pb->bytes - pb->at)
            return refuse_at(pb, "a field is longer than its message", err);
        field->sub = (struct dt_pb){pb->data + pb->at, field->value, 0};
        pb->at += field->value;
        return 1;
    }
    return refuse_at(pb, "expected a field of protobuf", err);
}

int dt_pb_expect(const struct dt_pb_field *field, enum dt_pb_wire wire,
                 struct dt_error *err)
{
    if (field->wire == wire)
        return 0;
    return dt_error_set(err, EX_DATAERR, "field %llu: of another type",
                        (unsigned long long)field->number);
}

float dt_pb_float(const struct dt_pb_field *field)
{
    uint32_t bits = (uint32_t)field->value;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
