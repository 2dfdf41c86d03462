/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - the training loop */
#include "config.h"

#include <math.h>

#include "algo/run.h"
#include "algo/trainer.h"
#include "base/clock.h"
#include "base/fault.h"

/* What the loop carries from step to step. */
struct loop {
    struct dt_report_summary *summary;
    struct dt_report_step line;
    double since; /* when the last line was written */
    bool stop_asked;
};

static bool every(long steps, long step)
{
    return steps > 0 && step % steps == 0;
}

/* Is an evaluation due after this step? */
static bool eval_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->conf;
    double per_step = (double)(run->B * run->A * (size_t)run->world);
    if (!run->data.eval || conf->training.eval_strategy == DT_CONF_NO)
        return false;
    if (step == run->total_steps)
        return true;
    if (conf->training.eval_strategy == DT_CONF_STEPS)
        return every(conf->training.eval_steps, step);
    double epoch = (double)run->epoch_samples;
    return floor((double)step * per_step / epoch) >
           floor((double)(step - 1) * per_step / epoch);
}

static bool save_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->conf;
    return step == run->total_steps ||
           (conf->checkpoint.strategy == DT_CONF_STEPS &&
            every(conf->checkpoint.steps, step));
}

static int evaluate(struct dt_run *run, struct dt_report_summary *summary,
                    struct dt_error *err)
{
    double tokens;
    if (dt_run_evaluate(run, &summary->eval_loss, &tokens, err) < 0)
        return -1;
    return run->report ? dt_report_eval(run->report, run->progress.step,
                                        summary->eval_loss, tokens, err)
                       : 0;
}

/* The line of a step, when logging.steps or the first or last one ask for it.
 */
static int report_step(struct dt_run *run, struct dt_report_step *line,
                       double *since, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    bool first = p->step == 1 && run->conf.logging.first_step;
    bool last = p->step == run->total_steps;
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

/* Reads the results of steps until at most `open` are still under way. */
static int settle(struct dt_run *run, long open, struct loop *loop,
                  struct dt_error *err)
{
    while (run->queued - run->progress.step > open) {
        if (dt_run_settle(run, &loop->line, &loop->stop_asked, err) < 0 ||
            report_step(run, &loop->line, &loop->since, err) < 0)
            return -1;
        loop->summary->steps++;
    }
    return 0;
}

/* Queues a step, and does what is due after it. */
static int next_step(struct dt_run *run, bool (*stop)(void), struct loop *loop,
                     struct dt_error *err)
{
    long step = run->queued + 1;
    dt_fault_step(step);
    if (dt_fault("train.step"))
        return dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    if (dt_run_queue_step(run, stop(), err) < 0)
        return -1;
    bool due = eval_due(run, step) || save_due(run, step);
    if (settle(run, due || run->exec.device->is_host ? 0 : 1, loop, err) < 0)
        return -1;
    /* a step that is under way when a rank was told to stop is finished */
    if (loop->stop_asked && settle(run, 0, loop, err) < 0)
        return -1;
    if (eval_due(run, step) && evaluate(run, loop->summary, err) < 0)
        return -1;
    if (save_due(run, step) || loop->stop_asked)
        return dt_run_save(run, err);
    return 0;
}

static int train(struct dt_run *run, bool (*stop)(void),
                 struct dt_report_summary *summary, struct dt_error *err)
{
    struct dt_progress *p = &run->progress;
    struct loop loop = {
        .summary = summary, .line = {.loss = NAN}, .since = dt_clock_now()};

    if (run->conf.training.eval_only)
        return evaluate(run, summary, err);
    if (run->queued >= run->total_steps && run->report)
        dt_report_note(run->report,
                       "the run is already complete: it is at step %ld of %ld; "
                       "to go on, raise training.max_steps or training.epochs",
                       run->queued, run->total_steps);
    while (run->queued < run->total_steps && !loop.stop_asked)
        if (next_step(run, stop, &loop, err) < 0)
            return -1;
    summary->last_loss = loop.line.loss;
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

int dt_trainer_run(const struct dt_conf *conf, const struct dt_exec *exec,
                   struct dt_comm *comm, int local_size, bool (*stop)(void),
                   struct dt_error *err)
{
    struct dt_run run = {.stop = stop};
    struct dt_report_summary summary = {.first_loss = NAN, .eval_loss = NAN};
    int result = dt_run_init(&run, conf, exec, comm, local_size, err);
    if (result == 0) {
        double start = dt_clock_now(), tokens = run.progress.tokens;
        result = train(&run, stop, &summary, err);
        summary.seconds = dt_clock_now() - start;
        summary.tokens = run.progress.tokens - tokens;
        if (summary.steps > 0 && run.progress.first_loss != 0)
            summary.first_loss = run.progress.first_loss;
        summary.peak_bytes = exec->device->peak_bytes();
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
    /* Work that waits for a lost peer holds the memory of a device until the
     * process ends, which it does soon.
     */
    if (result == 0 || err->status == EX_TEMPFAIL || exec->device->is_host)
        dt_run_fini(&run);
    return result;
}
