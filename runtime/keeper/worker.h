/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - the program of a rank */
#ifndef DT_KEEPER_WORKER_H
#define DT_KEEPER_WORKER_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "keeper/keeper_options.h"
#include "keeper/relay.h"
#include "launch/wire.h"
#include "segment/board.h"

/* How often a program was started again, in the environment: what the job and
 * the batch script have counted before the step, and keepers within it.
 */
#define DT_WORKER_RESTARTS "TORCHELASTIC_RESTART_COUNT"

struct dt_worker {
    pid_t pid; /* 0: it is not running */
    struct dt_wire wire;
    struct dt_board *board;
    int state;                    /* see base/inherited.h */
    int earlier;                  /* restarts before this step */
    long oom_kills;               /* of its control group when it was started */
    sigset_t signals;             /* those that its program blocks */
    struct rlimit files;          /* and how many it may have open */
    const struct dt_relay *relay; /* where it prints */
};

/* Makes the memory that outlives the worker. -1: EX_OSERR. */
int dt_worker_init(struct dt_worker *worker, const sigset_t *signals,
                   struct dt_error *err);
void dt_worker_fini(struct dt_worker *worker);

/* Starts it for the `restarts`-th time again, with a MASTER_PORT of its own; 0:
 * as it is in the environment. It is told the restarts so far and how many
 * there are at most, those before this step included. -1: EX_OSERR. A program
 * that cannot be run ends with the status that a shell gives.
 */
int dt_worker_start(struct dt_worker *worker,
                    const struct dt_keeper_options *options, char *const *argv,
                    int restarts, unsigned port, struct dt_error *err);

/* A port that is free just now on this host, for a program that is not ours; 0:
 * none is known.
 */
uint32_t dt_worker_find_port(const struct dt_keeper_options *options);

/* How far it is. */
void dt_worker_look(const struct dt_worker *worker, struct dt_wire_beat *beat);

/* Whether the kernel has killed it, with this status, because memory ran out.
 */
bool dt_worker_starved(const struct dt_worker *worker, int status);

/* Whether it has ended; if so, its status as from waitpid. All processes that
 * it has started are killed; `errand` is not one of them.
 */
bool dt_worker_ended(struct dt_worker *worker, pid_t errand, int *status);

#endif /* DT_KEEPER_WORKER_H */
