/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - writes a batch script from `launch:` */
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

#endif /* DT_SLURM_SCRIPT_H */
