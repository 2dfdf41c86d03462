/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the memory of a rank, planned before it is allocated */
#ifndef DT_ALGO_PLAN_H
#define DT_ALGO_PLAN_H

#include "algo/run.h"

/* Bytes of one rank. */
struct dt_plan {
    size_t weights; /* in the compute type */
    size_t master;  /* fp32 weights beside them */
    size_t gradients;
    size_t optimizer;   /* m and v */
    size_t activations; /* and logits */
    size_t batches;     /* made ahead by the loaders */
};

/* How ranks share the run, with weights of type `compute`. */
struct dt_parallel_options dt_run_parallel_options(const struct dt_run *run,
                                                   enum dt_dtype compute);

/* What a run with these options will allocate. */
struct dt_plan dt_plan_make(const struct dt_run *run,
                            const struct dt_model_options *options);

/* SIZE_MAX if it does not fit into a size_t. */
size_t dt_plan_total(const struct dt_plan *plan);

/* Logs the plan (rank 0) and compares it with the device's `left` free bytes; a
 * node's memory is divided among its `local_size` ranks. -1: EX_CONFIG with the
 * numbers and the settings that would fit.
 */
int dt_plan_check(const struct dt_run *run,
                  const struct dt_model_options *options, size_t left,
                  int local_size, struct dt_error *err);

#endif /* DT_ALGO_PLAN_H */
