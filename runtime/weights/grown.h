/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grown.h - rows of an embedding or a head that no file has yet
 *
 * They are the mean of the rows that there are, in which a new token has no
 * preference of its own. transformers draws them from a normal distribution
 * with this mean and 1e-9 times the covariance of the rows: about 3e-5 of their
 * deviation, which is left out here, so that every rank has the same bits.
 */
#ifndef DT_WEIGHTS_GROWN_H
#define DT_WEIGHTS_GROWN_H

#include "base/error.h"
#include "ckpt/safetensors.h"
#include "tensor/layout.h"

enum { DT_GROWN_MAX = 2 }; /* the embedding, and a head of its own */

struct dt_grown {
    size_t param; /* of the layout */
    float *mean;  /* of a row, once it is known; freed by the owner */
};

/* The one of parameter i, or NULL. */
const struct dt_grown *dt_grown_find(const struct dt_grown *grown, size_t count,
                                     size_t i);

/* What of `part`, elements of the parameter, files have. */
struct dt_range dt_grown_stored(const struct dt_grown *grown,
                                const struct dt_layout *layout,
                                struct dt_range part);

/* Writes the new rows that are in `range` of the flat buffer to `to`, the view
 * of that range. -1: as dt_safetensors_read_all, EX_OSERR.
 */
int dt_grown_fill(struct dt_grown *grown, const struct dt_safetensors *st,
                  const char *source, const struct dt_layout *layout,
                  struct dt_range range, struct dt_view to,
                  struct dt_error *err);

#endif /* DT_WEIGHTS_GROWN_H */
