/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.c - how much memory this process may still use */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

/* The number in the file <root><path>, SIZE_MAX if there is none ("max"). */
static size_t read_number(const char *root, const char *path)
{
    char file[2 * PATH_MAX];
    uint64_t value;
    snprintf(file, sizeof(file), "%s%s", root, path);
    FILE *f = fopen(file, "re");
    bool got = f && fscanf(f, "%" SCNu64, &value) == 1;
    if (f)
        fclose(f);
    return got && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
}

/* Sum of the lines "<name> N" or "<name>: N kB" of a file with a name from the
 * list; SIZE_MAX if there is no such file or line.
 */
static size_t sum_lines(const char *root, const char *path,
                        const char *const *names, size_t unit)
{
    char file[2 * PATH_MAX], line[256], name[64];
    uint64_t value;
    size_t sum = 0;
    bool any = false;
    snprintf(file, sizeof(file), "%s%s", root, path);
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%63[^: ]%*[: ]%" SCNu64, name, &value) != 2)
            continue;
        for (const char *const *n = names; *n; n++)
            if (!strcmp(*n, name)) {
                sum += (size_t)value * unit;
                any = true;
            }
    }
    if (f)
        fclose(f);
    return any ? sum : SIZE_MAX;
}

/* Free bytes of a control group: its limit minus usage, without page cache,
 * which the kernel can reclaim.
 */
static size_t group_free(const char *root, const char *group, const char *limit,
                         const char *usage)
{
    static const char *const cache[] = {"inactive_file", "active_file",
                                        "total_inactive_file",
                                        "total_active_file", NULL};
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/%s", group, limit);
    size_t most = read_number(root, path);
    snprintf(path, sizeof(path), "%s/%s", group, usage);
    size_t used = read_number(root, path);
    snprintf(path, sizeof(path), "%s/memory.stat", group);
    size_t cached = sum_lines(root, path, cache, 1);
    if (most == SIZE_MAX || used == SIZE_MAX)
        return SIZE_MAX;
    if (cached != SIZE_MAX)
        used -= cached < used ? cached : used;
    return most > used ? most - used : 0;
}

/* The minimum over a group and its parents. `base` is the mount point. */
static size_t hierarchy_free(const char *root, const char *base,
                             const char *group, const char *limit,
                             const char *usage)
{
    char path[PATH_MAX];
    size_t least = SIZE_MAX, top = strlen(base);
    if (snprintf(path, sizeof(path), "%s%s", base, group) >= (int)sizeof(path))
        return SIZE_MAX;
    for (;;) {
        size_t rest = group_free(root, path, limit, usage);
        least = rest < least ? rest : least;
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < top)
            return least;
        *slash = '\0';
    }
}

size_t dt_memory_available(const char *root)
{
    static const char *const free_lines[] = {"MemAvailable", NULL};
    char file[PATH_MAX], line[PATH_MAX];
    size_t least = sum_lines(root, "/proc/meminfo", free_lines, 1024);
    snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
    FILE *f = fopen(file, "re");
    while (f && fgets(line, sizeof(line), f)) {
        size_t rest = SIZE_MAX;
        line[strcspn(line, "\n")] = '\0';
        char *group = strchr(line, '/');
        if (!strncmp(line, "0::/", 4))
            rest = hierarchy_free(root, "/sys/fs/cgroup", group, "memory.max",
                                  "memory.current");
        else if (group && strstr(line, ":memory:"))
            rest = hierarchy_free(root, "/sys/fs/cgroup/memory", group,
                                  "memory.limit_in_bytes",
                                  "memory.usage_in_bytes");
        least = rest < least ? rest : least;
    }
    if (f)
        fclose(f);
    return least;
}
