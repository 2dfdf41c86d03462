/* SPDX-License-Identifier: Apache-2.0 */
/* job_id.h - a job, as the commands of Slurm know it */
#ifndef DT_BASE_JOB_ID_H
#define DT_BASE_JOB_ID_H

#include <stdbool.h>

enum { DT_JOB_ID_BYTES = 64 };

/* Writes the job of `number`, "12" or "12.0" with a step that is left out, as
 * squeue, scontrol and scancel need it: if it is the job of this process, and
 * one of an array, "9_3", because the number alone may mean all jobs of the
 * array. srun and Slurm's library need the number. False: `number` is NULL.
 */
bool dt_job_id(const char *number, char job[DT_JOB_ID_BYTES]);

#endif /* DT_BASE_JOB_ID_H */
