/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.h - who this process is among how many, and a small exchange of
 * bytes between them before any network of ours exists
 *
 * A worker asks its keeper. Any other process asks whoever started it over
 * PMIx: srun, mpirun, prterun, flux. Without a PMIx server it is a world of
 * one, unless Slurm says that the step has more tasks, which is an error that
 * shows the srun line with --mpi=pmix.
 */
#ifndef DT_LAUNCH_LAUNCH_H
#define DT_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct dt_launch;

/* Joins the world within `timeout_ms`. NULL and err (EX_UNAVAILABLE, or
 * EX_CONFIG for contradicting identities) if it does not come about.
 */
struct dt_launch *dt_launch_create(int timeout_ms, struct dt_error *err);

/* Leaves in order: every rank calls it, or none. NULL is fine. */
void dt_launch_destroy(struct dt_launch *launch);

/* How the world came about; this process in the world and on its host, and how
 * many there are of each.
 */
const char *dt_launch_backend(const struct dt_launch *launch); /* "keeper" */
int dt_launch_rank(const struct dt_launch *launch);
int dt_launch_size(const struct dt_launch *launch);
int dt_launch_local_rank(const struct dt_launch *launch);
int dt_launch_local_size(const struct dt_launch *launch);

/* How often the ranks of this step were started again by their keepers: 0 the
 * first time, and where nobody keeps them.
 */
int dt_launch_restarts(const struct dt_launch *launch);

/* The loss of a rank, after which keepers have started all ranks again. Its
 * bytes are also those of a message (wire.h).
 */
struct dt_launch_loss {
    double at;    /* on dt_clock_now of this host; between hosts, seconds ago */
    int64_t step; /* that was done by then; -1: none had begun */
    int32_t rank; /* in the world of that time */
    char host[64];
    char why[452]; /* a sentence that names the rank and its host */
};

/* Those that no rank has lived to record: of the last start that had come to
 * its steps, and of those after it, the oldest first. Owned by launch.
 */
size_t dt_launch_losses(const struct dt_launch *launch,
                        const struct dt_launch_loss **losses);

/* Whether a keeper sees the end of this process and tells the user about it. */
bool dt_launch_is_kept(const struct dt_launch *launch);

/* Tells the keeper, if there is one, why this process is going to end: that it
 * has lost a peer, which it may be alone to know.
 */
void dt_launch_note(struct dt_launch *launch, const char *why);

/* Host name of `rank` as the launcher knows it; owned by launch, never NULL. */
const char *dt_launch_host(const struct dt_launch *launch, int rank);

/* Offers `bytes` of `data` under `key` (at most 64 characters) to all ranks;
 * seen by them after the next fence. -1: EX_UNAVAILABLE.
 */
int dt_launch_put(struct dt_launch *launch, const char *key, const void *data,
                  size_t bytes, struct dt_error *err);

/* Waits for all ranks and exchanges the data that they put. A miss of the
 * deadline is EX_UNAVAILABLE and, where the launcher can tell, names who did
 * not come.
 */
int dt_launch_fence(struct dt_launch *launch, int timeout_ms,
                    struct dt_error *err);

/* The data of `rank` under `key`: *data is malloc'ed, the caller frees it. */
int dt_launch_get(struct dt_launch *launch, int rank, const char *key,
                  void **data, size_t *bytes, struct dt_error *err);

/* Ends the whole job with exit code `status`; does not return. `reason` goes
 * to the launcher.
 */
void dt_launch_abort(struct dt_launch *launch, int status, const char *reason)
    __attribute__((noreturn));

/* The library that joins the ranks: "OpenPMIx 4.2.2 ...", or why there is none.
 */
const char *dt_launch_library(void);

#endif /* DT_LAUNCH_LAUNCH_H */
