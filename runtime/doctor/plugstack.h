/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.h - reads plugstack.conf and the files that it includes */
#ifndef DT_DOCTOR_PLUGSTACK_H
#define DT_DOCTOR_PLUGSTACK_H

#include <stddef.h>

#include "base/error.h"

/* One plugin, or an include that matches no file. */
struct dt_doctor_entry {
    char *file; /* the file that has the line */
    int line;
    char *path;      /* the plugin as written; NULL: an include */
    char *arguments; /* of the plugin, separated by blanks; or the include's
                      * pattern
                      */
};

struct dt_doctor_plugstack {
    struct dt_doctor_entry *entries; /* in Slurm's order */
    size_t count;
};

/* Reads `path` and the files that it includes. -1: EX_NOINPUT, EX_DATAERR,
 * EX_OSERR, with what has been read so far. Call dt_doctor_plugstack_fini in
 * any case.
 */
int dt_doctor_plugstack_init(struct dt_doctor_plugstack *stack,
                             const char *path, struct dt_error *err);
void dt_doctor_plugstack_fini(struct dt_doctor_plugstack *stack);

/* Returns the value of KEY=VALUE in a slurm.conf, to be freed; the case of KEY
 * does not matter. NULL: it has none, or the file cannot be read.
 */
char *dt_doctor_slurm_conf_get(const char *path, const char *key);

#endif /* DT_DOCTOR_PLUGSTACK_H */
