/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - why `srun --help` does not show --disttrain */
#ifndef DT_DOCTOR_PLUGIN_H
#define DT_DOCTOR_PLUGIN_H

#include <stdbool.h>
#include <stdio.h>

/* What is known of the Slurm on this host. */
struct dt_doctor_slurm {
    const char *conf;       /* slurm.conf; NULL: not found */
    const char *plugin_dir; /* folders, ":" between them; NULL: unknown */
    const char *version;    /* "22.05.8"; NULL: unknown */
    bool helps;             /* `srun --help` works */
    bool shows;             /* and has --disttrain */
};

/* Writes a line for each thing that it looks at, and then the verdict. Returns
 * whether the option works here.
 */
bool dt_doctor_check_plugin(const struct dt_doctor_slurm *slurm, FILE *out);

/* Finds out about this host's Slurm, in the usual places and from srun and
 * scontrol, and does the same.
 */
bool dt_doctor_plugin(FILE *out);

#endif /* DT_DOCTOR_PLUGIN_H */
