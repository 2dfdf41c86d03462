/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - several ranks without a launcher, for tests: as threads of this
 * process, or as processes of their own (which can be killed)
 */
#ifndef DT_TESTS_WORLD_H
#define DT_TESTS_WORLD_H

#include "comm/comm.h"

enum {
    WORLD_MAX = 8,
};

/* What one rank does. Host names are "h0", "h1", ... and do not resolve: pass
 * an interface to dt_comm_create.
 */
typedef int (*world_rank_f)(const struct dt_comm_world *world, void *arg);

/* Runs `size` ranks as threads. Asserts that all of them return 0. */
void world_threads(int size, world_rank_f f, void *arg);

/* Runs `size` ranks as processes, which exit with what f returns. Writes the
 * wait status of each to statuses.
 */
void world_processes(int size, world_rank_f f, void *arg, int *statuses);

/* Asserts that rank 0 of `size` cannot create a communicator; no other rank
 * exists.
 */
void world_refuse(const char *backend, int size,
                  const struct dt_comm_options *options, struct dt_error *err);

#endif /* DT_TESTS_WORLD_H */
