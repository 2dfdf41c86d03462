/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - `disttrain console --watch`: sees which hosts do not connect to
 * rank 0
 */
#ifndef DT_CONSOLE_WATCH_H
#define DT_CONSOLE_WATCH_H

/* Arguments: --watch PIDFD SECONDS PORT PORT RANK0_HOST HOST...; stdin has the
 * token of the records. Writes records for the console about hosts that have
 * not connected when rank 0 has listened for SECONDS on one of the ports (0:
 * none). Opens the file of stderr for each record, so stderr may be an
 * O_PATH descriptor. Returns the exit status.
 */
int dt_console_watch(int argc, char **argv);

/* Milliseconds until the next look at the kernel's tables, which took `seconds`
 * of a CPU: rank 0 shares it.
 */
int dt_console_watch_pause(double seconds);

#endif /* DT_CONSOLE_WATCH_H */
