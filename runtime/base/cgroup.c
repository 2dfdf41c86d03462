/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - finds the control group of this process, and its counters */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"

#define MOUNT "/sys/fs/cgroup"

/* Whether a list "cpu,cpuacct" has a controller. */
static bool is_listed(const char *controllers, const char *controller)
{
    size_t n;
    for (const char *p = controllers; *p; p += n + (p[n] == ',')) {
        n = strcspn(p, ",");
        if (n == strlen(controller) && strncmp(p, controller, n) == 0)
            return true;
    }
    return false;
}

static void set(struct dt_cgroup *group, int version, const char *root,
                const char *mount, const char *path)
{
    const char *below = strcmp(path, "/") == 0 ? "" : path;
    int n = snprintf(group->path, sizeof(group->path), "%s" MOUNT "%s%s", root,
                     mount, below);
    group->version = n < (int)sizeof(group->path) ? version : 0;
    group->top = (size_t)n - strlen(below);
}

/* Lines of /proc/self/cgroup are "0::/group" (version 2), or
 * "4:cpu,cpuacct:/group", which comes first where both are mounted.
 */
void dt_cgroup_find(struct dt_cgroup *group, const char *root,
                    const char *controller)
{
    char file[PATH_MAX], line[PATH_MAX], which[128], mount[132];
    int at;
    *group = (struct dt_cgroup){0};
    snprintf(file, sizeof(file), "%s/proc/self/cgroup", root);
    FILE *groups = fopen(file, "re");
    while (groups && group->version != 1 && fgets(line, sizeof(line), groups)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0) {
            set(group, 2, root, "", line + 3);
        } else if (sscanf(line, "%*d:%127[^:]:%n", which, &at) == 1 &&
                   is_listed(which, controller)) {
            snprintf(mount, sizeof(mount), "/%s", which);
            set(group, 1, root, mount, line + at);
        }
    }
    if (groups)
        fclose(groups);
}

int dt_cgroup_rise(struct dt_cgroup *group)
{
    char *slash = strrchr(group->path, '/');
    if (group->version == 0 || (size_t)(slash - group->path) < group->top)
        return -1;
    *slash = '\0';
    return 0;
}

double dt_cgroup_number(const struct dt_cgroup *group, const char *file,
                        const char *name)
{
    char path[PATH_MAX + 64], line[512], word[64];
    double value = NAN, found;
    snprintf(path, sizeof(path), "%s/%s", group->path, file);
    FILE *lines = group->version ? fopen(path, "re") : NULL;
    while (lines && isnan(value) && fgets(line, sizeof(line), lines))
        if (sscanf(line, "%63s %lf", word, &found) == 2 &&
            strcmp(word, name) == 0)
            value = found;
    if (lines)
        fclose(lines);
    return value;
}

long dt_cgroup_oom_kills(const char *root)
{
    struct dt_cgroup group;
    dt_cgroup_find(&group, root, "memory");
    const double kills = dt_cgroup_number(
        &group, group.version == 1 ? "memory.oom_control" : "memory.events",
        "oom_kill");
    return isnan(kills) ? -1 : (long)kills;
}
