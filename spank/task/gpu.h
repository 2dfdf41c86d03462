/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - which GPUs a task sees
 *
 * PyTorch and most others take the device whose index is LOCAL_RANK, so every
 * task has to see all GPUs that the step has on the node.
 */
#ifndef DTSPANK_GPU_H
#define DTSPANK_GPU_H

#include <slurm/spank.h>

#include "base/error.h"

/* With DT_ENV_GPU_VISIBILITY "one", leaves the task the GPU of its local rank
 * only, the first again after the last; otherwise what Slurm has set stays. The
 * node's first task warns in one line of what programs will trip over. Fails if
 * the environment cannot be changed.
 */
int dtspank_gpu_apply(spank_t spank, struct dt_error *err);

/* The number of GPUs that a program sees by the task's environment, 0 included;
 * -1 if it does not speak of any.
 */
int dtspank_gpu_visible(spank_t spank);

#endif /* DTSPANK_GPU_H */
