/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm.h - collectives on views
 *
 * A backend runs the operations of one communicator in the order in which they
 * were started, on its own progress thread or stream, after the work that was
 * in options.stream when they were started; every rank starts the same
 * operations in the same order. Starting returns at once with a ticket; the
 * view must stay untouched until dt_comm_wait of that ticket (or a later one)
 * returned. The first failure is final: every later call returns it.
 *
 * Results have the same bits on every rank, and the same bits in every run
 * with the same world size: the order of summation is fixed. Sums that NCCL
 * makes, of fp32 and of doubles, are so in every run with run.deterministic and
 * the same GPUs and network only.
 */
#ifndef DT_COMM_COMM_H
#define DT_COMM_COMM_H

#include <stdint.h>

#include "base/error.h"
#include "tensor/tensor.h"

struct dt_comm;

enum dt_reduce {
    DT_SUM,
    DT_MAX,
};

typedef uint64_t dt_ticket_t;

/* How a backend meets its peers before it has a network. All ranks pass the
 * same size and hosts. The functions are those of launch.h with `ctx` as
 * launch: comm is below launch and does not include it.
 */
struct dt_comm_world {
    int rank, size;
    const char *(*host)(void *ctx, int rank);
    int (*put)(void *ctx, const char *key, const void *data, size_t bytes,
               struct dt_error *err);
    int (*fence)(void *ctx, int timeout_ms, struct dt_error *err);
    int (*get)(void *ctx, int rank, const char *key, void **data, size_t *bytes,
               struct dt_error *err);
    void *ctx;
};

/* A rank that is late is waited for up to timeout_ms, counted again whenever
 * some of the data has come. One whose process is gone is noticed at once, one
 * whose host or network is silent after outage_ms whatever the time-out.
 */
struct dt_comm_options {
    const char *interface; /* NULL: the one that reaches rank 0 */
    int timeout_ms;
    int outage_ms;      /* 0: 15 s; never more than timeout_ms */
    const char *secret; /* known to all ranks and to no other user; mixed with
                           the token that `world` brings; NULL: nothing */
    /* Prints a line for the user, from any thread; NULL: nobody does. */
    void (*warn)(const char *line);
    bool deterministic;       /* NCCL adds in one order, by rings */
    struct dt_stream *stream; /* where the views are computed; cpu: NULL */
};

/* A communicator over `backend`: "self" for a world of one, where nothing is
 * moved or rounded, or "gloo", which is "self" then. One in each world. `world`
 * is only used during the call. NULL and err (EX_UNAVAILABLE) if a peer does
 * not come, EX_CONFIG if the backend is not built in or the interface is not
 * there.
 */
struct dt_comm *dt_comm_create(const char *backend,
                               const struct dt_comm_world *world,
                               const struct dt_comm_options *options,
                               struct dt_error *err);

/* Leaves in order; takes less than a second whatever the others do, and NCCL
 * six at most. Operations that nobody has waited for may be dropped. NULL is
 * fine.
 */
void dt_comm_destroy(struct dt_comm *comm);

/* As dt_comm_destroy, after a failure of this rank: tells all the others why,
 * within a fraction of a second. Their operations fail with this rank's words
 * and status, and with it as lost_rank. NULL is fine.
 */
void dt_comm_abandon(struct dt_comm *comm, const struct dt_error *why);

/* A communicator of ranks[count] of the world `comm`, in this order: rank i of
 * it is ranks[i] of the world. All ranks of the world make it together, each
 * with the list that has itself; members pass equal lists, and no rank is in
 * two. Operations of the world and of all its groups make one order, in which
 * every rank starts as many as the others; in a group of one nothing is moved
 * or rounded. Errors name ranks of the world. It lives as long as the world,
 * which frees it. NULL and err: EX_OSERR, or EX_UNAVAILABLE if a peer is lost.
 */
struct dt_comm *dt_comm_group(struct dt_comm *comm, const int *ranks, int count,
                              struct dt_error *err);

/* From now on *started is the number of operations that this rank has started,
 * in the world and its groups: every rank starts the same ones, so who has
 * started fewest is late. It is only stored to, and has to stay.
 */
void dt_comm_count(struct dt_comm *comm, uint64_t *started);

/* This process in the world or group, how many there are, and "self", "gloo" or
 * "nccl".
 */
int dt_comm_rank(const struct dt_comm *comm);
int dt_comm_size(const struct dt_comm *comm);
const char *dt_comm_backend(const struct dt_comm *comm);

/* The host of a rank of `comm`, as dt_comm_world gave it; any name in a world
 * of one.
 */
const char *dt_comm_host(const struct dt_comm *comm, int rank);

/* v = op over ranks of v, in place. `wire` is the type that travels: DT_F32, or
 * DT_BF16 for half the bytes (each contribution is rounded once, sums are made
 * in fp32, the result is rounded once; in a gloo world of more than 16 ranks,
 * sums also travel in fp32). v is DT_F32 or DT_BF16 (wire DT_BF16), or DT_F64
 * for the few scalars of a step (wire is ignored).
 */
int dt_comm_all_reduce(struct dt_comm *comm, struct dt_view v,
                       enum dt_reduce op, enum dt_dtype wire,
                       dt_ticket_t *ticket, struct dt_error *err);

/* v has size * n elements; afterwards part `rank` of v holds the op over all
 * ranks of that part, the other parts are undefined. wire as above.
 */
int dt_comm_reduce_scatter(struct dt_comm *comm, struct dt_view v,
                           enum dt_reduce op, enum dt_dtype wire,
                           dt_ticket_t *ticket, struct dt_error *err);

enum { DT_INT8_BLOCK = 128 }; /* elements with one scale */

/* The noise of rounding to 8 bits depends on this and on the ranks of `comm`.
 */
struct dt_noise {
    uint64_t seed, step; /* step < 2^32 */
    uint64_t first;      /* number of the first element of v, among all that are
                            reduced in a step; a multiple of DT_INT8_BLOCK */
};

/* dt_comm_reduce_scatter of sums, of DT_F32, where each contribution but the
 * rank's own travels in 8 bits, rounded up or down at random (int8.c); sums are
 * made in fp32 in the order of ranks. n is a multiple of DT_INT8_BLOCK.
 */
int dt_comm_reduce_scatter_int8(struct dt_comm *comm, struct dt_view v,
                                const struct dt_noise *noise,
                                dt_ticket_t *ticket, struct dt_error *err);

/* v has size * n elements; part `rank` is this rank's; afterwards all parts
 * are there. Any dtype.
 */
int dt_comm_all_gather(struct dt_comm *comm, struct dt_view v,
                       dt_ticket_t *ticket, struct dt_error *err);

/* The same of DT_F32 that was rounded to bf16 before, and travels as that; n is
 * a multiple of 8.
 */
int dt_comm_all_gather_bf16(struct dt_comm *comm, struct dt_view v,
                            dt_ticket_t *ticket, struct dt_error *err);

/* v of rank `root` to all. Any dtype. */
int dt_comm_broadcast(struct dt_comm *comm, struct dt_view v, int root,
                      dt_ticket_t *ticket, struct dt_error *err);

/* Later work in options.stream comes after operation `ticket` and all before
 * it; on the cpu, where there is no stream, returns when they are done. -1:
 * EX_UNAVAILABLE with the operation, its size, and the rank and host of the
 * peer that was lost or did not answer within the time-out.
 */
int dt_comm_wait(struct dt_comm *comm, dt_ticket_t ticket,
                 struct dt_error *err);

/* dt_event_wait for an event of options.stream that may come after operations:
 * fails as they do if a peer is lost or late. So do other waits for the stream
 * in the thread that calls comm: by dt_event_wait, stream_wait and copies.
 */
int dt_comm_wait_event(struct dt_comm *comm, const struct dt_device *device,
                       struct dt_event *event, struct dt_error *err);

/* Returns when all ranks have called it. */
int dt_comm_barrier(struct dt_comm *comm, struct dt_error *err);

/* Sum or max of `count` doubles over ranks, in place, done on return. For the
 * few scalars of a step (loss, norm, counts), not for tensors.
 */
int dt_comm_reduce_scalars(struct dt_comm *comm, double *values, size_t count,
                           enum dt_reduce op, struct dt_error *err);

/* Before the memory of views of earlier operations is freed: drops all that the
 * world and its groups have kept about it, such as permission for the network
 * to read it. The operations have been waited for. NULL is fine.
 */
void dt_comm_forget_memory(struct dt_comm *comm);

/* The library that connects the ranks: "gloo", or why there is none. */
const char *dt_comm_library(void);

#endif /* DT_COMM_COMM_H */
