/* SPDX-License-Identifier: Apache-2.0 */
/* job_id.h - a job, as the commands of Slurm know it */
#ifndef DT_BASE_JOB_ID_H
#define DT_BASE_JOB_ID_H

#include <stdbool.h>

enum { DT_JOB_ID_BYTES = 64 };

/* Writes the job of `number`, "12" or "12.0" with a step that is left out, as
 * squeue, scontrol and scancel need it: "12_3" if it is the job of this process
 * and gave its number to an array, for all of which the number alone stands. A
 * job that a job of an array has submitted has the variables of that array, but
 * a number of its own. srun and Slurm's library need the number. False:
 * `number` is NULL.
 */
bool dt_job_id(const char *number, char job[DT_JOB_ID_BYTES]);

#endif /* DT_BASE_JOB_ID_H */
