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
#include "keeper/keeper_options.h"

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
