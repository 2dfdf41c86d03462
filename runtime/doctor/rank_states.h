/* SPDX-License-Identifier: Apache-2.0 */
/* rank_states.h - prints the states of a step's ranks, one line per state */
#ifndef DT_DOCTOR_RANK_STATES_H
#define DT_DOCTOR_RANK_STATES_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "doctor/doctor_world.h"

/* Prints the answer `text` of the probes of nodes[0..count), and modifies it:
 *
 *     rank RANK TASKS PID PERCENT HOST <tab> STATE <tab> COMMAND
 *     end HOST
 *
 * Ranks with the same state share a line. Nodes that have not answered come
 * first, then ranks that are missing, have ended, are stopped, or hang in the
 * kernel (state D): none of these can continue. Of the others, small groups
 * come first, because the odd one out is usually the one that the rest wait
 * for. -1: EX_OSERR.
 */
int dt_rank_states_print(char *text, char *const *nodes, size_t count,
                         FILE *out, struct dt_error *err);

/* Asks the nodes of `world` for the ranks of `step` ("ID.STEP") and prints them
 * in this way. -1: EX_UNAVAILABLE if no node answers, EX_OSERR.
 */
int dt_doctor_print_ranks(const struct dt_doctor_world *world, const char *step,
                          FILE *out, struct dt_error *err);

#endif /* DT_DOCTOR_RANK_STATES_H */
