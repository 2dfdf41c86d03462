/* SPDX-License-Identifier: Apache-2.0 */
/* console.h - copies srun's output, sorts it by rank and reports failures */
#ifndef DT_CONSOLE_CONSOLE_H
#define DT_CONSOLE_CONSOLE_H

#include <stdio.h>

/* Copies the output of a step from DT_CONSOLE_OUT_FD and DT_CONSOLE_ERR_FD to
 * stdout and stderr until both have ended, then reports how the step ended.
 * Before that, reads the description of the step from `settings`. Returns an
 * exit status: EX_TEMPFAIL if the job should be requeued.
 */
int dt_console_run(FILE *settings);

#endif /* DT_CONSOLE_CONSOLE_H */
