/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - programs that srun runs for us, with a deadline */
#ifndef DTSPANK_CHILD_H
#define DTSPANK_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Milliseconds on the monotonic clock, on which deadlines are given. */
int64_t dtspank_now_ms(void);

/* Starts argv with no input, its stdout on out_fd, and the signals of a fresh
 * process: srun has blocked or caught most of them by now. Returns 0 or errno.
 */
int dtspank_child_spawn(char *const argv[], int out_fd, pid_t *pid);

/* Waits until the child has ended; *status is what waitpid says. One that does
 * not end in time is killed, and -1 returned.
 */
int dtspank_child_wait(pid_t pid, int64_t deadline, int *status,
                       struct dt_error *err);

/* Kills it and does not wait. */
void dtspank_child_kill(pid_t pid);

#endif /* DTSPANK_CHILD_H */
