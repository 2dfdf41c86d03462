/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - everything one rank holds while it trains */
#ifndef DT_RUN_RUN_H
#define DT_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include <jansson.h>

#include "ckpt/ckpt.h"
#include "conf/conf.h"
#include "data/loader.h"
#include "live/live.h"
#include "loss/dpo_loss.h"
#include "report/report.h"
#include "run/algo.h"
#include "run/data.h"
#include "run/groups.h"
#include "run/learner.h"
#include "run/ppo_state.h"
#include "run/samples.h"
#include "trace/trace.h"

struct dt_owner;

/* A step that was queued and of which the host has not read the result yet. */
struct dt_in_flight {
    bool open;
    uint64_t position;         /* global samples consumed after it */
    struct dt_metrics metrics; /* of this rank, if the algorithm has any */
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

struct dt_run {
    struct dt_conf conf; /* a copy with the batch resolved for this world;
                            its strings belong to the caller */
    const struct dt_conf *given; /* the caller's, as it was read */
    const struct dt_algo *algo;
    struct dt_exec exec;
    struct dt_comm *comm; /* not owned */
    bool (*stop)(void);   /* was this rank told to stop? */
    int rank, world;
    struct dt_nodes nodes; /* of the world */
    char strategy[256];    /* that auto has taken, and why; "": it was given */
    size_t B, T, A; /* rows, positions, micro-batches a step; of pairs, whose
                       sides have up to T tokens, a step has B * A */
    size_t eval_B;  /* rows of an evaluation */
    size_t tokens;  /* the most that a micro-batch of pairs has; 0: of rows */

    struct dt_learner learner; /* the model that the algorithm trains */
    struct dt_learner critic;  /* a second one; no layout: none */
    double pairs_per_token;    /* of the step: algo.h */
    struct dt_reference {
        struct dt_parallel *parallel; /* holds its weights, or NULL */
        struct dt_graphs *graphs;
        bool bare; /* it is the model without its adapter: no weights */
    } reference;
    /* Of the training and the held-out pairs, if they were computed before:
     * dt_dpo_sum of both sides of the reference, (pairs, 2) F32, by the number
     * of the pair.
     */
    struct dt_sums {
        struct dt_buffer *buf;
        size_t pairs;
    } precomputed[2];
    const struct dt_sums *sums; /* those of the pairs that are passed */
    struct dt_dpo_options dpo;  /* of algorithm dpo */
    struct dt_samples samples;  /* of algorithms that sample completions */
    struct dt_ppo ppo;          /* of algorithm ppo */

    struct dt_in_flight in_flight[DT_MAX_IN_FLIGHT];
    long queued; /* steps of the run so far, including those in flight */

    struct dt_run_data data;
    struct dt_loader *loader;
    uint64_t epoch_samples;

    json_t *settings;       /* resume_check.h, on rank 0 */
    struct dt_owner *owner; /* of run.output_dir: rank 0 */
    json_t *facts;          /* facts.h: of run.json, on rank 0 */
    struct dt_report *report;
    struct dt_trace *trace;
    struct dt_live *live;          /* rank 0 */
    char ckpt_root[PATH_MAX - 64]; /* run.output_dir/checkpoints */
    char ckpt_path[PATH_MAX];      /* of the newest one, empty if none */

    /* Of the steps since the last line of the report: costs.c. */
    struct dt_run_window {
        double since; /* when it began */
        long steps;
    } window;
    struct dt_costs *costs; /* and over all of the run: costs.c */
    struct dt_watch *watch; /* of ranks for each other: costs.h */

    /* energy.c: since the last report that had it. */
    struct dt_run_energy {
        struct dt_energy *counters;
        double last;   /* their last reading */
        double joules; /* used since it was asked; NAN: unknown */
        double read;   /* when */
    } energy;

    struct dt_run_save {
        int failures; /* saves in a row */
        long retry;   /* the step after which to try again, 0: all is well */
        long maybe;   /* of a failed save that may have got as far as its
                         checkpoint; 0: none, or a later loss was finite */
    } save;

    /* Stored in checkpoints along with tensors: dt_run_save, dt_run_restore. */
    struct dt_progress {
        long step;           /* optimizer steps done, skipped ones included */
        long skipped_in_row; /* steps without an update: non-finite gradients */
        long skipped;        /* such steps since the last report */
        uint64_t position;   /* global samples consumed */
        double tokens;       /* targets consumed, all ranks */
        double first_loss;   /* the first finite one, 0: none yet */
        double loss_sum, loss_tokens; /* since the last report; of pairs, the
                                         latter is their number */
        struct dt_metrics metrics;    /* since the last report */
        struct dt_best {
            double value, saved; /* of all evaluations, and of those whose step
                                    was saved; NaN: none yet */
            long step;           /* of `saved` */
            long without;        /* evaluations since it was better */
        } best;                  /* best.h */
    } progress;
    long total_steps;

    /* health.c. A checkpoint is good once a later step had a finite loss. */
    enum dt_health health;
    long unproven_step; /* of the newest checkpoint until then, 0: none */
};

/* run.c: rank 0 logs the operations' notices since the last call as warnings.
 */
void dt_run_pass_notices(const struct dt_run *run);

/* run.c: the lengths of batches are multiples of this. */
size_t dt_run_length_step(const struct dt_run *run);

/* run.c: the loader of the training rows, or of one pass over `rows` in their
 * order, with batches as in an evaluation.
 */
struct dt_loader *dt_run_loader(const struct dt_run *run, struct dt_error *err);
struct dt_loader *dt_run_pass(const struct dt_run *run,
                              const struct dt_rows *rows, struct dt_error *err);

/* run.c: learner i = 0, 1, ... of the run; NULL after the last. */
struct dt_learner *dt_run_learner(struct dt_run *run, size_t i);

/* run.c: distributed.timeout_s, of every wait. */
int dt_run_timeout_ms(const struct dt_run *run);

/* adapter.c: if the configuration has an adapter, makes a learner of the run
 * train it: the learner's layout becomes that of its frozen weights, and it
 * gets the layout of the adapter. -1: EX_CONFIG, or as dt_adapter_load.
 */
int dt_run_adapter_resolve(const struct dt_run *run, struct dt_learner *learner,
                           struct dt_error *err);

/* adapter.c: checks the adapter of a configuration, if it has one, for a model
 * of this config. -1: EX_CONFIG, EX_DATAERR, EX_NOINPUT.
 */
int dt_adapter_check(const struct dt_conf *conf,
                     const struct dt_model_config *config,
                     struct dt_error *err);

/* critic.c: the config of the critic of `model`. The caller releases it, also
 * after -1: EX_CONFIG, or config.json cannot be read or is wrong.
 */
int dt_critic_config(const struct dt_conf *conf,
                     const struct dt_model_config *model,
                     struct dt_model_config *critic, struct dt_error *err);

/* critic.c: the model and layout of run->critic, if the algorithm has one.
 * Needs those of run->learner. -1: EX_CONFIG, or config.json cannot be read or
 * is wrong.
 */
int dt_run_critic_resolve(struct dt_run *run, struct dt_error *err);

/* critic.c: the options of its model, from those of run->learner's. */
struct dt_model_options dt_run_critic_options(
    const struct dt_run *run, const struct dt_model_options *options);

/* critic.c: bytes of its activations, whose memory is the model's, as the two
 * take turns; 0 without one.
 */
size_t dt_run_critic_memory(const struct dt_run *run,
                            const struct dt_model_options *options);

/* critic.c: creates it, with the options of run->learner. -1: as
 * dt_learner_init.
 */
int dt_run_critic_init(struct dt_run *run,
                       const struct dt_model_options *options,
                       const struct dt_parallel_options *parallel,
                       const struct dt_optim_options *optim,
                       struct dt_error *err);

/* critic.c: learning rates of all learners, once the run knows its steps. -1:
 * EX_CONFIG, they leave none to the policy.
 */
int dt_run_schedules(struct dt_run *run, struct dt_error *err);

/* critic.c: whether the generation in use trains the critic alone. */
bool dt_run_warms_up(const struct dt_run *run);

/* How the reference of this algorithm would follow the model. */
static inline const struct dt_conf_sync_ref *dt_run_sync_ref(
    const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_GRPO ? &conf->grpo.sync_ref
                                           : &conf->dpo.sync_ref;
}

/* values.c: `pick` of algo.h: the positions before the tokens of completions.
 */
size_t dt_run_pick_completions(const struct dt_run *run,
                               const struct dt_batch *batch, int32_t *picked);

/* values.c: names the tokens of the batch whose values are needed, at least
 * one. Nothing without `pick`.
 */
void dt_run_pick(struct dt_run *run, struct dt_batch *batch);

/* values.c: the last unit of a learner, after dt_parallel_forward or _backward
 * of it: values of the picked tokens, which the host waits for; the loss, added
 * to *metrics. With `train` also its backward pass. -1: the device or a peer
 * failed.
 */
int dt_run_weigh(struct dt_run *run, struct dt_learner *learner,
                 const struct dt_batch *batch, bool train, bool accumulate,
                 struct dt_metrics *metrics, struct dt_error *err);

/* metrics.c: adds up those of all ranks, the same on all. -1: a peer failed. */
int dt_run_reduce_metrics(struct dt_run *run, struct dt_metrics *metrics,
                          struct dt_error *err);

/* passes.c: queues the passes of a learner through the bound batch: forward,
 * loss, backward. The metrics of a loss on the host are added to *metrics. -1:
 * the device or a peer failed.
 */
int dt_run_queue_passes(struct dt_run *run, struct dt_learner *learner,
                        const struct dt_graph_shape *shape,
                        const struct dt_batch *batch,
                        struct dt_metrics *metrics, struct dt_error *err);

/* run.c: whether a rank was told to stop before the first step; all ranks call
 * it. -1: EX_TEMPFAIL, one was; a peer failed.
 */
int dt_run_share_stop(const struct dt_run *run, bool stopped,
                      struct dt_error *err);

/* run.c: waits for the stream, with no step in flight. -1: the device or a
 * peer failed.
 */
int dt_run_wait(struct dt_run *run, struct dt_error *err);

#endif /* DT_RUN_RUN_H */
