/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - runs several ranks without a launcher, as threads of this process
 * or as processes of their own, which can be killed
 */
#ifndef DT_TESTS_WORLD_H
#define DT_TESTS_WORLD_H

#include "comm/comm.h"

enum {
    WORLD_MAX = 40,
};

/* The work of one rank. The host names "h0", "h1", ... do not resolve, so pass
 * an interface to dt_comm_create.
 */
typedef int (*world_rank_f)(const struct dt_comm_world *world, void *arg);

/* Runs `size` ranks as threads. Asserts that all of them return 0. SIGALRM ends
 * the program if they take 5 minutes, as it does processes.
 */
void world_threads(int size, world_rank_f f, void *arg);

/* Runs `size` ranks as processes, whose exit status is the result of f. Writes
 * the wait status of each to statuses.
 */
void world_processes(int size, world_rank_f f, void *arg, int *statuses);

/* Asserts that rank 0 of `size` cannot create a communicator; no other rank
 * exists.
 */
void world_refuse(const char *backend, int size,
                  const struct dt_comm_options *options, struct dt_error *err);

#endif /* DT_TESTS_WORLD_H */
