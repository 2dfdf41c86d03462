/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf_reader.h - reads the fields of a protobuf message, for tests */
#ifndef DT_TESTS_PROTOBUF_READER_H
#define DT_TESTS_PROTOBUF_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct proto_field {
    uint32_t number, type;
    uint64_t value;      /* of types 0, 1, 5 */
    const uint8_t *data; /* of type 2 */
    size_t bytes;
};

struct proto {
    const uint8_t *at, *end;
};

static inline bool proto_varint(struct proto *in, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; in->at < in->end && shift < 70; shift += 7) {
        uint8_t byte = *in->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static inline uint64_t proto_fixed(const uint8_t *at, size_t count)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* The next field; false at the end, or where the message is malformed: then
 * in->at is not in->end.
 */
static inline bool proto_next(struct proto *in, struct proto_field *field)
{
    uint64_t tag;
    const struct proto before = *in;
    memset(field, 0, sizeof(*field));
    if (in->at == in->end || !proto_varint(in, &tag))
        return false;
    field->number = (uint32_t)(tag >> 3);
    field->type = tag & 7;
    if (field->type == 0 && proto_varint(in, &field->value))
        return true;
    size_t left = (size_t)(in->end - in->at), bytes = 0;
    if (field->type == 1 || field->type == 5)
        bytes = field->type == 1 ? 8 : 4;
    else if (field->type == 2 && proto_varint(in, &field->value)) {
        bytes = (size_t)field->value;
        left = (size_t)(in->end - in->at);
    } else
        bytes = SIZE_MAX;
    if (bytes > left) {
        *in = before;
        return false;
    }
    field->data = in->at;
    field->bytes = bytes;
    if (field->type != 2)
        field->value = proto_fixed(in->at, bytes);
    in->at += bytes;
    return true;
}

/* The first field of this number; its `number` is 0 if there is none. */
static inline struct proto_field proto_find(const uint8_t *data, size_t bytes,
                                            uint32_t number)
{
    struct proto in = {data, data + bytes};
    struct proto_field field;
    while (proto_next(&in, &field))
        if (field.number == number)
            return field;
    return (struct proto_field){0};
}

static inline struct proto_field proto_within(struct proto_field message,
                                              uint32_t number)
{
    return proto_find(message.data, message.bytes, number);
}

static inline bool proto_is(struct proto_field field, const char *text)
{
    return field.type == 2 && field.bytes == strlen(text) &&
           !memcmp(field.data, text, field.bytes);
}

static inline double proto_double(struct proto_field field)
{
    double value;
    memcpy(&value, &field.value, sizeof(value));
    return value;
}

static inline float proto_float(struct proto_field field)
{
    uint32_t bits = (uint32_t)field.value;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#endif /* DT_TESTS_PROTOBUF_READER_H */
