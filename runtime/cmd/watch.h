/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - the part of `disttrain console` that runs beside rank 0 */
#ifndef DT_CMD_WATCH_H
#define DT_CMD_WATCH_H

/* --watch PIDFD SECONDS PORT PORT RANK0_HOST HOST..., and the token of records
 * on stdin: records for the console
 * about hosts that have not connected when rank 0 has listened for SECONDS on
 * one of the ports (0: none). Returns the exit status.
 */
int dt_cmd_watch(int argc, char **argv);

#endif /* DT_CMD_WATCH_H */
