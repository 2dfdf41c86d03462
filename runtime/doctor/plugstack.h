/* SPDX-License-Identifier: Apache-2.0 */
/* plugstack.h - the lines of plugstack.conf, with those that it includes */
#ifndef DT_DOCTOR_PLUGSTACK_H
#define DT_DOCTOR_PLUGSTACK_H

#include <stddef.h>

#include "base/error.h"

/* One plugin, or an include that matches no file. */
struct dt_doctor_entry {
    char *file; /* where it is written */
    int line;
    char *path;      /* the plugin as written; NULL: an include */
    char *arguments; /* of the plugin, or the pattern; blanks between them */
};

struct dt_doctor_plugstack {
    struct dt_doctor_entry *entries; /* in Slurm's order */
    size_t count;
};

/* Reads `path` and what it includes. -1: EX_NOINPUT, EX_DATAERR, EX_OSERR, with
 * what has been read so far. Release in any case.
 */
int dt_doctor_plugstack_init(struct dt_doctor_plugstack *stack,
                             const char *path, struct dt_error *err);
void dt_doctor_plugstack_fini(struct dt_doctor_plugstack *stack);

/* The value of KEY=VALUE in a slurm.conf, whatever the case of KEY; free() it.
 * NULL: it has none, or cannot be read.
 */
char *dt_doctor_slurm_conf_get(const char *path, const char *key);

#endif /* DT_DOCTOR_PLUGSTACK_H */
