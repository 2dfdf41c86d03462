/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - what the ranks of a step on this node are doing */
#ifndef DT_DOCTOR_RANKS_H
#define DT_DOCTOR_RANKS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"

/* One look at the processes of a step. All zero is a valid beginning. */
struct dt_doctor_ranks {
    struct dt_doctor_process *list;
    size_t count, size;
    uint32_t tasks; /* of the step; 0: no process of it is here */
};

/* Reads root/proc: processes of `uid` whose environment is that of a task of
 * `step`, "ID.STEP". What cannot be read is left out. Release with
 * dt_doctor_ranks_fini.
 */
void dt_doctor_ranks_look(struct dt_doctor_ranks *ranks, const char *root,
                          uid_t uid, const char *step);
void dt_doctor_ranks_fini(struct dt_doctor_ranks *ranks);

/* Writes a line for each rank, for dt_doing_print (report/doing.h), from two
 * looks that many seconds apart.
 */
void dt_doctor_ranks_print(const struct dt_doctor_ranks *before,
                           const struct dt_doctor_ranks *now, double seconds,
                           const char *root, const char *host, FILE *out);

/* Both looks at this node, to stdout, and then "end HOST". */
void dt_doctor_ranks_probe(const char *step);

#endif /* DT_DOCTOR_RANKS_H */
