/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling.h - generates completions and scores them
 *
 * A generation is sampled, scored and brought to all ranks; then its steps
 * train on its rows. Held-out prompts are completed in the same way.
 */
#ifndef DT_SAMPLING_SAMPLING_H
#define DT_SAMPLING_SAMPLING_H

#include "run/run.h"
#include "segment/segment.h"

/* Warns if the data's chat template ends answers with a token at which
 * `disttrain generate` would not stop.
 */
void dt_run_warn_answers(const struct dt_run *run);

/* Resolves the sizes of generations for spec->world ranks. */
void dt_sampling_resolve(struct dt_spec *spec);

/* Opens rewards and the rollout, once the model exists. -1: as dt_rewards_open
 * and dt_rollout_create. dt_run_samples_fini in any case.
 */
int dt_run_samples_init(struct dt_run *run,
                        const struct dt_model_options *options,
                        struct dt_error *err);
void dt_run_samples_fini(struct dt_run *run);

/* Allocates the memory that the activations of all trained models and rollouts
 * share, as they never need it at the same time. Algorithms that do not sample
 * need none: the model has its own. -1: out of memory.
 */
int dt_run_samples_memory(struct dt_run *run, struct dt_model_options *options,
                          struct dt_error *err);

/* Bytes of a rank that sampling needs in addition to training: memory of
 * rollouts beyond that of activations, their inputs, and all weights if a rank
 * has only parts of them (`gathers`).
 */
size_t dt_sampling_extra(const struct dt_spec *spec,
                         const struct dt_model_options *options, bool gathers);

/* Options of the rollout, with as many slots as fit into the memory of
 * training, unless the configuration gives their number; and the bytes of the
 * rollout.
 */
struct dt_rollout_options dt_sampling_rollout_options(
    const struct dt_spec *spec, const struct dt_model_options *options);

/* Makes the generation of the next step, if that begins one, and deals the rows
 * of the step. 0; 1: a rank was told to stop, and nothing has changed; -1: the
 * device, a reward or a peer failed.
 */
int dt_run_next_samples(struct dt_run *run, struct dt_error *err);

/* Completes all held-out prompts and scores the completions: fills line->values
 * and count. No step may be in flight. 0; 1: a rank was told to stop; -1: the
 * device, a reward or a peer failed.
 */
int dt_run_evaluate_prompts(struct dt_run *run, struct dt_report_eval *line,
                            struct dt_error *err);

/* Names and weights of all rewards, also on ranks that do not run them:
 * (dt_reward_columns), to be freed. NULL: out of memory.
 */
struct dt_sample_column *dt_run_reward_columns(const struct dt_conf *conf,
                                               struct dt_error *err);

/* Fills to(DT_NUMBERS_MAX) with the names of the numbers that dt_run_measure
 * computes from these rewards, in its order. Returns how many.
 */
size_t dt_run_measured_names(const struct dt_conf *conf,
                             const struct dt_sample_column *columns,
                             char (*to)[DT_NUMBER_NAME]);

/* Adds the numbers of a collected step, and moves their means to a line of the
 * report.
 */
void dt_run_add_numbers(struct dt_samples *samples,
                        const struct dt_numbers *numbers);
void dt_run_report_numbers(struct dt_samples *samples,
                           struct dt_report_values *values);

/* Warns once if, by the metrics of a step over all ranks, the trainer gives
 * other probabilities than the sampler to tokens that no update has changed
 * yet.
 */
void dt_run_warn_disagreement(struct dt_run *run,
                              const struct dt_metrics *metrics);

/* --- rewards of groups --- */

struct dt_group_rewards {
    struct dt_advantage_table table; /* of the experience, not owned by it */
    double *rewards;                 /* (rows), to be filled */
    double *weights;
    uint64_t *groups;
};

/* Lays out the rewards of an experience with the weights of `samples`. The
 * experience must not move. -1: EX_OSERR. dt_group_rewards_fini in any case.
 */
int dt_group_rewards_init(struct dt_group_rewards *rewards,
                          const struct dt_samples *samples,
                          const struct dt_experience *experience,
                          struct dt_error *err);
void dt_group_rewards_fini(struct dt_group_rewards *rewards);

/* Names of the numbers of dynamic sampling. */
extern const char *const dt_refill_names[DT_REFILL_NUMBERS];

/* --- in a checkpoint --- */

/* alignment.json says where the run is in its generations. While a generation
 * is partly used, experience.safetensors holds it with its rewards, which are
 * not asked for again; with rollout.overlap, it holds the completions of the
 * next one.
 */

/* Adds the files of rank 0; none of other algorithms. -1: as
 * dt_ckpt_add_tensors.
 */
int dt_alignment_save(struct dt_run *run, struct dt_ckpt_writer *writer,
                      struct dt_error *err);

/* Reads them from the checkpoint `dir`, on every rank. -1: EX_DATAERR, they are
 * wrong; EX_CONFIG, generations of this run are of another size than the one
 * that is there.
 */
int dt_alignment_load(struct dt_run *run, const char *dir,
                      struct dt_error *err);

/* --- in memory that outlives the process --- */

/* Where a run is in its generations; the same on all ranks. */
struct dt_samples_point {
    uint64_t generation, position; /* as struct dt_samples */
    size_t use;
    bool ahead; /* one is sampled ahead */
    double refill[DT_REFILL_NUMBERS];
    struct dt_number_sums sums;
    double first_reward;
    int idle;
    bool disagrees;
    double kl_coef, kl; /* as struct dt_ppo */
    long left_out;
};

/* Keeps generations in `segment` from now on, which has to stay. -1: EX_OSERR;
 * dt_samples_keep_end in any case.
 */
int dt_samples_keep(struct dt_run *run, struct dt_segment *segment,
                    struct dt_error *err);
void dt_samples_keep_end(struct dt_run *run);

/* Bytes of the largest generation there; 0: the run does not sample. */
size_t dt_samples_bytes(const struct dt_spec *spec);

/* Sets *point to where the run is, if it samples. */
void dt_samples_note(const struct dt_run *run, struct dt_samples_point *point);

/* Goes on there, on all ranks together, with the generations that one of them
 * has kept. -1: EX_SOFTWARE, no rank has one that is needed; a peer failed; as
 * dt_alignment_load.
 */
int dt_samples_take(struct dt_run *run, const struct dt_samples_point *point,
                    struct dt_error *err);

/* Copies what a checkpoint has of generations to dt_samples_bytes of memory;
 * brings such a copy, if there are any, from one rank to those with `takes`, on
 * all ranks together; and goes on with it at the point where it was made. -1:
 * as dt_samples_take.
 */
void dt_samples_copy(struct dt_run *run, const struct dt_buffer *to);
int dt_samples_send_copy(struct dt_run *run, struct dt_buffer *copy, int from,
                         bool takes, struct dt_error *err);
int dt_samples_take_copy(struct dt_run *run,
                         const struct dt_samples_point *point,
                         const struct dt_buffer *from, struct dt_error *err);

#endif /* DT_SAMPLING_SAMPLING_H */
