/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - checks the program that a task is about to execute */
#ifndef DTSPANK_PROGRAM_H
#define DTSPANK_PROGRAM_H

#include <slurm/spank.h>

#include "base/error.h"

/* In a task, as the user. Fails if the program is the runtime, which srun
 * inserted by its path, and this node does not have it. `runtime` is that of
 * plugstack.conf.
 */
int dtspank_program_check(spank_t spank, const char *runtime,
                          struct dt_error *err);

/* Rank 0 of several ranks warns of a program that is linked with an MPI library
 * in a step without MPI: each rank would be a world of its own.
 */
void dtspank_program_warn_mpi(spank_t spank, const char *runtime);

#endif /* DTSPANK_PROGRAM_H */
