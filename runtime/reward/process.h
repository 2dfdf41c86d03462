/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - a program in a process group of its own, and lines to and from it
 */
#ifndef DT_REWARD_PROCESS_H
#define DT_REWARD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum { DT_PROCESS_LAST_BYTES = 256 };

struct dt_process_options {
    char *const *argv; /* ends with NULL; argv[0], its name in messages, is
                          looked for in PATH */
    const char *directory;
    const char *name;      /* in the log, before its lines of stderr */
    char *const *secrets;  /* "NAME=value" for its environment; NULL: none */
    bool gpu;              /* false: CUDA_VISIBLE_DEVICES is empty */
    long memory_mb, cpu_s; /* limits; 0: none */
    int stop; /* reading and writing end when this is readable; -1: never */
};

/* Zeroed before dt_process_start; released with dt_process_end. */
struct dt_process {
    struct dt_process_options options;
    pid_t pid;        /* and process group; 0: none */
    int in, out, err; /* its stdin, stdout and stderr; -1: closed */
    int end;          /* a pidfd, readable when it has ended; -1: none */
    char *buffer;     /* its output that nobody has read yet */
    size_t used, room;
    char last[DT_PROCESS_LAST_BYTES]; /* last line on stderr */
    char line[DT_PROCESS_LAST_BYTES]; /* the one that it is writing */
    size_t line_bytes;
    size_t said; /* lines on stderr since the last request */
};

/* Starts it. It dies with the thread that calls this, with no descriptor of
 * ours but three pipes, no handlers, and without the variables by which
 * launchers tell a rank its place. -1: EX_UNAVAILABLE, EX_OSERR.
 */
int dt_process_start(struct dt_process *process,
                     const struct dt_process_options *options,
                     struct dt_error *err);

/* Writes a line and reads one of at most `most` bytes, within timeout_s. The
 * line without its LF is at *reply, *bytes long, until the next call. -1:
 * EX_UNAVAILABLE, it did not answer in time, has ended (with its status and the
 * last line on stderr), or must stop; EX_PROTOCOL, it wrote too much or
 * unasked. Only dt_process_end can follow a failure.
 */
int dt_process_ask(struct dt_process *process, const char *line, size_t most,
                   double timeout_s, const char **reply, size_t *bytes,
                   struct dt_error *err);

/* Closes its stdin and waits up to grace_s for its end; then kills the rest of
 * its process group and waits up to a second for processes that the kernel
 * cannot kill yet.
 */
void dt_process_end(struct dt_process *process, double grace_s);

#endif /* DT_REWARD_PROCESS_H */
