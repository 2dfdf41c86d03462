/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - how many processors this process may keep busy */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpus.h"

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

/* A group has at most what those above it have. */
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
