/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf.h - appends fields of protobuf messages to a growing buffer
 *
 * For event files and traces, whose messages are a few fields each: the caller
 * knows the field numbers of its .proto file. The encoding is
 * https://protobuf.dev/programming-guides/encoding/.
 *
 * Appending returns nothing. A buffer that runs out of memory, or would exceed
 * 1 GiB, keeps its bytes and fails; the caller checks `failed` once for each
 * whole message.
 */
#ifndef DT_REPORT_PROTOBUF_H
#define DT_REPORT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros is an empty buffer. */
struct dt_protobuf {
    uint8_t *data; /* owned */
    size_t bytes, capacity;
    bool failed; /* its bytes are no whole message */
};

/* Releases the memory; the buffer is empty afterwards. */
void dt_protobuf_fini(struct dt_protobuf *buffer);

/* Empties the buffer for the next message and keeps its memory; clears
 * `failed`.
 */
void dt_protobuf_clear(struct dt_protobuf *buffer);

/* Each appends one field, also if the value is 0 or empty. A varint is an
 * unsigned integer, a bool, an enum, or an int32 or int64: cast a negative one
 * to uint64_t, it takes 10 bytes.
 */
void dt_protobuf_varint(struct dt_protobuf *buffer, uint32_t field,
                        uint64_t value);
void dt_protobuf_fixed64(struct dt_protobuf *buffer, uint32_t field,
                         uint64_t value);
void dt_protobuf_fixed32(struct dt_protobuf *buffer, uint32_t field,
                         uint32_t value);
void dt_protobuf_double(struct dt_protobuf *buffer, uint32_t field,
                        double value);
void dt_protobuf_float(struct dt_protobuf *buffer, uint32_t field, float value);
void dt_protobuf_bytes(struct dt_protobuf *buffer, uint32_t field,
                       const void *data, size_t bytes);
void dt_protobuf_string(struct dt_protobuf *buffer, uint32_t field,
                        const char *text);

/* A nested message: its fields are appended between begin and end. begin
 * returns the mark that end takes; nested messages end in reverse order.
 */
size_t dt_protobuf_begin(struct dt_protobuf *buffer, uint32_t field);
void dt_protobuf_end(struct dt_protobuf *buffer, size_t mark);

/* Appends bytes as they are, without a field: framing, or an encoded message.
 */
void dt_protobuf_raw(struct dt_protobuf *buffer, const void *data,
                     size_t bytes);

#endif /* DT_REPORT_PROTOBUF_H */
