/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_gloo.h - the parts of the gloo backend: messages, its queue, the
 * connections of groups, and the collectives (private to comm/)
 *
 * Each collective works on all ranks of op->on. -1: EX_UNAVAILABLE or EX_OSERR;
 * then messages may still come and go in the memory of op, or in the workspace,
 * until the transport is closed.
 */
#ifndef DT_COMM_COMM_GLOO_H
#define DT_COMM_COMM_GLOO_H

#include "comm/comm.h"
#include "comm/comm_impl.h"
#include "comm/peers.h"

/* --- messages.c: the messages of one operation between the ranks ---
 *
 * An operation posts messages and finishes them: one by one (reductions in
 * chunks) or all together.
 */

struct dt_message {
    struct dt_transport_buffer *buffer; /* NULL: finished */
    enum dt_direction direction;
    int peer;
};

struct dt_messages {
    struct dt_peers *peers;
    struct dt_arrivals arrivals;
    uint64_t sequence; /* number of the present operation, the same on all */
    void *workspace;   /* kept between operations */
    size_t workspace_bytes;
    const struct dt_op *op;  /* the present one, once it has messages */
    struct dt_message *list; /* of the present operation */
    size_t count, capacity;
};

/* The step of an operation to which a message belongs. */
enum dt_phase {
    DT_PHASE_SWAP,
    DT_PHASE_SCATTER,
    DT_PHASE_GATHER,
    DT_PHASE_REDUCE,
    DT_PHASE_RESULT,
};

/* Memory of at least `bytes`, 64-byte aligned; the next call reuses it. NULL:
 * EX_OSERR.
 */
void *dt_messages_workspace(struct dt_messages *messages, size_t bytes,
                            struct dt_error *err);

/* Posts a message between `data` and `peer`, a rank of op->on. The number under
 * which both sides know it is made of the operation, its place in the order of
 * operations, `phase` and `chunk`: peers that are out of step never take one
 * message for another. *id (NULL is fine) is for finish. -1: EX_UNAVAILABLE or
 * EX_OSERR.
 */
int dt_messages_post(struct dt_messages *messages, const struct dt_op *op,
                     enum dt_direction direction, int peer, enum dt_phase phase,
                     size_t chunk, void *data, size_t bytes, size_t *id,
                     struct dt_error *err);

/* Waits for one message, or for all that are not finished. -1: EX_UNAVAILABLE:
 * a rank is lost, or an awaited one did not answer in time.
 */
int dt_messages_finish(struct dt_messages *messages, size_t id,
                       struct dt_error *err);
int dt_messages_finish_all(struct dt_messages *messages, struct dt_error *err);

/* Frees workspace and arrivals, after the transport is closed. Zeroed is fine.
 */
void dt_messages_fini(struct dt_messages *messages);

/* --- comm_reduce.c: sums of contributions, and rounding to bf16 --- */

/* out[i] = op over p of parts[p][i], p upwards, in fp32; out and parts are all
 * of `dtype` (DT_F32, DT_BF16; rounded once, to nearest even). out may be one
 * of parts.
 */
void dt_reduce_parts(void *out, const void *const *parts, int part_count,
                     size_t count, enum dt_dtype dtype, enum dt_reduce op);

/* values[i] = op over p of parts[p][i], p upwards. */
void dt_reduce_scalars(double *values, const double *const *parts,
                       int part_count, size_t count, enum dt_reduce op);

/* Rounds fp32 to bf16, and back. */
void dt_reduce_narrow(uint16_t *out, const float *in, size_t count);
void dt_reduce_widen(float *out, const uint16_t *in, size_t count);

/* --- queue.c --- */

/* Operations in the order in which they were started, on a thread of their own,
 * which sleeps when there is nothing to do and takes no signals. After the
 * first failure nothing runs any more and everybody gets that failure.
 */
struct dt_queue;

/* The work of the thread; all functions get the `ctx` of dt_queue_create. */
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

/* Waits for the operation that is running, if any, and ends the thread;
 * operations that have not begun are dropped. NULL is fine.
 */
void dt_queue_destroy(struct dt_queue *queue);

/* Appends a copy of op. -1: the failure, or EX_OSERR. */
int dt_queue_start(struct dt_queue *queue, const struct dt_op *op,
                   dt_ticket_t *ticket, struct dt_error *err);

/* Returns when `ticket` and all before it are done. -1: the failure. */
int dt_queue_wait(struct dt_queue *queue, dt_ticket_t ticket,
                  struct dt_error *err);

/* --- direct.c ---
 *
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

/* int8.c: reduce_scatter_int8, with 8 bits on the wire. */
int dt_scatter_int8(struct dt_messages *messages, const struct dt_op *op,
                    struct dt_error *err);

/* --- log_rounds.c ---
 *
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
