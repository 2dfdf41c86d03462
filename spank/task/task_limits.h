/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_limits.h - warns of resource limits that break a step obscurely
 *
 * A limit is too small if memlock is below 1 GiB (registering RDMA buffers
 * fails with ENOMEM) or core files are wanted but limited to less than 1 GiB,
 * both only where there is RDMA, or if there are fewer than 4096 open files for
 * more than 64 ranks, which all connect to each other.
 */
#ifndef DTSPANK_TASK_LIMITS_H
#define DTSPANK_TASK_LIMITS_H

#include <slurm/spank.h>

#include "base/error.h"

/* The node's first task says in one line which limits of the tasks are too
 * small, and for each the simplest way to get a larger one. The kernel lists
 * RDMA devices in the directory `rdma`.
 */
void dtspank_limits_report(spank_t spank, const char *rdma);

/* The same for this node, with the signature of a task_init step; never fails.
 */
int dtspank_limits_apply(spank_t spank, struct dt_error *err);

#endif /* DTSPANK_TASK_LIMITS_H */
