/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - what the system lets this process have */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/limits.h"

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
