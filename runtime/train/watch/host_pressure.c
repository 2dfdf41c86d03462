/* SPDX-License-Identifier: Apache-2.0 */
/* host_pressure.c - kernel counters of whatever slows this process down */
#include "config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "train/watch/stragglers.h"

/* The number after `name` in a file of lines "name number"; NaN: none. */
static double number_of(const char *path, const char *name)
{
    char line[512], word[64];
    double value = NAN, found;
    FILE *file = fopen(path, "re");
    while (file && isnan(value) && fgets(line, sizeof(line), file))
        if (sscanf(line, "%63s %lf", word, &found) == 2 &&
            strcmp(word, name) == 0)
            value = found;
    if (file)
        fclose(file);
    return value;
}

/* Seconds for which a control group, or its nearest ancestor with a counter,
 * was throttled. Shortens `path`.
 */
static double group_throttled(char *path, size_t base, const char *counter,
                              double unit)
{
    char file[PATH_MAX + 16];
    for (;;) {
        snprintf(file, sizeof(file), "%s/cpu.stat", path);
        const double value = number_of(file, counter);
        char *slash = strrchr(path, '/');
        if (!isnan(value) || !slash || (size_t)(slash - path) < base)
            return value * unit;
        *slash = '\0';
    }
}

/* Whether a list "cpu,cpuacct" has cpu. */
static int has_cpu(const char *controllers)
{
    size_t n;
    for (const char *p = controllers; *p; p += n + (p[n] == ',')) {
        n = strcspn(p, ",");
        if (n == 3 && strncmp(p, "cpu", 3) == 0)
            return 1;
    }
    return 0;
}

/* Lines of /proc/self/cgroup are "0::/group" (version 2), or
 * "4:cpu,cpuacct:/group".
 */
static double throttled(const char *root)
{
    char file[PATH_MAX], line[PATH_MAX], path[2 * PATH_MAX], which[128];
    double seconds = NAN;
    int at;
    snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
    FILE *groups = fopen(file, "re");
    while (groups && isnan(seconds) && fgets(line, sizeof(line), groups)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            int base = snprintf(path, sizeof(path), "%s/sys/fs/cgroup", root);
            snprintf(path + base, sizeof(path) - (size_t)base, "%s", line + 3);
            seconds =
                group_throttled(path, (size_t)base, "throttled_usec", 1e-6);
        } else if (sscanf(line, "%*d:%127[^:]:%n", which, &at) == 1 &&
                   has_cpu(which)) {
            int base = snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%s", root,
                                which);
            snprintf(path + base, sizeof(path) - (size_t)base, "%s", line + at);
            seconds =
                group_throttled(path, (size_t)base, "throttled_time", 1e-9);
        }
    }
    if (groups)
        fclose(groups);
    return seconds;
}

/* The eighth number of the line "cpu" in ticks: of all CPUs together. */
static double stolen(const char *root)
{
    char file[PATH_MAX];
    double ticks = NAN;
    snprintf(file, sizeof(file), "%s/proc/stat", root);
    FILE *stat = fopen(file, "re");
    if (stat &&
        fscanf(stat, "cpu %*f %*f %*f %*f %*f %*f %*f %lf", &ticks) != 1)
        ticks = NAN;
    if (stat)
        fclose(stat);
    return ticks / (double)sysconf(_SC_CLK_TCK) /
           (double)sysconf(_SC_NPROCESSORS_ONLN);
}

void dt_strain_read(struct dt_strain *strain, const char *root)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *strain = (struct dt_strain){.throttled_s = throttled(root),
                                 .steal_s = stolen(root),
                                 .faults = (double)usage.ru_majflt,
                                 .preempted = (double)usage.ru_nivcsw};
}
