/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - tiles of scores, for both passes of attention
 *
 * Rows of a tile are keys and columns are queries: vectors run along queries,
 * so maxima and sums over keys need no shuffles, and keys and values are read
 * in their own order. The columns are a panel: WIDTH positions of one head.
 * Scores are in units of ln 2: exp is 2^x.
 */
#ifndef DT_OPS_CPU_ATTENTION_H
#define DT_OPS_CPU_ATTENTION_H

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/vec.h"

enum {
    WIDTH = TILE_VECS * LANES, /* columns of a tile */
    KEYS = DT_CPU_KEY_TILE,    /* its rows */
    PANELS = 8,                /* that share loaded keys and values */
};

/* Queries t ... t + count - 1 of a head; `seen` and `last`, the first and the
 * last position that each attends to; columns from count on attend to nothing.
 */
struct panel {
    size_t b, head, t, count;
    size_t first, end;               /* they attend to [first, end) */
    size_t common_first, common_end; /* all of them to these */
    int32_t seen[WIDTH], last[WIDTH];
};

/* Rows of a tile: positions k ... k + count - 1. */
struct keys {
    size_t k, count;
};

static inline size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Query heads that share a head of keys and values. */
static inline size_t heads_shared(const struct dt_attention *a)
{
    return a->NH / a->NKV;
}

/* Index of head h of position t in qkv: heads of q, then of k, then of v. */
static inline size_t head_at(const struct dt_attention *a, size_t b, size_t t,
                             size_t h)
{
    return ((b * a->T + t) * (a->NH + 2 * a->NKV) + h) * a->HS;
}

/* The same in out. */
static inline size_t out_at(const struct dt_attention *a, size_t b, size_t t,
                            size_t h)
{
    return ((b * a->T + t) * a->NH + h) * a->HS;
}

/* The first position that position t of row b attends to. */
static inline size_t first_seen(const struct dt_attention *a, size_t b,
                                size_t t)
{
    size_t edge = a->window && t >= a->window ? t - a->window + 1 : 0;
    size_t start = 0;

    if (a->first.count != 0)
        start = (size_t)dt_view_i32(a->first)[b * a->T + t];
    return max_size(start, edge);
}

/* The last one. */
static inline size_t last_seen(const struct dt_attention *a, size_t b, size_t t)
{
    return a->last.count != 0 ? (size_t)dt_view_i32(a->last)[b * a->T + t] : t;
}

static inline void panel_init(struct panel *p, const struct dt_attention *a,
                              size_t b, size_t head, size_t t)
{
    *p = (struct panel){.b = b,
                        .head = head,
                        .t = t,
                        .count = min_size(WIDTH, a->T - t),
                        .first = t,
                        .common_end = a->T};
    for (size_t j = 0; j < WIDTH; j++) {
        bool there = j < p->count;
        size_t seen = there ? first_seen(a, b, t + j) : a->T;
        size_t last = there ? last_seen(a, b, t + j) : 0;
        p->seen[j] = (int32_t)seen;
        p->last[j] = (int32_t)last;
        p->first = min_size(p->first, seen);
        p->end = max_size(p->end, last + 1);
        p->common_first = max_size(p->common_first, seen);
        p->common_end = min_size(p->common_end, last + 1);
    }
}

/* The keys of tile `all` that some query of the panel attends to; may be none.
 */
static inline struct keys panel_keys(const struct panel *p,
                                     const struct keys *all)
{
    size_t k = max_size(all->k, p->first);
    size_t end = min_size(all->k + all->count, p->end);

    return (struct keys){k, end > k ? end - k : 0};
}

/* Masked scores become -infinity. */
static inline void mask_scores(float *restrict s, const struct panel *p,
                               const struct keys *keys)
{
    if (keys->k >= p->common_first && keys->k + keys->count <= p->common_end)
        return;
    for (size_t i = 0; i < keys->count; i++) {
        int32_t key = (int32_t)(keys->k + i);
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++) {
            bool seen = p->seen[j] <= key && key <= p->last[j];
            s[i * WIDTH + j] = seen ? s[i * WIDTH + j] : -INFINITY;
        }
    }
}

/* The factor of queries that makes their dot products with keys scores in units
 * of ln 2, or, with a softcap, the arguments of tanh.
 */
static inline float query_scale(const struct dt_attention *a)
{
    return a->softcap > 0.0f ? a->scale / a->softcap
                             : a->scale * (float)M_LOG2E;
}

/* With a softcap, s(count, WIDTH) become scores. slopes(count, WIDTH), their
 * derivatives by the scores before, may be NULL.
 */
static inline void cap_scores(float *restrict s, float *restrict slopes,
                              size_t count, const struct dt_attention *a)
{
    const float cap = a->softcap * (float)M_LOG2E;

    for (size_t i = 0; i < count * WIDTH; i += WIDTH) {
#pragma omp simd
        for (size_t j = 0; j < WIDTH; j++)
            s[i + j] = dt_tanhf(s[i + j]);
        for (size_t j = 0; j < WIDTH && slopes; j++)
            slopes[i + j] = 1.0f - s[i + j] * s[i + j];
        for (size_t j = 0; j < WIDTH; j++)
            s[i + j] *= cap;
    }
}

/* 2^x for x < 128, relative error below 2e-7; 0 below -126; NaN stays NaN. The
 * polynomial is the one of least relative error on [-1/2, 1/2].
 */
static inline float exp2_of(float x)
{
    const float round = 12582912.0f; /* 1.5 * 2^23: the sum has no fraction */
    float y = x < -126.0f ? -126.0f : x;
    float t = y + round;
    float r = y - (t - round);
    float p = 1.534581180e-4f;

    p = p * r + 1.339993122e-3f;
    p = p * r + 9.618488958e-3f;
    p = p * r + 5.550328777e-2f;
    p = p * r + 2.402264689e-1f;
    p = p * r + 6.931472057e-1f;
    p = p * r + 1.0f;
    p = dt_f32_of_bits(dt_f32_bits(p) + (dt_f32_bits(t) << 23));
    return x < -126.0f ? 0.0f : p;
}

/* to(columns, to_stride) = from(rows, from_stride)^T */
static inline void transpose_rows(float *restrict to, size_t to_stride,
                                  const float *restrict from,
                                  size_t from_stride, size_t rows,
                                  size_t columns)
{
    for (size_t i = 0; i + LANES <= rows; i += LANES) {
        for (size_t j = 0; j + LANES <= columns; j += LANES) {
            dt_vec square[LANES];
            for (size_t k = 0; k < LANES; k++)
                square[k] = *(const dt_vec *)(from + (i + k) * from_stride + j);
            dt_transpose(square);
            for (size_t k = 0; k < LANES; k++)
                *(dt_vec *)(to + (j + k) * to_stride + i) = square[k];
        }
    }
    for (size_t i = 0; i < rows; i++) {
        size_t whole = i < rows / LANES * LANES ? columns / LANES * LANES : 0;
        for (size_t j = whole; j < columns; j++)
            to[j * to_stride + i] = from[i * from_stride + j];
    }
}

/* to(count, HS) = rows of v, `stride` apart, as fp32; 0 up to `total` rows */
static inline void load_rows(float *restrict to, struct dt_view v, size_t first,
                             size_t stride, size_t HS, size_t count,
                             size_t total)
{
    const void *data = dt_view_data(v);

    for (size_t i = 0; i < count; i++)
        dt_cpu_widen(to + i * HS, dt_cpu_at(data, v.dtype, first + i * stride),
                     v.dtype, HS);
    memset(to + count * HS, 0, (total - count) * HS * sizeof(*to));
}

/* k and v(count, HS): the keys and values of head kv_head of row b */
static inline void load_keys(float *k, float *v, struct dt_view qkv,
                             const struct keys *keys, size_t b, size_t kv_head,
                             const struct dt_attention *a)
{
    const size_t stride = head_at(a, 0, 1, 0);
    const size_t at = head_at(a, b, keys->k, a->NH + kv_head);

    load_rows(k, qkv, at, stride, a->HS, keys->count, keys->count);
    load_rows(v, qkv, at + a->NKV * a->HS, stride, a->HS, keys->count,
              keys->count);
}

/* Lanes of a if `second` is 0, of b if it is 1. */
static inline dt_words select_lanes(dt_words second, dt_words a, dt_words b)
{
    return a ^ ((a ^ b) & (0 - second));
}

/* factors(keys, WIDTH) of the probabilities of a tile. The elements of a query
 * are in the order of keys, four to a block; its first key is the element
 * `phase` of its first block.
 */
static inline void tile_dropout(float *restrict factors, const struct panel *p,
                                const struct keys *keys,
                                const struct dt_attention *a)
{
    const struct dt_drops drops = dt_drops_of(&a->dropout, p->b);
    dt_words words[(KEYS + 6) / 4 * 4], phase;
    uint64_t block[LANES];

    for (size_t v = 0; v < WIDTH; v += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            size_t query = p->head * a->T + p->t + v + j;
            uint64_t element = (uint64_t)query * a->T + keys->k;
            block[j] = element / 4;
            phase[j] = (uint32_t)element % 4;
        }
        for (size_t i = 0; i < keys->count + 3; i += 4) {
            dt_drop_words(words + i, &drops, block);
            for (size_t j = 0; j < LANES; j++)
                block[j]++;
        }
        for (size_t i = 0; i < keys->count; i++) {
            const dt_words *w = words + i;
            const dt_words even = select_lanes(phase / 2, w[0], w[2]);
            const dt_words odd = select_lanes(phase / 2, w[1], w[3]);
            const dt_vec f =
                dt_drop_factors(&drops, select_lanes(phase % 2, even, odd));
            memcpy(factors + i * WIDTH + v, &f, sizeof(f));
        }
    }
}

#endif /* DT_OPS_CPU_ATTENTION_H */
