/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf.h - writes files of the format GGUF, version 3, which llama.cpp reads
 *
 * Facts are from gguf.md and ggml-common.h of ggml: values by name, then the
 * shapes and places of tensors, then their data, each at a multiple of 32
 * bytes. Shapes are written with the innermost dimension first.
 */
#ifndef DT_WEIGHTS_GGUF_H
#define DT_WEIGHTS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Types of tensors, in ggml's numbers. */
enum dt_gguf_type {
    DT_GGUF_F32 = 0,
    DT_GGUF_F16 = 1,
    DT_GGUF_Q8_0 = 8, /* 32 numbers: an F16 scale, 32 signed bytes */
    DT_GGUF_BF16 = 30,
};

/* Bytes of `count` numbers; with Q8_0 a multiple of 32. */
size_t dt_gguf_bytes(enum dt_gguf_type type, size_t count);

/* Converts `count` numbers as ggml's reference does: to(dt_gguf_bytes). */
void dt_gguf_convert(void *to, enum dt_gguf_type type, const float *from,
                     size_t count);

/* A file that is written. A failure is kept until dt_gguf_close. */
struct dt_gguf {
    char *path, *temporary;
    FILE *file;
    char *values; /* what comes behind the head, in memory */
    size_t bytes;
    FILE *memory;
    uint64_t value_count, tensor_count;
    uint64_t data_bytes; /* of the tensors announced so far */
    bool failed;
};

/* Begins a file beside `path`. -1: EX_CANTCREAT, EX_OSERR. */
int dt_gguf_open(struct dt_gguf *gguf, const char *path, struct dt_error *err);

/* Values. Strings are not NUL-terminated in the file. */
void dt_gguf_put_u32(struct dt_gguf *gguf, const char *key, uint32_t value);
void dt_gguf_put_f32(struct dt_gguf *gguf, const char *key, float value);
void dt_gguf_put_bool(struct dt_gguf *gguf, const char *key, bool value);
void dt_gguf_put_string(struct dt_gguf *gguf, const char *key,
                        const char *value);
void dt_gguf_put_strings(struct dt_gguf *gguf, const char *key,
                         const char *const *values, size_t count);
void dt_gguf_put_integers(struct dt_gguf *gguf, const char *key,
                          const int32_t *values, size_t count);

/* Announces a tensor; all values come before. */
void dt_gguf_add_tensor(struct dt_gguf *gguf, const char *name,
                        enum dt_gguf_type type, int ndim, const size_t *shape);

/* Ends what is announced; the data follow in the same order, each with one
 * call.
 */
void dt_gguf_begin_data(struct dt_gguf *gguf);
void dt_gguf_put_data(struct dt_gguf *gguf, const void *data, size_t bytes);

/* Syncs the file and gives it its name, or removes it: if `rc` < 0, after a
 * failure elsewhere. -1: EX_IOERR, or rc.
 */
int dt_gguf_close(struct dt_gguf *gguf, int rc, struct dt_error *err);

#endif /* DT_WEIGHTS_GGUF_H */
