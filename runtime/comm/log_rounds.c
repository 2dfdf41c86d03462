/* SPDX-License-Identifier: Apache-2.0 */
/* log_rounds.c - collectives of large worlds, over log2 W connections */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm_gloo.h"

enum {
    SMALL_BYTES = 64 * 1024,   /* broadcast as a whole */
    SEGMENT = 2 * 1024 * 1024, /* elements that are reduced at once */
    ROUNDS = 32,               /* at most, of one segment and phase */
};

/* One operation on one rank. */
struct log_rounds {
    struct dt_messages *messages;
    const struct dt_op *op;
    int rank, size;
};

static struct log_rounds rounds_of(struct dt_messages *m,
                                   const struct dt_op *op)
{
    return (struct log_rounds){m, op, op->on->rank, op->on->size};
}

/* A block for each rank, one after the other; lengths differ by one at most. */
struct blocks {
    char *data;
    size_t count;      /* elements of all blocks */
    size_t unit_bytes; /* of an element */
};

static size_t offset_of(const struct log_rounds *x, const struct blocks *b,
                        int q)
{
    return dt_op_part_first(b->count, x->size, q) * b->unit_bytes;
}

/* Posts the `n` blocks from `first` on, around the world, in two pieces if the
 * last block is among them. `into`: where they are to be received one after the
 * other, instead of in their places.
 */
static int post_blocks(const struct log_rounds *x, enum dt_direction direction,
                       int peer, enum dt_phase phase, size_t round,
                       const struct blocks *b, int first, int n, char *into,
                       struct dt_error *err)
{
    first %= x->size;
    for (size_t piece = 0; n > 0; piece++) {
        int end = first + n < x->size ? first + n : x->size;
        size_t begin = offset_of(x, b, first);
        size_t bytes = offset_of(x, b, end) - begin;
        char *data = into ? into : b->data + begin;
        if (bytes > 0 &&
            dt_messages_post(x->messages, x->op, direction, peer, phase,
                             round * 2 + piece, data, bytes, NULL, err) < 0)
            return -1;
        into = into ? into + bytes : NULL;
        n -= end - first;
        first = 0;
    }
    return 0;
}

/* The blocks that are exchanged with a rank at distance s. */
static int blocks_at(const struct log_rounds *x, int s)
{
    return s < x->size - s ? s : x->size - s;
}

/* Each rank has its own block; afterwards it has all. `segment` distinguishes
 * calls in one operation.
 */
static int gather(const struct log_rounds *x, const struct blocks *b,
                  size_t segment, struct dt_error *err)
{
    size_t round = segment * ROUNDS;
    for (int s = 1; s < x->size; s *= 2, round++) {
        int n = blocks_at(x, s);
        int from = (x->rank + s) % x->size;
        int to = (x->rank - s + x->size) % x->size;
        if (post_blocks(x, DT_RECV, from, DT_PHASE_GATHER, round, b,
                        x->rank + s, n, NULL, err) < 0 ||
            post_blocks(x, DT_SEND, to, DT_PHASE_GATHER, round, b, x->rank, n,
                        NULL, err) < 0 ||
            dt_messages_finish_all(x->messages, err) < 0)
            return -1;
    }
    return 0;
}

/* b (fp32) += in, for the n blocks from this rank's own on. */
static void add_blocks(const struct log_rounds *x, const struct blocks *b,
                       int n, const char *in)
{
    int first = x->rank;
    while (n > 0) {
        int end = first + n < x->size ? first + n : x->size;
        size_t begin = offset_of(x, b, first);
        size_t bytes = offset_of(x, b, end) - begin;
        const void *parts[] = {b->data + begin, in};
        dt_reduce_parts(b->data + begin, parts, 2, bytes / b->unit_bytes,
                        DT_F32, x->op->reduce);
        in += bytes;
        n -= end - first;
        first = 0;
    }
}

/* Each rank has a contribution to all blocks; afterwards it has the sum of its
 * own one. in: room for half of the blocks.
 */
static int scatter_sums(const struct log_rounds *x, const struct blocks *b,
                        char *in, size_t segment, struct dt_error *err)
{
    size_t round = segment * ROUNDS;
    int s = 1;
    while (s * 2 < x->size)
        s *= 2;
    for (; s > 0; s /= 2, round++) {
        int n = blocks_at(x, s);
        int from = (x->rank - s + x->size) % x->size;
        int to = (x->rank + s) % x->size;
        if (post_blocks(x, DT_RECV, from, DT_PHASE_REDUCE, round, b, x->rank, n,
                        in, err) < 0 ||
            post_blocks(x, DT_SEND, to, DT_PHASE_REDUCE, round, b, x->rank + s,
                        n, NULL, err) < 0 ||
            dt_messages_finish_all(x->messages, err) < 0)
            return -1;
        add_blocks(x, b, n, in);
    }
    return 0;
}

/* --- reductions --- */

/* A part of every rank's part, which travels at once: `width` elements of
 * each, where a part that is one element shorter is filled up.
 */
struct segment {
    size_t number, first, width;
    struct blocks sums; /* fp32 */
    struct blocks half; /* bf16, as the results travel */
    char *in;           /* sums of another rank */
};

/* The elements of part q of the view in this segment. */
static struct dt_view in_view(const struct log_rounds *x,
                              const struct segment *g, int q)
{
    size_t begin = dt_op_part_first(x->op->view.count, x->size, q);
    size_t n = dt_op_part_first(x->op->view.count, x->size, q + 1) - begin;
    size_t left = n > g->first ? n - g->first : 0;
    return dt_view_slice(x->op->view, begin + (left > 0 ? g->first : 0),
                         left < g->width ? left : g->width);
}

static float *sums_of(const struct segment *g, int q)
{
    return (float *)(void *)g->sums.data + (size_t)q * g->width;
}

static uint16_t *half_of(const struct segment *g, int q)
{
    return (uint16_t *)(void *)g->half.data + (size_t)q * g->width;
}

/* Copies this rank's contributions to the sums, rounded as they travel. */
static void take_contributions(const struct log_rounds *x,
                               const struct segment *g)
{
    for (int q = 0; q < x->size; q++) {
        struct dt_view v = in_view(x, g, q);
        float *to = sums_of(g, q);
        if (v.count < g->width)
            memset(to + v.count, 0, (g->width - v.count) * sizeof(*to));
        if (v.count == 0)
            continue;
        if (x->op->wire == DT_F32) {
            memcpy(to, dt_view_data(v), v.count * sizeof(*to));
        } else if (v.dtype == DT_BF16) {
            dt_reduce_widen(to, dt_view_data(v), v.count);
        } else {
            dt_reduce_narrow(half_of(g, q), dt_view_data(v), v.count);
            dt_reduce_widen(to, half_of(g, q), v.count);
        }
    }
}

/* Copies the result of part q, as it has travelled, to the view. */
static void give_result(const struct log_rounds *x, const struct segment *g,
                        int q)
{
    struct dt_view v = in_view(x, g, q);
    if (v.count == 0)
        return;
    if (x->op->wire == DT_F32)
        memcpy(dt_view_data(v), sums_of(g, q), v.count * sizeof(float));
    else if (v.dtype == DT_BF16)
        memcpy(dt_view_data(v), half_of(g, q), v.count * sizeof(uint16_t));
    else
        dt_reduce_widen(dt_view_data(v), half_of(g, q), v.count);
}

static int reduce_segment(const struct log_rounds *x, const struct segment *g,
                          struct dt_error *err)
{
    bool half = x->op->wire == DT_BF16;
    take_contributions(x, g);
    if (scatter_sums(x, &g->sums, g->in, g->number, err) < 0)
        return -1;
    if (half)
        dt_reduce_narrow(half_of(g, x->rank), sums_of(g, x->rank), g->width);
    if (x->op->kind == DT_OP_REDUCE_SCATTER) {
        give_result(x, g, x->rank);
        return 0;
    }
    if (gather(x, half ? &g->half : &g->sums, g->number, err) < 0)
        return -1;
    for (int q = 0; q < x->size; q++)
        give_result(x, g, q);
    return 0;
}

/* Runs `run` on one segment after the other. */
static int each_segment(struct dt_messages *m, const struct dt_op *op,
                        int (*run)(const struct log_rounds *x,
                                   const struct segment *g,
                                   struct dt_error *err),
                        struct dt_error *err)
{
    const struct log_rounds x = rounds_of(m, op);
    size_t size = (size_t)x.size, longest = (op->view.count + size - 1) / size;
    size_t most = SEGMENT / size > 0 ? SEGMENT / size : 1;
    size_t width = longest < most ? longest : most;
    size_t all = size * width, in = (size + 1) / 2 * width;
    char *workspace = dt_messages_workspace(
        m, (all + in) * sizeof(float) + all * sizeof(uint16_t), err);
    struct segment g = {.width = width};
    if (!workspace)
        return -1;
    g.in = workspace + all * sizeof(float);
    for (; g.first < longest; g.first += width, g.number++) {
        if (longest - g.first < width)
            g.width = longest - g.first;
        g.sums = (struct blocks){workspace, size * g.width, sizeof(float)};
        g.half = (struct blocks){g.in + in * sizeof(float), size * g.width,
                                 sizeof(uint16_t)};
        if (run(&x, &g, err) < 0)
            return -1;
    }
    return 0;
}

int dt_log_rounds_reduce(struct dt_messages *m, const struct dt_op *op,
                         struct dt_error *err)
{
    return each_segment(m, op, reduce_segment, err);
}

int dt_log_rounds_reduce_scalars(struct dt_messages *m, const struct dt_op *op,
                                 struct dt_error *err)
{
    const struct log_rounds x = rounds_of(m, op);
    size_t size = (size_t)x.size, bytes = op->scalar_count * sizeof(double);
    char *workspace =
        dt_messages_workspace(m, (bytes + sizeof(double *)) * size, err);
    const struct blocks all = {workspace, size, bytes};
    const double **parts;
    if (!workspace)
        return -1;
    memcpy(workspace + bytes * (size_t)x.rank, op->scalars, bytes);
    if (gather(&x, &all, 0, err) < 0)
        return -1;
    parts = (void *)(workspace + bytes * size);
    for (size_t r = 0; r < size; r++)
        parts[r] = (void *)(workspace + bytes * r);
    dt_reduce_scalars(op->scalars, parts, x.size, op->scalar_count, op->reduce);
    return 0;
}

/* --- copies --- */

static struct blocks blocks_of_view(const struct dt_op *op)
{
    return (struct blocks){dt_view_data(op->view), op->view.count,
                           dt_dtype_bytes(op->view.dtype)};
}

/* Of fp32 that has the bits of bf16, and travels so. */
static int gather_segment(const struct log_rounds *x, const struct segment *g,
                          struct dt_error *err)
{
    struct dt_view own = in_view(x, g, x->rank);
    dt_reduce_narrow(half_of(g, x->rank), dt_view_data(own), own.count);
    if (gather(x, &g->half, g->number, err) < 0)
        return -1;
    for (int q = 0; q < x->size; q++)
        if (q != x->rank)
            give_result(x, g, q);
    return 0;
}

int dt_log_rounds_all_gather(struct dt_messages *m, const struct dt_op *op,
                             struct dt_error *err)
{
    const struct log_rounds x = rounds_of(m, op);
    if (op->wire != op->view.dtype)
        return each_segment(m, op, gather_segment, err);
    const struct blocks all = blocks_of_view(op);
    return gather(&x, &all, 0, err);
}

/* With the root as 0, rank v has the ranks v .. v + low - 1 below it, where low
 * is its lowest bit; v - low is above it. A message down has the blocks of all
 * that are below the receiver, or with `whole` everything.
 */
static int send_down(const struct log_rounds *x, const struct blocks *b,
                     bool whole, struct dt_error *err)
{
    int v = (x->rank - x->op->root + x->size) % x->size, low = 1;
    int first = whole ? 0 : x->rank;
    while (low < x->size && (v & low) == 0)
        low *= 2;
    if (v > 0) {
        int n = whole ? x->size : low < x->size - v ? low : x->size - v;
        if (post_blocks(x, DT_RECV, (x->rank - low + x->size) % x->size,
                        DT_PHASE_SCATTER, 0, b, first, n, NULL, err) < 0 ||
            dt_messages_finish_all(x->messages, err) < 0)
            return -1;
    }
    for (int s = low / 2; s > 0; s /= 2) {
        int n = s < x->size - v - s ? s : x->size - v - s;
        if (n > 0 &&
            post_blocks(x, DT_SEND, (x->rank + s) % x->size, DT_PHASE_SCATTER,
                        0, b, whole ? 0 : x->rank + s, whole ? x->size : n,
                        NULL, err) < 0)
            return -1;
    }
    return dt_messages_finish_all(x->messages, err);
}

int dt_log_rounds_broadcast(struct dt_messages *m, const struct dt_op *op,
                            struct dt_error *err)
{
    const struct log_rounds x = rounds_of(m, op);
    const struct blocks all = blocks_of_view(op);
    bool whole = all.count * all.unit_bytes <= SMALL_BYTES;
    if (send_down(&x, &all, whole, err) < 0)
        return -1;
    return whole ? 0 : gather(&x, &all, 0, err);
}
