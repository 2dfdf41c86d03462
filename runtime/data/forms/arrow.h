/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrow.h - the columns of an Arrow stream
 *
 * Facts are from Columnar.rst and from Schema.fbs and Message.fbs of Apache
 * Arrow.
 */
#ifndef DT_DATA_FORMS_ARROW_H
#define DT_DATA_FORMS_ARROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/forms/flat.h"
#include "data/forms/line_out.h"

enum dt_arrow_kind {
    ARROW_NULL,
    ARROW_BOOL,
    ARROW_INTEGER,
    ARROW_UNSIGNED,
    ARROW_FLOAT,
    ARROW_TEXT,       /* offsets of `width` bytes, bytes */
    ARROW_JSON,       /* the same: a value of any type, as text */
    ARROW_BYTES,      /* the same, not read */
    ARROW_FIXED,      /* `width` bytes, not read: dates, decimals */
    ARROW_LIST,       /* offsets of `width` bytes, one child */
    ARROW_FIXED_LIST, /* `width` items of one child each */
    ARROW_STRUCT,
};

/* Bytes of a column of the batch that is read. */
struct dt_arrow_buffer {
    const uint8_t *at;
    uint64_t bytes;
};

/* A column, or part of one. They are in depth-first order: the children of
 * field i begin at i + 1, and field `next` is behind all below it.
 */
struct dt_arrow_field {
    char *name;
    size_t name_bytes;
    enum dt_arrow_kind kind;
    size_t width;
    size_t children, next;
    /* in the batch: */
    uint64_t count, nulls;
    struct dt_arrow_buffer valid, offsets, data;
};

struct dt_arrow {
    const char *path;
    struct dt_arrow_field *fields; /* 0 is a struct of all columns */
    size_t count;
};

/* Reads the fields of a Schema. Release with dt_arrow_fini, also after a
 * failure. -1: EX_DATAERR with path and column, a type that is not read;
 * EX_OSERR.
 */
int dt_arrow_init(struct dt_arrow *arrow, const char *path,
                  struct dt_flat_table schema, struct dt_error *err);
void dt_arrow_fini(struct dt_arrow *arrow);

/* Sets the buffers of all fields to those of a RecordBatch with this body,
 * which is changed if buffers are compressed: *unpacked is to be freed. Every
 * place in them is checked. -1: EX_DATAERR, EX_OSERR.
 */
int dt_arrow_open_batch(struct dt_arrow *arrow, struct dt_flat_table batch,
                        const uint8_t *body, size_t bytes, uint8_t **unpacked,
                        struct dt_error *err);

/* Writes row i of field f, which is within it. -1: as dt_line_out_check. */
int dt_arrow_put(const struct dt_arrow *arrow, size_t f, uint64_t i,
                 struct dt_line_out *out, struct dt_error *err);

/* Sets EX_DATAERR "path: not a whole Arrow file: what"; returns -1. */
int dt_arrow_bad(const struct dt_arrow *arrow, const char *what,
                 struct dt_error *err);

#endif /* DT_DATA_FORMS_ARROW_H */
