/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - the program that a task is about to become */
#ifndef DTSPANK_PROGRAM_H
#define DTSPANK_PROGRAM_H

#include <slurm/spank.h>

#include "base/error.h"

/* In a task, as the user. Fails if the program is the runtime, which srun has
 * put there by its path, and this node does not have it. `runtime` is the one
 * of plugstack.conf.
 */
int dtspank_program_check(spank_t spank, const char *runtime,
                          struct dt_error *err);

/* Rank 0 of several warns of a program that is linked with an MPI library, in a
 * step that has been started without MPI: each rank would be a world of its
 * own.
 */
void dtspank_program_warn_mpi(spank_t spank, const char *runtime);

#endif /* DTSPANK_PROGRAM_H */
