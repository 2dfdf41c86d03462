/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - the training loop */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/said.h"
#include "base/span.h"
#include "run/dir/dir.h"
#include "run/dir/owner.h"
#include "run/reference/reference.h"
#include "sampling/sampling.h"
#include "segment/board.h"
#include "train/resume/copies.h"
#include "train/resume/resume.h"
#include "train/resume/run_state.h"
#include "train/train.h"
#include "train/watch/watch.h"

/* State of the loop between steps. */
struct loop {
    struct dt_report_summary *summary;
    struct dt_report_step line;
    double begin, longest; /* of this step; of all so far */
    double evaluation;     /* the longest */
    bool stop_asked;
    bool owes_save; /* a save was due after a step without a finite loss or
                       gradient */
};

static bool is_multiple(long steps, long step)
{
    return steps > 0 && step % steps == 0;
}

/* Whether an evaluation is due after this step. */
static bool eval_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->spec.conf;
    double per_step = dt_spec_samples_of_step(&run->spec);
    if ((!run->data.eval && !run->data.held_out) ||
        conf->training.eval_strategy == DT_CONF_NO)
        return false;
    if (step == run->total_steps)
        return true;
    if (conf->training.eval_strategy == DT_CONF_STEPS)
        return is_multiple(conf->training.eval_steps, step);
    double epoch = (double)run->epoch_samples;
    return floor((double)step * per_step / epoch) >
           floor((double)(step - 1) * per_step / epoch);
}

/* The results of metrics, for a line of the report. */
static struct dt_report_values report_values(const struct dt_run *run,
                                             const struct dt_metrics *metrics)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_report_values values = {0};
    double results[DT_METRICS_MAX];
    dt_metrics_results(spec->algo, metrics, results);
    for (size_t i = 0; i < spec->algo->metric_count; i++) {
        const struct dt_metric *metric = &spec->algo->metrics[i];
        if (dt_algo_reports(spec->algo, &spec->conf, i))
            values.value[values.count++] = (struct dt_report_value){
                metric->name, results[i], metric->shown};
    }
    return values;
}

/* The value with this name; NULL: none. */
static struct dt_report_value *find_value(struct dt_report_values *values,
                                          const char *name)
{
    for (size_t i = 0; i < values->count; i++)
        if (strcmp(values->value[i].name, name) == 0)
            return &values->value[i];
    return NULL;
}

/* The KL divergence from the reference; NULL: the algorithm has none. */
static struct dt_report_value *find_kl(const struct dt_run *run,
                                       struct dt_report_values *values)
{
    return run->spec.algo->kl ? find_value(values, run->spec.algo->kl) : NULL;
}

/* Shows it in the line of the step; without a reference it is not known. */
static void show_kl(const struct dt_run *run, struct dt_report_values *values)
{
    struct dt_report_value *kl = find_kl(run, values);
    if (kl && dt_run_refers(run))
        kl->shown = true;
    else if (kl)
        kl->value = NAN;
}

static int evaluate(struct dt_run *run, struct dt_report_summary *summary,
                    struct dt_error *err)
{
    const double begin = dt_clock_now();
    struct dt_metrics metrics;
    struct dt_report_eval line = {
        .step = run->progress.step, .loss = NAN, .of = DT_REPORT_COMPLETIONS};
    dt_live_phase(run->live, DT_ACCOUNT_EVALUATION, "evaluating");
    if (run->spec.algo->advantages) {
        int rc = dt_run_evaluate_prompts(run, &line, err);
        if (rc != 0)
            return rc < 0 ? -1
                          : 0; /* the next step finds out that it is to stop */
    } else {
        if (dt_run_evaluate(run, &line.loss, &line.count, &metrics, err) < 0)
            return -1;
        line.of = run->spec.algo->loss ? DT_REPORT_PAIRS : DT_REPORT_TOKENS;
        line.values = report_values(run, &metrics);
    }
    if (dt_run_keep_output(run, err) < 0)
        return -1;
    summary->eval_loss = line.loss;
    if (run->report)
        dt_report_eval(run->report, &line);
    dt_best_note(run, &line, dt_run_save_due(run, line.step));
    dt_run_event(run, "eval", dt_clock_now() - begin,
                 isnan(line.loss) ? "held-out completions were scored"
                                  : "held-out loss %.4f",
                 line.loss);
    dt_live_phase(run->live, DT_ACCOUNT_STEPS, NULL);
    return 0;
}

static int run_evaluation(struct dt_run *run, struct dt_report_summary *summary,
                          struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_EVALUATION,
                         (uint64_t)run->progress.step);
    int rc = evaluate(run, summary, err);
    dt_span_end(&span);
    return rc;
}

/* Reports a step if logging.steps asks for it, or if it is the first or the
 * last one.
 */
static int report_step(struct dt_run *run, struct dt_report_step *line,
                       struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    struct dt_progress *p = &run->progress;
    bool first = p->step == 1 && spec->conf.logging.first_step;
    bool last = p->step == run->total_steps;
    if (!last && !first && !is_multiple(spec->conf.logging.steps, p->step))
        return 0;
    line->step = p->step;
    line->total_steps = run->total_steps;
    line->epoch = (double)p->position / (double)run->epoch_samples;
    line->loss = p->loss_sum / p->loss_tokens;
    line->values = report_values(run, &p->metrics);
    if (spec->algo->loss)
        line->values.value[line->values.count++] =
            (struct dt_report_value){"num_tokens", p->tokens, false};
    dt_run_report_numbers(&run->samples, &line->values);
    show_kl(run, &line->values);
    if (dt_watch_costs(run, line, err) < 0)
        return -1;
    p->loss_sum = p->loss_tokens = 0;
    dt_metrics_clear(spec->algo, &p->metrics);
    if (run->report)
        dt_report_step(run->report, line);
    return 0;
}

/* Records the events of a collected step. `position` samples had been consumed
 * and `skipped` steps skipped before it.
 */
static void note_step(const struct dt_run *run, uint64_t position, long skipped,
                      double norm)
{
    const uint64_t epoch = run->progress.position / run->epoch_samples;
    if (run->progress.skipped > skipped)
        dt_run_event(run, "skip", NAN, "no update: %s",
                     isfinite(norm) ? "no targets"
                                    : "the gradient norm is not finite");
    if (epoch > position / run->epoch_samples)
        dt_run_event(run, "epoch", NAN, "end of epoch %" PRIu64, epoch);
}

enum {
    STEP_S = 30,  /* the keeper waits at least so long for a step */
    LONGEST = 10, /* and so often the longest step */
};

/* Tells the keeper how long this rank may go without a step or a collective,
 * which is unknown before the first step.
 */
static void expect_steps(const struct dt_run *run, const struct loop *loop)
{
    const double most = LONGEST * loop->longest;
    if (loop->longest > 0)
        dt_board_set_patience(run->start.board, most > STEP_S ? most : STEP_S);
}

/* An evaluation or a save takes the time that data and disks need: whoever
 * ended it after some minutes would end it again each time. Keepers find a rank
 * that a signal has stopped all the same.
 */
static void expect_nothing(const struct dt_run *run)
{
    dt_board_set_patience(run->start.board, 0);
}

/* Tells how long a stop may take: two steps, as one may be in flight, or an
 * evaluation before, and a save, which may have to wait for another one.
 */
static void tell_stop(const struct dt_run *run, const struct loop *loop)
{
    enum { SPARE_S = 10 };
    if (run->saves.seconds > 0)
        dt_live_stop_time(run->live, 2 * loop->longest + loop->evaluation +
                                         2 * run->saves.seconds + SPARE_S);
}

static void note_duration(struct loop *loop)
{
    const double now = dt_clock_now();
    if (loop->begin > 0 && now - loop->begin > loop->longest)
        loop->longest = now - loop->begin;
    loop->begin = now;
}

/* After something that is no step. */
static void resume_steps(const struct dt_run *run, struct loop *loop)
{
    loop->begin = dt_clock_now();
    expect_steps(run, loop);
}

/* Collects steps until at most `open` are in flight. */
static int collect_steps(struct dt_run *run, long open, struct loop *loop,
                         struct dt_error *err)
{
    while (run->queued - run->progress.step > open) {
        const uint64_t position = run->progress.position;
        const long skipped = run->progress.skipped;
        if (dt_run_collect(run, &loop->line, &loop->stop_asked, err) < 0)
            return -1;
        dt_live_step(run->live, run->progress.step, run->total_steps);
        dt_board_set_step(run->start.board, run->progress.step);
        note_duration(loop);
        expect_steps(run, loop);
        tell_stop(run, loop);
        dt_run_pass_notices(run);
        note_step(run, position, skipped, loop->line.grad_norm);
        loop->summary->steps++;
        if (dt_watch_step(run, err) < 0)
            return -1;
        if (report_step(run, &loop->line, err) < 0)
            return -1;
    }
    return 0;
}

/* Fails if weights are not finite. They stay so: further steps would be wasted.
 */
static int check_weights(struct dt_run *run, struct dt_error *err)
{
    int finite = dt_run_weights_finite(run, err);
    if (finite != 0)
        return finite < 0 ? -1 : 0;
    dt_error_set(err, EX_DATAERR,
                 "the run diverged: after step %ld the weights are not "
                 "finite; lower optimizer.lr, or look at the data before "
                 "global sample %llu",
                 run->progress.step,
                 (unsigned long long)run->progress.position);
    return dt_run_give_up(run, err);
}

/* The first of several steps without a loss. */
static bool lost_loss(const struct dt_run *run)
{
    return run->health == DT_NO_LOSS && run->progress.skipped_in_row == 1;
}

/* Whether the newest step can be saved. After one without a finite loss nothing
 * could resume. At the end of the run a finite loss is enough: without a finite
 * gradient the weights did not change.
 */
static bool worth_saving(const struct dt_run *run, bool last)
{
    return run->health == DT_WELL || (last && run->health == DT_NO_GRADIENT);
}

/* Saves if a save is due, or, if one is owed, as soon as the run is well again.
 */
static int save_if_due(struct dt_run *run, bool due, struct loop *loop,
                       struct dt_error *err)
{
    bool last = loop->stop_asked || run->queued == run->total_steps;
    bool owed = loop->owes_save;
    if (!due && !owed)
        return 0;
    if (collect_steps(run, 0, loop, err) < 0)
        return -1;
    loop->owes_save = !worth_saving(run, last);
    if (!loop->owes_save) {
        dt_live_phase(run->live, DT_ACCOUNT_SAVING, "saving");
        expect_nothing(run);
        int rc = check_weights(run, err) < 0 ||
                         dt_run_compare(run, run->progress.step, err) < 0
                     ? -1
                     : dt_run_save_or_retry(run, last, err);
        if (rc == 0)
            dt_best_link(run);
        dt_live_phase(run->live, DT_ACCOUNT_STEPS, NULL);
        resume_steps(run, loop);
        return rc;
    }
    if (!owed)
        dt_run_warn(run,
                    "step %ld: no checkpoint is saved, because the %s is not "
                    "finite",
                    run->progress.step,
                    run->health == DT_NO_LOSS ? "loss" : "gradient norm");
    return 0;
}

/* Goes on with a save that was in flight, if all ranks are done with it. */
static int settle_save(struct dt_run *run, struct loop *loop,
                       struct dt_error *err)
{
    if (!dt_flight_ready(run))
        return 0;
    return collect_steps(run, 0, loop, err) < 0 ? -1
                                                : dt_run_save_advance(run, err);
}

/* Ends the run before a step, with nothing of it queued. The checkpoint of the
 * previous step may already exist.
 */
static int stop_between(struct dt_run *run, struct loop *loop,
                        struct dt_error *err)
{
    loop->stop_asked = true;
    if (collect_steps(run, 0, loop, err) < 0)
        return -1;
    if (run->progress.step == 0)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    expect_nothing(run);
    if (dt_run_save_finish(run, err) < 0)
        return -1;
    if (run->saves.unproven == run->progress.step)
        return 0;
    return save_if_due(run, true, loop, err);
}

/* Queues the next step. 1: none is queued, as the run is to stop. */
static int queue_next(struct dt_run *run, bool (*stop)(void),
                      struct dt_error *err)
{
    long step = run->queued + 1;
    dt_fault_step(step);
    if (dt_fault("train.step"))
        return dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    if (dt_run_trace_before(run, step, err) < 0)
        return -1;
    return dt_run_queue_step(run, stop(), err);
}

/* Collects steps after one was queued, evaluates and saves as due. */
static int complete_step(struct dt_run *run, struct loop *loop,
                         struct dt_error *err)
{
    const long step = run->queued;
    bool due =
        eval_due(run, step) || dt_run_save_due(run, step) || dt_watch_due(run);
    if (collect_steps(run, due || run->spec.exec.device->is_host ? 0 : 1, loop,
                      err) < 0 ||
        (dt_copies_due(run) && collect_steps(run, 0, loop, err) < 0))
        return -1;
    if (dt_run_trace_after(run, step, step == run->total_steps, err) < 0)
        return -1;
    /* a step in flight is finished even if a rank was told to stop */
    bool lost = lost_loss(run);
    if ((loop->stop_asked || lost) && collect_steps(run, 0, loop, err) < 0)
        return -1;
    if (lost && check_weights(run, err) < 0)
        return -1;
    if (eval_due(run, step)) {
        const double begin = dt_clock_now();
        expect_nothing(run);
        if (run_evaluation(run, loop->summary, err) < 0)
            return -1;
        loop->evaluation = fmax(loop->evaluation, dt_clock_now() - begin);
        resume_steps(run, loop);
    }
    if (settle_save(run, loop, err) < 0 ||
        save_if_due(run, dt_run_save_due(run, step) || loop->stop_asked, loop,
                    err) < 0)
        return -1;
    dt_state_settle(run);
    return dt_copies_make(run, err);
}

/* Takes the next step, unless the run is to stop before. */
static int next_step(struct dt_run *run, bool (*stop)(void), struct loop *loop,
                     struct dt_error *err)
{
    int queued = queue_next(run, stop, err);
    if (queued < 0)
        return -1;
    return queued > 0 ? stop_between(run, loop, err)
                      : complete_step(run, loop, err);
}

/* The end of a run that was not saved because its last step failed. */
static int end_unsaved(struct dt_run *run, struct dt_error *err)
{
    dt_error_set(err, EX_DATAERR,
                 "the run diverged: the loss of its last step, %ld, is not "
                 "finite, and no checkpoint was saved; lower optimizer.lr, "
                 "or look at the data near global sample %llu",
                 run->progress.step,
                 (unsigned long long)run->progress.position);
    return dt_run_give_up(run, err);
}

static int end_stopped(const struct dt_run *run, bool saved,
                       const struct dt_report_summary *summary,
                       struct dt_error *err)
{
    const char *what = "the checkpoint is saved; resume with "
                       "training.resume: auto";
    if (!saved)
        what = "nothing was saved, because the loss is not finite; an "
               "earlier checkpoint can be resumed with training.resume: auto";
    else if (run->spec.conf.checkpoint.only_model)
        what = "the weights are saved; checkpoint.only_model leaves no "
               "optimizer state to resume from";
    if (run->report)
        dt_report_explosion(run->report, summary);
    return dt_error_set(err, EX_TEMPFAIL,
                        "stopped by a signal after step %ld of %ld; %s",
                        run->progress.step, run->total_steps, what);
}

/* Fills in the first and the last loss, or reward. The loss of sampled
 * completions tells nothing: it is about zero whenever a generation begins.
 */
static void end_summary(const struct dt_run *run, struct dt_report_step *line,
                        struct dt_report_summary *summary)
{
    struct dt_report_value *value;
    if (summary->steps == 0)
        return;
    if (!run->spec.algo->advantages) {
        summary->last = line->loss;
        if (run->progress.first_loss != 0)
            summary->first = run->progress.first_loss;
        return;
    }
    summary->measure = "reward";
    summary->first = run->samples.first_reward;
    if ((value = find_value(&line->values, "reward")))
        summary->last = value->value;
    if ((value = find_kl(run, &line->values)))
        summary->kl = *value;
}

/* Ends what the processes before have begun: a step that was committed, or a
 * save, which processes after this one are not to end again.
 */
static int end_begun(struct dt_run *run, struct loop *loop,
                     struct dt_error *err)
{
    const bool again = run->queued > 0 && run->saves.retry == run->queued;
    if (run->queued > run->progress.step)
        return complete_step(run, loop, err);
    if (save_if_due(run, again, loop, err) < 0)
        return -1;
    dt_state_settle(run);
    return 0;
}

static int run_steps(struct dt_run *run, bool (*stop)(void),
                     struct dt_report_summary *summary, struct dt_error *err)
{
    struct loop loop = {.summary = summary, .line = {.loss = NAN}};

    if (dt_watch_begin(run, err) < 0)
        return -1;
    if (run->spec.conf.training.eval_only)
        return run_evaluation(run, summary, err);
    if (run->queued >= run->total_steps && run->report)
        dt_report_note(run->report,
                       "the run is already complete: it is at step %ld of "
                       "%ld; to continue, raise training.max_steps or "
                       "training.epochs",
                       run->queued, run->total_steps);
    dt_watch_energy(run);
    dt_live_phase(run->live, DT_ACCOUNT_STEPS, NULL);
    dt_live_step(run->live, run->progress.step, run->total_steps);
    dt_board_set_step(run->start.board, run->progress.step);
    if (dt_flight_recover(run, err) < 0 || end_begun(run, &loop, err) < 0)
        return -1;
    while (run->queued < run->total_steps && !loop.stop_asked)
        if (next_step(run, stop, &loop, err) < 0)
            return -1;
    expect_nothing(run); /* what is left takes as long as the disk does */
    if (dt_run_trace_after(run, run->queued, true, err) < 0)
        return -1;
    /* one of which nobody knows whether it is good is left out */
    if (run->saves.maybe == 0 && dt_run_save_finish(run, err) < 0)
        return -1;
    end_summary(run, &loop.line, summary);
    dt_flight_report(run);
    /* else the newest may be the reason why there is no finite loss */
    if (!loop.owes_save &&
        (isfinite(loop.line.loss) || run->progress.step >= run->total_steps))
        dt_run_prune(run, run->progress.step, 0);
    if (run->progress.step < run->total_steps)
        return end_stopped(run, !loop.owes_save, summary, err);
    if (loop.owes_save)
        return end_unsaved(run, err);
    dt_best_tell(run);
    return 0;
}

int dt_trainer_begin(struct dt_run_start *start, struct dt_error *err)
{
    if (dt_board_open(&start->board, err) < 0)
        return -1;
    dt_said_begin(dt_board_said(start->board));
    return 0;
}

/* A run that others still use, and that ends with the process. */
static _Atomic(struct dt_run *) kept;

int dt_trainer_run(const struct dt_conf *conf, const struct dt_exec *exec,
                   struct dt_comm *comm, int local_size,
                   const struct dt_run_start *start, bool (*stop)(void),
                   bool *recorded, struct dt_error *err)
{
    struct dt_run *run = calloc(1, sizeof(*run));
    struct dt_error late;
    struct dt_report_summary summary = {
        .measure = "loss", .first = NAN, .last = NAN, .eval_loss = NAN};
    bool recorded_end = false;
    if (!run)
        return dt_error_set(err, EX_OSERR, "out of memory");
    run->stop = stop;
    if (start)
        run->start = *start;
    int result = dt_run_init(run, conf, exec, comm, local_size, err);
    dt_said_end();
    if (result == 0) {
        double begin = dt_clock_now(), tokens = run->progress.tokens;
        result = run_steps(run, stop, &summary, err);
        if (dt_run_keep_output(run, result < 0 ? &late : err) < 0)
            result = -1;
        dt_run_live_end(run, result, err);
        dt_watch_end(run);
        dt_events_end(run, result, err);
        recorded_end = run->report != NULL;
        summary.seconds = dt_clock_now() - begin;
        dt_live_sums(run->live, &summary.account);
        summary.tokens = run->progress.tokens - tokens;
        summary.peak_bytes = exec->device->peak_bytes();
        summary.output = run->saves.path[0] ? run->saves.path : NULL;
        if (result == 0 && run->report)
            dt_report_summary(run->report, &summary);
    } else {
        dt_run_live_end(run, result, err);
    }
    dt_live_destroy(run->live);
    run->live = NULL;
    /* from here on nothing is written */
    const bool quiet = dt_flight_stop(run);
    if (quiet) {
        dt_owner_release(run->owner);
        run->owner = NULL;
    }
    if (recorded)
        *recorded = recorded_end;
    /* No rank leaves while rank 0 writes the last checkpoint. */
    if (result == 0 || err->status == EX_TEMPFAIL) {
        if (dt_comm_barrier(comm, &late) < 0 && result == 0) {
            *err = late;
            result = -1;
        }
    }
    /* Collectives and queued work may wait for a lost peer and still use
     * memory, or a save for its disk. It is then freed when the process ends.
     */
    if (quiet && (result == 0 || err->status == EX_TEMPFAIL ||
                  (exec->device->is_host && run->spec.world == 1))) {
        dt_run_fini(run);
        free(run);
    } else {
        atomic_store(&kept, run);
    }
    return result;
}

int dt_trainer_prepare(const struct dt_conf *conf, const struct dt_exec *exec,
                       struct dt_comm *comm, struct dt_error *err)
{
    struct dt_conf quiet = *conf; /* reports nothing, saves nothing */
    struct dt_run run = {0};
    quiet.training.eval_only = true;
    quiet.training.resume = DT_CONF_RESUME_NONE;
    quiet.logging.to_jsonl = quiet.logging.to_stdout = false;
    int result = dt_run_init(&run, &quiet, exec, comm, 1, err);
    dt_run_fini(&run);
    return result;
}
