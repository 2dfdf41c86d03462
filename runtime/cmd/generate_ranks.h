/* SPDX-License-Identifier: Apache-2.0 */
/* generate_ranks.h - connects the ranks, and prints their lines on rank 0 */
#ifndef DT_CMD_GENERATE_RANKS_H
#define DT_CMD_GENERATE_RANKS_H

#include <stddef.h>

#include "backend/backend.h"
#include "launch/launch.h"

/* The communicator of all ranks, by gloo on any device: they exchange text
 * only. `device` is that of --device. NULL and err: as dt_backend_agree and
 * dt_comm_create.
 */
struct dt_comm *dt_generate_connect(const char *device,
                                    const struct dt_backend *backend,
                                    struct dt_launch *launch,
                                    struct dt_error *err);

/* Rank 0 prints the first line of each rank's text, in order of ranks, then the
 * second ones, and so on, up to the first rank that has no more. A line ends
 * with \n. All ranks call it, and return when all is printed. -1: EX_IOERR,
 * EX_OSERR, or as dt_comm_wait.
 */
int dt_generate_gather(struct dt_comm *comm, const char *text, size_t bytes,
                       struct dt_error *err);

#endif /* DT_CMD_GENERATE_RANKS_H */
