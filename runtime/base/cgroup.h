/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.h - the control group of this process, of version 1 or 2 */
#ifndef DT_BASE_CGROUP_H
#define DT_BASE_CGROUP_H

#include <limits.h>
#include <stddef.h>

struct dt_cgroup {
    int version;         /* 1 or 2; 0: there is none */
    size_t top;          /* length of the path of the topmost one */
    char path[PATH_MAX]; /* its directory */
};

/* Finds the one that a controller ("memory", "cpu") works on. `root` is "", or
 * stands for it in tests.
 */
void dt_cgroup_find(struct dt_cgroup *group, const char *root,
                    const char *controller);

/* Goes to the one above it. Returns -1 at the topmost. */
int dt_cgroup_rise(struct dt_cgroup *group);

/* The number after `name` in a file of it with lines "name number"; NaN: there
 * is none.
 */
double dt_cgroup_number(const struct dt_cgroup *group, const char *file,
                        const char *name);

/* Processes of it that the kernel has killed so far because memory ran out; -1:
 * unknown.
 */
long dt_cgroup_oom_kills(const char *root);

#endif /* DT_BASE_CGROUP_H */
