/* SPDX-License-Identifier: Apache-2.0 */
/* submission.h - prints what the Slurm plugin needs of a config */
#ifndef DT_SLURM_SUBMISSION_H
#define DT_SLURM_SUBMISSION_H

#include "conf/conf.h"
#include "slurm/settings.h"

/* What is wrong with run.output_dir for the jobs of an array, which each train:
 * it has nothing in it that differs between them. NULL: nothing.
 */
const char *dt_submission_shared(const struct dt_conf *conf);

/* Prints the contract of contract/contract.h on stdout. Leaves out what srun's
 * command line or environment already sets. What contradicts the allocation
 * that srun runs in is a problem, printed on stderr as file:line:col: key:
 * text, and so are batch sizes that do not fit the ranks. `file` is the name
 * for messages; `command` are the first words of srun's command, or none. With
 * `script`, sbatch or salloc asks, and the allocation is the one that they
 * request (slurm_request.h). Returns an exit status.
 */
int dt_submission_print(struct dt_conf *conf, const char *file,
                        const struct dt_srun_words *words,
                        const struct dt_srun_words *command,
                        const char *script);

/* Returns "HASH:PATH" of the configuration's file, and of its DeepSpeed file,
 * for DT_ENV_SUM, to be freed. NULL: they cannot be read.
 */
char *dt_submission_sum(const struct dt_conf *conf);

#endif /* DT_SLURM_SUBMISSION_H */
