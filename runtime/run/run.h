/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - everything one rank holds while it trains */
#ifndef DT_RUN_RUN_H
#define DT_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include <jansson.h>

#include "batch/loader.h"
#include "ckpt/ckpt.h"
#include "launch/launch.h"
#include "live/live.h"
#include "loss/pair_loss.h"
#include "loss/ppo_loss.h"
#include "report/report.h"
#include "run/data.h"
#include "run/samples.h"
#include "run/spec.h"
#include "trace/trace.h"

struct dt_board;
struct dt_copies;
struct dt_flight;
struct dt_owner;
struct dt_replicas;
struct dt_state;
struct dt_watch;

/* A step that was queued and of which the host has not read the result yet. */
struct dt_in_flight {
    bool open;
    uint64_t position;         /* global samples consumed after it */
    struct dt_metrics metrics; /* if the algorithm has any: of this rank .. */
    bool summed;               /* .. or of all */
    struct dt_numbers numbers; /* of its generation, if it has one */
    bool warms_up;             /* it trains the critic alone */
    bool fresh;                /* no update is between its completions and it */
};

/* The result of the last step. */
enum dt_health {
    DT_WELL,        /* normal, or skipped to find a loss scale */
    DT_NO_GRADIENT, /* the loss is finite, the norm of its gradient is not */
    DT_NO_LOSS,     /* the loss is not finite */
};

/* State of algorithm ppo, in addition to its samples. */
struct dt_ppo {
    struct dt_ppo_options options;
    /* Stored in checkpoints: the coefficient of the KL divergence of this
     * generation, and the divergence that it had; NaN: none yet.
     */
    double kl_coef, kl;
    /* Stored, too: optimizer steps that were left out as generations ended
     * early, unless training.max_steps says how many there are.
     */
    long left_out;
    /* of the generation, (tokens) of the experience: */
    double *advantages, *returns;
    double *after_returns; /* (rows) */
    double value_share; /* of the step: tokens for each value of the critic */
    double numbers[DT_PPO_NUMBERS];
};

/* Values of a reference: those of a model with weights of its own, or those
 * that were computed before.
 */
struct dt_reference {
    struct dt_parallel *parallel; /* holds its weights, or NULL */
    struct dt_graphs *graphs;
    struct dt_view *weights_at; /* (unit_count) and frozen ones of the model */
    struct dt_buffer *moved;    /* if it follows: of the move of a unit */
    bool bare; /* it is the model without its adapter: no weights */
    /* Of the training and the held-out pairs, if they were computed before:
     * dt_dpo_sum of both sides, (pairs, 2) F32, by the number of the pair.
     */
    struct dt_sums {
        struct dt_buffer *buf;
        size_t pairs;
    } precomputed[2];
    const struct dt_sums *sums; /* those of the pairs that are passed */
};

/* Saves of the run. A checkpoint is good once a later step had a finite loss.
 */
struct dt_saves {
    char path[PATH_MAX]; /* of the newest checkpoint, empty if none */
    long newest;         /* its step, 0: none */
    long unproven;       /* the same until it is known to be good, 0: none */
    bool told_short;     /* the user knows that the disk is nearly full */
    int failures;        /* saves in a row */
    double seconds;      /* that the newest took, until it was whole; 0: none */
    long retry;          /* the step after which to try again, 0: all is well */
    long flight; /* the step of one that is written while the run goes on, or
                    was when the processes before ended; 0: none */
    long maybe;  /* of a failed save that may have got as far as its checkpoint;
                    0: none, or a later loss was finite */
};

/* How this process came to train. */
struct dt_run_start {
    double began;           /* dt_clock_now when it began; 0: now */
    struct dt_board *board; /* for its keeper, owned by the run; or NULL */
    /* Ranks that were lost in this step of Slurm since the run has recorded
     * something; not owned.
     */
    const struct dt_launch_loss *losses;
    size_t loss_count;
    /* Rank 0 found the previous process still running in its last status, of
     * this time and step; 0: it did not.
     */
    double silent_wall;
    long silent_step;
    /* By that process, or the one whose ranks were lost first, up to then; all
     * 0: unknown.
     */
    double spent[DT_ACCOUNT_COUNTED];
};

/* Stored in checkpoints along with tensors. */
struct dt_progress {
    long step;           /* optimizer steps done, skipped ones included */
    long skipped_in_row; /* steps without an update: non-finite gradients */
    long skipped;        /* such steps since the last report */
    uint64_t position;   /* global samples consumed */
    double tokens;       /* targets consumed, all ranks */
    double first_loss;   /* the first finite one, 0: none yet */
    double loss_sum, loss_tokens; /* since the last report; of pairs, the latter
                                     is their number */
    struct dt_metrics metrics;    /* since the last report */
    struct dt_best {
        double value, saved; /* of all evaluations, and of those whose step was
                                saved; NaN: none yet */
        long step;           /* of `saved` */
        long without;        /* evaluations since it was better */
    } best;
};

struct dt_run {
    struct dt_spec spec;
    struct dt_comm *comm; /* not owned */
    bool (*stop)(void);   /* was this rank told to stop? */
    struct dt_run_start start;

    struct dt_learner learner; /* the model that the algorithm trains */
    struct dt_learner critic;  /* a second one, if the spec has it */
    struct dt_reference reference;
    struct dt_samples samples; /* of algorithms that sample completions */
    struct dt_dpo_options dpo; /* of algorithm dpo */
    struct dt_ppo ppo;         /* of algorithm ppo */

    struct dt_run_data data;
    struct dt_loader *loader;
    uint64_t epoch_samples;
    double pairs_per_token; /* of the step: struct dt_picked */

    struct dt_in_flight in_flight[DT_MAX_IN_FLIGHT];
    long queued; /* steps of the run so far, including those in flight */
    long total_steps;
    struct dt_progress progress;
    enum dt_health health;
    struct dt_saves saves;
    struct dt_state *state;   /* outlives this process; NULL: it does not */
    struct dt_copies *copies; /* of the state, which do; or NULL */

    struct dt_flight *flight; /* saves that it does not wait for; or NULL */
    struct dt_trace *trace;
    struct dt_watch *watch;   /* of steps: what they cost, and slow ranks */
    struct dt_replicas *same; /* replicas of ranks; NULL: not compared */
    struct dt_report *report; /* this and the following on rank 0 alone */
    struct dt_live *live;
    struct dt_owner *owner; /* of run.output_dir */
    json_t *facts;          /* of run.json */
    json_t *settings;       /* that a run which resumes has to have */
};

/* Rank 0 logs the operations' notices since the last call as warnings.
 */
void dt_run_pass_notices(const struct dt_run *run);

/* The loader of the training rows behind those of queued steps, or of one pass
 * over `rows` in their order, with batches as in an evaluation.
 */
struct dt_loader *dt_run_loader(const struct dt_run *run, struct dt_error *err);
struct dt_loader *dt_run_pass(const struct dt_run *run,
                              const struct dt_rows *rows, struct dt_error *err);

/* Learner i = 0, 1, ... of the run; NULL after the last. */
struct dt_learner *dt_run_learner(struct dt_run *run, size_t i);

/* Distributed.timeout_s, of every wait. */
int dt_run_timeout_ms(const struct dt_run *run);

/* Creates it, with the options of run->learner. -1: as
 * dt_learner_init.
 */
int dt_run_critic_init(struct dt_run *run,
                       const struct dt_model_options *options,
                       const struct dt_parallel_options *parallel,
                       const struct dt_optim_options *optim,
                       struct dt_error *err);

/* Learning rates of all learners, once the run knows its steps. -1:
 * EX_CONFIG, they leave none to the policy.
 */
int dt_run_schedules(struct dt_run *run, struct dt_error *err);

/* Whether the generation in use trains the critic alone. */
bool dt_run_warms_up(const struct dt_run *run);

/* `pick` of struct dt_algo: the positions before the tokens of completions.
 */
size_t dt_run_pick_completions(const struct dt_run *run,
                               const struct dt_batch *batch, int32_t *picked);

/* Names the tokens of the batch whose values are needed, at least
 * one. Nothing without `pick`.
 */
void dt_run_pick(struct dt_run *run, struct dt_batch *batch);

/* The last unit of a learner, after dt_parallel_forward or _backward
 * of it: values of the picked tokens, which the host waits for; the loss, added
 * to *metrics. With `train` also its backward pass. -1: the device or a peer
 * failed.
 */
int dt_run_weigh(struct dt_run *run, struct dt_learner *learner,
                 const struct dt_batch *batch, bool train, bool accumulate,
                 struct dt_metrics *metrics, struct dt_error *err);

/* Queues the passes of a learner through the bound batch: forward,
 * loss, backward. The metrics of a loss on the host are added to *metrics. -1:
 * the device or a peer failed.
 */
int dt_run_queue_passes(struct dt_run *run, struct dt_learner *learner,
                        const struct dt_graph_shape *shape,
                        const struct dt_batch *batch,
                        struct dt_metrics *metrics, struct dt_error *err);

/* Whether a rank was told to stop before the first step; all ranks call
 * it. -1: EX_TEMPFAIL, one was; a peer failed.
 */
int dt_run_share_stop(const struct dt_run *run, bool stopped,
                      struct dt_error *err);

/* Waits for the stream, with no step in flight. -1: the device or a
 * peer failed.
 */
int dt_run_wait(struct dt_run *run, struct dt_error *err);

#endif /* DT_RUN_RUN_H */
