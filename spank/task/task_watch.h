/* SPDX-License-Identifier: Apache-2.0 */
/* task_watch.h - sees from beside rank 0 which nodes do not connect */
#ifndef DTSPANK_TASK_WATCH_H
#define DTSPANK_TASK_WATCH_H

#include <slurm/spank.h>

/* In the task of rank 0, if the step has several nodes and srun has a console:
 * starts `RUNTIME console --watch`, as the user. It ends with the task and does
 * not hold the task's output open. If the program or anything that it needs is
 * missing, nothing is started.
 */
void dtspank_watch_start(spank_t spank, const char *runtime);

#endif /* DTSPANK_TASK_WATCH_H */
