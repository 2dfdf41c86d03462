/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - a run before anything of it is allocated
 *
 * It follows from a configuration and the ranks alone. Plans and checks need no
 * more, and a run (run.h) begins with it.
 */
#ifndef DT_RUN_SPEC_H
#define DT_RUN_SPEC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "ops/ops.h"
#include "reward/reward.h"
#include "run/algo_table.h"
#include "run/images.h"
#include "run/learner.h"

struct dt_run_data;

/* The nodes of a world; zeroed: one node. */
struct dt_nodes {
    int count;
    int least, most;                 /* ranks of a node */
    int *order;                      /* (world) ranks, node by node; owned */
    int rank_of_least, rank_of_most; /* the first ones there */
};

/* Sizes of the generations of an algorithm that samples completions. */
struct dt_sampling_spec {
    size_t copies;            /* G, completions of a prompt */
    size_t groups;            /* prompts of a generation */
    size_t step_rows;         /* completions of an optimizer step, all ranks */
    size_t parts;             /* optimizer steps that use all of them once */
    size_t uses;              /* and that use them at all */
    bool stores_old;          /* log-probabilities, as weights change */
    size_t patches, pictures; /* of a prompt, at most */
    struct dt_reward_room *reward_rooms; /* of reward models, by the number of
                                            the function in the file; owned */
    size_t reward_bytes;                 /* of reward models, on every rank */
    double reward_operations; /* of these for a completion of full length, */
    double reward_looks;      /* and for the images of a prompt */
};

struct dt_spec {
    struct dt_conf conf; /* a copy with the batch resolved for this world;
                            its strings belong to the caller */
    const struct dt_conf *given; /* the caller's, as it was read */
    const struct dt_algo *algo;
    struct dt_exec exec;
    int rank, world;
    struct dt_nodes nodes; /* of the world */
    char strategy[256];    /* that auto has taken, and why; "": it was given */
    size_t B, T, A; /* rows, positions, micro-batches a step; of pairs, whose
                       sides have up to T tokens, a step has B * A */
    size_t eval_B;  /* rows of an evaluation */
    size_t tokens;  /* the most that a micro-batch of pairs has; 0: of rows */
    struct dt_run_images images;    /* if its model has a tower */
    struct dt_learner_spec learner; /* the model that the algorithm trains */
    struct dt_learner_spec critic;  /* a second one; no layout: none */
    struct dt_sampling_spec sampling;
    char ckpt_root[PATH_MAX - 64]; /* run.output_dir/checkpoints */
};

/* Frees the models and the nodes. */
void dt_spec_fini(struct dt_spec *spec);

/* --- nodes --- */

/* Finds the nodes of a world: ranks of a node have the same host, whatever
 * their numbers are. -1: EX_OSERR. */
int dt_nodes_find(struct dt_nodes *nodes, const struct dt_comm *world,
                  struct dt_error *err);
void dt_nodes_fini(struct dt_nodes *nodes);

/* Whether ranks are on several nodes, equally many and more than one on each:
 * only then do sums in two levels differ from flat ones, and save bytes.
 */
bool dt_nodes_are_even(const struct dt_nodes *nodes);

/* --- steps --- */

/* Lowers the most that options allow of pictures in a batch to what the data
 * have, and notes how many they have on average. Without a tower does nothing.
 * -1: EX_OSERR.
 */
int dt_spec_take_pictures(struct dt_spec *spec, const struct dt_run_data *data,
                          struct dt_model_options *options,
                          struct dt_error *err);

/* The lengths of batches are multiples of this. */
size_t dt_spec_length_step(const struct dt_spec *spec);

/* Samples, or prompts, of an optimizer step. */
double dt_spec_samples_of_step(const struct dt_spec *spec);

/* Steps of a run of data with so many samples; 0 if the steps depend on data of
 * which nothing is known (0 samples).
 */
long dt_spec_count_steps(const struct dt_spec *spec, uint64_t samples);

/* --- models --- */

/* If the configuration has an adapter, makes a learner train it: its layout
 * becomes that of its frozen weights, and it gets the layout of the adapter.
 * -1: EX_CONFIG, or as dt_adapter_load.
 */
int dt_spec_adapter_resolve(const struct dt_spec *spec,
                            struct dt_learner_spec *learner,
                            struct dt_error *err);

/* Checks the adapter of a configuration, if it has one, for a model of this
 * config. -1: EX_CONFIG, EX_DATAERR, EX_NOINPUT.
 */
int dt_adapter_check(const struct dt_conf *conf,
                     const struct dt_model_config *config,
                     struct dt_error *err);

/* The config of the critic of `model`. The caller releases it, also after -1:
 * EX_CONFIG, or config.json cannot be read or is wrong.
 */
int dt_critic_config(const struct dt_conf *conf,
                     const struct dt_model_config *model,
                     struct dt_model_config *critic, struct dt_error *err);

/* The model and layout of the critic, if the algorithm has one. Needs those of
 * spec->learner. -1: EX_CONFIG, or config.json cannot be read or is wrong.
 */
int dt_spec_critic_resolve(struct dt_spec *spec, struct dt_error *err);

/* The type of the weights in a checkpoint of a run that computes with
 * `compute`.
 */
enum dt_dtype dt_spec_stored_type(const struct dt_spec *spec,
                                  enum dt_dtype compute);

/* The type of the weights that are updated, and of AdamW's moments. */
enum dt_dtype dt_spec_state_type(const struct dt_spec *spec);

/* Whether weights that are saved in this type lose bits that AdamW has. */
bool dt_spec_rounds_saved(const struct dt_spec *spec, enum dt_dtype stored);

/* The options of the critic's model, from those of the learner's. */
struct dt_model_options dt_spec_critic_options(
    const struct dt_spec *spec, const struct dt_model_options *options);

/* Bytes of the critic's activations, whose memory is the model's, as the two
 * take turns; 0 without one.
 */
size_t dt_spec_critic_memory(const struct dt_spec *spec,
                             const struct dt_model_options *options);

/* Whether a run needs a reference model, and how the reference of this
 * algorithm would follow the model.
 */
bool dt_spec_needs_reference(const struct dt_spec *spec);

/* The layout of its weights: those that are trained, or all of another model.
 */
const struct dt_layout *dt_spec_reference_layout(const struct dt_spec *spec);

/* Whether the reference has parts of its own alone, and computes with the
 * frozen ones of the model.
 */
bool dt_spec_shares_frozen(const struct dt_spec *spec);

/* Units that begin the model and have the same weights in both, so that the
 * reference's pass leaves them out: those below the first that is trained.
 */
size_t dt_spec_reference_shared(const struct dt_spec *spec);

static inline const struct dt_conf_sync_ref *dt_run_sync_ref(
    const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_GRPO ? &conf->grpo.sync_ref
                                           : &conf->dpo.sync_ref;
}

/* --- floating-point operations --- */

/* Model FLOPs utilization, as in Chowdhery et al., "PaLM", arXiv 2204.02311,
 * appendix B: tokens per second times the work of a token, over the peaks of
 * all devices. A frozen weight has no gradient: 4 in place of 6 operations, or
 * 2 where nothing goes back. Recomputing, reference models and sampling do not
 * count.
 */

/* 6 N of the trained weights, 4 N or 2 N of frozen ones; N excludes embeddings
 * that are only looked up, and has those of a tower once for each patch. Of
 * rows that are one document of T tokens also 12 x heads x head size x T for
 * each layer, where T is at most the window. NaN: the run samples, so that its
 * tokens are not those of its work.
 */
double dt_flops_per_token(const struct dt_spec *spec);

struct dt_peak {
    const char *name; /* prefix of the names of such devices */
    double flops;     /* a second, of dense bf16 or fp16, by data sheet */
};

/* The peak of a device, by its description; NULL: it is not known. */
const struct dt_peak *dt_peak_of(const char *device, enum dt_dtype compute);

#endif /* DT_RUN_SPEC_H */
