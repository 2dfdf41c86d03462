/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.h - starts the program of a rank, and starts it again when a rank is
 * lost
 *
 * Slurm cannot start a task again within its step. So the task is a keeper,
 * small and with one thread, and the program of the rank is its child, the
 * worker. If a worker is lost, the keepers end all workers and start them
 * again: a worker never goes on without the others. The keeper of rank 0 is
 * the leader: it listens at MASTER_ADDR:MASTER_PORT, knows every other keeper,
 * and decides.
 *
 *     leader:  all have come -> table, go -> running
 *              running, a worker has failed -> stop -> all are down
 *              all are down -> go again, or bye
 *
 * A step that has lost a keeper or a host ends: nothing in it could take its
 * place.
 */
#ifndef DT_KEEPER_KEEPER_H
#define DT_KEEPER_KEEPER_H

#include <stdbool.h>

#include "base/error.h"

enum {
    DT_KEEPER_BEAT_MS = 1000,
    DT_KEEPER_LOST_BEATS = 15, /* a busy host needs seconds */
};

struct dt_keeper_options {
    char *const *argv;  /* the worker's program and its arguments */
    bool trains;        /* it is `disttrain train`: it tells its step, and its
                           exit status says whether another try is of use */
    long max_restarts;  /* in a row, without a new step in between */
    const char *spent;  /* told when no more are allowed */
    int timeout_ms;     /* until all keepers have come */
    int beat_ms;        /* from one beat to the next; who is not heard for
                           DT_KEEPER_LOST_BEATS of them is lost */
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
