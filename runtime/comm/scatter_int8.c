/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter_int8.c - packs and sends chunks while the one before is added
 *
 * Every rank sends chunk k of part q to rank q before it waits for chunk k - 1
 * of its own part, so nobody waits in a circle.
 */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "comm/int8.h"
#include "comm/comm_gloo.h"

enum {
    CHUNK = 256 * 1024,           /* elements, at most */
    ALL_CHUNKS = 4 * 1024 * 1024, /* of all ranks together */
    DEPTH = 2,
};

struct scatter {
    struct dt_messages *messages;
    const struct dt_op *op;
    size_t size, rank;
    size_t part, chunk;      /* elements */
    char *in, *out;          /* [size][DEPTH] packed chunks */
    float *sum;              /* (chunk) */
    size_t *sent, *received; /* [size][DEPTH] ids */
};

static size_t count_of(const struct scatter *s, size_t k)
{
    size_t left = s->part - k * s->chunk;
    return left < s->chunk ? left : s->chunk;
}

static size_t row(size_t q, size_t k)
{
    return q * DEPTH + k % DEPTH;
}

static char *in_ring(const struct scatter *s, char *ring, size_t q, size_t k)
{
    return ring + row(q, k) * dt_int8_bytes(s->chunk);
}

/* Element of the view at which chunk k of part q begins. */
static size_t place(const struct scatter *s, size_t q, size_t k)
{
    return q * s->part + k * s->chunk;
}

static int post(struct scatter *s, enum dt_direction direction, size_t q,
                size_t k, char *data, size_t *ids, struct dt_error *err)
{
    return dt_messages_post(
        s->messages, s->op, direction, (int)q, DT_PHASE_REDUCE, k, data,
        dt_int8_bytes(count_of(s, k)), &ids[row(q, k)], err);
}

static int send_chunk(struct scatter *s, size_t k, struct dt_error *err)
{
    const float *view = dt_view_f32(s->op->view);
    for (size_t i = 1; i < s->size; i++) {
        size_t q = (s->rank + i) % s->size;
        char *out = in_ring(s, s->out, q, k);
        if (post(s, DT_RECV, q, k, in_ring(s, s->in, q, k), s->received, err) <
                0 ||
            (k >= DEPTH &&
             dt_messages_finish(s->messages, s->sent[row(q, k)], err) < 0))
            return -1;
        dt_int8_pack(out, view + place(s, q, k), count_of(s, k), place(s, q, k),
                     (int)s->rank, &s->op->noise);
        if (post(s, DT_SEND, q, k, out, s->sent, err) < 0)
            return -1;
    }
    return 0;
}

/* Sums chunk k of this rank's own part, which is added as it is. */
static int add_chunk(struct scatter *s, size_t k, struct dt_error *err)
{
    size_t count = count_of(s, k);
    float *own = dt_view_f32(s->op->view) + place(s, s->rank, k);
    for (size_t q = 0; q < s->size; q++) {
        if (q == s->rank) {
            for (size_t i = 0; i < count; i++)
                s->sum[i] = (q == 0 ? 0 : s->sum[i]) + own[i];
            continue;
        }
        if (dt_messages_finish(s->messages, s->received[row(q, k)], err) < 0)
            return -1;
        dt_int8_add(s->sum, in_ring(s, s->in, q, k), count, q == 0);
    }
    memcpy(own, s->sum, count * sizeof(float));
    return 0;
}

/* Cuts the workspace. */
static int plan(struct scatter *s, struct dt_error *err)
{
    size_t most = ALL_CHUNKS / s->size / DT_INT8_BLOCK * DT_INT8_BLOCK;
    size_t rows = s->size * DEPTH;
    s->chunk = most < CHUNK ? most : CHUNK;
    if (s->chunk < DT_INT8_BLOCK)
        s->chunk = DT_INT8_BLOCK;
    if (s->chunk > s->part)
        s->chunk = s->part;
    size_t ring = rows * dt_int8_bytes(s->chunk);
    char *room = dt_messages_workspace(
        s->messages,
        2 * rows * sizeof(size_t) + 2 * ring + s->chunk * sizeof(float), err);
    if (!room)
        return -1;
    s->sent = (void *)room;
    s->received = s->sent + rows;
    s->in = room + 2 * rows * sizeof(size_t);
    s->out = s->in + ring;
    s->sum = (void *)(s->out + ring);
    return 0;
}

int dt_scatter_int8(struct dt_messages *m, const struct dt_op *op,
                    struct dt_error *err)
{
    struct scatter s = {
        .messages = m,
        .op = op,
        .size = (size_t)op->on->size,
        .rank = (size_t)op->on->rank,
        .part = op->view.count / (size_t)op->on->size,
    };
    if (plan(&s, err) < 0)
        return -1;
    size_t chunks = (s.part + s.chunk - 1) / s.chunk;
    for (size_t k = 0; k <= chunks; k++)
        if ((k < chunks && send_chunk(&s, k, err) < 0) ||
            (k > 0 && add_chunk(&s, k - 1, err) < 0))
            return -1;
    return dt_messages_finish_all(m, err);
}
