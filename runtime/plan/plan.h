/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - the memory of a rank, planned before it is allocated */
#ifndef DT_PLAN_PLAN_H
#define DT_PLAN_PLAN_H

#include "run/spec.h"

/* Bytes of one rank. */
struct dt_plan {
    size_t weights; /* in the compute type */
    size_t master;  /* fp32 weights in addition */
    size_t gradients;
    size_t optimizer;   /* m and v */
    size_t tiles;       /* buffers for offloaded state on its way */
    size_t activations; /* and logits */
    size_t batches;     /* prefetched by the loaders */
    size_t reference;   /* weights of a frozen model */
    size_t critic;      /* everything of a second trained model */
    size_t rewards;     /* weights and activations of reward models */
    /* not on the device: */
    size_t host; /* offloaded to memory of the node; 0 if the device is that */
    size_t nvme; /* offloaded to files */
    /* Copies of what is saved, in host memory, and not in the total: without
     * room for them a run waits for its saves.
     */
    size_t saves;
    /* Two copies of the state in host memory, for ranks that are started again;
     * not in the total: without room for them these go on from a checkpoint.
     */
    size_t copies;
};

/* Bytes that a run with these options will allocate. */
struct dt_plan dt_plan_make(const struct dt_spec *spec,
                            const struct dt_model_options *options);

/* Gives micro-batches another size, and pictures in proportion. */
void dt_plan_resize(struct dt_model_options *options, size_t B, size_t T);

/* Total bytes on the device; SIZE_MAX if they do not fit into a size_t. */
size_t dt_plan_total(const struct dt_plan *plan);

/* Bytes of `left` that a rank may use: on a host the ranks of a node share
 * them. SIZE_MAX means unknown.
 */
size_t dt_plan_rank_share(const struct dt_spec *spec, size_t left,
                          int local_size);

/* Spends remaining GPU memory on speed: first, activations are saved that would
 * otherwise be recomputed, then the head takes all rows at once. Not in a
 * deterministic run, whose bits must not depend on how much memory happens to
 * be free.
 */
void dt_plan_spend(const struct dt_spec *spec, struct dt_model_options *options,
                   size_t left);

/* Settings that would fit into `left` bytes, as text, separated by "; or ":
 * strategies that share more, gradient checkpointing, smaller batches, fewer
 * ranks on a node.
 */
void dt_plan_offer(const struct dt_spec *spec,
                   const struct dt_model_options *options, size_t left,
                   int local_size, char *text, size_t bytes);

/* Whether the run waits for its saves only because the optimizer's state is on
 * a drive.
 */
bool dt_plan_drive_holds_up(const struct dt_spec *spec, enum dt_dtype compute);

/* Bytes of the files of `rank` in a checkpoint, of which a copy is kept while
 * they are written; 0 if the run waits for its saves.
 */
size_t dt_plan_stage_bytes(const struct dt_spec *spec, enum dt_dtype compute,
                           int rank);

/* Bytes of a rank's copies of the run (train/resume/copies.h); and whether a
 * run of this configuration makes any, where srun starts it.
 */
size_t dt_plan_copies_bytes(const struct dt_spec *spec, enum dt_dtype compute);
bool dt_plan_copies(const struct dt_spec *spec);

/* Bytes of host memory that a rank has beside a run with these options, which
 * has allocated its own; `left` bytes of the device were free before. SIZE_MAX
 * means unknown.
 */
size_t dt_plan_spare(const struct dt_spec *spec,
                     const struct dt_model_options *options, size_t left,
                     int local_size);

/* Logs the plan (rank 0) and checks it against the device's `left` free bytes.
 * A node's memory is divided among its `local_size` ranks. -1: EX_CONFIG with
 * the numbers and the settings that would fit.
 */
int dt_plan_check(const struct dt_spec *spec,
                  const struct dt_model_options *options, size_t left,
                  int local_size, struct dt_error *err);

/* Where the configuration names the output directory of a run as a model, puts
 * its newest checkpoint in the place; a line of the log for each if it `says`
 * so.
 */
void dt_models_find(struct dt_conf *conf, bool says);

/* Loads the config of model.path or model.config_path, or makes it from the
 * inline keys of the model section. -1: EX_CONFIG, or config.json cannot be
 * read or is wrong. dt_model_config_fini in any case.
 */
int dt_run_model_config(const struct dt_conf *conf,
                        struct dt_model_config *config, struct dt_error *err);

/* Resolves the configuration for spec->world ranks: the batch, the model and
 * its layout, and the options of the model before the amount of memory is
 * known. Needs conf, world and the device. -1: EX_CONFIG, or config.json cannot
 * be read or is wrong.
 */
int dt_plan_resolve(struct dt_spec *spec, struct dt_model_options *options,
                    struct dt_error *err);

/* Bytes of memory to plan with; all ranks call it together. On GPUs those of
 * the rank that has the least, once NCCL is connected and has taken its own; on
 * CPUs those of this node.
 */
int dt_plan_least_memory(const struct dt_spec *spec, struct dt_comm *comm,
                         size_t *left, struct dt_error *err);

/* The same, less the bytes that NCCL will still take in a run of this
 * configuration, which is resolved.
 */
size_t dt_plan_plannable(const struct dt_spec *spec, size_t left);

#endif /* DT_PLAN_PLAN_H */
