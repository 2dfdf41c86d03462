/* SPDX-License-Identifier: Apache-2.0 */
/*
 * step.c - what a step is
 *
 * The host queues a step and goes on to the next one before the device has
 * finished it: loss, norm, clip factor and the decision to skip stay there, and
 * come back one step late. What the next step is made with depends on them
 * (learning rate, bias corrections, loss scale), so that it is queued with one
 * rule for each way in which the step before may end.
 */
#include "config.h"

#include <math.h>

#include "algo/run.h"
#include "base/log.h"

enum { MAX_SKIPPED_IN_ROW = 50 };

/* --- one micro-batch up and down --- */

/* Pieces of its work; the backward pass of unit u is piece u. */
struct work {
    struct dt_run *run;
    size_t u;
    bool accumulate;
};

static void forward_and_loss(void *ctx)
{
    const struct work *work = ctx;
    for (size_t u = 0; u < work->u; u++)
        dt_model_forward(work->run->model, u);
    dt_model_loss(work->run->model, work->run->step, work->accumulate);
}

static void backward(void *ctx)
{
    const struct work *work = ctx;
    dt_model_backward(work->run->model, work->u, work->accumulate);
}

/* From the third batch of a step on the host waits for memory of the one before
 * last, and with a new shape for all that is in the stream: there the sums of
 * the step before may stand, which a lost peer will never send. comm waits for
 * those, as nobody else would notice.
 */
static int catch_up(struct dt_run *run, const struct dt_graph_shape *shape,
                    size_t a, struct dt_error *err)
{
    const struct dt_flight *before = &run->flights[run->queued % DT_FLIGHTS];
    if (a < DT_MODEL_BATCHES && dt_graphs_met(run->graphs, shape))
        return 0;
    return dt_comm_wait_event(run->comm, run->exec.device, before->done, err);
}

/* Micro-batch `a` of run->A. */
static int micro_batch(struct dt_run *run, size_t a, struct dt_error *err)
{
    struct dt_batch batch;
    size_t head = run->layout->unit_count - 1;
    struct work work = {run, head, a > 0};
    bool last = a + 1 == run->A;

    if (dt_loader_next(run->loader, &batch, err) < 0)
        return -1;
    const struct dt_graph_shape shape = {batch.B, batch.T, batch.starts, a > 0};
    if (catch_up(run, &shape, a, err) < 0 ||
        dt_model_bind(run->model, &batch, true, err) < 0)
        return -1;
    if (dt_graphs_run(run->graphs, &shape, head, forward_and_loss, &work, err) <
        0)
        return -1;
    run->exec.ops->step_add(run->exec.stream, run->step,
                            (double)batch.target_count, 0);
    if (last && dt_parallel_ready(run->parallel, head, err) < 0)
        return -1;
    for (work.u = head; work.u-- > 0;) {
        if (dt_graphs_run(run->graphs, &shape, work.u, backward, &work, err) <
            0)
            return -1;
        if (last && dt_parallel_ready(run->parallel, work.u, err) < 0)
            return -1;
    }
    return 0;
}

/* --- the rules of a step --- */

/* Gradients are those of the sum of the token losses: the mean over all ranks
 * and micro-batches needs only one division, by the number of targets, which is
 * known after the step's reduction. Sums of many tokens would not fit into
 * fp16, so that there the sum is divided by the most targets a step can have,
 * and multiplied by the scaler's scale.
 */
static double loss_scale(const struct dt_run *run,
                         const struct dt_scaler *scaler)
{
    double most = (double)(run->B * run->T * run->A * (size_t)run->world);
    return run->weights.dtype == DT_F16 ? scaler->scale / most : 1.0;
}

/* What the next step is made with if the one under way has this outcome, or, if
 * none is, in any case.
 */
static struct dt_step_rule rule_after(const struct dt_run *run, bool under_way,
                                      enum dt_step_outcome outcome)
{
    struct dt_scaler scaler = run->scaler;
    long steps = dt_optim_steps(run->optim);
    struct dt_error late; /* the same error comes when the step is settled */
    if (under_way && outcome == DT_STEP_TAKEN)
        steps++;
    if (under_way && outcome != DT_STEP_EMPTY)
        dt_scaler_update(&scaler, outcome == DT_STEP_OVERFLOW, &late);
    struct dt_step_rule rule = dt_optim_rule(
        run->optim, steps + 1, dt_schedule_lr(&run->schedule, steps));
    rule.loss_scale = loss_scale(run, &scaler);
    return rule;
}

/* Sums of the scalars over ranks. */
static int reduce(struct dt_run *run, struct dt_view step, struct dt_error *err)
{
    dt_ticket_t ticket;
    if (dt_comm_all_reduce(run->comm, dt_view_slice(step, 0, DT_STEP_SUMS),
                           DT_SUM, DT_F32, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(run->comm, ticket, err);
}

/* Queues the copy of the scalars to the host. */
static int send_home(struct dt_run *run, struct dt_view step,
                     struct dt_flight *flight, struct dt_error *err)
{
    const struct dt_exec *exec = &run->exec;
    if (exec->device->copy(exec->stream, flight->scalars, dt_view_data(step),
                           DT_STEP_COUNT * sizeof(double), err) < 0)
        return -1;
    return exec->device->event_record(flight->done, exec->stream, err);
}

int dt_run_queue_step(struct dt_run *run, bool stop, struct dt_error *err)
{
    const struct dt_exec *exec = &run->exec;
    struct dt_view copy = run->weights_buf ? run->weights : (struct dt_view){0};
    struct dt_flight *before = &run->flights[run->queued % DT_FLIGHTS];
    struct dt_flight *flight = &run->flights[(run->queued + 1) % DT_FLIGHTS];
    struct dt_step_rule rules[DT_STEP_OUTCOMES];

    assert(!flight->open);
    for (int i = 0; i < DT_STEP_OUTCOMES; i++)
        rules[i] = rule_after(run, before->open, (enum dt_step_outcome)i);
    exec->ops->step_begin(exec->stream, run->step, rules);
    exec->ops->step_add(exec->stream, run->step, 0, stop);
    for (size_t a = 0; a < run->A; a++)
        if (micro_batch(run, a, err) < 0)
            return -1;
    if (dt_parallel_finish(run->parallel, err) < 0 ||
        reduce(run, run->step, err) < 0)
        return -1;
    dt_optim_step(run->optim, run->step, run->master, copy, run->grads,
                  run->conf.training.max_grad_norm);
    flight->position = dt_loader_position(run->loader);
    flight->open = true;
    run->queued++;
    return send_home(run, run->step, flight, err);
}

/* --- what came of it --- */

static int skipped(struct dt_run *run, enum dt_step_outcome outcome,
                   struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    p->skipped_in_row++;
    dt_log(run->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
           "step %ld skipped: %s", p->step + 1,
           outcome == DT_STEP_OVERFLOW ? "the gradient norm is not finite"
                                       : "no targets");
    if (p->skipped_in_row < MAX_SKIPPED_IN_ROW)
        return 0;
    return dt_error_set(
        err, EX_DATAERR,
        "%d steps in a row had no finite gradient: lower "
        "optimizer.lr%s, or look at the data near global "
        "sample %llu; the last of them is step %ld",
        MAX_SKIPPED_IN_ROW,
        run->weights.dtype == DT_F16 ? " or precision.loss_scale" : "",
        (unsigned long long)p->position, p->step + 1);
}

/* A step whose loss is not finite updates nothing, and has no part in the mean.
 */
static void add_loss(struct dt_progress *p, double sum, double targets)
{
    double loss = sum / targets;
    if (!isfinite(loss))
        return;
    if (p->first_loss == 0)
        p->first_loss = loss;
    p->loss_sum += sum;
    p->loss_tokens += targets;
}

int dt_run_settle(struct dt_run *run, struct dt_report_step *line,
                  bool *stop_asked, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct dt_flight *flight = &run->flights[(p->step + 1) % DT_FLIGHTS];
    const double *scalars = flight->scalars;
    if (!flight->open)
        return 0;
    if (dt_comm_wait_event(run->comm, run->exec.device, flight->done, err) < 0)
        return -1;
    flight->open = false;
    enum dt_step_outcome outcome =
        (enum dt_step_outcome)(int)scalars[DT_STEP_OUTCOME];
    if (outcome == DT_STEP_TAKEN) {
        p->skipped_in_row = 0;
        dt_optim_set_steps(run->optim, dt_optim_steps(run->optim) + 1);
    } else if (skipped(run, outcome, err) < 0) {
        return dt_run_give_up(run, err);
    }
    if (outcome != DT_STEP_EMPTY &&
        dt_scaler_update(&run->scaler, outcome == DT_STEP_OVERFLOW, err) < 0)
        return dt_run_give_up(run, err);
    line->lr = scalars[DT_STEP_LR];
    line->grad_norm = scalars[DT_STEP_NORM];
    p->step++;
    p->position = flight->position;
    p->tokens += scalars[DT_STEP_TARGETS];
    add_loss(p, scalars[DT_STEP_LOSS], scalars[DT_STEP_TARGETS]);
    dt_run_judge(run, scalars[DT_STEP_LOSS] / scalars[DT_STEP_TARGETS],
                 outcome);
    if (scalars[DT_STEP_STOP] > 0)
        *stop_asked = true;
    return 1;
}

/* --- evaluation --- */

static int evaluate_rows(struct dt_run *run, struct dt_loader *loader,
                         struct dt_error *err)
{
    const struct dt_exec *exec = &run->exec;
    struct dt_batch batch;
    int more;
    while ((more = dt_loader_next(loader, &batch, err)) > 0) {
        if (dt_model_bind(run->model, &batch, false, err) < 0)
            return -1;
        for (size_t u = 0; u + 1 < run->layout->unit_count; u++)
            dt_model_forward(run->model, u);
        dt_model_loss(run->model, run->eval, false);
        exec->ops->step_add(exec->stream, run->eval, (double)batch.target_count,
                            0);
    }
    return more;
}

int dt_run_evaluate(struct dt_run *run, double *loss, double *tokens,
                    struct dt_error *err)
{
    static const struct dt_step_rule rules[DT_STEP_OUTCOMES];
    struct dt_flight *flight = &run->flights[0];
    struct dt_loader *loader = dt_run_loader(run, false, err);
    if (!loader)
        return dt_error_prefix(err, "evaluation");
    assert(!flight->open && !run->flights[1].open);
    run->exec.ops->step_begin(run->exec.stream, run->eval, rules);
    int result = evaluate_rows(run, loader, err);
    dt_loader_destroy(loader);
    if (result < 0 || reduce(run, run->eval, err) < 0 ||
        send_home(run, run->eval, flight, err) < 0 ||
        dt_comm_wait_event(run->comm, run->exec.device, flight->done, err) < 0)
        return -1;
    *tokens = flight->scalars[DT_STEP_TARGETS];
    *loss = flight->scalars[DT_STEP_LOSS] / *tokens;
    return 0;
}
