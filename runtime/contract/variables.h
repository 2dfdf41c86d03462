/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variables.h - the variables by which a program learns its place in the job
 *
 * A function of the facts and libc only: the plugin sets them in each task, and
 * `disttrain sbatch --dry-run` shows them.
 */
#ifndef DT_LAUNCH_VARIABLES_H
#define DT_LAUNCH_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    DT_VARIABLE_BYTES = 100 * 1024, /* room for any value, terminated */
};

/* Facts that nobody knows are NULL, 0 or -1 as said, and variables that need
 * them are not set.
 */
struct dt_task_facts {
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint32_t local_size;
    uint32_t node_rank;
    uint32_t nodes;
    uint32_t restarts;        /* how often the job was requeued */
    uint32_t cpus;            /* that this task may use; 0: unknown */
    int gpus;                 /* that this task sees; -1: unknown */
    unsigned master_port;     /* of torch's store; 0: none, as the next three */
    unsigned jax_port;        /* of JAX's coordinator */
    unsigned tf_port;         /* of the node's first TensorFlow worker */
    unsigned ras_port;        /* of NCCL's health service, on each node */
    const char *master_addr;  /* rank 0's host */
    const char *host;         /* this node's; NULL: unknown */
    const char *logs;         /* directory for logs of ranks; NULL: none */
    const char *interface;    /* on the way to rank 0; NULL: none or unknown */
    bool rdma;                /* this node has another way, for UCX */
    const char *const *hosts; /* by node rank; NULL: unknown */
    const uint32_t *tasks;    /* on each of hosts */
};

/* The names that a list of frameworks may have; the last is NULL. */
extern const char *const dt_variables_frameworks[];

/* Takes one variable; both strings end with the call. A fixed one is true of
 * this task alone, so another value in the user's environment contradicts it;
 * any other is only a default. Returns 0, or -1 with err, which ends it all.
 */
typedef int dt_variables_set_f(void *context, const char *name,
                               const char *value, bool fixed,
                               struct dt_error *err);

/* Calls set for each variable that the task gets, always in the same order.
 * `frameworks` is a list such as "torch,jax", or NULL for all; the few
 * variables that would switch other frameworks into a wrong mode are set only
 * for a framework named in it. The list is read before the first call. Fails on
 * an unknown name, or if a framework that is named cannot be served, or with
 * set.
 */
int dt_variables_each(const struct dt_task_facts *facts, const char *frameworks,
                      dt_variables_set_f *set, void *context,
                      struct dt_error *err);

#endif /* DT_LAUNCH_VARIABLES_H */
