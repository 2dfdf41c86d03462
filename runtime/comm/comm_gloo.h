/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_gloo.h - the parts of the gloo backend: its queue, the connections of
 * groups, and the collectives
 *
 * Each collective works on all ranks of op->on. -1: EX_UNAVAILABLE or EX_OSERR;
 * then messages may still come and go in the memory of op, or in the workspace,
 * until the transport is closed.
 */
#ifndef DT_COMM_COMM_GLOO_H
#define DT_COMM_COMM_GLOO_H

#include "comm/comm_impl.h"
#include "comm/messages.h"

/* Operations in the order in which they were started, on a thread of their own,
 * which sleeps when there is nothing to do and takes no signals. After the
 * first failure nothing runs any more and everybody gets that failure.
 */
struct dt_queue;

/* What the thread does; all get the `ctx` of dt_queue_create. */
struct dt_queue_calls {
    /* one operation */
    int (*run)(void *ctx, const struct dt_op *op, struct dt_error *err);
    /* between operations, twice a second; NULL: nothing. -1: the failure */
    int (*idle)(void *ctx, struct dt_error *err);
    /* the last thing that happens on the thread, also after a failure */
    void (*leave)(void *ctx);
};

/* `calls` is copied. NULL: EX_OSERR. */
struct dt_queue *dt_queue_create(const struct dt_queue_calls *calls, void *ctx,
                                 struct dt_error *err);

/* Waits for the operation that is running, if any, and ends the thread; what
 * has not begun is dropped. NULL is fine.
 */
void dt_queue_destroy(struct dt_queue *queue);

/* Appends a copy of op. -1: the failure, or EX_OSERR. */
int dt_queue_start(struct dt_queue *queue, const struct dt_op *op,
                   dt_ticket_t *ticket, struct dt_error *err);

/* Returns when `ticket` and all before it are done. -1: the failure. */
int dt_queue_wait(struct dt_queue *queue, dt_ticket_t ticket,
                  struct dt_error *err);

/* Connections that a group needs in a large world. It is an operation of the
 * world, which all ranks start together: each tells all where it listens for
 * the ranks that it will talk to in its group, and then those connect. The
 * members of op->on are connected as far as collectives need it, or with `all`
 * each to each. -1: EX_UNAVAILABLE or EX_OSERR.
 */
int dt_meet_run(struct dt_messages *messages, const struct dt_op *op, bool all,
                struct dt_error *err);

/*
 * Every rank talks to every other one. Here are collectives that only move
 * elements, and those of few elements, which go from all to all in one step.
 */

/* True if one rank should send `bytes` to each of the `size` - 1 others at
 * once, instead of cutting them into parts.
 */
bool dt_direct_is_small(size_t bytes, int size);

/* reduce_scalars and barrier. */
int dt_direct_reduce_scalars(struct dt_messages *messages,
                             const struct dt_op *op, struct dt_error *err);

/* Each rank sends its part to all others. */
int dt_direct_all_gather(struct dt_messages *messages, const struct dt_op *op,
                         struct dt_error *err);

/* If small, the root sends it to all; otherwise a part to each rank, and then
 * the ranks gather the parts.
 */
int dt_direct_broadcast(struct dt_messages *messages, const struct dt_op *op,
                        struct dt_error *err);

/* Of few elements (dt_direct_is_small): each rank adds all contributions. */
int dt_direct_all_reduce(struct dt_messages *messages, const struct dt_op *op,
                         struct dt_error *err);

/* all_reduce and reduce_scatter of any length. The elements are cut into one
 * part per rank. A rank gets all contributions to its own part, adds them in
 * the order of ranks, and sends the sum to all: two steps whatever the number
 * of ranks, and the bytes of a ring.
 */
int dt_pipeline_run(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

/* reduce_scatter_int8, which sends 8 bits. */
int dt_scatter_int8(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

/*
 * Large worlds, in which a rank talks to few others.
 *
 * Rank r exchanges blocks with the ranks r + 1, r + 2, r + 4 ... and r - 1,
 * r - 2, r - 4 ..., around the world: dt_links has these connections. After
 * log2 W rounds, each with twice the blocks of the one before it, every rank
 * has gathered W blocks, and has sent no more bytes than in any other way. The
 * same rounds in the reverse order, with sums in place of copies, leave to each
 * rank the sum of one block. Any number of ranks will do. (Bruck et al.,
 * "Efficient Algorithms for All-to-All Communications in Multiport Message-
 * Passing Systems", IEEE TPDS 8(11), 1997, and reversed.)
 *
 * The order of a sum depends on the number of ranks alone; it is that of ranks
 * for scalars only. Partial sums travel in fp32, also where contributions and
 * results are rounded to bf16.
 */

/* reduce_scalars and barrier: all values to all, which add them. */
int dt_log_rounds_reduce_scalars(struct dt_messages *messages,
                                 const struct dt_op *op, struct dt_error *err);

/* all_reduce and reduce_scatter. */
int dt_log_rounds_reduce(struct dt_messages *messages, const struct dt_op *op,
                         struct dt_error *err);

/* Each rank's part to all. */
int dt_log_rounds_all_gather(struct dt_messages *messages,
                             const struct dt_op *op, struct dt_error *err);

/* If small, from the root down a tree; otherwise a part to each rank in that
 * way, and then the ranks gather the parts.
 */
int dt_log_rounds_broadcast(struct dt_messages *messages,
                            const struct dt_op *op, struct dt_error *err);

#endif /* DT_COMM_COMM_GLOO_H */
