/* SPDX-License-Identifier: Apache-2.0 */
/*
 * int8.c - fp32 in 8 bits, rounded up or down at random; its sum over ranks
 *
 * A block of 128 elements has one scale s = a / 127, where a is the largest
 * magnitude. An element x becomes q = floor(x * (127 / a) + d) in [-127, 127],
 * where d is one of 256 values in (0, 1) that depends on the number of the
 * element, the step and the rank, and on nothing else: so q * s is x in the
 * mean. Blocks below 2^-100 become zeros. In a block with an element that is
 * not finite s is NaN, so that an overflow is still seen after the sum.
 * Stochastic rounding by blocks: Wang et al., "SDP4Bit", arXiv 2410.15526.
 *
 * Every rank sends chunk k of part q to rank q before it waits for chunk k - 1
 * of its own part, so nobody waits in a circle.
 */
#include "config.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "comm/comm_gloo.h"
#include "comm/comm_impl.h"

enum {
    WORD = 16, /* elements that one block of random words is for */
    MOST = 127,
};

/* The largest magnitude of a block; NaN if an element is not finite. Magnitudes
 * are ordered as their bits are, and integers can be compared in any order.
 */
static float largest(const float *x)
{
    static const uint32_t infinity = 0x7f800000;
    uint32_t most = 0;
    float magnitude;
    for (size_t i = 0; i < DT_INT8_BLOCK; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&magnitude, &most, sizeof(magnitude));
    return most < infinity ? magnitude : NAN;
}

/* Elements `first` .. + DT_INT8_BLOCK of the reduction. */
static void pack_block(int8_t *q, const float *x, float factor, uint64_t first,
                       int rank, const struct dt_noise *noise)
{
    uint32_t words[DT_INT8_BLOCK / 4];
    for (size_t i = 0; i < DT_INT8_BLOCK; i += WORD)
        dt_rng_dither(noise->seed, (uint32_t)rank, noise->step,
                      (first + i) / WORD, &words[i / 4]);
#pragma omp simd
    for (size_t i = 0; i < DT_INT8_BLOCK; i++) {
        uint32_t byte = words[i / 4] >> i % 4 * 8 & 0xff;
        float d = ((float)byte + 0.5f) * 0x1p-8f;
        float y = x[i] * factor + d;
        int down = (int)y;
        down -= (float)down > y;
        q[i] = (int8_t)(down > MOST ? MOST : down < -MOST ? -MOST : down);
    }
}

void dt_int8_pack(void *out, const float *x, size_t count, size_t from,
                  int rank, const struct dt_noise *noise)
{
    int8_t *q = out;
    float *scales = (void *)(q + count);
    for (size_t i = 0; i < count; i += DT_INT8_BLOCK) {
        float a = largest(x + i);
        bool finite = isfinite(a), zero = !(a >= 0x1p-100f);
        scales[i / DT_INT8_BLOCK] = !finite ? NAN : zero ? 0 : a / MOST;
        if (finite && !zero)
            pack_block(q + i, x + i, MOST / a, noise->first + from + i, rank,
                       noise);
        else
            for (size_t k = 0; k < DT_INT8_BLOCK; k++)
                q[i + k] = 0;
    }
}

void dt_int8_add(float *acc, const void *packed, size_t count, bool first)
{
    const int8_t *q = packed;
    const float *scales = (const void *)(q + count);
    for (size_t i = 0; i < count; i += DT_INT8_BLOCK) {
        float s = scales[i / DT_INT8_BLOCK];
#pragma omp simd
        for (size_t k = i; k < i + DT_INT8_BLOCK; k++)
            acc[k] = (first ? 0 : acc[k]) + (float)q[k] * s;
    }
}

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
