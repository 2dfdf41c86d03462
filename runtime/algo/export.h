/* SPDX-License-Identifier: Apache-2.0 */
/* export.h - a checkpoint as a Hugging Face model directory */
#ifndef DT_ALGO_EXPORT_H
#define DT_ALGO_EXPORT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tensor/view.h"

struct dt_export {
    const char *from; /* a checkpoint, or run.output_dir: its newest one; any
                         Hugging Face directory with weights will do */
    const char *to;
    bool same_dtype;     /* as the weights of `from` are stored, or */
    enum dt_dtype dtype; /* F32, BF16 or F16; set to what it was */
    size_t max_shard_bytes;
    bool overwrite; /* `to` may be there if it is a model directory */

    char found[PATH_MAX]; /* set to the checkpoint that was read */
    size_t param_count;   /* set to the numbers written */
};

/* Writes weights, config.json and what else belongs to the model, nothing of
 * the training, from the fp32 weights of a checkpoint that has both. `to` is
 * whole or as it was before. -1: EX_NOINPUT, EX_DATAERR (also a damaged
 * checkpoint), EX_CANTCREAT, EX_IOERR, EX_OSERR.
 */
int dt_export(struct dt_export *export, struct dt_error *err);

#endif /* DT_ALGO_EXPORT_H */
