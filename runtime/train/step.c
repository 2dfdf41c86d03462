/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - one optimizer step
 *
 * The host queues a step and goes on to the next one before the device has
 * finished it: loss, norm, clip factor and the decision to skip stay on the
 * device and are read one step late. The parameters of the next step (learning
 * rate, bias corrections, loss scale) depend on them, so it is queued with one
 * set for each outcome that the previous step may have.
 */
#include "config.h"

#include <math.h>

#include "base/log.h"
#include "base/span.h"
#include "run/dir/dir.h"
#include "run/reference/reference.h"
#include "sampling/sampling.h"
#include "train/resume/copies.h"
#include "train/resume/resume.h"
#include "train/resume/run_state.h"
#include "train/train.h"
#include "train/watch/watch.h"

enum { MAX_SKIPPED_IN_ROW = 50 };

/* --- micro-batches --- */

/* The upload of the third and later batches of a step waits for the batch
 * before the last one, and a new shape waits for everything in the stream.
 * Those may sit behind an all-reduce of the previous step that a lost peer
 * never completes, so wait through comm, which watches peers.
 */
static int wait_inputs(struct dt_run *run, struct dt_learner *learner,
                       const struct dt_graph_shape *shape, size_t a,
                       struct dt_error *err)
{
    const struct dt_learner_result *previous =
        &learner->results[run->queued % DT_MAX_IN_FLIGHT];
    if (a < DT_MODEL_BATCHES && dt_graphs_seen(learner->graphs, shape))
        return 0;
    return dt_learner_wait_result(learner, previous, err);
}

/* The number of the step that is being queued. */
static size_t current_step(const struct dt_run *run)
{
    return (size_t)(run->queued + 1) % DT_MAX_IN_FLIGHT;
}

/* Whether a batch that the loader gave as number `a` of a step is its last. */
static bool is_last(const struct dt_run *run, size_t a)
{
    return run->spec.tokens > 0 ? dt_loader_step_ends(run->loader)
                                : a + 1 == run->spec.A;
}

/* The next batch of the run's data; *more: another one of the step follows. */
static int next_batch(struct dt_run *run, size_t a, struct dt_batch *batch,
                      bool *more, struct dt_error *err)
{
    struct dt_sample_batches *samples = &run->samples.batches;
    if (run->spec.algo->advantages) {
        *more = a + 1 < dt_sample_batches_count(samples);
        return dt_sample_batches_get(samples, a, batch, err);
    }
    dt_live_phase(run->live, DT_ACCOUNT_DATA, NULL);
    int rc = dt_loader_next(run->loader, batch, err);
    dt_live_phase(run->live, DT_ACCOUNT_STEPS, NULL);
    if (rc < 0)
        return -1;
    *more = !is_last(run, a);
    return 0;
}

/* Sets run->pairs_per_token from the samples that the loader gives next. */
static void count_chosen(struct dt_run *run, const struct dt_loader *loader)
{
    uint64_t pairs, tokens;
    if (!run->spec.algo->loss || !loader)
        return;
    tokens = dt_loader_chosen_tokens(loader, &pairs);
    run->pairs_per_token = (double)pairs / (double)tokens;
}

/* Terms that micro-batch `a` adds to the denominator of the mean loss. For
 * completions all ranks know the denominator of the whole step, and rank 0
 * alone adds it. While the critic is trained alone, the policy has none, so its
 * step is empty.
 */
static double loss_count(const struct dt_run *run,
                         const struct dt_learner *learner, size_t a,
                         const struct dt_batch *batch)
{
    if (learner == &run->learner && dt_run_warms_up(run))
        return 0;
    if (run->spec.algo->advantages)
        return run->spec.rank == 0 && a == 0 ? run->samples.denominator : 0;
    return (double)(run->spec.algo->loss ? batch->pair_count
                                         : batch->target_count);
}

/* Queues the passes of a learner through micro-batch `a` of the step. */
static int queue_learner(struct dt_run *run, struct dt_learner *learner,
                         const struct dt_batch *batch, size_t a, bool more,
                         struct dt_error *err)
{
    const bool refers =
        learner == &run->learner && dt_run_refers(run) &&
        !run->spec.algo->critic_loss; /* else old_logprobs.c has asked it */
    const bool accumulate = dt_parallel_begin(
        learner->parallel, (uint64_t)run->queued + 1, a, a + 1 + more);
    const struct dt_graph_shape shape =
        dt_model_shape(learner->model, batch, accumulate);
    if (wait_inputs(run, learner, &shape, a, err) < 0 ||
        dt_model_bind(learner->model, batch, true, err) < 0 ||
        (refers && dt_run_reference(run, &shape, err) < 0))
        return -1;
    run->spec.exec.ops->step_add(run->spec.exec.stream, learner->step,
                                 loss_count(run, learner, a, batch), 0);
    return dt_run_queue_passes(run, learner, &shape, batch,
                               &run->in_flight[current_step(run)].metrics, err);
}

/* Queues micro-batch `a` of the step; *more: another one follows. */
static int queue_micro_batch(struct dt_run *run, size_t a, bool *more,
                             struct dt_error *err)
{
    struct dt_learner *learner;
    struct dt_batch batch;
    if (next_batch(run, a, &batch, more, err) < 0)
        return -1;
    dt_run_pick(run, &batch);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (queue_learner(run, learner, &batch, a, *more, err) < 0)
            return -1;
    return 0;
}

/* --- the parameters of a step --- */

/* Factor of the loss before the backward pass. Gradients are those of the sum
 * of the losses of tokens or pairs, so the mean over all ranks and
 * micro-batches takes one division by their number, which is known after the
 * step's reduction. Sums over many tokens would overflow fp16: there the sum is
 * divided by the largest number a step can have, and multiplied by the scaler's
 * scale.
 */
static double loss_scale(const struct dt_run *run,
                         const struct dt_learner *learner,
                         const struct dt_scaler *scaler)
{
    const struct dt_spec *spec = &run->spec;
    double most = (double)(spec->B * spec->A * (size_t)spec->world);
    if (!spec->algo->loss)
        most *= (double)spec->T;
    if (spec->algo->advantages)
        most = run->samples.denominator;
    return learner->compute == DT_F16 ? scaler->scale / most : 1.0;
}

/* Position in the schedule after so many steps. Skipped steps of generations
 * that ended early count, and ppo can keep the learning rate constant within a
 * generation.
 */
static long schedule_step(const struct dt_run *run, long steps)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_samples *s = &run->samples;
    steps += run->ppo.left_out;
    if (!spec->algo->critic_loss || !spec->conf.ppo.scheduler_by_update)
        return steps;
    long before = (long)((s->use + spec->sampling.uses - 1) %
                         spec->sampling.uses); /* this one */
    return steps > before ? steps - before : 0;
}

/* The parameters of the next step if the one in flight has this outcome. If
 * none is in flight, the outcome is ignored.
 */
static struct dt_step_params params_after(const struct dt_run *run,
                                          const struct dt_learner *learner,
                                          bool in_flight,
                                          enum dt_step_outcome outcome)
{
    struct dt_scaler scaler = learner->scaler;
    long steps = dt_optim_steps(learner->optim);
    struct dt_error late; /* collecting the step reports the same error */
    if (in_flight && outcome == DT_STEP_TAKEN)
        steps++;
    if (in_flight && outcome != DT_STEP_EMPTY)
        dt_scaler_update(&scaler, outcome == DT_STEP_OVERFLOW, &late);
    struct dt_step_params params = dt_optim_step_params(
        learner->optim, steps + 1,
        dt_schedule_lr(&learner->schedule, schedule_step(run, steps)));
    params.loss_scale = loss_scale(run, learner, &scaler);
    return params;
}

static void begin_step(struct dt_run *run, struct dt_learner *learner,
                       double told)
{
    const struct dt_exec *exec = &run->spec.exec;
    bool previous = run->in_flight[run->queued % DT_MAX_IN_FLIGHT].open;
    struct dt_step_params params[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++)
        params[i] =
            params_after(run, learner, previous, (enum dt_step_outcome)i);
    exec->ops->step_begin(exec->stream, learner->step, params);
    exec->ops->step_add(exec->stream, learner->step, 0, told);
}

/* Marks the beginning of a part of a step on the device. */
static void begin_lap(const struct dt_run *run, enum dt_lap lap)
{
    if (run->spec.exec.device->lap)
        run->spec.exec.device->lap(run->spec.exec.stream, lap);
}

int dt_run_compare(struct dt_run *run, long step, struct dt_error *err)
{
    int rc = dt_replicas_check(run, step, err);
    if (rc < 0 && err->lost_rank < 0) {
        dt_state_forget(run);
        dt_copies_forget(run);
    }
    return rc;
}

/* Compares replicas, if that is due. Before an update: the gather after it
 * replaces weights that the passes of this step have read.
 */
static int compare_if_due(struct dt_run *run, struct dt_error *err)
{
    const long step = run->queued + 1;
    if (dt_replicas_spoil(run, err) < 0)
        return -1;
    return dt_replicas_due(run, step) ? dt_run_compare(run, step, err) : 0;
}

/* Judges the gradients of all learners, then updates all. No learner is updated
 * before the scalars of all are decided: a step is either none's or can be
 * ended for all (run_state.h).
 */
static int update_all(struct dt_run *run, struct dt_error *err)
{
    const double max_norm = run->spec.conf.training.max_grad_norm;
    const uint64_t number = (uint64_t)run->queued + 1;
    struct dt_learner *learner;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_judge(learner, max_norm, err) < 0)
            return -1;
    dt_state_commit(run);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_update(learner, number, err) < 0)
            return -1;
    return 0;
}

/* Sums the metrics of a step over ranks. */
static int sum_metrics(struct dt_run *run, struct dt_in_flight *step,
                       struct dt_error *err)
{
    if (!run->spec.algo->loss || step->summed)
        return 0;
    step->summed = true;
    return dt_metrics_reduce(run->spec.algo, &step->metrics, run->comm, err);
}

/* Completes the gradients, updates all learners, and then queues a copy of
 * their results to the host. When it arrives the step has finished. Metrics are
 * summed before, so that every rank has all that another one needs to end the
 * step; but not where the host runs ahead of the device, as it would wait.
 */
static int end_step(struct dt_run *run, struct dt_in_flight *current,
                    struct dt_error *err)
{
    struct dt_learner *learner;
    struct dt_span span;
    if (run->spec.exec.device->is_host && sum_metrics(run, current, err) < 0)
        return -1;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_parallel_finish(learner->parallel, err) < 0)
            return -1;
    if (compare_if_due(run, err) < 0 || dt_flight_settle(run, err) < 0 ||
        dt_copies_end(run, err) < 0)
        return -1;
    dt_state_prepare(run, current);
    dt_span_begin_number(&span, DT_SPAN_OPTIMIZER, 0);
    int rc = update_all(run, err);
    dt_span_end(&span);
    if (rc < 0)
        return -1;
    begin_lap(run, DT_LAP_OTHER);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_send_result(learner, learner->step,
                                   &learner->results[current_step(run)],
                                   err) < 0)
            return -1;
    return 0;
}

static int queue_step(struct dt_run *run, bool stop, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_in_flight *current = &run->in_flight[current_step(run)];
    struct dt_learner *learner;
    bool more = true;

    assert(!current->open);
    if (spec->algo->advantages) {
        int rc = dt_run_next_samples(run, err);
        if (rc != 0)
            return rc;
        current->numbers = run->samples.numbers;
        current->warms_up = dt_run_warms_up(run);
        current->fresh = run->samples.use == 1 % spec->sampling.uses &&
                         spec->conf.rollout.overlap == 0;
    }
    dt_metrics_clear(spec->algo, &current->metrics);
    current->summed = false;
    count_chosen(run, run->loader);
    run->reference.sums = &run->reference.precomputed[0];
    const double told = dt_run_trace_tell(run, stop) + dt_flight_tell(run) +
                        dt_copies_tell(run);
    begin_lap(run, DT_LAP_COMPUTE);
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        begin_step(run, learner, told);
    for (size_t a = 0; more; a++)
        if (queue_micro_batch(run, a, &more, err) < 0)
            return -1;
    if (spec->algo->passed &&
        spec->algo->passed(run, &current->metrics, err) < 0)
        return -1;
    current->position =
        run->loader ? dt_loader_position(run->loader) : run->samples.position;
    if (end_step(run, current, err) < 0)
        return -1;
    current->open = true;
    run->queued++;
    return dt_run_reference_follow(run, run->queued, err);
}

int dt_run_queue_step(struct dt_run *run, bool stop, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_STEP, (uint64_t)run->queued + 1);
    int rc = queue_step(run, stop, err);
    dt_span_end(&span);
    return rc;
}

/* --- its result --- */

static enum dt_step_outcome outcome_of(const struct dt_learner *learner,
                                       size_t number)
{
    const double *scalars = learner->results[number].scalars;
    return (enum dt_step_outcome)(int)scalars[DT_STEP_OUTCOME];
}

/* The learner whose numbers the step reports. */
static const struct dt_learner *trained_in(const struct dt_run *run,
                                           size_t number)
{
    return run->in_flight[number].warms_up ? &run->critic : &run->learner;
}

/* Outcome of a step: taken only if every learner that it trains took it. */
static enum dt_step_outcome outcome_of_all(struct dt_run *run, size_t number)
{
    enum dt_step_outcome outcome = outcome_of(trained_in(run, number), number);
    return outcome == DT_STEP_TAKEN && run->spec.critic.layout
               ? outcome_of(&run->critic, number)
               : outcome;
}

static int count_skipped(struct dt_run *run, size_t number,
                         enum dt_step_outcome outcome, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    bool critic = run->in_flight[number].warms_up ||
                  outcome_of(&run->learner, number) == DT_STEP_TAKEN;
    const char *whose = critic ? " of the critic" : "";
    p->skipped_in_row++;
    p->skipped++;
    if (outcome == DT_STEP_OVERFLOW)
        dt_log(run->spec.rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
               "step %ld skipped: the gradient norm%s is not finite",
               p->step + 1, whose);
    else
        dt_log(run->spec.rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
               "step %ld skipped: no targets", p->step + 1);
    if (p->skipped_in_row < MAX_SKIPPED_IN_ROW)
        return 0;
    return dt_error_set(
        err, EX_DATAERR,
        "%d steps in a row had no finite gradient%s: lower "
        "%s%s, or look at the data near global "
        "sample %llu; the last of them is step %ld",
        MAX_SKIPPED_IN_ROW, whose, critic ? "ppo.critic.lr" : "optimizer.lr",
        run->learner.compute == DT_F16 ? " or precision.loss_scale" : "",
        (unsigned long long)p->position, p->step + 1);
}

/* Updates the state of a learner after a step. -1: its loss scale cannot be
 * lowered.
 */
static int settle(struct dt_learner *learner, enum dt_step_outcome outcome,
                  struct dt_error *err)
{
    if (outcome == DT_STEP_TAKEN)
        dt_optim_set_steps(learner->optim, dt_optim_steps(learner->optim) + 1);
    return outcome == DT_STEP_EMPTY
               ? 0
               : dt_scaler_update(&learner->scaler, outcome == DT_STEP_OVERFLOW,
                                  err);
}

/* Updates the state of the run after a step that has finished. -1: continuing
 * would be useless.
 */
static int settle_all(struct dt_run *run, size_t number, struct dt_error *err)
{
    const enum dt_step_outcome outcome = outcome_of_all(run, number);
    struct dt_learner *learner;
    if (outcome == DT_STEP_TAKEN)
        run->progress.skipped_in_row = 0;
    else if (count_skipped(run, number, outcome, err) < 0)
        return -1;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (settle(learner, outcome_of(learner, number), err) < 0)
            return -1;
    return 0;
}

/* Adds the loss of a step. One without a finite loss updated nothing and does
 * not count in the mean.
 */
static void add_loss(struct dt_run *run, const struct dt_metrics *metrics,
                     double sum, double count)
{
    struct dt_progress *p = &run->progress;
    double loss = sum / count;
    if (!isfinite(loss))
        return;
    if (p->first_loss == 0)
        p->first_loss = loss;
    p->loss_sum += sum;
    p->loss_tokens += count;
    dt_metrics_add(run->spec.algo, &p->metrics, metrics);
}

int dt_run_collect(struct dt_run *run, struct dt_report_step *line,
                   bool *stop_asked, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct dt_learner *learner;
    size_t number = (size_t)(p->step + 1) % DT_MAX_IN_FLIGHT;
    struct dt_in_flight *current = &run->in_flight[number];
    const double *scalars = trained_in(run, number)->results[number].scalars;
    struct dt_metrics *metrics = &current->metrics;
    if (!current->open)
        return 0;
    for (size_t i = 0; (learner = dt_run_learner(run, i)); i++)
        if (dt_learner_wait_result(learner, &learner->results[number], err) < 0)
            return -1;
    current->open = false;
    if (sum_metrics(run, current, err) < 0)
        return -1;
    if (dt_run_keep_output(run, err) < 0)
        return -1;
    double sum = run->spec.algo->loss ? metrics->loss : scalars[DT_STEP_LOSS];
    if (settle_all(run, number, err) < 0)
        return dt_run_give_up(run, err);
    line->lr = scalars[DT_STEP_LR];
    line->grad_norm = scalars[DT_STEP_NORM];
    p->step++;
    p->position = current->position;
    p->tokens +=
        run->spec.algo->loss ? metrics->tokens : scalars[DT_STEP_TARGETS];
    add_loss(run, metrics, sum, scalars[DT_STEP_TARGETS]);
    dt_run_add_numbers(&run->samples, &current->numbers);
    if (current->fresh)
        dt_run_warn_disagreement(run, metrics);
    dt_run_judge(run, sum / scalars[DT_STEP_TARGETS],
                 outcome_of_all(run, number));
    const double told =
        dt_flight_hear(run, dt_copies_hear(run, scalars[DT_STEP_STOP]));
    if (told >= 1)
        *stop_asked = true;
    dt_trace_take(run->trace, told, run->queued + 1);
    return 1;
}

/* --- evaluation --- */

static int evaluate_batch(struct dt_run *run, const struct dt_batch *batch,
                          struct dt_metrics *metrics, struct dt_error *err)
{
    struct dt_learner *learner = &run->learner;
    if (dt_learner_forward_all(learner, err) < 0)
        return -1;
    if (run->spec.algo->loss)
        return dt_run_weigh(run, learner, batch, false, false, metrics, err);
    dt_model_loss_and_backward(learner->model, learner->eval, false);
    return 0;
}

static int evaluate_rows(struct dt_run *run, struct dt_loader *loader,
                         struct dt_metrics *metrics, struct dt_error *err)
{
    const struct dt_exec *exec = &run->spec.exec;
    struct dt_batch batch;
    int more;
    while ((more = dt_loader_next(loader, &batch, err)) > 0) {
        dt_run_pick(run, &batch);
        if (dt_model_bind(run->learner.model, &batch, false, err) < 0 ||
            (dt_run_refers(run) && dt_run_reference(run, NULL, err) < 0))
            return -1;
        if (evaluate_batch(run, &batch, metrics, err) < 0)
            return -1;
        exec->ops->step_add(exec->stream, run->learner.eval,
                            loss_count(run, &run->learner, 0, &batch), 0);
    }
    return more;
}

int dt_run_evaluate(struct dt_run *run, double *loss, double *count,
                    struct dt_metrics *metrics, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    static const struct dt_step_params params[DT_STEP_OUTCOMES];
    struct dt_learner *learner = &run->learner;
    struct dt_learner_result *result = &learner->results[0];
    struct dt_loader *loader = dt_run_pass(run, run->data.eval, err);
    if (!loader)
        return dt_error_prefix(err, "evaluation");
    assert(!run->in_flight[0].open && !run->in_flight[1].open);
    spec->exec.ops->step_begin(spec->exec.stream, learner->eval, params);
    dt_metrics_clear(spec->algo, metrics);
    count_chosen(run, loader);
    run->reference.sums = &run->reference.precomputed[1];
    int status = evaluate_rows(run, loader, metrics, err);
    dt_loader_destroy(loader);
    if (status == 0 && spec->algo->loss)
        status = dt_metrics_reduce(run->spec.algo, metrics, run->comm, err);
    if (status < 0 || dt_learner_reduce(learner, learner->eval, err) < 0 ||
        dt_learner_send_result(learner, learner->eval, result, err) < 0 ||
        dt_learner_wait_result(learner, result, err) < 0)
        return -1;
    *count = result->scalars[DT_STEP_TARGETS];
    *loss = (spec->algo->loss ? metrics->loss : result->scalars[DT_STEP_LOSS]) /
            *count;
    return 0;
}
