/* SPDX-License-Identifier: Apache-2.0 */
/* console.h - copies the output of srun, sorts it by rank and reports failures
 */
#ifndef DT_CONSOLE_CONSOLE_H
#define DT_CONSOLE_CONSOLE_H

#include <stdio.h>

#include "base/error.h"

/* Copies the output of a step from DT_CONSOLE_OUT_FD and DT_CONSOLE_ERR_FD to
 * stdout and stderr until both have ended, then reports how the step ended.
 * Before that, reads the description of the step from `settings`. Returns an
 * exit status. With launch.requeue it writes how the run has ended behind the
 * settings, for srun.
 */
int dt_console_run(FILE *settings);

/* `disttrain console --watch`, which the plugin starts next to rank 0.
 * Arguments:
 * --watch PIDFD SECONDS PORT PORT RANK0_HOST HOST...; stdin has the token
 * of the records. Writes records for the console about hosts that have
 * not connected when rank 0 has listened for SECONDS on one of the ports (0:
 * none). Opens the file of stderr for each record, so stderr may be an
 * O_PATH descriptor. Returns the exit status.
 */
int dt_console_watch(int argc, char **argv);

/* `disttrain console --end`, which the console starts when rank 0 was killed or
 * its node is lost while the files of the run still say that it is running. It
 * is a separate process because the disk may hang. argv is DIR STEP STATUS RANK
 * HOST TEXT. Records the end in the files of DIR. Returns 1 if the run wants
 * report.html; 0: there is nothing to do, because the run has recorded its end.
 * -1: EX_USAGE, or as dt_live_record_ending.
 */
int dt_run_end_record(int argc, char **argv, struct dt_error *err);

#endif /* DT_CONSOLE_CONSOLE_H */
