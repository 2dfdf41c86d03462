/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c - attention of one new position to the cached keys and values */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

/* Query heads that share a loaded key, and keys that are loaded at a time. */
enum { HEADS = 8, KEYS = DT_KV_BLOCK };

_Static_assert(KEYS % LANES == 0, "scores are made by vectors of keys");

static size_t row_width(const struct dt_kv *kv)
{
    return (kv->NH + 2 * kv->NKV) * kv->HS;
}

void DT_CPU(kv_store)(struct dt_stream *stream, const struct dt_kv *kv,
                      struct dt_view qkv, struct dt_view places, size_t N)
{
    const int32_t *place = dt_view_i32(places);
    const size_t width = kv->NKV * kv->HS;
    const size_t size = dt_dtype_bytes(qkv.dtype);
    char *k = dt_view_data(kv->k), *v = dt_view_data(kv->v);
    (void)stream;
    assert(qkv.count == N * row_width(kv) && places.count == N);
    assert(kv->k.dtype == qkv.dtype && kv->v.dtype == qkv.dtype);

#pragma omp parallel for schedule(static) if (qkv.count > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        const char *from = (const char *)dt_view_data(qkv) +
                           (n * row_width(kv) + kv->NH * kv->HS) * size;
        size_t row = (size_t)place[n] % DT_KV_BLOCK;
        size_t block = (size_t)place[n] / DT_KV_BLOCK;
        size_t at = (block * kv->stride + row * width) * size;
        if (place[n] < 0)
            continue;
        memcpy(k + at, from, width * size);
        memcpy(v + at, from + width * size, width * size);
    }
}

/* Some query heads of one sequence that share a head of keys and values. */
struct group {
    size_t count;                        /* of heads */
    size_t stride;                       /* HS in whole vectors, filled by 0 */
    float q[HEADS * DT_MAX_HEAD_SIZE];   /* scaled */
    float sum[HEADS * DT_MAX_HEAD_SIZE]; /* of exp(score - max) v */
    float rows[KEYS * DT_MAX_HEAD_SIZE]; /* keys, then values, of a step */
    float max[HEADS], weight[HEADS];     /* largest score, sum of exp */
    float score[HEADS * KEYS];
};

/* Keys or values of a step: `count` rows of fp32, `stride` apart. */
struct kv_rows {
    const float *row;
    size_t stride, count;
};

/* The rows of a cache from element `at` on: themselves, or, if they are not
 * whole vectors of fp32, copies with 0 behind HS.
 */
static struct kv_rows load_rows(struct group *g, struct dt_view cache,
                                size_t at, size_t count, const struct dt_kv *kv)
{
    const size_t step = kv->NKV * kv->HS;
    const void *data = dt_view_data(cache);

    if (cache.dtype == DT_F32 && kv->HS == g->stride)
        return (struct kv_rows){(const float *)data + at, step, count};
    for (size_t j = 0; j < count; j++)
        dt_cpu_widen(g->rows + j * g->stride,
                     dt_cpu_at(data, cache.dtype, at + j * step), cache.dtype,
                     kv->HS);
    return (struct kv_rows){g->rows, g->stride, count};
}

/* Has the rows that load_rows will load fetched from memory meanwhile: those
 * of a head are far apart, and the processor does not foresee them.
 */
static void fetch_rows(struct dt_view cache, size_t at, size_t count,
                       const struct dt_kv *kv)
{
    enum { LINE = 64 };
    const size_t size = dt_dtype_bytes(cache.dtype);
    const char *row = dt_cpu_at(dt_view_data(cache), cache.dtype, at);

    for (size_t j = 0; j < count; j++, row += kv->NKV * kv->HS * size) {
        for (size_t i = 0; i < kv->HS * size; i += LINE)
            __builtin_prefetch(row + i);
    }
}

/* score(KEYS) of query q. The dot products of LANES keys stay vectors until
 * they are transposed, which makes one vector of scores without horizontal
 * sums. Behind the last key it is computed again.
 */
static void score_keys(float *score, const float *q, const struct kv_rows *keys,
                       size_t width)
{
    for (size_t first = 0; first < keys->count; first += LANES) {
        dt_vec part[LANES], sum = {0.0f};
        for (size_t j = 0; j < LANES; j++) {
            size_t row = first + j < keys->count ? first + j : keys->count - 1;
            const float *k = keys->row + row * keys->stride;
            part[j] = (dt_vec){0.0f};
            for (size_t d = 0; d < width; d += LANES)
                part[j] += *(const dt_vec *)(q + d) * *(const dt_vec *)(k + d);
        }
        dt_transpose(part);
        for (size_t i = 0; i < LANES; i++)
            sum += part[i];
        *(dt_vec *)(score + first) = sum;
    }
}

/* Scores become exp(score - max), 0 from `keys` on; earlier sums are rescaled.
 */
static void online_softmax(struct group *g, size_t i, size_t keys)
{
    float *score = g->score + i * KEYS;
    float max = dt_max(score, keys, g->max[i]), sum = 0.0f;
    float rescale = dt_expf(g->max[i] - max);

#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < KEYS; j++) {
        score[j] = j < keys ? dt_expf(score[j] - max) : 0.0f;
        sum += score[j];
    }
    g->max[i] = max;
    g->weight[i] = g->weight[i] * rescale + sum;
#pragma omp simd
    for (size_t d = 0; d < g->stride; d++)
        g->sum[i * g->stride + d] *= rescale;
}

/* The positions that a step attends to, all in one block: `keys` from element
 * `at` of the cache on.
 */
struct piece {
    size_t at, keys;
};

/* From position `first` to `end` of sequence b, or to the end of the block. */
static struct piece piece_of(const struct dt_kv *kv, size_t b, size_t kv_head,
                             size_t first, size_t end)
{
    const int32_t *table = dt_view_i32(kv->table) + b * kv->blocks;
    const size_t row = first % KEYS, left = KEYS - row;

    if (first >= end)
        return (struct piece){0, 0};
    return (struct piece){(size_t)table[first / KEYS] * kv->stride +
                              (row * kv->NKV + kv_head) * kv->HS,
                          end - first < left ? end - first : left};
}

/* Attends to a piece; `next` is the one after it. */
static void attend_piece(struct group *g, const struct dt_kv *kv,
                         struct piece piece, struct piece next)
{
    struct kv_rows rows;

    fetch_rows(kv->v, piece.at, piece.keys, kv);
    rows = load_rows(g, kv->k, piece.at, piece.keys, kv);
    for (size_t i = 0; i < g->count; i++) {
        score_keys(g->score + i * KEYS, g->q + i * g->stride, &rows, g->stride);
        online_softmax(g, i, piece.keys);
    }
    fetch_rows(kv->k, next.at, next.keys, kv);
    rows = load_rows(g, kv->v, piece.at, piece.keys, kv);
    DT_CPU(tile_matmul)
    (g->sum, g->stride, g->score, KEYS, 1, rows.row, rows.stride, g->count,
     g->stride, rows.count, true);
}

/* Query heads [head, head + count) of sequence b. */
static void attend_heads(struct dt_view out, struct dt_view qkv, size_t b,
                         size_t head, size_t count, int32_t position,
                         const struct dt_kv *kv)
{
    const size_t HS = kv->HS, from = b * row_width(kv) + head * HS;
    const size_t kv_head = head / (kv->NH / kv->NKV);
    const float scale = 1.0f / sqrtf((float)HS);
    const size_t end = (size_t)(position + 1);
    size_t first = kv->window && end > kv->window ? end - kv->window : 0;
    struct piece piece = piece_of(kv, b, kv_head, first, end), next;
    struct group g;

    g.count = count;
    g.stride = (HS + LANES - 1) / LANES * LANES;
    memset(g.q, 0, count * g.stride * sizeof(*g.q));
    memset(g.sum, 0, count * g.stride * sizeof(*g.sum));
    memset(g.rows, 0, HS < g.stride ? sizeof(g.rows) : 0);
    fetch_rows(kv->k, piece.at, piece.keys, kv);
    for (size_t i = 0; i < count; i++) {
        float *q = g.q + i * g.stride;
        dt_cpu_widen(q, dt_cpu_at(dt_view_data(qkv), qkv.dtype, from + i * HS),
                     qkv.dtype, HS);
        for (size_t d = 0; d < HS; d++)
            q[d] *= scale;
        g.max[i] = -INFINITY;
        g.weight[i] = 0.0f;
    }
    for (; first < end; first += piece.keys, piece = next) {
        next = piece_of(kv, b, kv_head, first + piece.keys, end);
        attend_piece(&g, kv, piece, next);
    }
    for (size_t i = 0; i < count; i++) {
        float *sum = g.sum + i * g.stride;
        size_t to = (b * kv->NH + head + i) * HS;
        for (size_t d = 0; d < HS && end > 0; d++)
            sum[d] /= g.weight[i];
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(out), out.dtype, to), sum,
                      out.dtype, HS);
    }
}

void DT_CPU(kv_attention)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view qkv, struct dt_view positions,
                          const struct dt_kv *kv)
{
    const int32_t *position = dt_view_i32(positions);
    const size_t shared = kv->NH / kv->NKV;
    const size_t parts = (shared + HEADS - 1) / HEADS;
    const size_t groups = kv->B * kv->NKV * parts;
    (void)stream;
    assert(out.count == kv->B * kv->NH * kv->HS && positions.count == kv->B);
    assert(kv->table.count == kv->B * kv->blocks);
    assert(qkv.count == kv->B * row_width(kv) && kv->HS <= DT_MAX_HEAD_SIZE);

#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < groups; i++) {
        size_t head = i / parts * shared + i % parts * HEADS;
        size_t left = shared - i % parts * HEADS;
        attend_heads(out, qkv, head / kv->NH, head % kv->NH,
                     left < HEADS ? left : HEADS, position[head / kv->NH], kv);
    }
}
