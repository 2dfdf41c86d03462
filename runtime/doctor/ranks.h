/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - finds out what a step's ranks on this node are doing */
#ifndef DT_DOCTOR_RANKS_H
#define DT_DOCTOR_RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

/* A snapshot of the processes of a step. Initialize to zero. */
struct dt_doctor_ranks {
    struct dt_doctor_process *list;
    size_t count, size;
    uint32_t tasks; /* of the step; 0: none of its processes is here */
};

/* Reads from root/proc the processes of `uid` whose environment is that of a
 * task of `step` ("ID.STEP"). Skips what it cannot read. Release with
 * dt_doctor_ranks_fini.
 */
void dt_doctor_ranks_look(struct dt_doctor_ranks *ranks, const char *root,
                          uid_t uid, const char *step);
void dt_doctor_ranks_fini(struct dt_doctor_ranks *ranks);

/* Writes a line for each rank, for dt_rank_states_print (doctor/rank_states.h),
 * from two snapshots that are that many seconds apart.
 */
void dt_doctor_ranks_print(const struct dt_doctor_ranks *before,
                           const struct dt_doctor_ranks *now, double seconds,
                           const char *root, const char *host, FILE *out);

/* Takes both snapshots of this node and writes the lines to stdout, then "end
 * HOST".
 */
void dt_doctor_ranks_probe(const char *step);

#endif /* DT_DOCTOR_RANKS_H */
