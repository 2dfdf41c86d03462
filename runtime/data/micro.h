/* SPDX-License-Identifier: Apache-2.0 */
/* micro.h - divides the samples of a step into micro-batches of few tokens */
#ifndef DT_DATA_MICRO_H
#define DT_DATA_MICRO_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/loader_options.h"

/* The steps of all ranks, from some place of the stream of samples on. */
struct dt_micro {
    /* what the caller sets: */
    const struct dt_loader_options *opt;           /* with a limit of tokens */
    size_t (*length)(const void *ctx, uint64_t p); /* 0: no sample p */
    const void *ctx;

    /* the current step: */
    uint64_t p;    /* its first sample */
    size_t count;  /* batches, on every rank */
    size_t *begin; /* batch i has this rank's samples begin[i] .. begin[i + 1] -
                      1 of the step */
};

/* -1: EX_OSERR. `p` is the first sample of the first step. */
int dt_micro_init(struct dt_micro *m, uint64_t p, struct dt_error *err);
void dt_micro_fini(struct dt_micro *m); /* a zeroed one is fine */

/* Goes on to the step that begins with sample p. */
void dt_micro_step(struct dt_micro *m, uint64_t p);

/* The number in the stream of a rank's sample i of the step that begins with
 * sample p.
 */
uint64_t dt_micro_sample(const struct dt_loader_options *opt, int rank,
                         uint64_t p, size_t i);

#endif /* DT_DATA_MICRO_H */
