/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - tells srun's console how tasks begin and end
 *
 * The grammar of the records is in launch/contract.h.
 */
#ifndef DTSPANK_RECORD_H
#define DTSPANK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "contract/contract.h"

/* Whether srun has a console, by the environment of the task. */
bool dtspank_record_wanted(spank_t spank);

/* The token of the step's records; false, and "", without a console. */
bool dtspank_record_token(spank_t spank, char token[DT_TOKEN_BYTES]);

/* In a task, to its stderr. Also takes SLURM_LABELIO away from the sruns that
 * the task may start, if only the console wanted it.
 */
int dtspank_record_start(spank_t spank, struct dt_error *err);

/* In a task: takes the token out of its environment, so that what the task runs
 * cannot write records. slurmstepd keeps its own copy. Returns 0.
 */
int dtspank_record_hide(spank_t spank, struct dt_error *err);

/* In slurmstepd: numbers and the name of this host. Nothing if the task ended
 * well.
 */
void dtspank_record_exit(spank_t spank, uint32_t rank, int status);

#endif /* DTSPANK_RECORD_H */
