/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h - named tensors in files of the safetensors format
 *
 * Files are mapped, believed after a check of every rule of the format, and
 * copied from by several threads at once. A file that becomes shorter while it
 * is mapped, or whose disk fails, is an error of the call that reads it, not a
 * signal. Bytes that change under a mapping are not noticed: that is what the
 * checksums of a checkpoint are for.
 */
#ifndef DT_CKPT_SAFETENSORS_H
#define DT_CKPT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tensor/view.h"

/* A tensor to write, or to read. */
struct dt_ckpt_tensor {
    const char *name;
    int ndim;
    size_t shape[4];
    struct dt_view view;  /* count == product of shape */
    enum dt_dtype stored; /* to write: as the view, or both are floats */
    bool finite; /* to read: NaN and infinity, in floats, are an error */
};

/* Writes a safetensors file (tensors by name within decreasing alignment,
 * header padded to 8, "format": "pt"), synced, and gives its XXH3-64. Floats
 * are converted a piece at a time. -1: EX_CANTCREAT, EX_IOERR with path and
 * cause, and no file is left.
 */
int dt_safetensors_write(const char *path, const struct dt_ckpt_tensor *tensors,
                         size_t count, uint64_t *xxh3, struct dt_error *err);

struct dt_safetensors; /* the tensors of one or more open files */

/* Opens one file and checks its header in full: length and JSON, ranges
 * contiguous without hole or overlap to the end of the file, sizes equal to
 * shape x dtype without overflow, no duplicate names. Up to 8 dimensions.
 * NULL and err: EX_NOINPUT, EX_DATAERR naming file and tensor, EX_IOERR.
 */
struct dt_safetensors *dt_safetensors_open(const char *path,
                                           struct dt_error *err);

/* Opens the files of a model: <dir>/model.safetensors or else those that
 * <dir>/model.safetensors.index.json names, which must lie in `dir` and have
 * between them just the tensors that it says. NULL and err as above, and as
 * dt_foreign_dir.
 */
struct dt_safetensors *dt_safetensors_open_model(const char *dir,
                                                 struct dt_error *err);
void dt_safetensors_close(struct dt_safetensors *st); /* NULL is fine */

/* Tensors in all files, and the name of tensor i < count, sorted by name (valid
 * until close).
 */
size_t dt_safetensors_count(const struct dt_safetensors *st);
const char *dt_safetensors_name(const struct dt_safetensors *st, size_t i);

/* What tensor `name` is stored as. -1: it is missing, or of a type that no view
 * has.
 */
int dt_safetensors_dtype(const struct dt_safetensors *st, const char *name,
                         enum dt_dtype *dtype);

/* Whether tensor `name` can be read into a view of `dtype`: it has this shape,
 * and the dtypes are equal or both of F32, BF16, F16. -1: EX_DATAERR with what
 * it is and what was expected.
 */
int dt_safetensors_check(const struct dt_safetensors *st, const char *name,
                         int ndim, const size_t *shape, enum dt_dtype dtype,
                         struct dt_error *err);

/* Reads tensors by name into their views; floats are converted, rounded to
 * nearest even. All threads read, so one call for many tensors is best. -1:
 * EX_DATAERR as from check, before anything is read, or for a tensor that is
 * not finite and should be; EX_IOERR.
 */
int dt_safetensors_read_all(const struct dt_safetensors *st,
                            const struct dt_ckpt_tensor *tensors, size_t count,
                            struct dt_error *err);

/* The same for one tensor, of up to 4 dimensions. */
int dt_safetensors_read(const struct dt_safetensors *st, const char *name,
                        int ndim, const size_t *shape, struct dt_view view,
                        struct dt_error *err);

/* Whether tensors a and b hold the same bytes with the same shape and dtype: 1
 * or 0. -1: EX_DATAERR, one is missing; EX_IOERR.
 */
int dt_safetensors_equal(const struct dt_safetensors *st, const char *a,
                         const char *b, struct dt_error *err);

#endif /* DT_CKPT_SAFETENSORS_H */
