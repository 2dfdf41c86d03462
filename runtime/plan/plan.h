/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the memory of a rank, planned before it is allocated */
#ifndef DT_PLAN_PLAN_H
#define DT_PLAN_PLAN_H

#include "run/run.h"

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

/* What a run with these options will allocate. */
struct dt_plan dt_plan_make(const struct dt_run *run,
                            const struct dt_model_options *options);

/* On the device; SIZE_MAX if it does not fit into a size_t. */
size_t dt_plan_total(const struct dt_plan *plan);

/* The bytes of `left` that a rank may use: on a host the ranks of a node share
 * them. SIZE_MAX is no amount: it is not known.
 */
size_t dt_plan_rank_share(const struct dt_run *run, size_t left,
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

/* The model of model.path, model.config_path, or the inline keys of the model
 * section. -1: EX_CONFIG, or config.json cannot be read or is wrong.
 * dt_model_config_fini in any case.
 */
int dt_run_model_config(const struct dt_conf *conf,
                        struct dt_model_config *config, struct dt_error *err);

/* What the configuration says for run->world ranks: the batch, the model and
 * its layout, and the options of the model before it is known how much memory
 * there is. Needs conf, world and the device. -1: EX_CONFIG, or config.json
 * cannot be read or is wrong.
 */
int dt_run_resolve(struct dt_run *run, struct dt_model_options *options,
                   struct dt_error *err);

/* The bytes of memory to plan with, which all ranks ask for together: on GPUs
 * those of the rank that has the least, once NCCL is connected and has taken
 * its own; on CPUs those of this node.
 */
int dt_run_least_memory(const struct dt_run *run, size_t *left,
                        struct dt_error *err);

/* The same, less what NCCL still takes in a run of this configuration, which is
 * resolved.
 */
size_t dt_run_plannable(const struct dt_run *run, size_t left);

#endif /* DT_PLAN_PLAN_H */
