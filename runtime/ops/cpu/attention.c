/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - causal softmax attention */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "ops/cpu/attention.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

void DT_CPU(attention_forward)(struct dt_stream *stream, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               const struct dt_attention *a)
{
    (void)stream;
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t bh = 0; bh < a->B * a->NH; bh++) {
        for (size_t t = 0; t < a->T; t++) {
            float q[DT_CPU_BLOCK], k[DT_CPU_BLOCK], sum[DT_CPU_BLOCK] = {0.0f};
            float factor, m = -INFINITY, l = 0.0f;
            size_t b = bh / a->NH, h = bh % a->NH;
            size_t kvh = h / (a->NH / a->NKV), W = dt_attention_width(a);
            const float *qt =
                dt_cpu_read(q, qkv, (b * a->T + t) * W + h * a->HS, a->HS);
            for (size_t s = dt_attention_first(a, b, t); s <= t; s++) {
                const float *ks = dt_cpu_read(
                    k, qkv, (b * a->T + s) * W + (a->NH + kvh) * a->HS, a->HS);
                float dot = 0.0f, most, p;
                for (size_t d = 0; d < a->HS; d++)
                    dot += qt[d] * ks[d];
                dot /= sqrtf((float)a->HS);
                most = dot > m ? dot : m;
                p = dt_expf(dot - most);
                l = l * dt_expf(m - most) + p;
                ks = dt_cpu_read(
                    k, qkv, (b * a->T + s) * W + (a->NH + a->NKV + kvh) * a->HS,
                    a->HS);
                factor = 1.0f;
                if (a->dropout.rate > 0.0)
                    DT_CPU(dropout_factors)
                    (&factor, &a->dropout,
                     ((int64_t *)dt_view_data(a->dropout.rows))[b],
                     (h * a->T + t) * a->T + s, 1);
                for (size_t d = 0; d < a->HS; d++)
                    sum[d] = sum[d] * dt_expf(m - most) + p * factor * ks[d];
                m = most;
            }
            for (size_t d = 0; d < a->HS; d++)
                sum[d] /= l;
            dt_cpu_narrow(
                (void *)dt_cpu_at(dt_view_data(out), out.dtype,
                                  (b * a->T + t) * a->NH * a->HS + h * a->HS),
                sum, out.dtype, a->HS);
            dt_view_f32(lse)[bh * a->T + t] = m + logf(l);
        }
    }
}
