/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the weights of a model from a directory */
#ifndef DT_ALGO_WEIGHTS_H
#define DT_ALGO_WEIGHTS_H

#include "base/error.h"
#include "tensor/layout.h"

/* Reads <dir>/model.safetensors into the flat buffer `weights`. Names may lack
 * their `transformer.` prefix, as in the files of the hub; attention masks are
 * skipped, and so is a head that equals the embedding it is tied to. -1:
 * EX_NOINPUT, EX_IOERR, or EX_DATAERR with every tensor that is missing,
 * unexpected or of another shape by name.
 */
int dt_weights_load(const char *dir, const struct dt_layout *layout,
                    struct dt_view weights, struct dt_error *err);

#endif /* DT_ALGO_WEIGHTS_H */
