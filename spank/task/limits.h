/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - resource limits that would end a step in an obscure way
 *
 * What is too small: memlock under 1 GiB (registering the buffers of RDMA fails
 * with ENOMEM) and core files that are wanted but cut at less than 1 GiB, both
 * where there is RDMA; and fewer than 4096 open files for more than 64 ranks,
 * which are connected with each other.
 */
#ifndef DTSPANK_LIMITS_H
#define DTSPANK_LIMITS_H

#include <slurm/spank.h>

#include "base/error.h"

/* The node's first task says in one line which limits of the tasks are too
 * small, and for each the shortest way to a larger one. `rdma` is where the
 * kernel lists RDMA devices.
 */
void dtspank_limits_report(spank_t spank, const char *rdma);

/* The same on this node, in the form of a step of task_init; never fails. */
int dtspank_limits_apply(spank_t spank, struct dt_error *err);

#endif /* DTSPANK_LIMITS_H */
