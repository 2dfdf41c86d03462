/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.c - causal softmax attention by tiles of SIDE queries x SIDE keys
 *
 * Forward (Dao et al., FlashAttention, alg. 1): for each tile of queries, over
 * the tiles of keys up to the diagonal, with a running maximum m and sum l;
 * what `out` holds is rescaled when m grows.
 * Backward: with P = exp(S - lse) and D = sum(dout * out) of each query,
 *   dV += P^T dO;  dS = P (dO V^T - D) scale;  dQ += dS K;  dK += dS^T Q
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"

enum { SIDE = 64 };

/* Query rows [q, q + q_count) against keys [k, k + k_count) of one head. */
struct tile {
    size_t q, q_count, k, k_count;
};

/* Where one head of one row of the batch lies; stride between positions. */
struct head {
    const float *q, *k, *v;
    size_t stride; /* of q, k, v: 3 C */
    size_t HS;
};

static size_t side(size_t first, size_t T)
{
    return T - first < SIDE ? T - first : SIDE;
}

/* s(q_count, SIDE) = a(q_count, HS) b(k_count, HS)^T; columns from k_count on
 * become 0. b is turned in pieces of SIDE x SIDE so that vectors run along
 * keys.
 */
static void dot_products(float *s, const float *a, size_t a_stride,
                         const float *b, size_t b_stride, const struct tile *t,
                         size_t HS)
{
    float turned[SIDE * SIDE];

    for (size_t d = 0; d < HS; d += SIDE) {
        size_t depth = side(d, HS);
        for (size_t j = 0; j < SIDE; j++) {
            for (size_t c = 0; c < depth; c++)
                turned[c * SIDE + j] =
                    j < t->k_count ? b[j * b_stride + d + c] : 0.0f;
        }
        DT_CPU(tile_matmul)
        (s, SIDE, a + d, a_stride, 1, turned, SIDE, t->q_count, SIDE, depth,
         d > 0);
    }
}

/* c(M, HS) (+)= a(M, K) b(K, HS), K <= SIDE; a(i, k) as in tile_matmul. Rows of
 * b lie 3 C apart and would fall into few sets of the cache: copied first.
 */
static void product(float *c, size_t c_stride, const float *a, size_t row_step,
                    size_t column_step, const float *b, size_t b_stride,
                    size_t M, size_t HS, size_t K, bool accumulate)
{
    float close[SIDE * SIDE];

    for (size_t d = 0; d < HS; d += SIDE) {
        size_t width = side(d, HS);
        for (size_t k = 0; k < K; k++)
            memcpy(close + k * SIDE, b + k * b_stride + d, width * sizeof(*b));
        DT_CPU(tile_matmul)
        (c + d, c_stride, a, row_step, column_step, close, SIDE, M, width, K,
         accumulate);
    }
}

/* How many keys of the tile row i of it may see. */
static size_t visible(const struct tile *t, size_t i)
{
    size_t count = t->q + i + 1 - t->k;

    return count < t->k_count ? count : t->k_count;
}

/* s, scores of one query, becomes exp(scale s - m_new), 0 from `keys` on; m, l
 * and out follow.
 */
static void softmax_row(float *restrict s, float *m, float *l,
                        float *restrict out, size_t keys, float scale,
                        size_t HS)
{
    float most, shrink, sum = 0.0f;

    for (size_t j = keys; j < SIDE; j++)
        s[j] = -INFINITY;
    most = fmaxf(*m, scale * dt_max(s, SIDE, -INFINITY));
    shrink = dt_expf(*m - most);
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < SIDE; j++) {
        s[j] = dt_expf(scale * s[j] - most);
        sum += s[j];
    }
    *l = *l * shrink + sum;
    if (shrink != 1.0f) {
#pragma omp simd
        for (size_t d = 0; d < HS; d++)
            out[d] *= shrink;
    }
    *m = most;
}

/* out and lse of the queries [q, q + SIDE) of one head */
static void forward_queries(float *out, size_t out_stride, float *lse,
                            const struct head *h, size_t q, size_t T)
{
    float s[SIDE * SIDE], m[SIDE], l[SIDE];
    struct tile t = {.q = q, .q_count = side(q, T)};
    float scale = 1.0f / sqrtf((float)h->HS);

    for (size_t i = 0; i < t.q_count; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
        for (size_t d = 0; d < h->HS; d++)
            out[i * out_stride + d] = 0.0f;
    }
    for (t.k = 0; t.k < q + t.q_count; t.k += SIDE) {
        t.k_count = side(t.k, T);
        dot_products(s, h->q + q * h->stride, h->stride, h->k + t.k * h->stride,
                     h->stride, &t, h->HS);
        for (size_t i = 0; i < t.q_count; i++)
            softmax_row(s + i * SIDE, &m[i], &l[i], out + i * out_stride,
                        visible(&t, i), scale, h->HS);
        product(out, out_stride, s, SIDE, 1, h->v + t.k * h->stride, h->stride,
                t.q_count, h->HS, t.k_count, true);
    }
    for (size_t i = 0; i < t.q_count; i++) {
        for (size_t d = 0; d < h->HS; d++)
            out[i * out_stride + d] /= l[i];
        lse[i] = m[i] + logf(l[i]);
    }
}

void DT_CPU(attention_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv, size_t B,
                               size_t T, size_t NH, size_t HS)
{
    const size_t C = NH * HS;
    float *to = dt_cpu_f32(out, B * T * C);
    float *sums = dt_cpu_f32(lse, B * NH * T);
    const float *from = dt_cpu_f32(qkv, B * T * 3 * C);
    (void)stream;

#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t i = 0; i < B * NH; i++) {
        for (size_t q = 0; q < T; q += SIDE) {
            const float *base = from + i / NH * T * 3 * C + i % NH * HS;
            struct head h = {base, base + C, base + 2 * C, 3 * C, HS};
            forward_queries(to + (i / NH * T + q) * C + i % NH * HS, C,
                            sums + i * T + q, &h, q, T);
        }
    }
}

/* The gradients of one head, laid out as q, k, v are. */
struct head_grad {
    float *q, *k, *v;
    const float *dout, *out; /* stride C */
    const float *lse;        /* (T) */
    size_t out_stride;
};

/* p = P and ds = dS of a tile */
static void tile_scores(float *p, float *ds, const struct head *h,
                        const struct head_grad *g, const struct tile *t)
{
    const float *dout = g->dout + t->q * g->out_stride;
    const float *out = g->out + t->q * g->out_stride;
    float scale = 1.0f / sqrtf((float)h->HS);

    dot_products(p, h->q + t->q * h->stride, h->stride, h->k + t->k * h->stride,
                 h->stride, t, h->HS);
    dot_products(ds, dout, g->out_stride, h->v + t->k * h->stride, h->stride, t,
                 h->HS);
    for (size_t i = 0; i < t->q_count; i++) {
        size_t keys = visible(t, i);
        float lse = g->lse[t->q + i], sum = 0.0f;
        float *restrict pi = p + i * SIDE, *restrict dsi = ds + i * SIDE;
#pragma omp simd reduction(+ : sum)
        for (size_t d = 0; d < h->HS; d++)
            sum += dout[i * g->out_stride + d] * out[i * g->out_stride + d];
        for (size_t j = keys; j < SIDE; j++)
            pi[j] = -INFINITY;
#pragma omp simd
        for (size_t j = 0; j < SIDE; j++) {
            pi[j] = dt_expf(scale * pi[j] - lse);
            dsi[j] = pi[j] * (dsi[j] - sum) * scale;
        }
    }
}

/* What the keys [k, k + SIDE) of one head add to dqkv */
static void backward_keys(const struct head *h, const struct head_grad *g,
                          size_t k, size_t T)
{
    float p[SIDE * SIDE], ds[SIDE * SIDE];
    struct tile t = {.k = k, .k_count = side(k, T)};

    for (t.q = k; t.q < T; t.q += SIDE) {
        t.q_count = side(t.q, T);
        tile_scores(p, ds, h, g, &t);
        product(g->v + k * h->stride, h->stride, p, 1, SIDE,
                g->dout + t.q * g->out_stride, g->out_stride, t.k_count, h->HS,
                t.q_count, t.q > k);
        product(g->k + k * h->stride, h->stride, ds, 1, SIDE,
                h->q + t.q * h->stride, h->stride, t.k_count, h->HS, t.q_count,
                t.q > k);
        product(g->q + t.q * h->stride, h->stride, ds, SIDE, 1,
                h->k + k * h->stride, h->stride, t.q_count, h->HS, t.k_count,
                k > 0);
    }
}

void DT_CPU(attention_backward)(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dout, struct dt_view out,
                                struct dt_view lse, struct dt_view qkv,
                                size_t B, size_t T, size_t NH, size_t HS)
{
    const size_t C = NH * HS;
    float *to = dt_cpu_f32(dqkv, B * T * 3 * C);
    const float *grad = dt_cpu_f32(dout, B * T * C);
    const float *result = dt_cpu_f32(out, B * T * C);
    const float *sums = dt_cpu_f32(lse, B * NH * T);
    const float *from = dt_cpu_f32(qkv, B * T * 3 * C);
    (void)stream;

#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < B * NH; i++) {
        size_t row = i / NH * T * C, column = i % NH * HS;
        const float *base = from + 3 * row + column;
        float *to_base = to + 3 * row + column;
        struct head h = {base, base + C, base + 2 * C, 3 * C, HS};
        struct head_grad g = {to_base,
                              to_base + C,
                              to_base + 2 * C,
                              grad + row + column,
                              result + row + column,
                              sums + i * T,
                              C};
        for (size_t k = 0; k < T; k += SIDE)
            backward_keys(&h, &g, k, T);
    }
}
