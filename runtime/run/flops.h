/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flops.h - operations per token, and the peak of a device
 *
 * Model FLOPs utilization, as in Chowdhery et al., "PaLM", arXiv 2204.02311,
 * appendix B: tokens per second times the work of a token, over the peaks of
 * all devices. A frozen weight has no gradient: 4 in place of 6 operations.
 * Recomputing, reference models and sampling do not count.
 */
#ifndef DT_RUN_FLOPS_H
#define DT_RUN_FLOPS_H

#include "run/spec.h"

/* 6 N of the trained weights, 4 N of frozen ones; N excludes embeddings that
 * are only looked up. Of rows that are one document of T tokens also 12 x heads
 * x head size x T for each layer, where T is at most the window. NaN: the run
 * samples, so that its tokens are not those of its work.
 */
double dt_flops_per_token(const struct dt_spec *spec);

struct dt_peak {
    const char *name; /* prefix of the names of such devices */
    double flops;     /* a second, of dense bf16 or fp16, by data sheet */
};

/* The peak of a device, by its description; NULL: it is not known. */
const struct dt_peak *dt_peak_of(const char *device, enum dt_dtype compute);

#endif /* DT_RUN_FLOPS_H */
