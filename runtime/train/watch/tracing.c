/* SPDX-License-Identifier: Apache-2.0 */
/* tracing.c - which steps of a run are traced */
#include "config.h"

#include <string.h>

#include "base/log.h"
#include "run/run.h"
#include "train/watch/watch.h"

int dt_run_trace_init(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf *conf = &spec->conf;
    const char *ranks = conf->logging.trace.ranks;
    const struct dt_trace_options options = {
        .comm = run->comm,
        .device = spec->exec.device,
        .stream = spec->exec.stream,
        .dir = conf->logging.dir,
        .first = conf->logging.trace.first,
        .last = conf->logging.trace.last,
        .ranks = ranks && strcmp(ranks, "all") != 0 ? ranks : NULL,
    };
    if (spec->rank == 0 && options.first > run->total_steps)
        dt_log(DT_LOG_WARN, "algo",
               "logging.trace.steps: there is no trace, as the run ends after "
               "step %ld, before step %ld",
               run->total_steps, options.first);
    return (run->trace = dt_trace_create(&options, err)) ? 0 : -1;
}

/* Looking for a request takes a system call, so it is done only where a report
 * line may be due. The answer rides on a sum that each step makes anyway.
 */
double dt_run_trace_tell(struct dt_run *run, bool stop)
{
    const bool looks = (run->queued + 1) % run->spec.conf.logging.steps == 0;
    return stop + (looks ? dt_trace_look(run->trace) : 0);
}

int dt_run_trace_before(struct dt_run *run, long step, struct dt_error *err)
{
    return dt_trace_before(run->trace, step, err);
}

int dt_run_trace_after(struct dt_run *run, long step, bool ends,
                       struct dt_error *err)
{
    const char *text;
    int rc = dt_trace_after(run->trace, step, ends, &text, err);
    if (rc > 0 && text && run->report)
        dt_report_note(run->report, "%s", text);
    return rc < 0 ? -1 : 0;
}
