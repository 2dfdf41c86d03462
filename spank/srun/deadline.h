/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h - launch.signal: a signal to every rank before the time limit */
#ifndef DTSPANK_DEADLINE_H
#define DTSPANK_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* In srun, when the step exists: sends a signal to all of its ranks some
 * seconds before the end of the job, as `when` says ("10@300": signal 10, 300 s
 * before). The end is that of the job, asked for again when the time has come
 * because a limit can be changed. components is 1 but for a heterogeneous job,
 * of which only what srun itself forwards reaches every rank.
 */
int dtspank_deadline_start(uint32_t job, uint32_t step, int components,
                           const char *when, struct dt_error *err);

/* Whether that signal has been sent. */
bool dtspank_deadline_passed(void);

#endif /* DTSPANK_DEADLINE_H */
