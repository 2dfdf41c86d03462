/* SPDX-License-Identifier: Apache-2.0 */
/* proc.c - processes, processors and limits */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"

/* Parses "PID (name) S PARENT ...", where the name may contain blanks and
 * brackets.
 */
static bool parse_stat(struct dt_proc_stat *stat, char *text)
{
    unsigned long long user, kernel;
    char *begin = strchr(text, '(');
    char *end = strrchr(text, ')');
    if (!begin || !end || end < begin)
        return false;
    *end++ = '\0';
    snprintf(stat->name, sizeof(stat->name), "%s", begin + 1);
    if (sscanf(end,
               " %c %d %*d %*d %d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d "
               "%*d %*d %d %*d %llu",
               &stat->state, &stat->parent, &stat->terminal, &user, &kernel,
               &stat->threads, &stat->start_ticks) != 7)
        return false;
    stat->cpu_ticks = user + kernel;
    return true;
}

bool dt_proc_stat(struct dt_proc_stat *stat, const char *root, int pid)
{
    char path[PATH_MAX], text[1024];
    snprintf(path, sizeof(path), "%s/proc/%d/stat", root, pid);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    *stat = (struct dt_proc_stat){0};
    bool whole = parse_stat(stat, text);
    if (!whole)
        *stat = (struct dt_proc_stat){0};
    return whole;
}

double dt_proc_began(void)
{
    struct dt_proc_stat self;
    const bool known = dt_proc_stat(&self, "", getpid());
    const double now = dt_clock_now();
    if (!known)
        return now;
    const double age = 1e-9 * (double)dt_clock_ns(CLOCK_BOOTTIME) -
                       (double)self.start_ticks / (double)sysconf(_SC_CLK_TCK);
    return now - fmax(age, 0);
}

int dt_proc_path(char path[PATH_MAX])
{
    static const char gone[] = " (deleted)"; /* or replaced */
    const size_t bytes = sizeof(gone) - 1;
    ssize_t n = readlink(DT_PROC_SELF, path, PATH_MAX - 1);
    path[n > 0 ? n : 0] = '\0';
    if (n > (ssize_t)bytes && strcmp(path + n - bytes, gone) == 0 &&
        access(path, F_OK) != 0)
        path[n - (ssize_t)bytes] = '\0';
    return n > 0 ? 0 : -1;
}

int dt_proc_next(DIR *proc, uid_t uid)
{
    struct dirent *entry;
    struct stat st;
    while ((entry = readdir(proc)) != NULL) {
        const char *name = entry->d_name;
        if (name[strspn(name, "0123456789")] == '\0' &&
            fstatat(dirfd(proc), name, &st, 0) == 0 && st.st_uid == uid)
            return atoi(name);
    }
    return 0;
}

/* --- processors --- */

enum { CPUS_MAX = 1 << 16 }; /* more than any kernel knows */

/* The kernel refuses a set that is smaller than its own. */
static int affinity(void)
{
    size_t bytes = CPU_ALLOC_SIZE(CPUS_MAX);
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    int count = 0;
    if (set && sched_getaffinity(0, bytes, set) == 0)
        count = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    return count > 0 ? count : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The processors that the limit of one group is worth; INFINITY: it has none.
 */
static double limit_of(const char *group)
{
    char path[PATH_MAX + 16];
    double quota, period, cpus = INFINITY;
    snprintf(path, sizeof(path), "%s/cpu.max", group);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lf %lf", &quota, &period) == 2 && quota > 0 &&
        period > 0)
        cpus = quota / period;
    if (file)
        fclose(file);
    return cpus;
}

/* A group has no more than those above it. */
static double cgroup_limit(const char *root)
{
    char group[PATH_MAX], path[PATH_MAX], line[PATH_MAX];
    double cpus = INFINITY;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    group[0] = '\0';
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, sizeof(group), "%s/sys/fs/cgroup%.*s", root,
                     (int)strcspn(line + 3, "\n"), line + 3);
    if (file)
        fclose(file);
    size_t top = strlen(root) + strlen("/sys/fs/cgroup");
    for (char *end; strlen(group) > top; *end = '\0') {
        cpus = fmin(cpus, limit_of(group));
        end = strrchr(group, '/');
    }
    return group[0] ? fmin(cpus, limit_of(group)) : cpus;
}

int dt_cpus_usable(const char *root)
{
    const int cpus = affinity();
    const double limit = ceil(cgroup_limit(root));
    return limit < cpus ? (int)fmax(limit, 1) : cpus;
}

/* --- limits --- */

/* Open files of this process; of an unreadable /proc, a guess. */
static size_t count_open_files(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 64;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

int dt_limits_open_files(size_t more, struct dt_error *err)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)(count_open_files() + more);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return 0;
    if (limit.rlim_max < wanted)
        return dt_error_set(
            err, EX_OSERR,
            "this process needs %llu open files, and its hard limit is %llu: "
            "raise it (ulimit -Hn where the job is submitted, or LimitNOFILE "
            "of slurmd's service)",
            (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        return dt_error_set(err, EX_OSERR, "setrlimit(RLIMIT_NOFILE, %llu): %s",
                            (unsigned long long)wanted, strerror(errno));
    return 0;
}

void dt_limits_raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}
