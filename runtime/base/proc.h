/* SPDX-License-Identifier: Apache-2.0 */
/* proc.h - processes as /proc shows them, and limits of this one */
#ifndef DT_BASE_PROC_H
#define DT_BASE_PROC_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* A part of /proc/PID/stat, as proc_pid_stat(5) describes it. */
struct dt_proc_stat {
    char name[64]; /* as the kernel knows it, at most 15 bytes of a program's */
    char state;    /* R, S, D, Z, T ... */
    int parent;
    int terminal;                   /* 0: it has none */
    int threads;
    unsigned long long cpu_ticks;   /* in user and kernel mode together */
    unsigned long long start_ticks; /* since the boot; sysconf(_SC_CLK_TCK)
                                       ticks are a second */
};

/* Reads root + /proc/PID/stat. false: there is no such process, or it is not
 * visible; *stat is then all zero.
 */
bool dt_proc_stat(struct dt_proc_stat *stat, const char *root, int pid);

/* When this process began, on the clock of dt_clock_now, to a hundredth of a
 * second; the present time if it is not known.
 */
double dt_proc_began(void);

/* The next process of user `uid` in `proc`, an open /proc; 0: no more. */
int dt_proc_next(DIR *proc, uid_t uid);

/* A keeper has this name in ps, top and pgrep, and its worker that of its
 * program.
 */
#define DT_PROC_KEEPER "disttrain-keep"

/* Execute this to run this program again: it is the same file, even if an
 * upgrade has put another one in its place. ps would show "exe", so it takes
 * the name of the program again.
 */
#define DT_PROC_SELF "/proc/self/exe"
#define DT_PROC_NAME "disttrain"

/* Writes the path of this program, for other machines and for later, where it
 * may be another file. -1 and errno.
 */
int dt_proc_path(char path[PATH_MAX]);

/* The processors of its affinity, but not more than the limit of its cgroup
 * (version 2: cpu.max) gives it the time of, rounded up; at least 1. `root` is
 * before /proc and /sys: "".
 */
int dt_cpus_usable(const char *root);

/* Makes sure that `more` files can be opened besides those that are, by raising
 * the soft limit as far as it takes. -1: EX_OSERR with the hard limit and who
 * can raise it.
 */
int dt_limits_open_files(size_t more, struct dt_error *err);

/* Raises the soft limit of open files as far as the hard one allows. */
void dt_limits_raise_files(void);

#endif /* DT_BASE_PROC_H */
