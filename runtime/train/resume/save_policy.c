/* SPDX-License-Identifier: Apache-2.0 */
/* save_policy.c - when a run is saved, and retries after a failed save */
#include "config.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "run/dir/facts.h"
#include "train/resume/resume.h"

enum { HALVINGS = 3 }; /* of the interval, one for each failure */

bool dt_run_save_due(const struct dt_run *run, long step)
{
    const struct dt_conf *conf = &run->spec.conf;
    return step == run->total_steps || step == run->saves.retry ||
           (conf->checkpoint.strategy == DT_CONF_STEPS &&
            step % conf->checkpoint.steps == 0);
}

/* Step of the retry after the n-th failure in a row: interval / 2^n later, at
 * least an eighth of the interval.
 */
static long retry_step(const struct dt_run *run, long step)
{
    int failures = run->saves.failures;
    long steps = run->spec.conf.checkpoint.steps >>
                 (failures < HALVINGS ? failures : HALVINGS);
    return step + (steps > 1 ? steps : 1);
}

/* On rank 0: whether the failed save ends the run. */
static bool gives_up(const struct dt_run *run, bool last, struct dt_error *err)
{
    long failures = run->saves.failures + 1;
    long most = run->spec.conf.checkpoint.max_failures;
    if (last)
        dt_error_prefix(err, "step %ld, the last one, could not be saved",
                        run->progress.step);
    else if (failures >= most)
        dt_error_prefix(err,
                        "step %ld could not be saved, which was failure %ld of "
                        "%ld in a row (checkpoint.max_failures)",
                        run->progress.step, failures, most);
    return last || failures >= most;
}

/* On all ranks: schedules the next try. */
static void plan_retry(struct dt_run *run, const char *why, double seconds)
{
    long step = run->progress.step;
    run->saves.failures++;
    run->saves.retry = retry_step(run, step);
    run->saves.maybe = step;
    dt_run_event(run, "save_failed", seconds, "%s", why);
    if (run->spec.rank == 0)
        dt_log(DT_LOG_WARN, "algo",
               "step %ld could not be saved, and the run continues: %s; "
               "failure %d of %ld in a row (checkpoint.max_failures), next "
               "try after step %ld",
               step, why, run->saves.failures,
               run->spec.conf.checkpoint.max_failures, run->saves.retry);
}

static void note_save(struct dt_run *run, double seconds)
{
    if (run->report)
        dt_report_event(run->report,
                        &(struct dt_report_event){
                            .kind = "save",
                            .step = run->progress.step,
                            .seconds = seconds,
                            .bytes = (double)dt_run_checkpoint_bytes(run),
                            .rank = -1,
                            .text = run->saves.path});
}

static int save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_error why = {0}, lost;
    const double begin = dt_clock_now();
    int result = dt_run_save(run, &why, err);
    if (result < 0)
        return -1;
    const double seconds = dt_clock_now() - begin;
    if (result > 0 && run->spec.rank == 0 && gives_up(run, last, &why)) {
        dt_run_event(run, "save_failed", seconds, "%s", why.text);
        *err = why;
        return -1;
    }
    double failed = result;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &failed, 1, DT_MAX, &lost) < 0) {
        *err = lost;
        return -1;
    }
    if (failed > 0) {
        plan_retry(run, why.text, seconds);
        return 0;
    }
    note_save(run, seconds);
    run->saves.failures = 0;
    run->saves.retry = run->saves.maybe = 0;
    run->saves.unproven = run->progress.step;
    return 0;
}

int dt_run_save_or_retry(struct dt_run *run, bool last, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_SAVE, (uint64_t)run->progress.step);
    int rc = save_or_retry(run, last, err);
    dt_span_end(&span);
    return rc;
}
