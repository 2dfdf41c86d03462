/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - everything one rank holds while it trains */
#ifndef DT_RUN_RUN_H
#define DT_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include <jansson.h>

#include "run/algo.h"
#include "run/data.h"
#include "loss/dpo_loss.h"
#include "run/groups.h"
#include "run/learner.h"
#include "run/ppo_state.h"
#include "run/samples.h"
#include "ckpt/ckpt.h"
#include "conf/conf.h"
#include "data/loader.h"
#include "live/live.h"
#include "report/report.h"
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

    struct dt_learner learner; /* what the algorithm trains */
    struct dt_learner critic;  /* and beside it; no layout: nothing */
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
        double last;   /* what they had */
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

/* setup.c: fills run up to the loader; run is zeroed before, except for stop.
 * This node has `local_size` ranks. dt_run_fini releases whatever there is.
 */
int dt_run_init(struct dt_run *run, const struct dt_conf *conf,
                const struct dt_exec *exec, struct dt_comm *comm,
                int local_size, struct dt_error *err);
void dt_run_fini(struct dt_run *run);

/* eos_check.c: warns if the data's chat template ends answers with a token at
 * which `disttrain generate` would not stop.
 */
void dt_run_warn_answers(const struct dt_run *run);

/* setup.c: what an optimizer step takes of the data: samples, or prompts; and
 * the steps of the whole run, 0: that depends on data that is not read yet.
 */
double dt_run_samples_of_step(const struct dt_run *run);
long dt_run_count_steps(const struct dt_run *run);

/* setup.c: the model of model.path, model.config_path, or the inline keys of
 * the model section. -1: EX_CONFIG, or config.json cannot be read or is wrong.
 * dt_model_config_fini in any case.
 */
int dt_run_model_config(const struct dt_conf *conf,
                        struct dt_model_config *config, struct dt_error *err);

/* resolve.c: what the configuration says for run->world ranks: the batch, the
 * model and its layout, and the options of the model before it is known how
 * much memory there is. Needs conf, world and the device. -1: EX_CONFIG, or
 * config.json cannot be read or is wrong.
 */
int dt_run_resolve(struct dt_run *run, struct dt_model_options *options,
                   struct dt_error *err);

/* shared_memory_limit.c: the bytes of memory to plan with, which all ranks ask
 * for together: on GPUs those of the rank that has the least, once NCCL is
 * connected and has taken its own; on CPUs those of this node.
 */
int dt_run_least_memory(const struct dt_run *run, size_t *left,
                        struct dt_error *err);

/* shared_memory_limit.c: the same, less what NCCL still takes in a run of this
 * configuration, which is resolved.
 */
size_t dt_run_plannable(const struct dt_run *run, size_t left);

/* run.c: rank 0 warns of what the operations have to say since the last call.
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

/* run.c: number i = 0, 1, ... of what the run trains; NULL after the last. */
struct dt_learner *dt_run_learner(struct dt_run *run, size_t i);

/* run.c: distributed.timeout_s, of every wait. */
int dt_run_timeout_ms(const struct dt_run *run);

/* reference.c: loads the frozen model, that of model.reference_path or the one
 * that the run starts from; all ranks call it. -1: EX_CONFIG, it is another
 * model; as dt_weights_open; a peer failed. dt_run_reference_fini in any case.
 */
int dt_run_reference_init(struct dt_run *run, struct dt_error *err);
void dt_run_reference_fini(struct dt_run *run);

/* reference.c: whether there is one. */
bool dt_run_refers(const struct dt_run *run);

/* reference.c: the directory of its weights; NULL: they are random, or those
 * of the model without its adapter.
 */
const char *dt_run_reference_dir(const struct dt_run *run);

/* adapter.c: what a learner of the run trains beside frozen weights, if the
 * configuration says so: moves the layout of the learner, and makes that of the
 * adapter. -1: EX_CONFIG, or as dt_adapter_load.
 */
int dt_run_adapter_resolve(const struct dt_run *run, struct dt_learner *learner,
                           struct dt_error *err);

/* adapter.c: checks the adapter of a configuration, if it has one, for a model
 * of this config. -1: EX_CONFIG, EX_DATAERR, EX_NOINPUT.
 */
int dt_adapter_check(const struct dt_conf *conf,
                     const struct dt_model_config *config,
                     struct dt_error *err);

/* critic.c: the config of the critic beside `model`; the caller releases it,
 * also after -1: EX_CONFIG, or config.json cannot be read or is wrong.
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

/* precompute.c: fills run->precomputed, from a file or with a pass over all
 * pairs. -1: as dt_run_reference_init; EX_DATAERR, the file is damaged; the
 * device or a peer failed. dt_run_precompute_fini in any case.
 */
int dt_run_precompute(struct dt_run *run, struct dt_error *err);
void dt_run_precompute_fini(struct dt_run *run);

/* reference.c: the parts of its weights were written: brings them to where its
 * passes read them, on all ranks. -1: the device or a peer failed.
 */
int dt_run_reference_changed(struct dt_run *run, struct dt_error *err);

/* How the reference of this algorithm would follow the model. */
static inline const struct dt_conf_sync_ref *dt_run_sync_ref(
    const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_GRPO ? &conf->grpo.sync_ref
                                           : &conf->dpo.sync_ref;
}

/* follow.c: whether there is a reference, and it follows the model. */
bool dt_run_reference_follows(const struct dt_run *run);

/* follow.c: moves the reference towards the model if that is due after this
 * step, whose update is queued, on all ranks. -1: the device or a peer failed.
 */
int dt_run_reference_follow(struct dt_run *run, long step,
                            struct dt_error *err);

/* follow.c: loads a reference that followed the model, if the checkpoint in
 * `dir` has one; all ranks call it together. -1: EX_CONFIG, this run's does not
 * follow; as dt_parts_open, dt_parts_read; a peer failed.
 */
int dt_run_reference_load(struct dt_run *run, const char *dir,
                          struct dt_error *err);

/* reference.c: values of the batch's picked tokens by the frozen model, to
 * values.reference; before the passes of the model itself. `shape`: of its
 * graphs, NULL: it is not recorded. -1: the device or a peer failed.
 */
int dt_run_reference(struct dt_run *run, const struct dt_graph_shape *shape,
                     struct dt_error *err);

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

/* tracing.c: prepares for the traces of a run whose steps are known. -1:
 * EX_OSERR.
 */
int dt_run_trace_init(struct dt_run *run, struct dt_error *err);

/* tracing.c: what this rank adds to DT_STEP_STOP of the next step: 1 to `stop`,
 * and on rank 0 what a trace is asked for.
 */
double dt_run_trace_tell(struct dt_run *run, bool stop);

/* tracing.c: a step is about to be queued, or was collected as far as the host
 * goes; `ends`: it is the last one. -1: a peer failed.
 */
int dt_run_trace_before(struct dt_run *run, long step, struct dt_error *err);
int dt_run_trace_after(struct dt_run *run, long step, bool ends,
                       struct dt_error *err);

/* passes.c: queues the passes of a learner through the bound batch: up, loss,
 * down; what a loss of the host measures is added to *metrics. -1: the device
 * or a peer failed.
 */
int dt_run_queue_passes(struct dt_run *run, struct dt_learner *learner,
                        const struct dt_graph_shape *shape,
                        const struct dt_batch *batch,
                        struct dt_metrics *metrics, struct dt_error *err);

/* step.c: queues the next optimizer step; `stop` tells all ranks that this one
 * was told to stop. At most one step may be in flight. 0; 1, a rank was told to
 * stop while completions were sampled, and nothing is queued; -1: data, the
 * device or a peer failed.
 */
int dt_run_queue_step(struct dt_run *run, bool stop, struct dt_error *err);

/* step.c: waits for the oldest step in flight and adds its results to progress
 * and `line`; *stop_asked becomes true if any rank was told to stop. Returns 1,
 * or 0 if no step is in flight. -1: the device or a peer failed, or going on
 * would be useless (EX_DATAERR).
 */
int dt_run_collect(struct dt_run *run, struct dt_report_step *line,
                   bool *stop_asked, struct dt_error *err);

/* step.c: the mean loss on the held-out rows, over all ranks, and how many
 * tokens or pairs it is of; metrics of pairs. No step may be in flight.
 */
int dt_run_evaluate(struct dt_run *run, double *loss, double *count,
                    struct dt_metrics *metrics, struct dt_error *err);

/* costs.c: begins to count what steps cost. -1: EX_OSERR. */
int dt_costs_begin(struct dt_run *run, struct dt_error *err);

/* costs.c: what the steps since the last report, which took `seconds` and had
 * `tokens`, have cost in time, memory and energy; the next window begins where
 * these seconds end. All ranks call it after the same step. -1: a peer failed.
 */
int dt_run_costs(struct dt_run *run, double tokens, double seconds,
                 struct dt_report_values *costs, struct dt_error *err);

/* costs.c: the last line of ranks.jsonl, on rank 0; and the end. */
void dt_costs_end(struct dt_run *run);
void dt_costs_destroy(struct dt_costs *costs); /* NULL is fine */

/* live_status.c: rank 0 makes run->live before it does anything that takes
 * time, for those who watch a run of that algorithm. -1: EX_OSERR.
 */
int dt_run_live_begin(struct dt_run *run, const char *algorithm,
                      struct dt_error *err);

/* live_status.c: tells it how the run has ended, before the last lines are
 * printed.
 */
void dt_run_live_end(struct dt_run *run, int result,
                     const struct dt_error *err);

/* energy.c: begins to count; before the first step, on all ranks. */
void dt_run_energy_begin(struct dt_run *run);
void dt_run_energy_end(struct dt_run *run);

/* energy.c: reads the counters if that was long ago; after each step. */
void dt_run_energy_poll(struct dt_run *run);

/* energy.c: the joules that this rank has counted since it was asked last. NAN:
 * unknown; 0: another rank of its host counts them.
 */
double dt_run_energy_take(struct dt_run *run);

/* health.c: rank 0 removes the checkpoints beyond checkpoint.total_limit, never
 * that of `step`. One that cannot be removed is a warning.
 */
void dt_run_prune(const struct dt_run *run, long step);

/* health.c: judges a step that was collected by its mean loss and
 * outcome. Prunes once the newest checkpoint is good.
 */
void dt_run_judge(struct dt_run *run, double loss,
                  enum dt_step_outcome outcome);

/* health.c: 1 if all weights are finite, 0 if not; the same on all ranks, which
 * all call it. No step may be in flight. -1: the device or a peer failed.
 */
int dt_run_weights_finite(struct dt_run *run, struct dt_error *err);

/* health.c: for a run that cannot recover, as `err` says (EX_DATAERR): adds
 * which checkpoint is good, and makes it the one to resume from. Only rank 0
 * does so; the others learn that it has failed. Returns -1.
 */
int dt_run_give_up(struct dt_run *run, struct dt_error *err);

/* save.c: is the run saved after this step? The same on all ranks. */
bool dt_run_save_due(const struct dt_run *run, long step);

/* save.c: saves the run, on all ranks together, with no step in flight. If that
 * fails the run goes on and tries again sooner than usual, unless this is the
 * `last` save, or checkpoint.max_failures have failed in a row: -1 on rank 0.
 * -1 too if the device or a peer failed.
 */
int dt_run_save_or_retry(struct dt_run *run, bool last, struct dt_error *err);

/* state.c: writes checkpoint-<step>, on all ranks together. Those beyond
 * checkpoint.total_limit stay until it is known to be good. 0; 1 if it could
 * not be written, and `why` says so on rank 0. -1: the device or a peer failed,
 * or the directory belongs to another run.
 */
int dt_run_save(struct dt_run *run, struct dt_error *why, struct dt_error *err);

/* state.c: the type of the weights in a checkpoint. */
enum dt_dtype dt_run_stored_type(const struct dt_run *run);

/* run.c: whether a rank was told to stop before the first step; all ranks call
 * it. -1: EX_TEMPFAIL, one was; a peer failed.
 */
int dt_run_share_stop(const struct dt_run *run, bool stopped,
                      struct dt_error *err);

/* run.c: waits for the stream, with no step in flight. -1: the device or a
 * peer failed.
 */
int dt_run_wait(struct dt_run *run, struct dt_error *err);

/* restore.c: whether training.resume names a checkpoint, if it names a
 * directory. -1: EX_NOINPUT.
 */
int dt_run_check_resume(const struct dt_conf *conf, struct dt_error *err);

/* restore.c: what dt_run_save will write, except for a few texts. */
size_t dt_run_checkpoint_bytes(struct dt_run *run);

/* state.c: whether a checkpoint of this step has no state of the optimizer, so
 * that nothing can resume from it.
 */
bool dt_run_saves_model_alone(const struct dt_run *run);

/* restore.c: the starting point, on every rank: weights, optimizer and progress
 * of the checkpoint that training.resume asks for, or of model.init. Rank 0
 * takes run.output_dir first. -1 on all ranks with EX_TEMPFAIL if rank 0 was
 * told to stop.
 */
int dt_run_restore(struct dt_run *run, struct dt_error *err);

#endif /* DT_RUN_RUN_H */
