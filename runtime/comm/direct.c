/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c - small operations, and those that only move elements */
#include "config.h"

#include "comm/comm_gloo.h"
#include "comm/comm_reduce.h"

enum {
    SMALL_BYTES = 64 * 1024, /* sent by one rank, to all others together */
    STAGED_BYTES = 4 << 20,  /* of bf16, of all ranks together */
};

bool dt_direct_is_small(size_t bytes, int size)
{
    return bytes * (size_t)(size - 1) <= SMALL_BYTES;
}

/* The rank that this one turns to i-th: not everybody to rank 0 first. */
static int neighbor(const struct dt_op *op, int i)
{
    return (op->on->rank + i) % op->on->size;
}

/* Sends the `bytes` bytes of `mine` to all others, and waits until what rank r
 * has sent is at workspace + bytes * r.
 */
static int exchange(struct dt_messages *m, const struct dt_op *op, void *mine,
                    size_t bytes, char *workspace, struct dt_error *err)
{
    for (int i = 1; i < op->on->size; i++) {
        int r = neighbor(op, i);
        if (dt_messages_post(m, op, DT_RECV, r, DT_PHASE_SWAP, 0,
                             workspace + bytes * (size_t)r, bytes, NULL,
                             err) < 0 ||
            dt_messages_post(m, op, DT_SEND, r, DT_PHASE_SWAP, 0, mine, bytes,
                             NULL, err) < 0)
            return -1;
    }
    return dt_messages_finish_all(m, err);
}

int dt_direct_reduce_scalars(struct dt_messages *m, const struct dt_op *op,
                             struct dt_error *err)
{
    int size = op->on->size;
    size_t bytes = op->scalar_count * sizeof(double);
    char *workspace = dt_messages_workspace(
        m, (bytes + sizeof(double *)) * (size_t)size, err);
    const double **parts;
    if (!workspace || exchange(m, op, op->scalars, bytes, workspace, err) < 0)
        return -1;
    parts = (void *)(workspace + bytes * (size_t)size);
    for (int r = 0; r < size; r++)
        parts[r] = r == op->on->rank ? op->scalars
                                     : (void *)(workspace + bytes * (size_t)r);
    dt_reduce_scalars(op->scalars, parts, size, op->scalar_count, op->reduce);
    return 0;
}

int dt_direct_all_reduce(struct dt_messages *m, const struct dt_op *op,
                         struct dt_error *err)
{
    size_t size = (size_t)op->on->size, rank = (size_t)op->on->rank;
    size_t count = op->view.count, bytes = count * dt_dtype_bytes(op->wire);
    size_t pointers = (bytes * size + 7) / 8 * 8;
    char *workspace =
        dt_messages_workspace(m, pointers + size * sizeof(void *), err);
    void *mine = dt_view_data(op->view);
    const void **parts;
    if (!workspace)
        return -1;
    if (op->wire != op->view.dtype) {
        mine = workspace + bytes * rank;
        dt_reduce_narrow(mine, dt_view_f32(op->view), count);
    }
    if (exchange(m, op, mine, bytes, workspace, err) < 0)
        return -1;
    parts = (void *)(workspace + pointers);
    for (size_t r = 0; r < size; r++)
        parts[r] = r == rank ? mine : workspace + bytes * r;
    dt_reduce_parts(mine, parts, (int)size, count, op->wire, op->reduce);
    if (op->wire != op->view.dtype)
        dt_reduce_widen(dt_view_f32(op->view), mine, count);
    return 0;
}

/* Posts part `part` of the view. */
static int post_part(struct dt_messages *m, const struct dt_op *op,
                     enum dt_direction direction, int peer, enum dt_phase phase,
                     int part, struct dt_error *err)
{
    size_t first = dt_op_part_first(op->view.count, op->on->size, part);
    size_t end = dt_op_part_first(op->view.count, op->on->size, part + 1);
    struct dt_view v = dt_view_slice(op->view, first, end - first);
    return dt_messages_post(m, op, direction, peer, phase, (size_t)part,
                            dt_view_data(v), v.count * dt_dtype_bytes(v.dtype),
                            NULL, err);
}

/* Elements first .. first + count - 1 of all parts, through bf16. */
static int gather_staged(struct dt_messages *m, const struct dt_op *op,
                         size_t first, size_t count, uint16_t *staging,
                         struct dt_error *err)
{
    size_t size = (size_t)op->on->size, rank = (size_t)op->on->rank;
    size_t part = op->view.count / size, bytes = count * sizeof(*staging);
    float *view = dt_view_f32(op->view);
    dt_reduce_narrow(staging + rank * count, view + rank * part + first, count);
    for (int i = 1; i < op->on->size; i++) {
        int r = neighbor(op, i);
        if (dt_messages_post(m, op, DT_RECV, r, DT_PHASE_GATHER, first,
                             staging + (size_t)r * count, bytes, NULL,
                             err) < 0 ||
            dt_messages_post(m, op, DT_SEND, r, DT_PHASE_GATHER, first,
                             staging + rank * count, bytes, NULL, err) < 0)
            return -1;
    }
    if (dt_messages_finish_all(m, err) < 0)
        return -1;
    for (size_t r = 0; r < size; r++)
        if (r != rank)
            dt_reduce_widen(view + r * part + first, staging + r * count,
                            count);
    return 0;
}

static int gather_bf16(struct dt_messages *m, const struct dt_op *op,
                       struct dt_error *err)
{
    size_t part = op->view.count / (size_t)op->on->size;
    size_t room = STAGED_BYTES / sizeof(uint16_t) / (size_t)op->on->size + 1;
    uint16_t *staging;
    if (room > part)
        room = part;
    staging = dt_messages_workspace(
        m, room * (size_t)op->on->size * sizeof(*staging), err);
    for (size_t first = 0; staging && first < part; first += room) {
        size_t count = part - first < room ? part - first : room;
        if (gather_staged(m, op, first, count, staging, err) < 0)
            return -1;
    }
    return staging ? 0 : -1;
}

int dt_direct_all_gather(struct dt_messages *m, const struct dt_op *op,
                         struct dt_error *err)
{
    if (op->wire != op->view.dtype)
        return gather_bf16(m, op, err);
    for (int i = 1; i < op->on->size; i++) {
        int r = neighbor(op, i);
        if (post_part(m, op, DT_RECV, r, DT_PHASE_GATHER, r, err) < 0 ||
            post_part(m, op, DT_SEND, r, DT_PHASE_GATHER, op->on->rank, err) <
                0)
            return -1;
    }
    return dt_messages_finish_all(m, err);
}

/* What is small, or has one receiver, goes there at once. Otherwise the root
 * hands each rank its part, and all pass their parts on.
 */
int dt_direct_broadcast(struct dt_messages *m, const struct dt_op *op,
                        struct dt_error *err)
{
    int rank = op->on->rank, size = op->on->size;
    size_t bytes = op->view.count * dt_dtype_bytes(op->view.dtype);
    bool whole = size == 2 || dt_direct_is_small(bytes, size);
    for (int r = 0; r < size; r++) {
        enum dt_direction direction = rank == op->root ? DT_SEND : DT_RECV;
        int peer = rank == op->root ? r : op->root;
        int rc;
        if (r == op->root || (rank != op->root && rank != r))
            continue;
        if (whole)
            rc = dt_messages_post(m, op, direction, peer, DT_PHASE_SWAP, 0,
                                  dt_view_data(op->view), bytes, NULL, err);
        else
            rc = post_part(m, op, direction, peer, DT_PHASE_SCATTER, r, err);
        if (rc < 0)
            return -1;
    }
    if (dt_messages_finish_all(m, err) < 0)
        return -1;
    return whole ? 0 : dt_direct_all_gather(m, op, err);
}
