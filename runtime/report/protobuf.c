/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.c - encodes fields, and gives nested messages their length */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "report/protobuf.h"

/* How a field is encoded: the low 3 bits of its tag. */
enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

enum {
    FIRST_CAPACITY = 512,
    MESSAGE_BYTES_MAX = 1 << 30, /* decoders refuse 2 GiB */
    VARINT_BYTES_MAX = 10,
};

void dt_protobuf_fini(struct dt_protobuf *buffer)
{
    free(buffer->data);
    *buffer = (struct dt_protobuf){0};
}

void dt_protobuf_clear(struct dt_protobuf *buffer)
{
    buffer->bytes = 0;
    buffer->failed = false;
}

/* Makes room for `more` bytes. False: the buffer has failed. */
static bool reserve(struct dt_protobuf *buffer, size_t more)
{
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
    if (buffer->failed || more <= buffer->capacity - buffer->bytes)
        return !buffer->failed;
    while (capacity - buffer->bytes < more && capacity < MESSAGE_BYTES_MAX)
        capacity *= 2;
    uint8_t *data = capacity - buffer->bytes >= more
                        ? realloc(buffer->data, capacity)
                        : NULL;
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void dt_protobuf_raw(struct dt_protobuf *buffer, const void *data, size_t bytes)
{
    if (bytes == 0 || !reserve(buffer, bytes))
        return;
    memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
}

/* Encodes 7 bits a byte, the lowest first; returns the number of bytes. */
static size_t encode_varint(uint8_t out[VARINT_BYTES_MAX], uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static void put_varint(struct dt_protobuf *buffer, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    dt_protobuf_raw(buffer, bytes, encode_varint(bytes, value));
}

static void put_tag(struct dt_protobuf *buffer, uint32_t field,
                    enum wire_type type)
{
    put_varint(buffer, (uint64_t)field << 3 | type);
}

/* Appends the lowest `count` bytes of value, little-endian. */
static void put_fixed(struct dt_protobuf *buffer, uint64_t value, size_t count)
{
    uint8_t bytes[sizeof(value)];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    dt_protobuf_raw(buffer, bytes, count);
}

void dt_protobuf_varint(struct dt_protobuf *buffer, uint32_t field,
                        uint64_t value)
{
    put_tag(buffer, field, WIRE_VARINT);
    put_varint(buffer, value);
}

void dt_protobuf_fixed64(struct dt_protobuf *buffer, uint32_t field,
                         uint64_t value)
{
    put_tag(buffer, field, WIRE_FIXED64);
    put_fixed(buffer, value, sizeof(value));
}

void dt_protobuf_fixed32(struct dt_protobuf *buffer, uint32_t field,
                         uint32_t value)
{
    put_tag(buffer, field, WIRE_FIXED32);
    put_fixed(buffer, value, sizeof(value));
}

void dt_protobuf_double(struct dt_protobuf *buffer, uint32_t field,
                        double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    dt_protobuf_fixed64(buffer, field, bits);
}

void dt_protobuf_float(struct dt_protobuf *buffer, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    dt_protobuf_fixed32(buffer, field, bits);
}

void dt_protobuf_bytes(struct dt_protobuf *buffer, uint32_t field,
                       const void *data, size_t bytes)
{
    put_tag(buffer, field, WIRE_BYTES);
    put_varint(buffer, bytes);
    dt_protobuf_raw(buffer, data, bytes);
}

void dt_protobuf_string(struct dt_protobuf *buffer, uint32_t field,
                        const char *text)
{
    dt_protobuf_bytes(buffer, field, text, strlen(text));
}

size_t dt_protobuf_begin(struct dt_protobuf *buffer, uint32_t field)
{
    put_tag(buffer, field, WIRE_BYTES);
    return buffer->bytes;
}

/* The length stands before the fields and is as short as it can be, so that
 * the bytes are those of other encoders: the fields move by its size.
 */
void dt_protobuf_end(struct dt_protobuf *buffer, size_t mark)
{
    uint8_t length[VARINT_BYTES_MAX];
    if (buffer->failed)
        return;
    const size_t fields = buffer->bytes - mark;
    const size_t count = encode_varint(length, fields);
    if (!reserve(buffer, count))
        return;
    memmove(buffer->data + mark + count, buffer->data + mark, fields);
    memcpy(buffer->data + mark, length, count);
    buffer->bytes += count;
}
