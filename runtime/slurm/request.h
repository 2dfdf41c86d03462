/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - finds the job size that sbatch or salloc has been asked for */
#ifndef DT_SLURM_REQUEST_H
#define DT_SLURM_REQUEST_H

#include "slurm/settings.h"

/* Makes the environment of this process that of the job, as far as it is known:
 * sets the variables in which Slurm tells a job its size, and unsets those that
 * nobody has asked for. The words are the options of sbatch or salloc; they
 * override the #SBATCH lines of `script` ("": there is none). For a
 * heterogeneous job it changes nothing and returns false.
 */
bool dt_submission_export_request(const char *script,
                                  const struct dt_srun_words *words);

#endif /* DT_SLURM_REQUEST_H */
