/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct.c - collectives of ranks that each talk to every other one: small
 * operations, those that only move elements, and reductions in chunks
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>

#include "comm/comm_gloo.h"

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

/* Sends the `bytes` bytes of `mine` to all others, and waits until those of
 * rank r are at workspace + bytes * r.
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
                            dt_view_data(v), dt_view_bytes(v), NULL, err);
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

/* A small view, or one with a single receiver, is sent as a whole. Otherwise
 * the root hands each rank its part, and all pass their parts on.
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

/* --- reductions in chunks: while one is added, the next ones are sent ---
 *
 * Step s posts the messages of chunk s, adds chunk s - (WINDOW - 1) of this
 * rank's own part, and takes the results of chunk s - (2 * WINDOW - 1) of all
 * the other parts. A rank only ever waits for messages that the others have
 * posted in steps before its own, so nobody waits in a circle.
 */

enum {
    WINDOW = 3,
    MIN_CHUNK_BYTES = 256 * 1024,   /* on the wire; below it cost is in calls */
    ALL_CHUNKS_BYTES = 4096 * 1024, /* at most, of all ranks together */
    DEPTH = 2 * WINDOW,
};

/* The content of a message. */
enum role {
    TO_OWNER,   /* a contribution of this rank */
    FROM_RANK,  /* a contribution to this rank's part */
    TO_RANK,    /* a sum that this rank has made */
    FROM_OWNER, /* a sum of another rank */
    ROLES,
};

struct pipeline {
    struct dt_messages *messages;
    const struct dt_op *op;
    int rank, size;
    bool staged;        /* the wire has another type than the view */
    size_t chunk;       /* elements */
    size_t chunk_count; /* of the longest part */
    size_t wire_bytes;  /* of one element */
    char *in;           /* [size][WINDOW] chunks */
    char *out;          /* [size][WINDOW] chunks if staged */
    char *sums;         /* [size][DEPTH] chunks if staged */
    const void **parts; /* [size] */
    size_t *ids;        /* [ROLES][size][DEPTH] */
};

/* Elements of chunk k of part q; 0 if there is no such chunk. */
static size_t count_of(const struct pipeline *x, int q, size_t k)
{
    size_t all = x->op->view.count;
    size_t n = dt_op_part_first(all, x->size, q + 1) -
               dt_op_part_first(all, x->size, q);
    if (k * x->chunk >= n)
        return 0;
    return n - k * x->chunk < x->chunk ? n - k * x->chunk : x->chunk;
}

/* Chunk k of part q in the view. */
static void *in_view(const struct pipeline *x, int q, size_t k)
{
    size_t first = dt_op_part_first(x->op->view.count, x->size, q);
    return dt_view_data(
        dt_view_slice(x->op->view, first + k * x->chunk, count_of(x, q, k)));
}

/* Place of chunk k of part or rank q in a ring of `depth` chunks each. */
static void *in_ring(const struct pipeline *x, char *ring, size_t depth, int q,
                     size_t k)
{
    size_t place = (size_t)q * depth + k % depth;
    return ring + place * x->chunk * x->wire_bytes;
}

static void *place_of_sum(const struct pipeline *x, int q, size_t k)
{
    return x->staged ? in_ring(x, x->sums, DEPTH, q, k) : in_view(x, q, k);
}

static size_t *id_of(const struct pipeline *x, enum role role, int q, size_t k)
{
    size_t row = (size_t)role * (size_t)x->size + (size_t)q;
    return &x->ids[row * DEPTH + k % DEPTH];
}

/* Posts chunk k of part `part`, to or from rank q. */
static int post(struct pipeline *x, enum role role, int q, int part, size_t k,
                void *data, struct dt_error *err)
{
    bool sum = role == TO_RANK || role == FROM_OWNER;
    bool send = role == TO_RANK || role == TO_OWNER;
    return dt_messages_post(x->messages, x->op, send ? DT_SEND : DT_RECV, q,
                            sum ? DT_PHASE_RESULT : DT_PHASE_REDUCE, k, data,
                            count_of(x, part, k) * x->wire_bytes,
                            id_of(x, role, q, k), err);
}

static int finish(struct pipeline *x, enum role role, int q, size_t k,
                  struct dt_error *err)
{
    return dt_messages_finish(x->messages, *id_of(x, role, q, k), err);
}

/* This rank's contribution to chunk k of part q, as it travels. */
static void *contribution(struct pipeline *x, int q, size_t k)
{
    void *data = in_view(x, q, k);
    if (x->staged) {
        void *staged = in_ring(x, x->out, WINDOW, q, k);
        dt_reduce_narrow(staged, data, count_of(x, q, k));
        return staged;
    }
    return data;
}

static int post_chunk(struct pipeline *x, size_t k, struct dt_error *err)
{
    bool all = x->op->kind == DT_OP_ALL_REDUCE;
    for (int i = 1; i < x->size; i++) {
        int q = (x->rank + i) % x->size;
        if (count_of(x, x->rank, k) > 0 &&
            post(x, FROM_RANK, q, x->rank, k, in_ring(x, x->in, WINDOW, q, k),
                 err) < 0)
            return -1;
        if (count_of(x, q, k) == 0)
            continue;
        if (all && post(x, FROM_OWNER, q, q, k, place_of_sum(x, q, k), err) < 0)
            return -1;
        if (k >= WINDOW && finish(x, TO_OWNER, q, k - WINDOW, err) < 0)
            return -1;
        if (post(x, TO_OWNER, q, q, k, contribution(x, q, k), err) < 0)
            return -1;
    }
    return 0;
}

static int add_chunk(struct pipeline *x, size_t k, struct dt_error *err)
{
    size_t count = count_of(x, x->rank, k);
    void *sum;
    if (count == 0)
        return 0;
    for (int q = 0; q < x->size; q++) {
        x->parts[q] = q == x->rank ? contribution(x, q, k)
                                   : in_ring(x, x->in, WINDOW, q, k);
        if (q != x->rank && finish(x, FROM_RANK, q, k, err) < 0)
            return -1;
        if (q != x->rank && k >= DEPTH && x->op->kind == DT_OP_ALL_REDUCE &&
            finish(x, TO_RANK, q, k - DEPTH, err) < 0)
            return -1;
    }
    sum = place_of_sum(x, x->rank, k);
    dt_reduce_parts(sum, x->parts, x->size, count, x->op->wire, x->op->reduce);
    if (x->staged)
        dt_reduce_widen(in_view(x, x->rank, k), sum, count);
    if (x->op->kind != DT_OP_ALL_REDUCE)
        return 0;
    for (int i = 1; i < x->size; i++)
        if (post(x, TO_RANK, (x->rank + i) % x->size, x->rank, k, sum, err) < 0)
            return -1;
    return 0;
}

static int take_chunk(struct pipeline *x, size_t k, struct dt_error *err)
{
    for (int q = 0; q < x->size; q++) {
        if (q == x->rank || count_of(x, q, k) == 0)
            continue;
        if (finish(x, FROM_OWNER, q, k, err) < 0)
            return -1;
        if (x->staged)
            dt_reduce_widen(in_view(x, q, k), place_of_sum(x, q, k),
                            count_of(x, q, k));
    }
    return 0;
}

/* Cuts the operation into chunks, and the workspace into rings. */
static int plan(struct pipeline *x, struct dt_error *err)
{
    size_t size = (size_t)x->size, longest, bytes, ring;
    char *workspace;
    longest = (x->op->view.count + size - 1) / size;
    bytes = longest * x->wire_bytes / (WINDOW + 1);
    if (bytes < MIN_CHUNK_BYTES)
        bytes = MIN_CHUNK_BYTES;
    if (bytes > ALL_CHUNKS_BYTES / size)
        bytes = ALL_CHUNKS_BYTES / size;
    x->chunk = bytes < 64 ? 64 / x->wire_bytes : bytes / x->wire_bytes;
    if (x->chunk > longest)
        x->chunk = longest;
    x->chunk_count = (longest + x->chunk - 1) / x->chunk;
    ring = (size * x->chunk * x->wire_bytes + 63) / 64 * 64;
    workspace = dt_messages_workspace(
        x->messages,
        ring * (x->staged ? 2 * WINDOW + DEPTH : WINDOW) +
            size * sizeof(void *) + size * ROLES * DEPTH * sizeof(size_t),
        err);
    if (!workspace)
        return -1;
    x->in = workspace;
    workspace += ring * WINDOW;
    x->out = workspace;
    x->sums = workspace + ring * WINDOW;
    if (x->staged)
        workspace += ring * (WINDOW + DEPTH);
    x->parts = (void *)workspace;
    x->ids = (void *)(workspace + size * sizeof(void *));
    return 0;
}

int dt_pipeline_run(struct dt_messages *m, const struct dt_op *op,
                    struct dt_error *err)
{
    struct pipeline x = {
        .messages = m,
        .op = op,
        .rank = op->on->rank,
        .size = op->on->size,
        .staged = op->wire != op->view.dtype,
        .wire_bytes = dt_dtype_bytes(op->wire),
    };
    if (plan(&x, err) < 0)
        return -1;
    for (size_t s = 0; s < x.chunk_count + DEPTH - 1; s++) {
        if (s < x.chunk_count && post_chunk(&x, s, err) < 0)
            return -1;
        if (s >= WINDOW - 1 && add_chunk(&x, s - (WINDOW - 1), err) < 0)
            return -1;
        if (s >= DEPTH - 1 && op->kind == DT_OP_ALL_REDUCE &&
            take_chunk(&x, s - (DEPTH - 1), err) < 0)
            return -1;
    }
    return dt_messages_finish_all(m, err);
}
