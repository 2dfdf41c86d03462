/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_plugin.h - finds out why `srun --help` does not show --disttrain */
#ifndef DT_DOCTOR_DOCTOR_PLUGIN_H
#define DT_DOCTOR_DOCTOR_PLUGIN_H

#include <stdbool.h>
#include <stdio.h>

/* What is known about the Slurm on this host. */
struct dt_doctor_slurm {
    const char *conf;       /* slurm.conf; NULL: not found */
    const char *plugin_dir; /* directories separated by ":"; NULL: unknown */
    const char *version;    /* "22.05.8"; NULL: unknown */
    bool helps;             /* `srun --help` works */
    bool shows;             /* and it lists --disttrain */
};

/* Writes a line for each thing that it checks, then the verdict. Returns
 * whether the option works here.
 */
bool dt_doctor_check_plugin(const struct dt_doctor_slurm *slurm, FILE *out);

/* Does the same for this host's Slurm, which it finds in the usual places and
 * by asking srun and scontrol.
 */
bool dt_doctor_plugin(FILE *out);

#endif /* DT_DOCTOR_DOCTOR_PLUGIN_H */
