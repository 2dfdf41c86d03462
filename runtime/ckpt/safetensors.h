/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h - named tensors in files of the safetensors format
 *
 * Files are mapped, checked against every rule of the format before they are
 * used, and read by several threads at once. If a file is truncated while it is
 * mapped, or its disk fails, the call that reads it returns an error instead of
 * raising a signal. Bytes that change under the mapping go unnoticed; use the
 * checksums of a checkpoint to detect that.
 */
#ifndef DT_CKPT_SAFETENSORS_H
#define DT_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/ckpt.h"

/* Writes and syncs a safetensors file and returns its XXH3-64. Tensors are
 * sorted by decreasing element size, then by name; the header is padded to 8
 * bytes and says "format": "pt". Floats are converted a piece at a time. With
 * `source` (NULL: the views are in host memory) each tensor is fetched just
 * before it is written; and all are, even if writing fails, because ranks may
 * have to fetch together. -1: EX_CANTCREAT, EX_IOERR with path and cause, or
 * those of fetch; no file is left.
 */
int dt_safetensors_write(const char *path, const struct dt_ckpt_tensor *tensors,
                         size_t count, const struct dt_ckpt_source *source,
                         uint64_t *xxh3, struct dt_error *err);

/* Fetches tensors that another rank writes, in the same order. */
int dt_safetensors_fetch(const struct dt_ckpt_tensor *tensors, size_t count,
                         const struct dt_ckpt_source *source,
                         struct dt_error *err);

struct dt_safetensors; /* the tensors of one or more open files */

/* Opens one file and checks its whole header: its length and JSON are valid,
 * the ranges cover the file to its end without gap or overlap, each size equals
 * shape x dtype without overflow, and no name occurs twice. Up to 8 dimensions.
 * NULL and err: EX_NOINPUT, EX_DATAERR naming file and tensor, EX_IOERR.
 */
struct dt_safetensors *dt_safetensors_open(const char *path,
                                           struct dt_error *err);

/* Opens the files of a model: <dir>/model.safetensors, or else the shards that
 * <dir>/model.safetensors.index.json lists. The shards must be in `dir` and
 * hold exactly the tensors of the index. NULL and err: as dt_safetensors_open
 * and dt_foreign_weights.
 */
struct dt_safetensors *dt_safetensors_open_model(const char *dir,
                                                 struct dt_error *err);

/* Opens the files <dir>/<names[i]> as one set, in which no name of a tensor
 * occurs twice. NULL and err: as dt_safetensors_open.
 */
struct dt_safetensors *dt_safetensors_open_set(const char *dir,
                                               char *const *names, size_t count,
                                               struct dt_error *err);
void dt_safetensors_close(struct dt_safetensors *st); /* NULL is fine */

/* The number of tensors in all files, and the name of tensor i < count in the
 * order of names (valid until close).
 */
size_t dt_safetensors_count(const struct dt_safetensors *st);
const char *dt_safetensors_name(const struct dt_safetensors *st, size_t i);

/* The dtype in which tensor `name` is stored. -1: it is missing, or its type is
 * not an enum dt_dtype.
 */
int dt_safetensors_dtype(const struct dt_safetensors *st, const char *name,
                         enum dt_dtype *dtype);

/* Sets the name, the shape and `stored` of *tensor to those of tensor `name`,
 * whose string it shares, and the count and the dtype of its view. -1:
 * EX_DATAERR, it is missing, or of a type or a number of dimensions that is not
 * supported.
 */
int dt_safetensors_describe(const struct dt_safetensors *st, const char *name,
                            struct dt_ckpt_tensor *tensor,
                            struct dt_error *err);

/* Checks that tensor `name` can be read into a view of `dtype`: it has this
 * shape, and the dtypes are equal or both are floats (F32, BF16, F16, and F64
 * in the file). -1: EX_DATAERR with the values found and expected.
 */
int dt_safetensors_check(const struct dt_safetensors *st, const char *name,
                         int ndim, const size_t *shape, enum dt_dtype dtype,
                         struct dt_error *err);

/* Reads tensors by name into their views; floats are converted, rounding to
 * nearest even. All threads read, so one call for many tensors is fastest. -1:
 * EX_DATAERR as dt_safetensors_check, before anything is read, or if a tensor
 * marked `finite` is not; EX_IOERR.
 */
int dt_safetensors_read_all(const struct dt_safetensors *st,
                            const struct dt_ckpt_tensor *tensors, size_t count,
                            struct dt_error *err);

/* Whether tensors a and b hold the same bytes with the same shape and dtype: 1
 * or 0. -1: EX_DATAERR, one is missing; EX_IOERR.
 */
int dt_safetensors_equal(const struct dt_safetensors *st, const char *a,
                         const char *b, struct dt_error *err);

#endif /* DT_CKPT_SAFETENSORS_H */
