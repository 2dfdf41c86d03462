/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - the batch script of `launch:`, or a preview of its job */
#ifndef DT_SLURM_SCRIPT_H
#define DT_SLURM_SCRIPT_H

#include "conf/conf.h"
#include "slurm/settings.h"

struct dt_script {
    const char *array;          /* the indexes of a job array, or NULL */
    struct dt_srun_words extra; /* --OPTION[=VALUE], which override the
                                 * configuration
                                 */
    bool with_sum;              /* lets srun report that the configuration has
                                 * changed
                                 */
};

/* Prints the script of the job that the configuration describes. */
void dt_script_print(const struct dt_script *script, const struct dt_conf *conf,
                     FILE *out);

/* Prints on stdout the srun line that launch: stands for, the variables that
 * all ranks have in common, and those of each rank. Hosts and ports are
 * examples. Returns an exit status.
 */
int dt_preview(const struct dt_conf *conf);

#endif /* DT_SLURM_SCRIPT_H */
