/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_impl.h - the leader, and the worker (private to keeper/) */
#ifndef DT_KEEPER_KEEPER_IMPL_H
#define DT_KEEPER_KEEPER_IMPL_H

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/handshake.h"
#include "keeper/keeper.h"
#include "launch/launch.h"
#include "launch/wire.h"
#include "segment/board.h"

enum {
    DT_KEEPER_HOST_BYTES = 256,
    DT_KEEPER_NOTE_BYTES = 512,
};

/* The token of keepers, from the secret of their step. */
void dt_keeper_token(const char *secret, struct dt_token *token);

/* --- reach.c: from a keeper to the leader --- */

/* Connects to MASTER_ADDR:MASTER_PORT and proves to be the keeper of `rank` of
 * `size`. Returns the socket, which does not block. -1: EX_UNAVAILABLE;
 * EX_TEMPFAIL if the descriptor `signals` became readable meanwhile.
 */
int dt_reach_leader(const struct dt_keeper_options *options, int rank, int size,
                    int signals, struct dt_error *err);

/* --- guests.c: connections to the leader that have not proved to be a keeper
 *
 * Anybody may connect to a port. A connection that proves nothing within
 * seconds is closed, and the oldest makes room for a new one. --- */

enum {
    DT_GUESTS = 256, /* at most */
    DT_GUESTS_FDS = 1 + DT_GUESTS,
};

struct dt_guest {
    int fd; /* -1: none */
    struct dt_handshake handshake;
    double until;
};

struct dt_guests {
    const struct dt_token *token;
    int listener, size;
    struct dt_guest all[DT_GUESTS];
};

/* Listens at `port` of every address of this host, for keepers of `size` ranks.
 * The token stays. -1: EX_UNAVAILABLE; close it then, too.
 */
int dt_guests_open(struct dt_guests *guests, const struct dt_token *token,
                   int size, unsigned port, struct dt_error *err);
void dt_guests_close(struct dt_guests *guests);

/* Fills fds[DT_GUESTS_FDS] for poll. */
void dt_guests_poll(const struct dt_guests *guests, struct pollfd *fds);

/* Goes on after a poll. Returns the rank of a keeper that has proved to be one,
 * and its socket, until there is no more: -1.
 */
int dt_guests_serve(struct dt_guests *guests, const struct pollfd *fds,
                    int *fd);

/* --- verdict.c: why the workers have ended, and whether they start again ---
 */

/* The end of a worker. */
struct dt_ending {
    bool there;
    int turn; /* it was the n-th to end */
    struct dt_wire_down down;
    char note[DT_KEEPER_NOTE_BYTES]; /* the loss that it has noticed; or "" */
};

/* The history of a step; begin with {0}. */
struct dt_verdict {
    int restarts;
    long best;                     /* the furthest step so far */
    long fruitless;                /* restarts since that step */
    struct dt_wire_down cause;     /* of the last restart, or of the end */
    struct dt_launch_loss *losses; /* for the workers, see launch.h */
    size_t loss_count;
};

/* Whether a worker has done its work, or was stopped in order. */
bool dt_ended_well(int status);

/* The end that explains those of the others; NULL: all have ended well. */
const struct dt_ending *dt_ending_cause(const struct dt_ending *endings,
                                        int count);

/* Writes "rank 2 on n2 was killed by signal 9 (Killed) after step 6". */
void dt_ending_describe(const struct dt_ending *ending, const char *host,
                        char *text, size_t bytes);

/* Judges the ends of all workers. Returns whether they are to start again. If
 * not, *why is the reason, or NULL if the worker or the user knows it.
 */
bool dt_verdict_restart(struct dt_verdict *verdict,
                        const struct dt_keeper_options *options,
                        const struct dt_ending *endings, int count,
                        const char **why);

/* Notes a loss, which the workers that start now are to record; losses before a
 * life that came to its steps have been recorded by that one. `at` is
 * dt_clock_now of the first end, and `why` the sentence about it. Without
 * memory nothing is noted.
 */
void dt_verdict_note(struct dt_verdict *verdict,
                     const struct dt_ending *endings, int count, double at,
                     const char *why);

/* --- pace.c: whether the workers get on --- */

struct dt_pace {
    int size;
    struct dt_wire_beat *beats; /* [size]: the last one of each rank */
    double moved;               /* when a worker was last seen to get on */
};

/* -1: no memory. */
int dt_pace_init(struct dt_pace *pace, int size);
void dt_pace_fini(struct dt_pace *pace);

/* The workers start. */
void dt_pace_begin(struct dt_pace *pace);

/* Takes the beat of a rank. */
void dt_pace_note(struct dt_pace *pace, int rank,
                  const struct dt_wire_beat *beat);

/* Whether all workers that are there have done nothing for longer than they
 * allow, and for how long. None is known to hang before each has sent a beat.
 */
bool dt_pace_hangs(const struct dt_pace *pace, const struct dt_ending *endings,
                   double *seconds);

/* The rank that a signal has stopped, or that has started fewest collectives;
 * -1: all have started as many.
 */
int dt_pace_culprit(const struct dt_pace *pace,
                    const struct dt_ending *endings);

/* Writes "rank 3 on n2 hangs: it was stopped by a signal, and the others have
 * waited for 31 s"; `culprit` as above.
 */
void dt_pace_describe(const struct dt_pace *pace, int culprit, const char *host,
                      double seconds, char text[DT_KEEPER_NOTE_BYTES]);

/* --- fence.c: the workers wait for each other, and exchange data --- */

struct dt_fence {
    int size;
    struct dt_fence_blob {
        uint8_t *data; /* NULL: this rank has not come */
        uint64_t bytes;
    } * all; /* [size] */
};

/* -1: no memory. */
int dt_fence_init(struct dt_fence *fence, int size);
void dt_fence_fini(struct dt_fence *fence);

/* The next one begins, to which nobody has come. */
void dt_fence_clear(struct dt_fence *fence);

/* A rank has come with this data. -1: no memory. */
int dt_fence_add(struct dt_fence *fence, int rank, const void *data,
                 size_t bytes);

/* Whether a rank has come, and all. */
bool dt_fence_has(const struct dt_fence *fence, int rank);
bool dt_fence_complete(const struct dt_fence *fence);

/* The body of DT_WIRE_BLOBS for a complete one, to be freed; NULL: no memory.
 */
uint8_t *dt_fence_join(const struct dt_fence *fence, size_t *bytes);

/* --- leader.c: the keeper of rank 0 --- */

struct dt_leader;

/* Listens at `port`, for the keepers of `size` ranks. `link` is the leader's
 * end of a pair of sockets, which it closes; the other end is that of rank 0.
 * NULL: EX_UNAVAILABLE, the port is in use; EX_OSERR.
 */
struct dt_leader *dt_leader_create(const struct dt_keeper_options *options,
                                   int size, unsigned port, int link,
                                   struct dt_error *err);
void dt_leader_destroy(struct dt_leader *leader);

/* The descriptors of the leader of `size` ranks, at most. */
size_t dt_leader_most(int size);

/* Fills in those to wait for. Returns how many. */
size_t dt_leader_poll(struct dt_leader *leader, struct pollfd *fds);

/* When it has something to do whoever has come until then; or INFINITY. */
double dt_leader_due(const struct dt_leader *leader);

/* This process did not run for so long, which counts for nobody. */
void dt_leader_excuse(struct dt_leader *leader, double seconds);

/* Serves them after a poll. */
void dt_leader_serve(struct dt_leader *leader, const struct pollfd *fds);

/* Waits until the last messages are sent, for a second or two. */
void dt_leader_drain(struct dt_leader *leader);

/* --- worker.c: the program of a rank --- */

struct dt_worker {
    pid_t pid; /* 0: it is not running */
    struct dt_wire wire;
    struct dt_board *board;
    int state;           /* see base/inherited.h */
    sigset_t signals;    /* those that its program blocks */
    struct rlimit files; /* and how many it may have open */
};

/* Makes the memory that outlives the worker. -1: EX_OSERR. */
int dt_worker_init(struct dt_worker *worker, const sigset_t *signals,
                   struct dt_error *err);
void dt_worker_fini(struct dt_worker *worker);

/* Starts it for the `restarts`-th time again, with a MASTER_PORT of its own; 0:
 * as it is in the environment. `max_restarts` are for the framework. -1:
 * EX_OSERR. A program that cannot be run ends with the status that a shell
 * gives.
 */
int dt_worker_start(struct dt_worker *worker,
                    const struct dt_keeper_options *options, int restarts,
                    unsigned port, struct dt_error *err);

/* How far it is. */
void dt_worker_look(const struct dt_worker *worker, struct dt_wire_beat *beat);

/* Whether it has ended; if so, its status as from waitpid. All processes that
 * it has started are killed.
 */
bool dt_worker_ended(struct dt_worker *worker, int *status);

#endif /* DT_KEEPER_KEEPER_IMPL_H */
