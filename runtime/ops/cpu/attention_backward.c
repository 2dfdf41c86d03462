/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward.c - gradients of causal softmax attention */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/cpu/attention.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

static void backward_head(struct dt_view dqkv, struct dt_view dout,
                          struct dt_view out, struct dt_view lse,
                          struct dt_view qkv, const struct dt_attention *a,
                          size_t b, size_t kvh, float *g)
{
    size_t W = dt_attention_width(a), G = a->NH / a->NKV, HS = a->HS, T = a->T;
    float *dk = g, *dv = g + T * HS;
    float q[DT_CPU_BLOCK], k[DT_CPU_BLOCK], v[DT_CPU_BLOCK], o[DT_CPU_BLOCK],
        go[DT_CPU_BLOCK], dq[DT_CPU_BLOCK];
    memset(g, 0, 2 * T * HS * sizeof(*g));
    for (size_t h = kvh * G; h < (kvh + 1) * G; h++)
        for (size_t t = 0; t < T; t++) {
            size_t n = b * T + t;
            const float *qt = dt_cpu_read(q, qkv, n * W + h * HS, HS);
            const float *ot = dt_cpu_read(o, out, (n * a->NH + h) * HS, HS);
            const float *gt = dt_cpu_read(go, dout, (n * a->NH + h) * HS, HS);
            float D = 0.0f, scale = 1.0f / sqrtf((float)HS);
            for (size_t d = 0; d < HS; d++) {
                D += ot[d] * gt[d];
                dq[d] = 0.0f;
            }
            for (size_t s = dt_attention_first(a, b, t); s <= t; s++) {
                const float *ks = dt_cpu_read(
                    k, qkv, (b * T + s) * W + (a->NH + kvh) * HS, HS);
                const float *vs = dt_cpu_read(
                    v, qkv, (b * T + s) * W + (a->NH + a->NKV + kvh) * HS, HS);
                float dot = 0.0f, dp = 0.0f, p, ds, factor = 1.0f;
                for (size_t d = 0; d < HS; d++) {
                    dot += qt[d] * ks[d];
                    dp += gt[d] * vs[d];
                }
                if (a->dropout.rate > 0.0)
                    DT_CPU(dropout_factors)
                    (&factor, &a->dropout,
                     ((int64_t *)dt_view_data(a->dropout.rows))[b],
                     (h * T + t) * T + s, 1);
                p = dt_expf(dot * scale -
                            dt_view_f32(lse)[(b * a->NH + h) * T + t]);
                ds = p * (dp * factor - D) * scale;
                for (size_t d = 0; d < HS; d++) {
                    dq[d] += ds * ks[d];
                    dk[s * HS + d] += ds * qt[d];
                    dv[s * HS + d] += p * factor * gt[d];
                }
            }
            dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(dqkv), dqkv.dtype,
                                            n * W + h * HS),
                          dq, dqkv.dtype, HS);
        }
    for (size_t t = 0; t < T; t++) {
        size_t at = (b * T + t) * W + (a->NH + kvh) * HS;
        dt_cpu_narrow((void *)dt_cpu_at(dt_view_data(dqkv), dqkv.dtype, at),
                      dk + t * HS, dqkv.dtype, HS);
        dt_cpu_narrow(
            (void *)dt_cpu_at(dt_view_data(dqkv), dqkv.dtype, at + a->NKV * HS),
            dv + t * HS, dqkv.dtype, HS);
    }
}

size_t DT_CPU(attention_scratch)(const struct dt_attention *a)
{
    return (size_t)omp_get_max_threads() * 2 * a->T * a->HS;
}

void DT_CPU(attention_backward)(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dout, struct dt_view out,
                                struct dt_view lse, struct dt_view qkv,
                                struct dt_view scratch,
                                const struct dt_attention *a)
{
    size_t parts = scratch.count / (2 * a->T * a->HS);
    int threads =
        (int)parts < omp_get_max_threads() ? (int)parts : omp_get_max_threads();
    (void)stream;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (size_t i = 0; i < a->B * a->NKV; i++)
        backward_head(dqkv, dout, out, lse, qkv, a, i / a->NKV, i % a->NKV,
                      dt_view_f32(scratch) +
                          (size_t)omp_get_thread_num() * 2 * a->T * a->HS);
}
