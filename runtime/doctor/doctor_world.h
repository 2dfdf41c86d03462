/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_world.h - determines which nodes are examined */
#ifndef DT_DOCTOR_DOCTOR_WORLD_H
#define DT_DOCTOR_DOCTOR_WORLD_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"

struct dt_doctor_world {
    char *job;    /* its number; NULL: no job, only this machine */
    char *list;   /* the nodes as Slurm writes them, n[1-4]; NULL: no job */
    char *text;   /* owned; names point into it */
    char **names; /* the name of each node */
    size_t count;
};

/* `job` is "ID" or "ID.STEP"; NULL means the step or job of this process, if
 * any. Asks Slurm's own programs. -1: EX_UNAVAILABLE, EX_OSERR. Release with
 * dt_doctor_world_fini, also after a failure.
 */
int dt_doctor_world_init(struct dt_doctor_world *world, const char *job,
                         struct dt_error *err);
void dt_doctor_world_fini(struct dt_doctor_world *world);

/* The command that starts a probe on each node. argv points into this struct
 * and to list, which must outlive it.
 */
struct dt_doctor_probes {
    char self[PATH_MAX], job[64], nodes[32], tasks[32], step[64];
    char *argv[20]; /* ends with NULL */
};

/* Prepares the probes of `count` nodes of list, in a job (NULL: here). With
 * `step` ("ID.STEP") they examine its ranks, otherwise the nodes. -1: EX_OSERR.
 */
int dt_doctor_probes_init(struct dt_doctor_probes *probes, const char *job,
                          const char *list, size_t count, const char *step,
                          struct dt_error *err);

#endif /* DT_DOCTOR_DOCTOR_WORLD_H */
