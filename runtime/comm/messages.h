/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - the messages of one operation between the ranks; for comm/ only
 *
 * An operation posts messages and finishes them: one by one (pipeline.c) or
 * all together (direct.c).
 */
#ifndef DT_COMM_MESSAGES_H
#define DT_COMM_MESSAGES_H

#include "comm/arrivals.h"
#include "comm/comm_impl.h"
#include "comm/peers.h"

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
 * a rank is lost, or one that is waited for did not answer in time.
 */
int dt_messages_finish(struct dt_messages *messages, size_t id,
                       struct dt_error *err);
int dt_messages_finish_all(struct dt_messages *messages, struct dt_error *err);

/* Frees workspace and arrivals, after the transport is closed. Zeroed is fine.
 */
void dt_messages_fini(struct dt_messages *messages);

#endif /* DT_COMM_MESSAGES_H */
