/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - the events of a run, and its verdict */
#include "config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "run/dir/dir.h"

void dt_run_event(const struct dt_run *run, const char *kind, double seconds,
                  const char *fmt, ...)
{
    char text[DT_ERROR_TEXT_BYTES];
    va_list ap;
    if (!run->report)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dt_report_event(run->report,
                    &(struct dt_report_event){.kind = kind,
                                              .step = run->progress.step,
                                              .seconds = seconds,
                                              .bytes = NAN,
                                              .rank = -1,
                                              .text = text});
}

void dt_run_warn(const struct dt_run *run, const char *fmt, ...)
{
    char text[DT_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    dt_log(run->spec.rank == 0 ? DT_LOG_WARN : DT_LOG_DEBUG, "algo", "%s",
           text);
    dt_run_event(run, "warning", NAN, "%s", text);
}

void dt_events_begin(const struct dt_run *run)
{
    const struct dt_spec *spec = &run->spec;
    const char *nodes = spec->nodes.count > 1 ? "nodes" : "node";
    const char *ranks = spec->world > 1 ? "ranks" : "rank";
    char text[96], allocation[DT_RUN_ALLOCATION_BYTES];
    if (spec->conf.training.eval_only)
        return;
    dt_events_before(run);
    snprintf(text, sizeof(text), "%d %s on %d %s", spec->world, ranks,
             spec->nodes.count, nodes);
    dt_report_event(run->report,
                    &(struct dt_report_event){
                        .kind = run->progress.step > 0 ? "resume" : "start",
                        .step = run->progress.step,
                        .seconds = NAN,
                        .bytes = NAN,
                        .rank = -1,
                        .text = text,
                        .allocation = dt_run_allocation(allocation)});
}

/* Records the event of a failed run, with the rank that failed. */
static void report_failure(struct dt_run *run, const struct dt_error *err)
{
    const int rank = err->lost_rank >= 0 ? err->lost_rank : run->spec.rank;
    char verdict[DT_ERROR_TEXT_BYTES + 128];
    dt_report_event(run->report, &(struct dt_report_event){
                                     .kind = "failed",
                                     .step = run->progress.step,
                                     .seconds = NAN,
                                     .bytes = NAN,
                                     .rank = rank,
                                     .host = dt_comm_host(run->comm, rank),
                                     .text = err->text});
    snprintf(verdict, sizeof(verdict), "failed after step %ld: %s",
             run->progress.step, err->text);
    dt_facts_end(run, "failed", verdict);
}

void dt_events_end(struct dt_run *run, int result, const struct dt_error *err)
{
    char verdict[64];
    if (!run->report || run->spec.conf.training.eval_only)
        return;
    if (result < 0 && err->status != EX_TEMPFAIL) {
        report_failure(run, err);
    } else if (result < 0) {
        dt_run_event(run, "stop", NAN, "%s", err->text);
        dt_facts_end(run, "stopped", err->text);
    } else {
        snprintf(verdict, sizeof(verdict), "finished after step %ld",
                 run->progress.step);
        dt_run_event(run, "end", NAN, "%s", verdict);
        dt_facts_end(run, "finished", verdict);
    }
}

/* --- status for those who watch --- */

int dt_run_live_begin(struct dt_run *run, const char *algorithm,
                      struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const char *prometheus = spec->conf.logging.prometheus;
    const struct dt_live_options options = {
        .name = spec->conf.run.name,
        .algorithm = algorithm,
        .world = spec->world,
        .prometheus = prometheus ? prometheus : getenv("DISTTRAIN_PROMETHEUS"),
        .progress = spec->conf.logging.to_stdout && spec->conf.logging.progress,
        .began = run->start.began,
    };
    const char **hosts = calloc((size_t)spec->world, sizeof(*hosts));
    for (int rank = 0; hosts && rank < spec->world; rank++)
        hosts[rank] = dt_comm_host(run->comm, rank);
    run->live = dt_live_create(&options, err);
    if (hosts)
        dt_live_hosts(run->live, hosts, (size_t)spec->world);
    free(hosts);
    return run->live ? 0 : -1;
}

void dt_run_live_end(struct dt_run *run, int result, const struct dt_error *err)
{
    bool stopped = result < 0 && err->status == EX_TEMPFAIL;
    dt_live_end(run->live,
                result == 0 ? "finished"
                : stopped   ? "stopped"
                            : "failed",
                result == 0 ? NULL : err->text);
}
