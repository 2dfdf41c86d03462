/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.h - run.json in logging.dir: description and result of a run
 *
 * Rank 0 writes it when the run begins and when it ends. If rank 0 is killed,
 * the status stays "running" until the console of srun says how it ended
 * (console/console.h). Secrets are removed (base/secret.h).
 */
#ifndef DT_RUN_DIR_FACTS_H
#define DT_RUN_DIR_FACTS_H

#include "run/run.h"

/* Makes run->facts on rank 0, which run.c releases, and writes them if the run
 * has files. A run that resumes keeps the id and the earlier starts. All ranks
 * call it. -1: a peer failed, out of memory.
 */
int dt_facts_begin(struct dt_run *run, struct dt_error *err);

/* Rank 0: adds how the run has ended, "finished", "stopped" or "failed", with a
 * sentence. Nothing without dt_facts_begin.
 */
void dt_facts_end(struct dt_run *run, const char *status, const char *verdict);

/* sinks.c: rank 0 adds the sinks of logging.report_to to its report, and logs
 * how to send the run to Weights & Biases. A failure is a warning.
 */
void dt_run_sinks(struct dt_run *run);

/* events.c: rank 0 records an event of the step that is done; a duration of NaN
 * is none.
 */
void dt_run_event(const struct dt_run *run, const char *kind, double seconds,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* events.c: a warning to the user that is an event, too, on rank 0. */
void dt_run_warn(const struct dt_run *run, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* events.c: the first event of this process: start, or resume. */
void dt_events_begin(const struct dt_run *run);

/* events.c: the last one, and the verdict of run.json, for a run that ends with
 * this result.
 */
void dt_events_end(struct dt_run *run, int result, const struct dt_error *err);

#endif /* DT_RUN_DIR_FACTS_H */
