/* SPDX-License-Identifier: Apache-2.0 */
/* weights_export.h - writes a checkpoint as a Hugging Face directory */
#ifndef DT_WEIGHTS_WEIGHTS_EXPORT_H
#define DT_WEIGHTS_WEIGHTS_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tensor/tensor.h"

struct dt_export {
    const char *from; /* a checkpoint, a run.output_dir (for its newest one), or
                         any Hugging Face directory with weights */
    const char *to;
    bool same_dtype;     /* use the dtype of `from`, and set `dtype` to it */
    enum dt_dtype dtype; /* F32, BF16 or F16 */
    size_t max_shard_bytes;
    bool merge;     /* `from` is an adapter: writes the model beside it, with
                       its weights */
    bool overwrite; /* replace `to` if it is a model directory */

    char found[PATH_MAX]; /* set to the checkpoint that was read */
    char base[PATH_MAX];  /* set to that of the model: the same, unless it is an
                             adapter */
    size_t param_count;   /* set to the number of parameters written */
};

/* Writes the weights, config.json and the other files of the model, but nothing
 * about the training. If a checkpoint also has fp32 weights, those are used.
 * `to` is whole afterwards, or unchanged on failure. -1: EX_NOINPUT, EX_DATAERR
 * (also a damaged checkpoint), EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_export(struct dt_export *export, struct dt_error *err);

#endif /* DT_WEIGHTS_WEIGHTS_EXPORT_H */
