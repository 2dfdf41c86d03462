/* SPDX-License-Identifier: Apache-2.0 */
/* promise.c - the variables that a batch job is going to have */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/promise.h"

static struct promise {
    const char *name;
    bool array; /* only in the jobs of an array */
    bool made;
    char *before; /* NULL: it was not set */
} promises[] = {
    {.name = "SLURM_CLUSTER_NAME"},
    {.name = "SLURM_JOB_CPUS_PER_NODE"},
    {.name = "SLURM_JOB_ID"},
    {.name = "SLURM_JOBID"},
    {.name = "SLURM_JOB_NAME"},
    {.name = "SLURM_JOB_NODELIST"},
    {.name = "SLURM_NODELIST"},
    {.name = "SLURM_JOB_NUM_NODES"},
    {.name = "SLURM_NNODES"},
    {.name = "SLURM_JOB_PARTITION"},
    {.name = "SLURM_JOB_UID"},
    {.name = "SLURM_JOB_USER"},
    {.name = "SLURM_SUBMIT_DIR"},
    {.name = "SLURM_SUBMIT_HOST"},
    {.name = "SLURM_ARRAY_JOB_ID", .array = true},
    {.name = "SLURM_ARRAY_TASK_COUNT", .array = true},
    {.name = "SLURM_ARRAY_TASK_ID", .array = true},
    {.name = "SLURM_ARRAY_TASK_MAX", .array = true},
    {.name = "SLURM_ARRAY_TASK_MIN", .array = true},
    {.name = "SLURM_ARRAY_TASK_STEP", .array = true},
};

enum { PROMISES = sizeof(promises) / sizeof(promises[0]) };

void dt_promise_begin(bool array)
{
    for (struct promise *p = promises; p < promises + PROMISES; p++) {
        char itself[64];
        const char *value = getenv(p->name);
        if (p->array && !array)
            continue;
        p->before = value ? strdup(value) : NULL;
        snprintf(itself, sizeof(itself), "${%s}", p->name);
        p->made = setenv(p->name, itself, 1) == 0;
    }
}

void dt_promise_end(void)
{
    for (struct promise *p = promises; p < promises + PROMISES; p++) {
        if (p->made && p->before)
            setenv(p->name, p->before, 1);
        else if (p->made)
            unsetenv(p->name);
        free(p->before);
        p->before = NULL;
        p->made = false;
    }
}
