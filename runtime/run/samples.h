/* SPDX-License-Identifier: Apache-2.0 */
/*
 * samples.h - completions that a run samples and scores to learn from them
 *
 * Optimizer step s uses generation s / uses, of `groups` prompts with `copies`
 * completions each, which the weights before its first step have sampled, or
 * with rollout.overlap those before the step before it (ahead.c). The ranks
 * sample their own prompts, score them, and bring everything to all.
 */
#ifndef DT_RUN_SAMPLES_H
#define DT_RUN_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loss/advantages.h"
#include "run/experience.h"
#include "loss/grpo_loss.h"
#include "run/sample_batches.h"
#include "base/error.h"
#include "report/report.h"
#include "reward/reward.h"
#include "rollout/rollout.h"

struct dt_run;
struct dt_metrics;

/* Numbers of a generation that all ranks know, for the report. */
enum { DT_NUMBERS_MAX = 96, DT_NUMBER_NAME = 96 };

struct dt_numbers {
    size_t count;
    double value[DT_NUMBERS_MAX]; /* NaN: none */
};

/* Their sums since the last report. */
struct dt_number_sums {
    double sum[DT_NUMBERS_MAX];
    double steps[DT_NUMBERS_MAX]; /* in which there was such a number */
};

/* What replacing prompts (refill.c) has done to a generation. */
enum dt_refill_number {
    DT_REFILL_ROUNDS,  /* times that prompts were sampled once more */
    DT_REFILL_PROMPTS, /* that were sampled in all */
    DT_REFILL_FLAT,    /* share of them that teach nothing */
    DT_REFILL_REWARD,  /* mean of all their completions */
    DT_REFILL_NUMBERS
};
extern const char *const dt_refill_names[DT_REFILL_NUMBERS];

enum { DT_SAMPLES_STOPS = 64, DT_WHERES = 2 };

struct dt_samples {
    size_t copies;      /* G, completions of a prompt */
    size_t groups;      /* prompts of a generation */
    size_t step_rows;   /* completions of an optimizer step, of all ranks */
    size_t parts;       /* optimizer steps that use all of a generation once */
    size_t uses;        /* and that use it at all */
    double denominator; /* of the step: algo.h */
    bool stores_old;    /* log-probabilities are kept, as weights change */

    struct dt_rollout_options options;
    struct dt_rollout *rollout;
    struct dt_rollout *held_out; /* of held-out prompts, or NULL */
    size_t reward_bytes;         /* of reward models, on every rank */
    double reward_operations;    /* of these for a completion of full length */
    struct dt_buffer *memory;    /* of activations and rollouts; NULL: of the
                                    model */
    int32_t stops[DT_SAMPLES_STOPS];
    struct dt_rewards *rewards[DT_WHERES]; /* by enum dt_conf_where; NULL: no
                                              such function runs here */
    struct dt_sample_column {
        char name[DT_NUMBER_NAME]; /* of the function, or function/channel */
        double weight;
    } * columns;                /* of the rewards of all functions */
    struct dt_scoring *scoring; /* of a generation, or NULL */

    struct dt_experience experience; /* the generation */
    struct dt_experience ahead;      /* the one after it; no groups: none */
    bool ahead_scored;               /* and its rewards are there */
    struct dt_sample_batches batches;
    size_t use;          /* which use of it comes next; 0: that of a new one */
    uint64_t generation; /* generations made so far */
    size_t sampled;      /* prompts that were sampled when it was made */
    uint64_t position;   /* of the stream of prompts, behind those */
    double refill[DT_REFILL_NUMBERS]; /* of it; stored in checkpoints */
    double entropy_share;             /* of algorithm grpo: grpo_loss.h */
    double least_entropy;             /* of it, too */
    struct dt_grpo_options grpo;      /* of algorithm grpo */
    struct dt_advantage_stats stats;  /* of the generation */
    char names[DT_NUMBERS_MAX][DT_NUMBER_NAME];
    struct dt_numbers numbers;  /* of the generation */
    size_t own;                 /* from here on they are the algorithm's */
    struct dt_number_sums sums; /* stored in checkpoints */
    double first_reward;        /* of the first generation; NAN: none yet */
    int idle;       /* steps in a row that look alive and learn nothing */
    bool disagrees; /* that sampler and trainer do was said */
};

/* sampling.c: what the configuration says of generations, for run->world ranks.
 */
void dt_run_samples_resolve(struct dt_run *run);

/* sampling.c: opens rewards and the rollout, after the model is there. -1: as
 * dt_rewards_open and dt_rollout_create. dt_run_samples_fini in any case.
 */
int dt_run_samples_init(struct dt_run *run,
                        const struct dt_model_options *options,
                        struct dt_error *err);
void dt_run_samples_fini(struct dt_run *run);

/* sampling.c: memory for the activations of all models that are trained, and
 * for rollouts, which never need it at the same time; of other algorithms
 * nothing, as the model has its own. -1: out of memory.
 */
int dt_run_samples_memory(struct dt_run *run, struct dt_model_options *options,
                          struct dt_error *err);

/* sampling.c: bytes of that. */
size_t dt_run_samples_bytes(const struct dt_run *run,
                            const struct dt_model_options *options);

/* sampling.c: bytes of a rank that sampling needs beside those of training:
 * what rollouts need more than activations, their inputs, and all weights if a
 * rank has only parts of them (`gathers`).
 */
size_t dt_run_samples_extra(const struct dt_run *run,
                            const struct dt_model_options *options,
                            bool gathers);

/* sampling.c: prompts for each optimizer step. */
double dt_run_prompts_of_step(const struct dt_run *run);

/* sampling.c: the options of the rollout, with as many slots as the memory that
 * training takes has room for, unless the configuration says how many; and the
 * bytes of that.
 */
struct dt_rollout_options dt_run_rollout_options(
    const struct dt_run *run, const struct dt_model_options *options);

/* generation.c: makes the generation of the next step, if it begins one, and
 * deals the rows of the step. 0; 1, a rank was told to stop, and nothing has
 * changed; -1: the device, a reward or a peer failed.
 */
int dt_run_next_samples(struct dt_run *run, struct dt_error *err);

/* complete.c: samples completions of prompts [first, first + count) of the
 * stream to e on all ranks. 0; 1, a rank was told to stop; -1: the device or a
 * peer failed.
 */
int dt_run_sample(struct dt_run *run, struct dt_experience *e, uint64_t first,
                  size_t count, struct dt_error *err);

/* complete.c: the same to the experience, with their rewards. 0; 1, a rank
 * was told to stop; -1: as dt_run_next_samples.
 */
int dt_run_sample_scored(struct dt_run *run, uint64_t first, size_t count,
                         struct dt_error *err);

/* ahead.c: the same in the order of rollout.overlap, which samples the
 * generation of the step after this one, too. 0; 1, a rank was told to stop,
 * and nothing has changed that is saved; -1: as dt_run_next_samples.
 */
int dt_run_sample_ahead(struct dt_run *run, struct dt_error *err);

/* complete.c: completes the prompts of an experience that was begun, each on
 * its rank, gathers it, and scores it for this step. 0, 1 and -1 as
 * dt_run_sample_scored.
 */
int dt_run_complete(struct dt_run *run, struct dt_rollout *rollout,
                    struct dt_experience *e, long step, struct dt_error *err);

/* held_out.c: completes all held-out prompts, and scores them: line->values and
 * count. No step may be in flight. 0; 1, a rank was told to stop; -1: the
 * device, a reward or a peer failed.
 */
int dt_run_evaluate_prompts(struct dt_run *run, struct dt_report_eval *line,
                            struct dt_error *err);

/* ahead.c: waits for the rewards of what was sampled ahead, so that others can
 * be asked for. 0; 1, a rank was told to stop; -1: as dt_scoring_end.
 */
int dt_run_settle_ahead(struct dt_run *run, struct dt_error *err);

/* refill.c: replaces groups of the experience that teach nothing, and says how
 * many prompts were sampled in all. 0; 1, a rank was told to stop; -1: as
 * dt_run_next_samples.
 */
int dt_run_refill(struct dt_run *run, struct dt_error *err);

/* generation.c: orders the rows of the generation; for a critic, which uses
 * them in several epochs, anew in each. -1: EX_OSERR.
 */
int dt_run_order_rows(struct dt_run *run, struct dt_error *err);

/* old_logprobs.c: the trainer's log-probabilities of a whole generation, before
 * the first update that uses it, in the micro-batches that will train; beside a
 * critic its values, and what the reference gives; with top_entropy_quantile
 * entropies. -1: the device or a peer failed.
 */
int dt_run_old_values(struct dt_run *run, struct dt_error *err);

/* old_logprobs.c: room for what not every run needs of them. -1: EX_OSERR. */
int dt_run_old_room(struct dt_run *run, struct dt_error *err);

/* scoring.c: begins to score completions, which stay where they are, for this
 * step. -1: EX_OSERR.
 */
int dt_scoring_begin(struct dt_run *run, struct dt_experience *of, long step,
                     struct dt_error *err);

/* scoring.c: submits group g, which this rank has completed, to the functions
 * that score it here. -1: EX_OSERR.
 */
int dt_scoring_submit(struct dt_run *run, size_t g, struct dt_error *err);

/* scoring.c: after gathering, submits the groups of other ranks that are scored
 * here; or all groups that are. -1: EX_OSERR.
 */
int dt_scoring_submit_rest(struct dt_run *run, struct dt_error *err);
int dt_scoring_submit_all(struct dt_run *run, struct dt_error *err);

/* scoring.c: waits for all rewards, and brings them to all ranks. No collective
 * is open while a reward runs: ranks ask each other a few times a second
 * whether they are done. 0; 1, a rank was told to stop, and the rewards can be
 * waited for again; -1: a reward failed, or a peer.
 */
int dt_scoring_end(struct dt_run *run, struct dt_error *err);

/* scoring.c: forgets what was submitted. */
void dt_scoring_fini(struct dt_run *run);

/* samples_log.c: writes the first prompts of the generation with all that was
 * sampled to samples-<step>.jsonl. A failure is a warning.
 */
void dt_run_log_samples(const struct dt_run *run, long step);

/* generation_metrics.c: names and weights of all rewards, also on ranks that do
 * not run them: (dt_reward_columns), to be freed. NULL: out of memory.
 */
struct dt_sample_column *dt_run_reward_columns(const struct dt_conf *conf,
                                               struct dt_error *err);

/* generation_metrics.c: names of what dt_run_measure computes of these rewards,
 * in its order: to(DT_NUMBERS_MAX). Returns how many.
 */
size_t dt_run_measured_names(const struct dt_conf *conf,
                             const struct dt_sample_column *columns,
                             char (*to)[DT_NUMBER_NAME]);

/* generation_metrics.c: names the numbers of generations. */
void dt_run_name_numbers(struct dt_run *run);

/* generation_metrics.c: computes what is the same for all algorithms of
 * completions with their rewards: value(samples.own), NaN where there is none.
 */
void dt_run_measure(const struct dt_run *run,
                    const struct dt_experience *experience,
                    const struct dt_advantage_stats *stats, double *value);

/* generation_metrics.c: the same for a line of the report. */
struct dt_report_values dt_run_measured_values(const struct dt_run *run,
                                               const double *value);

/* generation_metrics.c: computes those of the generation. */
void dt_run_make_numbers(struct dt_run *run);

/* generation_metrics.c: adds those of a step that was collected, and moves
 * their means to a line of the report.
 */
void dt_run_add_numbers(struct dt_samples *samples,
                        const struct dt_numbers *numbers);
void dt_run_report_numbers(struct dt_samples *samples,
                           struct dt_report_values *values);

/* generation_metrics.c: warns of a run that looks alive and learns nothing. */
void dt_run_warn_idle(struct dt_run *run);

/* generation_metrics.c: warns once, if what all ranks have of a step says that
 * the trainer gives other probabilities than the sampler to tokens that no
 * update has changed yet.
 */
void dt_run_warn_disagreement(struct dt_run *run,
                              const struct dt_metrics *metrics);

#endif /* DT_RUN_SAMPLES_H */
