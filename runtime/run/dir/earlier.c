/* SPDX-License-Identifier: Apache-2.0 */
/* earlier.c - what a run knows of its earlier starts, and of their ends */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "history/history.h"
#include "run/dir/dir.h"

enum { STATUS_MAX_BYTES = 16 << 20 };

bool dt_run_continues(const struct dt_conf *conf)
{
    return conf->training.resume != DT_CONF_RESUME_NONE ||
           conf->training.restarted;
}

const char *dt_run_allocation(char text[DT_RUN_ALLOCATION_BYTES])
{
    const char *job = getenv("SLURM_JOB_ID");
    const char *requeues = getenv("SLURM_RESTART_COUNT");
    if (!job)
        return NULL;
    snprintf(text, DT_RUN_ALLOCATION_BYTES, "%.40s%s%.40s", job,
             requeues ? ", requeue " : "", requeues ? requeues : "");
    return text;
}

/* The time of a loss on the clock of calendars. */
static double wall_of(const struct dt_launch_loss *loss)
{
    return dt_clock_wall() - (dt_clock_now() - loss->at);
}

/* Whether keepers of this allocation have seen the end of the process before.
 */
static bool is_seen(const struct dt_run_start *start,
                    const struct dt_account *earlier)
{
    char text[DT_RUN_ALLOCATION_BYTES];
    const char *own = dt_run_allocation(text);
    return start->loss_count > 0 &&
           strcmp(own ? own : "", earlier->allocation) == 0;
}

/* The process before has told `last` of itself in its last seconds. Without
 * keepers nobody knows of a later end. With them it may be older, as of a rank
 * that hung: then the time since is one of steps, or else unclear; or that of
 * another process, which has come to no event.
 */
static void note_last(struct dt_run *run, const struct dt_account *earlier,
                      const struct dt_live_state *last)
{
    struct dt_run_start *start = &run->start;
    double wall = last->wall;
    if (!is_seen(start, earlier)) {
        if (last->started > earlier->wall)
            wall = earlier->wall;
        start->silent_wall = wall;
        start->silent_step = last->counts ? last->step : 0;
    } else {
        wall = wall_of(&start->losses[0]);
        if (!(last->started < wall) || (last->wall > wall && last->phase[0]))
            return;
    }
    dt_account_guess(earlier, &last->account, wall, start->spent);
}

/* A process that could not record its end: the last that it has told of itself
 * is in status.json, two seconds old at most.
 */
static void find_silent_end(struct dt_run *run,
                            const struct dt_account *earlier)
{
    char path[PATH_MAX];
    struct dt_error err;
    struct dt_live_state *last = calloc(1, sizeof(*last));
    snprintf(path, sizeof(path), "%s/status.json", run->spec.conf.logging.dir);
    char *text = last ? dt_file_read(path, STATUS_MAX_BYTES, &err) : NULL;
    if (text && dt_live_parse_status(last, path, text, &err) == 0 &&
        strcmp(last->status, "running") == 0 && last->wall > earlier->wall)
        note_last(run, earlier, last);
    free(text);
    free(last);
}

void dt_run_account_begin(struct dt_run *run)
{
    const struct dt_conf *conf = &run->spec.conf;
    struct dt_account earlier = {0};
    struct dt_error err;
    if (!run->live || !conf->logging.to_jsonl || conf->training.eval_only ||
        !dt_run_continues(conf))
        return;
    if (dt_history_account(conf->logging.dir, &earlier, &err) < 0) {
        if (err.status != EX_NOINPUT)
            dt_log(DT_LOG_WARN, "algo",
                   "%s; the account of the run's time begins anew", err.text);
        return;
    }
    if (earlier.runs)
        find_silent_end(run, &earlier);
    dt_live_earlier(run->live, &earlier);
}

/* `spent`: by its process up to then; NULL: unknown. */
static void report_loss(const struct dt_run *run,
                        const struct dt_launch_loss *loss, const double *spent)
{
    const long step = run->progress.step;
    struct dt_report_event event = {
        .kind = "restart",
        .step = loss->step > step ? (long)loss->step : step,
        .wall = wall_of(loss),
        .seconds = dt_clock_now() - loss->at,
        .bytes = NAN,
        .rank = loss->rank,
        .host = loss->host,
        .text = loss->why,
        .redone = loss->step > step ? (long)loss->step - step : 0};
    if (spent)
        memcpy(event.spent, spent, sizeof(event.spent));
    dt_report_event(run->report, &event);
}

static void report_silent_end(const struct dt_run *run)
{
    struct dt_report_event event = {
        .kind = "failed",
        .step = run->start.silent_step,
        .wall = run->start.silent_wall,
        .seconds = NAN,
        .bytes = NAN,
        .rank = -1,
        .text = "it ended without a word, at the earliest then"};
    memcpy(event.spent, run->start.spent, sizeof(event.spent));
    dt_report_event(run->report, &event);
}

void dt_events_before(const struct dt_run *run)
{
    const struct dt_run_start *start = &run->start;
    if (start->silent_wall > 0)
        report_silent_end(run);
    const bool told = start->silent_wall > 0;
    for (size_t i = 0; i < start->loss_count; i++)
        report_loss(run, &start->losses[i],
                    i == 0 && !told ? start->spent : NULL);
}
