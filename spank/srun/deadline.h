/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h - launch.signal: signals every rank before the time limit */
#ifndef DTSPANK_DEADLINE_H
#define DTSPANK_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* In srun, once the step exists: starts a thread that sends a signal to all
 * ranks of the step some seconds before the end of the job, as `when` says
 * ("10@300": signal 10, 300 s before). The thread asks Slurm for the end again
 * when the time has come, because a time limit can be changed. components is 1
 * except in a heterogeneous job, where only the signals that srun itself
 * forwards reach every rank; any other is an error there.
 */
int dtspank_deadline_start(uint32_t job, uint32_t step, int components,
                           const char *when, struct dt_error *err);

/* Whether that signal has been sent. */
bool dtspank_deadline_passed(void);

#endif /* DTSPANK_DEADLINE_H */
