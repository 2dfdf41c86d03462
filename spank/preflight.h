/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - launch.preflight: the nodes are examined before tasks start
 *
 * srun has the step by then, and Slurm offers no way to give it up: an srun
 * that just ends leaves the step, and an allocation of its own, behind. So srun
 * goes on, and the tasks end before they execute anything.
 */
#ifndef DTSPANK_PREFLIGHT_H
#define DTSPANK_PREFLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"

/* In srun, the step exists: runs `RUNTIME doctor` on its nodes, with the table
 * on stderr. -1 if they are not fit, or if that remains unknown; the tasks are
 * told.
 */
int dtspank_preflight_run(const char *runtime, uint32_t job, uint32_t step,
                          struct dt_error *err);

/* In a task: whether it is not to be. */
bool dtspank_preflight_failed(spank_t spank);

#endif /* DTSPANK_PREFLIGHT_H */
