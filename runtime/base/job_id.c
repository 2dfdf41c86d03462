/* SPDX-License-Identifier: Apache-2.0 */
/* job_id.c - a job, as the commands of Slurm know it */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/job_id.h"

bool dt_job_id(const char *number, char job[DT_JOB_ID_BYTES])
{
    const char *own = getenv("SLURM_JOB_ID");
    const char *array = getenv("SLURM_ARRAY_JOB_ID");
    const char *task = getenv("SLURM_ARRAY_TASK_ID");
    const int len = number ? (int)strcspn(number, ".") : 0;
    snprintf(job, DT_JOB_ID_BYTES, "%.*s", len, number ? number : "");
    if (number && own && array && task && strcmp(job, own) == 0 &&
        strcmp(own, array) == 0)
        snprintf(job, DT_JOB_ID_BYTES, "%s_%s", array, task);
    return number != NULL;
}
