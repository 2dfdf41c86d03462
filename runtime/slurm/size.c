/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - how large a job is, or is going to be */
#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/size.h"

/* Returns the smallest number in a variable such as "16(x2),8"; 0 if it is not
 * set or has no number.
 */
static long smallest_number(const char *name)
{
    const char *text = getenv(name);
    long smallest = 0;
    while (text && *text) {
        long number = strtol(text, NULL, 10);
        if (number > 0 && (smallest == 0 || number < smallest))
            smallest = number;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return smallest;
}

long dt_job_gpus(const char *text)
{
    long count = 0;
    while (text && *text) {
        size_t len = strcspn(text, ",");
        const char *colon = memrchr(text, ':', len);
        const char *number = colon ? colon + 1 : text;
        count += isdigit((unsigned char)*number) ? strtol(number, NULL, 10) : 1;
        text += len + (text[len] == ',');
    }
    return count;
}

void dt_job_size_read(struct dt_job_size *size)
{
    const char *partition = getenv("SLURM_JOB_PARTITION");
    long gpus = dt_job_gpus(getenv("SLURM_GPUS_PER_NODE"));
    *size = (struct dt_job_size){
        .nodes = smallest_number("SLURM_JOB_NUM_NODES"),
        .ranks = smallest_number("SLURM_NTASKS"),
        .ranks_per_node = smallest_number("SLURM_NTASKS_PER_NODE"),
        .cpus_per_rank = smallest_number("SLURM_CPUS_PER_TASK"),
        .cpus_per_node = smallest_number("SLURM_JOB_CPUS_PER_NODE"),
        .gpus_per_node = gpus ? gpus : smallest_number("SLURM_GPUS_ON_NODE"),
        .partition = partition ? strdup(partition) : NULL,
    };
}

void dt_job_size_fini(struct dt_job_size *size)
{
    free(size->partition);
    size->partition = NULL;
}
