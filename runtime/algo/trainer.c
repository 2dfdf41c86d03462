/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - the training loop */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "algo/run.h"
#include "algo/trainer.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"

enum { MAX_SKIPPED_IN_ROW = 50 };

/* What the ranks tell each other once a step, in one small reduction. */
enum { SUM_LOSS, SUM_TARGETS, SUM_STOP, SUM_COUNT };

/* Gradients are those of the sum of the token losses: the mean over all ranks
 * and micro-batches needs only one division, by the number of targets, which is
 * known after the step's reduction. Sums of many tokens would not fit into
 * fp16, so that there the sum is divided by the most targets a step can have,
 * and multiplied by the scaler's scale.
 */
static double loss_scale(const struct dt_run *run)
{
    double most = (double)(run->B * run->T * run->A * (size_t)run->world);
    return run->weights.dtype == DT_F16 ? run->scaler.scale / most : 1.0;
}

/* One micro-batch up and down. */
static int micro_batch(struct dt_run *run, bool first, bool last,
                       double sums[SUM_COUNT], struct dt_error *err)
{
    struct dt_batch batch;
    size_t head = run->layout->unit_count - 1;

    if (dt_loader_next(run->loader, &batch, err) < 0)
        return -1;
    for (size_t u = 0; u < head; u++)
        dt_model_forward(run->model, u, &batch, true);
    sums[SUM_LOSS] +=
        dt_model_loss(run->model, &batch, true, (float)loss_scale(run), !first);
    sums[SUM_TARGETS] += (double)batch.target_count;
    if (last && dt_parallel_ready(run->parallel, head, err) < 0)
        return -1;
    for (size_t u = head; u-- > 0;) {
        dt_model_backward(run->model, u, &batch, !first);
        if (last && dt_parallel_ready(run->parallel, u, err) < 0)
            return -1;
    }
    return 0;
}

/* The update, or none if the gradients are not finite. */
static int update(struct dt_run *run, double targets, double lr,
                  double *grad_norm, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct dt_view copy = run->weights_buf ? run->weights : (struct dt_view){0};
    double scale = targets > 0 ? 1.0 / (targets * loss_scale(run)) : 0.0;
    double norm = dt_optim_grad_norm(run->optim, run->grads, scale);

    *grad_norm = norm;
    if (isfinite(norm) && targets > 0) {
        double clip = dt_optim_clip(norm, run->conf.training.max_grad_norm);
        dt_optim_step(run->optim, run->master, copy, run->grads, lr,
                      clip * scale);
        p->skipped_in_row = 0;
        return dt_scaler_update(&run->scaler, false, err);
    }
    p->skipped_in_row++;
    dt_log(run->rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo",
           "step %ld skipped: %s", p->step + 1,
           targets > 0 ? "the gradient norm is not finite" : "no targets");
    if (p->skipped_in_row >= MAX_SKIPPED_IN_ROW)
        return dt_error_set(
            err, EX_DATAERR,
            "%d steps in a row had no finite gradient: lower "
            "optimizer.lr%s, or look at the data near global "
            "sample %llu",
            MAX_SKIPPED_IN_ROW,
            run->weights.dtype == DT_F16 ? " or precision.loss_scale" : "",
            (unsigned long long)p->position);
    return targets > 0 ? dt_scaler_update(&run->scaler, true, err) : 0;
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

/* One optimizer step; *stop_asked if any rank was told to stop. */
static int train_step(struct dt_run *run, bool stop_here, bool *stop_asked,
                      struct dt_report_step *line, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    double sums[SUM_COUNT] = {[SUM_STOP] = stop_here};

    for (size_t a = 0; a < run->A; a++)
        if (micro_batch(run, a == 0, a + 1 == run->A, sums, err) < 0)
            return -1;
    if (dt_parallel_finish(run->parallel, err) < 0 ||
        dt_comm_reduce_scalars(run->comm, sums, SUM_COUNT, DT_SUM, err) < 0)
        return -1;
    line->lr = dt_schedule_lr(&run->schedule, dt_optim_steps(run->optim));
    if (update(run, sums[SUM_TARGETS], line->lr, &line->grad_norm, err) < 0)
        return -1;

    p->step++;
    p->position = dt_loader_position(run->loader);
    p->tokens += sums[SUM_TARGETS];
    add_loss(p, sums[SUM_LOSS], sums[SUM_TARGETS]);
    *stop_asked = sums[SUM_STOP] > 0;
    return 0;
}

/* Mean token loss on the held-out rows, over all ranks. */
static int evaluate(struct dt_run *run, double *loss, struct dt_error *err)
{
    double sums[2] = {0};
    struct dt_batch batch;
    struct dt_loader *loader = dt_run_loader(run, false, err);
    if (!loader)
        return dt_error_prefix(err, "evaluation");
    int more;
    while ((more = dt_loader_next(loader, &batch, err)) > 0) {
        for (size_t u = 0; u + 1 < run->layout->unit_count; u++)
            dt_model_forward(run->model, u, &batch, false);
        sums[0] += dt_model_loss(run->model, &batch, false, 0.0f, false);
        sums[1] += (double)batch.target_count;
    }
    dt_loader_destroy(loader);
    if (more < 0)
        return -1;
    if (dt_comm_reduce_scalars(run->comm, sums, 2, DT_SUM, err) < 0)
        return -1;
    *loss = sums[0] / sums[1];
    return run->report ? dt_report_eval(run->report, run->progress.step, *loss,
                                        sums[1], err)
                       : 0;
}

static bool every(long steps, long step)
{
    return steps > 0 && step % steps == 0;
}

/* Is an evaluation due after this step? */
static bool eval_due(const struct dt_run *run, bool last)
{
    const struct dt_conf *conf = &run->conf;
    long step = run->progress.step;
    double per_step = (double)(run->B * run->A * (size_t)run->world);
    if (!run->data.eval || conf->training.eval_strategy == DT_CONF_NO)
        return false;
    if (last)
        return true;
    if (conf->training.eval_strategy == DT_CONF_STEPS)
        return every(conf->training.eval_steps, step);
    double epoch = (double)run->epoch_samples;
    return floor((double)step * per_step / epoch) >
           floor((double)(step - 1) * per_step / epoch);
}

static bool save_due(const struct dt_run *run, bool last)
{
    const struct dt_conf *conf = &run->conf;
    return last || (conf->checkpoint.strategy == DT_CONF_STEPS &&
                    every(conf->checkpoint.steps, run->progress.step));
}

/* The line of a step, when logging.steps or the first or last one ask for it.
 */
static int report_step(struct dt_run *run, struct dt_report_step *line,
                       bool last, double *since, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    bool first = p->step == 1 && run->conf.logging.first_step;
    if (!last && !first && !every(run->conf.logging.steps, p->step))
        return 0;
    double now = dt_clock_now();
    line->step = p->step;
    line->epoch = (double)p->position / (double)run->epoch_samples;
    line->loss = p->loss_sum / p->loss_tokens;
    line->tokens = p->loss_tokens;
    line->seconds = now - *since;
    *since = now;
    p->loss_sum = p->loss_tokens = 0;
    return run->report ? dt_report_step(run->report, line, err) : 0;
}

static int train(struct dt_run *run, bool (*stop)(void),
                 struct dt_report_summary *summary, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct dt_report_step line = {.loss = NAN};
    bool stop_asked = false;
    double since = dt_clock_now();

    if (run->conf.training.eval_only)
        return evaluate(run, &summary->eval_loss, err);
    while (p->step < run->total_steps && !stop_asked) {
        dt_fault_step(p->step + 1);
        if (dt_fault("train.step"))
            return dt_error_set(err, EX_SOFTWARE, "failed on purpose");
        if (train_step(run, stop(), &stop_asked, &line, err) < 0)
            return -1;
        bool last = p->step == run->total_steps;
        if (report_step(run, &line, last, &since, err) < 0 ||
            (eval_due(run, last) &&
             evaluate(run, &summary->eval_loss, err) < 0) ||
            (save_due(run, last || stop_asked) && dt_run_save(run, err) < 0))
            return -1;
        summary->steps++;
    }
    summary->last_loss = line.loss;
    if (p->step < run->total_steps)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal after step %ld of %ld; %s",
                            p->step, run->total_steps,
                            run->conf.checkpoint.only_model
                                ? "the weights are saved, but "
                                  "checkpoint.only_model lets no run go on"
                                : "the checkpoint is saved, go on with "
                                  "training.resume: auto");
    return 0;
}

int dt_trainer_run(const struct dt_conf *conf, struct dt_comm *comm,
                   int local_size, bool (*stop)(void), struct dt_error *err)
{
    struct dt_run run = {0};
    struct dt_report_summary summary = {.first_loss = NAN, .eval_loss = NAN};
    int result = dt_run_init(&run, conf, comm, local_size, err);
    if (result == 0) {
        double start = dt_clock_now(), tokens = run.progress.tokens;
        result = train(&run, stop, &summary, err);
        summary.seconds = dt_clock_now() - start;
        summary.tokens = run.progress.tokens - tokens;
        if (summary.steps > 0 && run.progress.first_loss != 0)
            summary.first_loss = run.progress.first_loss;
        summary.peak_bytes = dt_device_peak_bytes();
        summary.output = run.ckpt_path[0] ? run.ckpt_path : NULL;
        if (result == 0 && run.report)
            dt_report_summary(run.report, &summary);
    }
    /* Nobody leaves while rank 0 still writes the last checkpoint. */
    if (result == 0 || err->status == EX_TEMPFAIL) {
        struct dt_error late;
        if (dt_comm_barrier(comm, &late) < 0 && result == 0) {
            *err = late;
            result = -1;
        }
    }
    dt_run_fini(&run);
    return result;
}
