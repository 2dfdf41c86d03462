/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - which nodes are examined */
#ifndef DT_DOCTOR_WORLD_H
#define DT_DOCTOR_WORLD_H

#include <stddef.h>

#include "base/error.h"

struct dt_doctor_world {
    char *job;    /* its number; NULL: no job, but this machine only */
    char *list;   /* the nodes as Slurm writes them, n[1-4]; NULL: no job */
    char *text;   /* owns what names point into */
    char **names; /* one by one */
    size_t count;
};

/* `job` is "ID" or "ID.STEP"; NULL: the step or job that this process is in, if
 * any. Slurm's own programs are asked. -1: EX_UNAVAILABLE, EX_OSERR. Release
 * with dt_doctor_world_fini, also after a failure.
 */
int dt_doctor_world_init(struct dt_doctor_world *world, const char *job,
                         struct dt_error *err);
void dt_doctor_world_fini(struct dt_doctor_world *world);

#endif /* DT_DOCTOR_WORLD_H */
