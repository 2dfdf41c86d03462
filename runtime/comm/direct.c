/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c - messages; small operations, and those that only move elements */
#include "config.h"

#include <stdlib.h>

#include "base/fault.h"
#include "comm/direct.h"
#include "comm/reduce.h"

enum {
    SMALL_BYTES = 64 * 1024, /* sent by one rank, to all others together */
};

void *dt_direct_room(struct dt_direct *d, size_t bytes, struct dt_error *err)
{
    if (bytes > d->room_bytes) {
        free(d->room);
        d->room_bytes = 0;
        d->room = aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!d->room) {
            dt_error_set(err, EX_OSERR, "no memory for %zu bytes", bytes);
            return NULL;
        }
        d->room_bytes = bytes;
    }
    return d->room;
}

int dt_direct_post(struct dt_direct *d, const struct dt_op *op, enum dt_way way,
                   int peer, enum dt_phase phase, size_t chunk, void *data,
                   size_t bytes, size_t *id, struct dt_error *err)
{
    uint64_t what = (op->view.count + op->scalar_count) * 8 + op->kind;
    uint64_t slot = (d->sequence & 0xffff) << 48 |
                    what * UINT64_C(0x9e3779b97f4a7c15) >> 52 << 36 |
                    (uint64_t)phase << 32 | (chunk & 0xffffffff);
    struct dt_message *message;
    if (d->message_count == d->message_room) {
        size_t room = d->message_room * 2 + 64;
        message = reallocarray(d->messages, room, sizeof(*message));
        if (!message)
            return dt_error_set(err, EX_OSERR, "no memory for messages");
        d->messages = message;
        d->message_room = room;
    }
    message = &d->messages[d->message_count];
    message->port = dt_port_create(d->peers->link, data, bytes, err);
    if (!message->port)
        return -1;
    message->way = way;
    message->peer = peer;
    if (id)
        *id = d->message_count;
    d->message_count++;
    return dt_peers_post(d->peers, message->port, way, peer, slot, 0, bytes,
                         err);
}

int dt_direct_finish(struct dt_direct *d, size_t id, struct dt_error *err)
{
    struct dt_message *message = &d->messages[id];
    if (!message->port)
        return 0;
    if (dt_peers_wait(d->peers, message->port, message->way, message->peer,
                      err) < 0)
        return -1;
    dt_port_destroy(message->port);
    message->port = NULL;
    return 0;
}

int dt_direct_finish_all(struct dt_direct *d, struct dt_error *err)
{
    for (size_t i = 0; i < d->message_count; i++)
        if (dt_direct_finish(d, i, err) < 0)
            return -1;
    d->message_count = 0;
    return 0;
}

/* The rank that this one turns to i-th: not everybody to rank 0 first. */
static int neighbour(const struct dt_direct *d, int i)
{
    return (d->peers->rank + i) % d->peers->size;
}

/* Sends the `bytes` bytes of `mine` to all others, and waits until what rank r
 * has sent is at room + bytes * r.
 */
static int swap(struct dt_direct *d, const struct dt_op *op, void *mine,
                size_t bytes, char *room, struct dt_error *err)
{
    for (int i = 1; i < d->peers->size; i++) {
        int r = neighbour(d, i);
        if (dt_direct_post(d, op, DT_RECV, r, DT_PHASE_SWAP, 0,
                           room + bytes * (size_t)r, bytes, NULL, err) < 0 ||
            dt_direct_post(d, op, DT_SEND, r, DT_PHASE_SWAP, 0, mine, bytes,
                           NULL, err) < 0)
            return -1;
    }
    return dt_direct_finish_all(d, err);
}

static int reduce_scalars(struct dt_direct *d, const struct dt_op *op,
                          struct dt_error *err)
{
    int size = d->peers->size;
    size_t bytes = op->scalar_count * sizeof(double);
    char *room =
        dt_direct_room(d, (bytes + sizeof(double *)) * (size_t)size, err);
    const double **parts;
    if (!room || swap(d, op, op->scalars, bytes, room, err) < 0)
        return -1;
    parts = (void *)(room + bytes * (size_t)size);
    for (int r = 0; r < size; r++)
        parts[r] = r == d->peers->rank ? op->scalars
                                       : (void *)(room + bytes * (size_t)r);
    dt_reduce_scalars(op->scalars, parts, size, op->scalar_count, op->reduce);
    return 0;
}

static int all_reduce_small(struct dt_direct *d, const struct dt_op *op,
                            struct dt_error *err)
{
    size_t size = (size_t)d->peers->size, rank = (size_t)d->peers->rank;
    size_t count = op->view.count, bytes = count * dt_dtype_bytes(op->wire);
    size_t pointers = (bytes * size + 7) / 8 * 8;
    char *room = dt_direct_room(d, pointers + size * sizeof(void *), err);
    void *mine = dt_view_data(op->view);
    const void **parts;
    if (!room)
        return -1;
    if (op->wire != op->view.dtype) {
        mine = room + bytes * rank;
        dt_reduce_narrow(mine, dt_view_f32(op->view), count);
    }
    if (swap(d, op, mine, bytes, room, err) < 0)
        return -1;
    parts = (void *)(room + pointers);
    for (size_t r = 0; r < size; r++)
        parts[r] = r == rank ? mine : room + bytes * r;
    dt_reduce_parts(mine, parts, (int)size, count, op->wire, op->reduce);
    if (op->wire != op->view.dtype)
        dt_reduce_widen(dt_view_f32(op->view), mine, count);
    return 0;
}

/* Posts part `part` of the view. */
static int post_part(struct dt_direct *d, const struct dt_op *op,
                     enum dt_way way, int peer, enum dt_phase phase, int part,
                     struct dt_error *err)
{
    size_t first = dt_direct_first(op->view.count, d->peers->size, part);
    size_t end = dt_direct_first(op->view.count, d->peers->size, part + 1);
    struct dt_view v = dt_view_slice(op->view, first, end - first);
    return dt_direct_post(d, op, way, peer, phase, (size_t)part,
                          dt_view_data(v), v.count * dt_dtype_bytes(v.dtype),
                          NULL, err);
}

static int all_gather(struct dt_direct *d, const struct dt_op *op,
                      struct dt_error *err)
{
    for (int i = 1; i < d->peers->size; i++) {
        int r = neighbour(d, i);
        if (post_part(d, op, DT_RECV, r, DT_PHASE_GATHER, r, err) < 0 ||
            post_part(d, op, DT_SEND, r, DT_PHASE_GATHER, d->peers->rank, err) <
                0)
            return -1;
    }
    return dt_direct_finish_all(d, err);
}

/* What is small, or has one receiver, goes there at once. Otherwise the root
 * hands each rank its part, and all pass their parts on.
 */
static int broadcast(struct dt_direct *d, const struct dt_op *op,
                     struct dt_error *err)
{
    int rank = d->peers->rank, size = d->peers->size;
    size_t bytes = op->view.count * dt_dtype_bytes(op->view.dtype);
    bool whole = size == 2 || bytes * (size_t)(size - 1) <= SMALL_BYTES;
    for (int r = 0; r < size; r++) {
        enum dt_way way = rank == op->root ? DT_SEND : DT_RECV;
        int peer = rank == op->root ? r : op->root;
        int rc;
        if (r == op->root || (rank != op->root && rank != r))
            continue;
        if (whole)
            rc = dt_direct_post(d, op, way, peer, DT_PHASE_SWAP, 0,
                                dt_view_data(op->view), bytes, NULL, err);
        else
            rc = post_part(d, op, way, peer, DT_PHASE_SCATTER, r, err);
        if (rc < 0)
            return -1;
    }
    if (dt_direct_finish_all(d, err) < 0)
        return -1;
    return whole ? 0 : all_gather(d, op, err);
}

static int all_reduce(struct dt_direct *d, const struct dt_op *op,
                      struct dt_error *err)
{
    size_t bytes = op->view.count * dt_dtype_bytes(op->wire);
    if (bytes * (size_t)(d->peers->size - 1) <= SMALL_BYTES)
        return all_reduce_small(d, op, err);
    return dt_pipeline_run(d, op, err);
}

int dt_direct_run(struct dt_direct *d, const struct dt_op *op,
                  struct dt_error *err)
{
    static const struct {
        const char *fault;
        int (*run)(struct dt_direct *d, const struct dt_op *op,
                   struct dt_error *err);
    } kinds[] = {
        [DT_OP_ALL_REDUCE] = {"comm.all_reduce", all_reduce},
        [DT_OP_REDUCE_SCATTER] = {"comm.reduce_scatter", dt_pipeline_run},
        [DT_OP_ALL_GATHER] = {"comm.all_gather", all_gather},
        [DT_OP_BROADCAST] = {"comm.broadcast", broadcast},
        [DT_OP_SCALARS] = {"comm.reduce_scalars", reduce_scalars},
        [DT_OP_BARRIER] = {"comm.barrier", reduce_scalars},
    };
    d->sequence++;
    if (dt_fault(kinds[op->kind].fault))
        return dt_error_set(err, EX_UNAVAILABLE,
                            "lost rank %d on %s: DISTTRAIN_FAULT",
                            d->peers->rank, d->peers->hosts[d->peers->rank]);
    if (op->view.count + op->scalar_count == 0)
        return 0;
    return kinds[op->kind].run(d, op, err);
}

void dt_direct_fini(struct dt_direct *d)
{
    for (size_t i = 0; i < d->message_count; i++)
        dt_port_destroy(d->messages[i].port);
    free(d->messages);
    free(d->room);
}
