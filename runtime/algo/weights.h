/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the weights of a model from a directory */
#ifndef DT_ALGO_WEIGHTS_H
#define DT_ALGO_WEIGHTS_H

#include "base/error.h"
#include "tensor/layout.h"

/* Reads the model in `dir` (dt_safetensors_open_model) into the flat buffer
 * `weights` of F32, BF16 or F16. The names in the files may lack the prefix of
 * the layout's ("transformer.", "model."); masks and frequencies that old files
 * carry are skipped, and so is a head that the layout has not, if it equals the
 * embedding, the first parameter. -1: EX_NOINPUT, EX_IOERR, or EX_DATAERR with
 * every tensor that is missing, unexpected or of another shape by name; nothing
 * is read then.
 */
int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err);

#endif /* DT_ALGO_WEIGHTS_H */
