/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.h - starts the program of a rank, and starts it again when a rank is
 * lost
 *
 * Slurm cannot start a task again within its step. So the task is a keeper,
 * small and with one thread, and the program of the rank is its child, the
 * worker. If a worker is lost, the keepers end all workers and start them
 * again: a worker never goes on without the others. One keeper is the leader:
 * it knows every other one, and decides. The first is that of task 0, at
 * MASTER_ADDR:MASTER_PORT.
 *
 *     leader:  all have come -> table, go -> running
 *              running, a worker has failed -> stop -> all are down
 *              all are down -> go again, or bye
 *              all are down, a node is lost -> agree, claim the next epoch ->
 * go
 *
 * With a keeper its node is lost: other nodes take its place, or the ranks
 * become fewer, where options->replaces allows it; else the step ends. When the
 * leader is lost, the keeper with the lowest id of those left becomes the
 * leader, and the others connect to it. So that two halves which do not hear
 * each other never both go on, more than half of the nodes are needed, or half
 * of them and the file of the next epoch (base/epoch.h). Who cannot go on ends
 * its worker, and itself.
 */
#ifndef DT_KEEPER_KEEPER_H
#define DT_KEEPER_KEEPER_H

#include <stdbool.h>

#include "base/error.h"

enum {
    DT_KEEPER_BEAT_MS = 1000,
    DT_KEEPER_LOST_BEATS = 15,    /* a busy host needs seconds */
    DT_KEEPER_REPLACED_BEATS = 5, /* where an error costs a restart only */
};

/* How a step has ended, for its job. */
struct dt_keeper_end {
    int status; /* as a shell has it */
    bool late;  /* options->last_signal came first */
    double seconds;
};

struct dt_keeper_options {
    char *const *argv; /* the worker's program and its arguments */
    /* Those of a step of `size` ranks that began with `first`; NULL: it cannot
     * have so many. NULL: argv, for any number.
     */
    char *const *(*argv_of)(void *context, int first, int size);
    /* Takes nodes, "n2,n3", out of the job, in a child of its own; NULL: none
     * has to.
     */
    int (*leave_out)(const char *nodes);
    /* Ends the job for srun, whose node is lost: the step has ended. */
    void (*end_job)(const struct dt_keeper_end *end);
    int last_signal;  /* it is sent before the time limit; 0: none */
    double silence_s; /* of srun's host, at least, before the job is ended */
    const char *srun_node;    /* NULL: none of a job */
    const char *srun_address; /* of that host; NULL: not known */
    void *context;
    const char *dir;    /* for the files of epochs, seen by all nodes; NULL:
                           half of the nodes never go on */
    bool replaces;      /* the step outlives its nodes */
    int spares;         /* its last nodes, which have no ranks at first */
    long least;         /* ranks with which it may go on; 0: as many as before
                           only */
    const char *token;  /* of the record about the end of the step; NULL: none
                           is written */
    bool trains;        /* it is `disttrain train`: it tells its step, and its
                           exit status says whether another try is of use */
    long max_restarts;  /* in a row, without a new step in between */
    const char *spent;  /* told when no more are allowed */
    int timeout_ms;     /* until all keepers have come */
    int beat_ms;        /* from one beat to the next; who is not heard for
                           DT_KEEPER_LOST_BEATS of them is lost, or, where
                           it is replaced, DT_KEEPER_REPLACED_BEATS */
    const char *secret; /* of the step, as srun's plugin has drawn it */
};

/* Whether this process is a task of a step that keepers can keep: the plugin
 * has given it the secret, and MASTER_ADDR and MASTER_PORT are set. If not,
 * *why names the missing one.
 */
bool dt_keeper_possible(const char *secret, const char **why);

/* Keeps the worker of this task until the end of all. Call it before there is
 * any other thread. Returns the exit status of this process; if the worker was
 * killed by a signal, this process ends with the same signal. -1: this rank has
 * failed before its worker was started, EX_UNAVAILABLE, EX_OSERR, EX_CONFIG;
 * EX_TEMPFAIL if it was told to stop.
 */
int dt_keeper_run(const struct dt_keeper_options *options,
                  struct dt_error *err);

#endif /* DT_KEEPER_KEEPER_H */
