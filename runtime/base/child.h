/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - programs that are asked something, with a deadline */
#ifndef DT_BASE_CHILD_H
#define DT_BASE_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct dt_child {
    pid_t pid;
    int in;  /* its stdin; -1: nothing */
    int out; /* its stdout */
};

/* From now on a signal that ends this process (SIGHUP, SIGINT, SIGTERM) ends
 * the child that was started last as well, which would go on without us.
 */
void dt_child_guard(void);

/* Starts argv[0], looked for in PATH, with pipes; stderr is ours. -1:
 * EX_UNAVAILABLE.
 */
int dt_child_start(struct dt_child *child, char *const argv[],
                   struct dt_error *err);

/* Waits for its end and returns its status, as a shell has it. After the time
 * it is ended with SIGTERM, and a second later with SIGKILL: -1,
 * EX_UNAVAILABLE. The pipes are closed.
 */
int dt_child_wait(struct dt_child *child, int timeout_ms, struct dt_error *err);

/* Runs argv to its end with its stdout, cut to size, in text; its stderr goes
 * nowhere. Returns its status, or -1: EX_UNAVAILABLE.
 */
int dt_child_ask(char *const argv[], int timeout_ms, char *text, size_t size,
                 struct dt_error *err);

/* The same, but its stderr is ours. */
int dt_child_hear(char *const argv[], int timeout_ms, char *text, size_t size,
                  struct dt_error *err);

#endif /* DT_BASE_CHILD_H */
