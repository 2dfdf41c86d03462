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
    size_t tiles;       /* that offloaded state passes through */
    size_t activations; /* and logits */
    size_t batches;     /* made ahead by the loaders */
    size_t reference;   /* weights of a frozen model */
    size_t critic;      /* all of a second model that is trained */
    size_t rewards;     /* weights and activations of reward models */
    /* not on the device: */
    size_t host; /* offloaded to memory of the node; 0 if the device is that */
    size_t nvme; /* offloaded to files */
};

/* sharing.c: how ranks share the run, with weights of type `compute`; and its
 * critic, whose blocks may have another size.
 */
struct dt_parallel_options dt_run_parallel_options(const struct dt_run *run,
                                                   enum dt_dtype compute);
struct dt_parallel_options dt_run_critic_sharing(
    const struct dt_run *run, const struct dt_parallel_options *parallel);

/* sharing.c: whether a second model computes beside the one that is trained,
 * and how ranks share its weights.
 */
bool dt_run_needs_reference(const struct dt_run *run);
struct dt_parallel_options dt_run_reference_options(const struct dt_run *run,
                                                    enum dt_dtype compute);

/* What a run with these options will allocate. */
struct dt_plan dt_plan_make(const struct dt_run *run,
                            const struct dt_model_options *options);

/* On the device; SIZE_MAX if it does not fit into a size_t. */
size_t dt_plan_total(const struct dt_plan *plan);

/* The strategy (enum dt_conf_strategy) that distributed.strategy asks for, with
 * `auto` settled for this rank: the first of ddp, zero1, zero2 and zero3 that
 * fits into the memory, as dt_plan_check counts it, or zero3; or by the number
 * of parameters without distributed.strategy_auto_memory: ddp below 1e9, zero2
 * up to 7e9, else zero3. Offload needs zero1 at least, that of weights zero3.
 * Ranks may differ; the highest fits on all.
 */
int dt_plan_choose(const struct dt_run *run,
                   const struct dt_model_options *options, size_t left,
                   int local_size);

/* The group (ranks, or DT_CONF_GROUP_*) that distributed.shard_group asks for,
 * with `auto` settled for this rank and its strategy: a node, if there are
 * several with equally many ranks and the run then fits; else the world.
 */
long dt_plan_choose_group(const struct dt_run *run,
                          const struct dt_model_options *options, size_t left,
                          int local_size);

/* Spends GPU memory that is left on speed: first activations are saved that
 * would otherwise be recomputed, then the head takes all rows at once. Not in a
 * deterministic run, the bits of which must not depend on how much memory
 * happens to be free.
 */
void dt_plan_spend(const struct dt_run *run, struct dt_model_options *options,
                   size_t left);

/* What of `left` bytes would fit, as text, separated by "; or ": strategies
 * that share more, gradient checkpointing, smaller batches, fewer ranks on a
 * node.
 */
void dt_plan_offer(const struct dt_run *run,
                   const struct dt_model_options *options, size_t left,
                   int local_size, char *text, size_t bytes);

/* Logs the plan (rank 0) and compares it with the device's `left` free bytes; a
 * node's memory is divided among its `local_size` ranks. -1: EX_CONFIG with the
 * numbers and the settings that would fit.
 */
int dt_plan_check(const struct dt_run *run,
                  const struct dt_model_options *options, size_t left,
                  int local_size, struct dt_error *err);

#endif /* DT_ALGO_PLAN_H */
