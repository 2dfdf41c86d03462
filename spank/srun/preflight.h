/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - launch.preflight: examines the nodes before tasks start
 *
 * The step already exists at this point, and Slurm gives plugins no way to
 * cancel it: an srun that just exits leaves behind the step, and its allocation
 * if it made one. So srun continues, and the tasks exit before they execute
 * anything.
 */
#ifndef DTSPANK_PREFLIGHT_H
#define DTSPANK_PREFLIGHT_H

#include <stdint.h>

#include "base/error.h"

/* In srun, once the step exists: runs `RUNTIME doctor` on its nodes, with the
 * table on stderr. Returns -1 if they are not fit or if that cannot be found
 * out, and tells the tasks through DT_ENV_PREFLIGHT.
 */
int dtspank_preflight_run(const char *runtime, uint32_t job, uint32_t step,
                          struct dt_error *err);

#endif /* DTSPANK_PREFLIGHT_H */
