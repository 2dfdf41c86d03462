/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - a process beside rank 0 that sees who does not connect to it */
#ifndef DTSPANK_WATCH_H
#define DTSPANK_WATCH_H

#include <slurm/spank.h>

/* In the task of rank 0 of several nodes, if srun has a console: starts
 * `RUNTIME console --watch`, as the user. It ends with the task, whose stderr
 * it holds until then. Without the program or what it needs there is none.
 */
void dtspank_watch_start(spank_t spank, const char *runtime);

#endif /* DTSPANK_WATCH_H */
