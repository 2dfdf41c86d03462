/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf.h - reads the fields of a protobuf message */
#ifndef DT_TOKENIZER_PROTOBUF_H
#define DT_TOKENIZER_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* A message that is read from its start. The data stay the caller's. */
struct dt_pb {
    const unsigned char *data;
    size_t bytes, at;
};

enum dt_pb_wire {
    DT_PB_VARINT = 0,
    DT_PB_FIXED64 = 1,
    DT_PB_BYTES = 2, /* bytes, texts, messages */
    DT_PB_FIXED32 = 5,
};

struct dt_pb_field {
    uint64_t number;
    enum dt_pb_wire wire;
    uint64_t value;   /* of a number; FIXED: its bits */
    struct dt_pb sub; /* of BYTES */
};

/* Reads the next field. Returns 1, or 0 at the end. -1: EX_DATAERR, with the
 * offset in the message.
 */
int dt_pb_next(struct dt_pb *pb, struct dt_pb_field *field,
               struct dt_error *err);

/* Checks the kind of a field. -1: EX_DATAERR. */
int dt_pb_expect(const struct dt_pb_field *field, enum dt_pb_wire wire,
                 struct dt_error *err);

/* The float of a FIXED32 field. */
float dt_pb_float(const struct dt_pb_field *field);

#endif /* DT_TOKENIZER_PROTOBUF_H */
