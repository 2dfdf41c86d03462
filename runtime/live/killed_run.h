/* SPDX-License-Identifier: Apache-2.0 */
/* killed_run.h - completes the files of a run whose rank 0 was killed */
#ifndef DT_LIVE_KILLED_RUN_H
#define DT_LIVE_KILLED_RUN_H

#include <stdbool.h>

#include "base/error.h"

struct dt_live_ending {
    const char *step;   /* the run's "JOB.STEP" */
    const char *status; /* "failed" or "stopped" */
    const char *text;   /* why */
    int rank;           /* the first to fail; -1: none in particular */
    const char *host;   /* of that rank; "": unknown */
};

/* Says in run.json, events.jsonl and status.json of `dir` how the run has
 * ended, if run.json has it running as that step. No process of the run may be
 * alive. *page: whether the run wants report.html. Returns 1; 0: there is no
 * such run, or it has said itself how it ended; -1: EX_DATAERR, EX_OSERR,
 * EX_CANTCREAT, EX_IOERR.
 */
int dt_live_record_ending(const char *dir, const struct dt_live_ending *ending,
                          bool *page, struct dt_error *err);

#endif /* DT_LIVE_KILLED_RUN_H */
