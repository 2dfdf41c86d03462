/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu.h - which GPUs a task sees
 *
 * PyTorch and most others use the device whose index is LOCAL_RANK, so every
 * task has to see all GPUs that the step has on the node.
 */
#ifndef DTSPANK_GPU_H
#define DTSPANK_GPU_H

#include <slurm/spank.h>

#include "base/error.h"

/* With DT_ENV_GPU_VISIBILITY "one", leaves each task only one GPU: local ranks
 * are assigned to the GPUs round-robin. Otherwise what Slurm has set stays. The
 * node's first task warns in one line of settings that break programs. Fails if
 * the environment cannot be changed.
 */
int dtspank_gpu_apply(spank_t spank, struct dt_error *err);

/* Returns how many GPUs a program sees according to the task's environment,
 * possibly 0; -1 if the environment does not say.
 */
int dtspank_gpu_visible(spank_t spank);

#endif /* DTSPANK_GPU_H */
