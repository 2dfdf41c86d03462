/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.h - how many processors this process may keep busy */
#ifndef DT_BASE_CPUS_H
#define DT_BASE_CPUS_H

/* The processors of its affinity, but not more than the limit of its cgroup
 * (version 2: cpu.max) gives it the time of, rounded up; at least 1. `root` is
 * before /proc and /sys: "".
 */
int dt_cpus_usable(const char *root);

#endif /* DT_BASE_CPUS_H */
