/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variables.h - the variables from which a program learns its place in the job
 *
 * Depends only on the facts and libc: the plugin sets the variables in each
 * task, and `disttrain sbatch --dry-run` prints them.
 */
#ifndef DT_CONTRACT_VARIABLES_H
#define DT_CONTRACT_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    DT_VARIABLE_BYTES = 100 * 1024, /* room for any value, terminated */
};

/* Unknown facts are NULL, 0 or -1, as noted; variables that need them are not
 * set.
 */
struct dt_task_facts {
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint32_t local_size;
    uint32_t node_rank;
    uint32_t nodes;
    uint32_t restarts;        /* how often the job was requeued */
    uint32_t cpus;            /* how many this task may use; 0: unknown */
    int gpus;                 /* how many this task sees; -1: unknown */
    unsigned master_port;     /* of torch's store; this and the next three are 0
                               * if there is none
                               */
    unsigned jax_port;        /* of JAX's coordinator */
    unsigned tf_port;         /* of the node's first TensorFlow worker */
    unsigned ras_port;        /* of NCCL's health service, on each node */
    const char *master_addr;  /* rank 0's host */
    const char *host;         /* NodeName of this node; NULL: unknown */
    const char *logs;         /* directory for logs of ranks; NULL: none */
    const char *interface;    /* on the route to rank 0; NULL: none or unknown
                               */
    bool rdma;                /* this node has RDMA devices, which UCX uses */
    const char *const *hosts; /* by node rank; NULL: unknown */
    const uint32_t *tasks;    /* on each of hosts */
};

/* The valid names of frameworks, ending with NULL. */
extern const char *const dt_variables_frameworks[];

/* Receives one variable; both strings are valid only during the call. A fixed
 * one is specific to this task, so another value in the user's environment is
 * an error; any other is only a default. Returns 0, or -1 with err, which ends
 * the iteration.
 */
typedef int dt_variables_set_f(void *context, const char *name,
                               const char *value, bool fixed,
                               struct dt_error *err);

/* Calls set for each variable that the task gets, always in the same order.
 * `frameworks` is a list such as "torch,jax", or NULL for all. The few
 * variables that would switch other frameworks into a wrong mode are set only
 * for a framework that is named. The list is checked before the first call.
 * Fails on an unknown name, if a named framework cannot get its variables, or
 * if set fails.
 */
int dt_variables_each(const struct dt_task_facts *facts, const char *frameworks,
                      dt_variables_set_f *set, void *context,
                      struct dt_error *err);

#endif /* DT_CONTRACT_VARIABLES_H */
