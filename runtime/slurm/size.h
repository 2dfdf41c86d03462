/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - how large a job is, or is going to be */
#ifndef DT_SLURM_SIZE_H
#define DT_SLURM_SIZE_H

#include <stdbool.h>

/* 0 is unknown, and so is NULL. */
struct dt_job_size {
    long nodes;
    long ranks; /* on all nodes */
    long ranks_per_node;
    long cpus_per_rank;
    long cpus_per_node; /* the least of any node */
    long gpus;          /* on all nodes */
    long gpus_per_node;
    char *partition;
    bool array;          /* a request is one of a job for each index */
    bool array_together; /* and several of them may run at once */
    bool unclear_ranks;  /* a request says of ranks what is not a number */
    /* what a request (slurm_request.h) does not ask for */
    bool one_node;  /* so it gets one node */
    bool any_nodes; /* so it gets as many as its ranks or GPUs need */
    bool no_ranks;  /* so it gets one CPU on each node, or whole nodes */
    bool no_cpus;   /* so it gets one CPU for each rank, or whole nodes */
    bool no_gpus;   /* so it gets none, or whole nodes */
};

/* Fills in the size of the job that this process is in, from its environment.
 * The caller frees it with dt_job_size_fini.
 */
void dt_job_size_read(struct dt_job_size *size);

/* Frees what the size owns. */
void dt_job_size_fini(struct dt_job_size *size);

/* Counts GPUs in "4", "a100:4" or "a100:2,h100:2"; a type alone is one. NULL
 * has none.
 */
long dt_job_gpus(const char *text);

#endif /* DT_SLURM_SIZE_H */
