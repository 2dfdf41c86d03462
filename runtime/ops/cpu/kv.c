/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c - attention of one new position to the cached keys and values */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

/* Query heads that read a key together, and keys of a step. */
enum { HEADS = 8, KEYS = 32 };

static size_t row_width(const struct dt_kv *kv)
{
    return (kv->NH + 2 * kv->NKV) * kv->HS;
}

void DT_CPU(kv_store)(struct dt_stream *stream, const struct dt_kv *kv,
                      struct dt_view qkv, struct dt_view positions, size_t T)
{
    const int32_t *position = dt_view_i32(positions);
    const size_t width = kv->NKV * kv->HS;
    const size_t size = dt_dtype_bytes(qkv.dtype);
    char *k = dt_view_data(kv->k), *v = dt_view_data(kv->v);
    (void)stream;
    assert(qkv.count == kv->B * T * row_width(kv));
    assert(positions.count == kv->B * T && kv->k.dtype == qkv.dtype);

#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < kv->B * T; n++) {
        const char *from = (const char *)dt_view_data(qkv) +
                           (n * row_width(kv) + kv->NH * kv->HS) * size;
        size_t at = (n / T * kv->S + (size_t)position[n]) * width * size;
        if (position[n] < 0)
            continue;
        memcpy(k + at, from, width * size);
        memcpy(v + at, from + width * size, width * size);
    }
}

/* Some query heads of one row that share a head of keys and values. */
struct group {
    size_t count;                       /* of heads */
    float q[HEADS][DT_MAX_HEAD_SIZE];   /* scaled */
    float sum[HEADS][DT_MAX_HEAD_SIZE]; /* of exp(score - most) v */
    float most[HEADS], weight[HEADS];   /* largest score, sum of exp */
    float score[HEADS][KEYS];
};

static float product(const float *restrict a, const float *restrict b,
                     size_t count)
{
    float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Scores become exp(score - most); what was summed before follows. */
static void soften(struct group *g, size_t i, size_t keys, size_t HS)
{
    float most = dt_max(g->score[i], keys, g->most[i]);
    float shrink = dt_expf(g->most[i] - most), sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < keys; j++) {
        g->score[i][j] = dt_expf(g->score[i][j] - most);
        sum += g->score[i][j];
    }
    g->most[i] = most;
    g->weight[i] = g->weight[i] * shrink + sum;
#pragma omp simd
    for (size_t d = 0; d < HS; d++)
        g->sum[i][d] *= shrink;
}

/* The keys that are elements at, at + stride ... of the cache */
static void see_keys(struct group *g, const struct dt_kv *kv, size_t at,
                     size_t keys)
{
    const size_t stride = kv->NKV * kv->HS, HS = kv->HS;
    float scratch[DT_CPU_BLOCK];

    for (size_t j = 0; j < keys; j++) {
        const float *k = dt_cpu_read(scratch, kv->k, at + j * stride, HS);
        for (size_t i = 0; i < g->count; i++)
            g->score[i][j] = product(g->q[i], k, HS);
    }
    for (size_t i = 0; i < g->count; i++)
        soften(g, i, keys, HS);
    for (size_t j = 0; j < keys; j++) {
        const float *v = dt_cpu_read(scratch, kv->v, at + j * stride, HS);
        for (size_t i = 0; i < g->count; i++) {
            float p = g->score[i][j], *sum = g->sum[i];
#pragma omp simd
            for (size_t d = 0; d < HS; d++)
                sum[d] += p * v[d];
        }
    }
}

/* Query heads [head, head + count) of row b. */
static void attend(struct dt_view out, struct dt_view qkv, size_t b,
                   size_t head, size_t count, int32_t position,
                   const struct dt_kv *kv)
{
    const size_t HS = kv->HS, from = b * row_width(kv) + head * HS;
    const size_t kv_head = head / (kv->NH / kv->NKV);
    const float scale = 1.0f / sqrtf((float)HS);
    size_t end = (size_t)(position + 1), keys;
    size_t first = kv->window && end > kv->window ? end - kv->window : 0;
    struct group g = {.count = count};

    for (size_t i = 0; i < count; i++) {
        const float *q = dt_cpu_read(g.q[i], qkv, from + i * HS, HS);
        for (size_t d = 0; d < HS; d++)
            g.q[i][d] = q[d] * scale;
        g.most[i] = -INFINITY;
    }
    for (; first < end; first += keys) {
        keys = end - first < KEYS ? end - first : KEYS;
        see_keys(&g, kv, ((b * kv->S + first) * kv->NKV + kv_head) * HS, keys);
    }
    for (size_t i = 0; i < count; i++) {
        size_t to = (b * kv->NH + head + i) * HS;
        for (size_t d = 0; d < HS && end > 0; d++)
            g.sum[i][d] /= g.weight[i];
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(out), out.dtype, to),
                      g.sum[i], out.dtype, HS);
    }
}

void DT_CPU(kv_attention)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view qkv, struct dt_view positions,
                          const struct dt_kv *kv)
{
    const int32_t *position = dt_view_i32(positions);
    const size_t shared = kv->NH / kv->NKV;
    const size_t parts = (shared + HEADS - 1) / HEADS;
    (void)stream;
    assert(out.count == kv->B * kv->NH * kv->HS && positions.count == kv->B);
    assert(qkv.count == kv->B * row_width(kv) && kv->HS <= DT_MAX_HEAD_SIZE);

#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < kv->B * kv->NKV * parts; i++) {
        size_t head = i / parts * shared + i % parts * HEADS;
        size_t left = shared - i % parts * HEADS;
        attend(out, qkv, head / kv->NH, head % kv->NH,
               left < HEADS ? left : HEADS, position[head / kv->NH], kv);
    }
}
