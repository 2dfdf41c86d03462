/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - the size of a job that sbatch or salloc has been asked for */
#ifndef DT_CMD_REQUEST_H
#define DT_CMD_REQUEST_H

#include "cmd/contract.h"

/* Makes the environment of this process that of the job, as far as it is known:
 * sets the variables in which Slurm tells a job its size, and unsets those that
 * nobody has asked for. The words are those of sbatch or salloc, and win over
 * the #SBATCH lines of `script` ("": there is none). False, with nothing done,
 * for a heterogeneous job.
 */
bool dt_request_export(const char *script, const struct dt_srun_words *words);

#endif /* DT_CMD_REQUEST_H */
