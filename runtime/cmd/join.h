/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - a rank's hardware and its connection to the others */
#ifndef DT_CMD_JOIN_H
#define DT_CMD_JOIN_H

#include "backend/backend.h"
#include "conf/conf.h"
#include "launch/launch.h"

/* Without OMP_NUM_THREADS, uses this rank's share of the CPUs it may run on;
 * with it, at most these CPUs, and rank 0 logs that.
 */
void dt_join_threads(const struct dt_launch *launch);

/* Opens the device that run.device names, with a stream for all work, and logs
 * why it is the CPU if the user may not expect that. Without a launch, for a
 * program that is no rank, it is the first such device, and nothing is logged.
 * NULL and err: as dt_backend_open, EX_OSERR.
 */
const struct dt_backend *dt_join_hardware(const struct dt_conf *conf,
                                          const struct dt_launch *launch,
                                          struct dt_exec *exec,
                                          struct dt_error *err);

/* The communicator of all ranks. NULL and err: as dt_backend_connect. */
struct dt_comm *dt_join_ranks(const struct dt_conf *conf,
                              const struct dt_backend *backend,
                              struct dt_stream *stream,
                              struct dt_launch *launch, struct dt_error *err);

/* Tells the user and the other ranks of a failure, or the user that the run was
 * stopped. It does not use the launcher's abort once there is a comm, because
 * that would kill the others before they know why. Releases comm, which may be
 * NULL.
 */
void dt_join_tell(struct dt_launch *launch, struct dt_comm *comm,
                  const struct dt_error *err);

/* Returns the exit status; ends the process if it has failed and there is more
 * than one rank: then no orderly exit is possible any more.
 */
int dt_join_end(const struct dt_launch *launch, const struct dt_error *err);

/* Both of these. */
int dt_join_failed(struct dt_launch *launch, struct dt_comm *comm,
                   const struct dt_error *err);

#endif /* DT_CMD_JOIN_H */
