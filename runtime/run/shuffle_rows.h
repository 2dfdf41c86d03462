/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shuffle_rows.h - which completions train together, and on which rank
 *
 * The rows of a generation are shuffled by (seed, generation), and each step
 * has the next ones of that order, whatever the number of ranks. Those of a
 * step are dealt to micro-batches of about equally many tokens, as many on
 * every rank and as few as the limit of tokens allows: the longest row first,
 * each to the micro-batch that has fewest tokens (Graham, "Bounds on
 * multiprocessing timing anomalies", 1969).
 */
#ifndef DT_RUN_SHUFFLE_ROWS_H
#define DT_RUN_SHUFFLE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* order(rows) = the rows of a generation in the order of training. */
void dt_deal_order(size_t *order, size_t rows, uint64_t seed,
                   uint64_t generation);

struct dt_deal {
    size_t count; /* micro-batches, on every rank */
    size_t *bin;  /* (rows) row i is in micro-batch bin / world of rank bin %
                     world */
    size_t rows;
};

/* Deals rows of these lengths, none longer than `limit`. -1: EX_OSERR.
 * dt_deal_fini in any case.
 */
int dt_deal_make(struct dt_deal *deal, const size_t *lengths, size_t rows,
                 size_t limit, int world, struct dt_error *err);
void dt_deal_fini(struct dt_deal *deal); /* frees and zeroes */

#endif /* DT_RUN_SHUFFLE_ROWS_H */
