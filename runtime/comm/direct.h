/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.h - collectives in which every rank talks to every other one; for
 * comm/ only
 *
 * The elements are cut into one part per rank. A rank gets all contributions
 * to its own part, adds them in the order of ranks, and sends the sum to all:
 * two steps whatever the number of ranks, and the bytes of a ring (pipeline.c).
 * What is small goes from all to all in one step instead.
 */
#ifndef DT_COMM_DIRECT_H
#define DT_COMM_DIRECT_H

#include "comm/impl.h"
#include "comm/peers.h"

struct dt_message {
    struct dt_port *port; /* NULL: finished */
    enum dt_way way;
    int peer;
};

struct dt_direct {
    struct dt_peers *peers;
    uint64_t sequence; /* operations so far */
    void *room;        /* scratch, kept between operations */
    size_t room_bytes;
    struct dt_message *messages; /* of the present operation */
    size_t message_count, message_room;
};

/* Does op on all ranks of direct->peers. -1: EX_UNAVAILABLE or EX_OSERR; then
 * messages may still come and go in the memory of op until the link is closed.
 */
int dt_direct_run(struct dt_direct *direct, const struct dt_op *op,
                  struct dt_error *err);

/* Frees the scratch, after the link is closed. Zeroed is fine. */
void dt_direct_fini(struct dt_direct *direct);

/*
 * For direct.c and pipeline.c
 */

enum dt_phase {
    DT_PHASE_SWAP,
    DT_PHASE_SCATTER,
    DT_PHASE_GATHER,
    DT_PHASE_REDUCE,
    DT_PHASE_RESULT,
};

/* Scratch of at least `bytes`, 64-byte aligned; lost with the next call. NULL:
 * EX_OSERR.
 */
void *dt_direct_room(struct dt_direct *direct, size_t bytes,
                     struct dt_error *err);

/* Posts a message between `data` and `peer`. The number under which both sides
 * know it is made of the operation, its place in the order of operations,
 * `phase` and `chunk`: peers that are out of step never take one message for
 * another. *id (NULL is fine) is for finish.
 */
int dt_direct_post(struct dt_direct *direct, const struct dt_op *op,
                   enum dt_way way, int peer, enum dt_phase phase, size_t chunk,
                   void *data, size_t bytes, size_t *id, struct dt_error *err);

/* Waits for one message, or for all that are not finished. */
int dt_direct_finish(struct dt_direct *direct, size_t id, struct dt_error *err);
int dt_direct_finish_all(struct dt_direct *direct, struct dt_error *err);

/* First element of part `part` of `count` elements in `size` parts, whose
 * lengths differ by one at most.
 */
static inline size_t dt_direct_first(size_t count, int size, int part)
{
    size_t n = (size_t)size, p = (size_t)part, longer = count % n;
    return count / n * p + (p < longer ? p : longer);
}

/* all_reduce and reduce_scatter of any length. */
int dt_pipeline_run(struct dt_direct *direct, const struct dt_op *op,
                    struct dt_error *err);

#endif /* DT_COMM_DIRECT_H */
