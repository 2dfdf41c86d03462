/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thrift.h - reads structures of Thrift's compact protocol
 *
 * As in thrift-compact-protocol.md of Apache Thrift. A reader that has met a
 * mistake gives zeros and ends every loop; look at `bad` once.
 */
#ifndef DT_DATA_FORMS_THRIFT_H
#define DT_DATA_FORMS_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_thrift_type {
    THRIFT_STOP,
    THRIFT_TRUE,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT,
};

struct dt_thrift {
    const uint8_t *at, *end;
    bool bad;
};

/* A field of a structure; zeroed before the first. */
struct dt_thrift_field {
    int id;
    enum dt_thrift_type type;
};

/* Reads what comes before the next field. False: the structure has ended. */
bool dt_thrift_next(struct dt_thrift *t, struct dt_thrift_field *field);

/* Passes the value of a field. */
void dt_thrift_skip(struct dt_thrift *t, enum dt_thrift_type type);

/* The value of a field of type I16, I32 or I64; of another type: it is bad. */
int64_t dt_thrift_integer(struct dt_thrift *t,
                          const struct dt_thrift_field *field);

/* An unsigned number of up to 64 bits, 7 in a byte. */
uint64_t dt_thrift_varint(struct dt_thrift *t);

/* The bytes of a binary field. */
const char *dt_thrift_binary(struct dt_thrift *t,
                             const struct dt_thrift_field *field,
                             size_t *bytes);

/* The number of items of a list field with items of `type`; they follow. It is
 * at most as large as the bytes that are left.
 */
size_t dt_thrift_list(struct dt_thrift *t, const struct dt_thrift_field *field,
                      enum dt_thrift_type type);

#endif /* DT_DATA_FORMS_THRIFT_H */
