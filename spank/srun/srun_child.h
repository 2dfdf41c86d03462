/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srun_child.h - programs that srun runs for us, with a deadline
 *
 * Not base/child.h, whose promises are others: that one handles signals of its
 * process, leaves those that the user ignores ignored, looks in PATH, and gives
 * a child a second after SIGTERM. In srun, signals belong to srun, a program is
 * named by its path, and no wait is longer than its deadline.
 */
#ifndef DTSPANK_SRUN_CHILD_H
#define DTSPANK_SRUN_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Milliseconds of the monotonic clock; deadlines are given in them. */
int64_t dtspank_now_ms(void);

/* Starts argv with no input, its stdout on out_fd, and default signal handling:
 * srun has blocked or caught most signals by now. Returns 0 or an errno.
 */
int dtspank_child_spawn(char *const argv[], int out_fd, pid_t *pid);

/* Waits until the child has ended and stores its wait status. Kills a child
 * that does not end before the deadline, and returns -1.
 */
int dtspank_child_wait(pid_t pid, int64_t deadline, int *status,
                       struct dt_error *err);

/* Kills the child and does not wait for its end. */
void dtspank_child_kill(pid_t pid);

#endif /* DTSPANK_SRUN_CHILD_H */
