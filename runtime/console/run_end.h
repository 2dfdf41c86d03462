/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_end.h - completes the files of a run whose rank 0 was killed
 *
 * After rank 0 is killed, or its node is lost, the files of the run still say
 * that it is running. The console knows better, and leaves writing them to a
 * process of its own, because the disk may hang.
 */
#ifndef DT_CONSOLE_RUN_END_H
#define DT_CONSOLE_RUN_END_H

#include <stdbool.h>

#include "base/error.h"
#include "console/outcome.h"

/* At the end of `step` ("JOB.STEP"), if it was a run (DT_ENV_RUN): starts
 * `disttrain console --end` and waits for some seconds. Returns a message for
 * the user, which the caller frees; NULL: nothing to say.
 */
char *dt_run_end_tell(const struct dt_outcome *outcome, const char *step);

/* The other side: argv is DIR STEP STATUS RANK HOST TEXT. Records the end in
 * the files of DIR. Returns 1 if the run wants report.html; 0: there is
 * nothing to do, the run has said how it ended. -1: EX_USAGE, or as
 * dt_live_record_ending.
 */
int dt_run_end_record(int argc, char **argv, struct dt_error *err);

#endif /* DT_CONSOLE_RUN_END_H */
