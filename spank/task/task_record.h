/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_record.h - writes records for srun's console
 *
 * contract/contract.h has their form, and console/parse.c a row for each.
 */
#ifndef DTSPANK_TASK_RECORD_H
#define DTSPANK_TASK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <slurm/spank.h>

#include "base/error.h"
#include "contract/contract.h"

/* Whether srun has a console, according to the task's environment, with a token
 * of hexadecimal digits.
 */
bool dtspank_record_wanted(spank_t spank);

/* Gets the token of the step's records; without a console, and for a token that
 * is not of hexadecimal digits, it is "" and the result false.
 */
bool dtspank_record_token(spank_t spank, char token[DT_TOKEN_BYTES]);

/* In a task: writes the start record to its stderr. If only the console wanted
 * labels, also removes SLURM_LABELIO so that the sruns that the task may start
 * do not label. Returns 0.
 */
int dtspank_record_start(spank_t spank, struct dt_error *err);

/* In a task: removes the token from its environment, so that what the task runs
 * cannot write records. slurmstepd keeps its own copy. Returns 0.
 */
int dtspank_record_hide(spank_t spank, struct dt_error *err);

/* In slurmstepd, as root: writes "VERB RANK HOST SECONDS.mmm NUMBER", which has
 * no text of a user.
 */
void dtspank_record_log(spank_t spank, uint32_t rank, const char *verb,
                        int number);

#endif /* DTSPANK_TASK_RECORD_H */
