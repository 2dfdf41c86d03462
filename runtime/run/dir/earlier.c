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
        strcmp(last->status, "running") == 0 && last->wall > earlier->wall) {
        run->start.silent_wall = last->wall;
        run->start.silent_step = last->counts ? last->step : 0;
    }
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
    if (earlier.runs && run->start.loss_count == 0)
        find_silent_end(run, &earlier);
    dt_live_earlier(run->live, &earlier);
}

static void report_loss(const struct dt_run *run,
                        const struct dt_launch_loss *loss)
{
    const double seconds = dt_clock_now() - loss->at;
    const long step = run->progress.step;
    dt_report_event(
        run->report,
        &(struct dt_report_event){
            .kind = "restart",
            .step = loss->step > step ? (long)loss->step : step,
            .wall = dt_clock_wall() - seconds,
            .seconds = seconds,
            .bytes = NAN,
            .rank = loss->rank,
            .host = loss->host,
            .text = loss->why,
            .redone = loss->step > step ? (long)loss->step - step : 0});
}

void dt_events_before(const struct dt_run *run)
{
    const struct dt_run_start *start = &run->start;
    if (start->silent_wall > 0)
        dt_report_event(run->report,
                        &(struct dt_report_event){
                            .kind = "failed",
                            .step = start->silent_step,
                            .wall = start->silent_wall,
                            .seconds = NAN,
                            .bytes = NAN,
                            .rank = -1,
                            .text = "it ended without a word, at the earliest "
                                    "then"});
    for (size_t i = 0; i < start->loss_count; i++)
        report_loss(run, &start->losses[i]);
}
