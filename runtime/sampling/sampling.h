/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.h - generates completions and scores them */
#ifndef DT_SAMPLING_SAMPLING_H
#define DT_SAMPLING_SAMPLING_H

#include "run/run.h"

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

/* Bytes of that memory. */
size_t dt_sampling_bytes(const struct dt_spec *spec,
                         const struct dt_model_options *options);

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

/* Samples completions of prompts [first, first + count) of the stream to e on
 * all ranks. 0; 1, a rank was told to stop; -1: the device or a peer failed.
 */
int dt_run_sample(struct dt_run *run, struct dt_experience *e, uint64_t first,
                  size_t count, struct dt_error *err);

/* The same, into the experience and with rewards. 0; 1: a rank was told to
 * stop; -1: as dt_run_next_samples.
 */
int dt_run_sample_scored(struct dt_run *run, uint64_t first, size_t count,
                         struct dt_error *err);

/* The same in the order of rollout.overlap, which also samples the generation
 * of the step after this one. 0; 1: a rank was told to stop, and nothing that
 * is saved has changed; -1: as dt_run_next_samples.
 */
int dt_run_sample_ahead(struct dt_run *run, struct dt_error *err);

/* Completes the prompts of an experience that was begun, each on its rank,
 * gathers it, and scores it for this step. 0, 1 and -1 as dt_run_sample_scored.
 */
int dt_run_complete(struct dt_run *run, struct dt_rollout *rollout,
                    struct dt_experience *e, long step, struct dt_error *err);

/* Completes all held-out prompts and scores the completions: fills line->values
 * and count. No step may be in flight. 0; 1: a rank was told to stop; -1: the
 * device, a reward or a peer failed.
 */
int dt_run_evaluate_prompts(struct dt_run *run, struct dt_report_eval *line,
                            struct dt_error *err);

/* Waits for the rewards of the generation sampled ahead, so that other
 * completions can be scored. 0; 1: a rank was told to stop; -1: as
 * dt_scoring_end.
 */
int dt_run_settle_ahead(struct dt_run *run, struct dt_error *err);

/* Replaces groups of the experience that teach nothing, and records the number
 * of prompts sampled in all. 0; 1: a rank was told to stop; -1: as
 * dt_run_next_samples.
 */
int dt_run_refill(struct dt_run *run, struct dt_error *err);

/* Orders the rows of the generation; with a critic, which trains for several
 * epochs, once per epoch. -1: EX_OSERR.
 */
int dt_run_order_rows(struct dt_run *run, struct dt_error *err);

/* Computes the trainer's log-probabilities of a whole generation, before the
 * first update that uses it, in the micro-batches that will train; with a
 * critic also its values and the reference's log-probabilities; with
 * top_entropy_quantile also entropies. -1: the device or a peer failed.
 */
int dt_run_old_values(struct dt_run *run, struct dt_error *err);

/* Makes room for those of these values that the run needs. -1: EX_OSERR. */
int dt_run_old_room(struct dt_run *run, struct dt_error *err);

/* Begins to score completions for this step. The experience must not move
 * meanwhile. -1: EX_OSERR.
 */
int dt_scoring_begin(struct dt_run *run, struct dt_experience *of, long step,
                     struct dt_error *err);

/* Submits group g, which this rank has completed, to the functions that score
 * it here. -1: EX_OSERR.
 */
int dt_scoring_submit(struct dt_run *run, size_t g, struct dt_error *err);

/* After gathering, submits the groups of other ranks that are scored here; or
 * all groups that are. -1: EX_OSERR.
 */
int dt_scoring_submit_rest(struct dt_run *run, struct dt_error *err);
int dt_scoring_submit_all(struct dt_run *run, struct dt_error *err);

/* Waits for all rewards, and brings them to all ranks. No collective is open
 * while a reward runs: ranks ask each other a few times a second whether they
 * are done. 0; 1: a rank was told to stop, and the call can be repeated; -1: a
 * reward or a peer failed.
 */
int dt_scoring_end(struct dt_run *run, struct dt_error *err);

/* Forgets everything that was submitted. */
void dt_scoring_fini(struct dt_run *run);

/* Writes the first prompts of the generation with all their completions to
 * samples-<step>.jsonl. A failure is a warning.
 */
void dt_run_log_samples(const struct dt_run *run, long step);

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

/* Names the numbers of generations. */
void dt_run_name_numbers(struct dt_run *run);

/* Computes the numbers of completions and their rewards that all algorithms
 * share: value(samples.own), NaN where there is none.
 */
void dt_run_measure(const struct dt_run *run,
                    const struct dt_experience *experience,
                    const struct dt_advantage_stats *stats, double *value);

/* The same numbers for a line of the report. */
struct dt_report_values dt_run_measured_values(const struct dt_run *run,
                                               const double *value);

/* Computes the numbers of the generation. */
void dt_run_make_numbers(struct dt_run *run);

/* Adds the numbers of a collected step, and moves their means to a line of the
 * report.
 */
void dt_run_add_numbers(struct dt_samples *samples,
                        const struct dt_numbers *numbers);
void dt_run_report_numbers(struct dt_samples *samples,
                           struct dt_report_values *values);

/* Warns of a run that looks alive and learns nothing. */
void dt_run_warn_idle(struct dt_run *run);

/* Warns once if, by the metrics of a step over all ranks, the trainer gives
 * other probabilities than the sampler to tokens that no update has changed
 * yet.
 */
void dt_run_warn_disagreement(struct dt_run *run,
                              const struct dt_metrics *metrics);

#endif /* DT_SAMPLING_SAMPLING_H */
