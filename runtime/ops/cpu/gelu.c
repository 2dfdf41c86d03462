/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gelu.c - GELU by the tanh approximation
 *
 * With u = sqrt(2/pi) (x + 0.044715 x^3), 0.5 (1 + tanh u) is the logistic
 * function s = 1 / (1 + e), e = exp(-2u): one exp and one division.
 *   gelu(x) = x s,  gelu'(x) = s + x s (e s) 2 u'(x), e s being 1 - s
 */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/vec.h"

static const float TWO_U1 = 1.59576912f;   /* 2 sqrt(2/pi) */
static const float TWO_U3 = 0.0713548163f; /* 2 sqrt(2/pi) 0.044715 */

static inline float exp_minus_2u(float x)
{
    return dt_expf(-x * (TWO_U1 + TWO_U3 * x * x));
}

void DT_CPU(gelu_forward)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view x)
{
    (void)stream;
    assert(out.count == x.count);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK) {
        float input[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
        size_t count = dt_cpu_block(i, x.count);
        const float *from = dt_cpu_read(input, x, i, count);
        float *to = dt_cpu_place(output, out, i);
#pragma omp simd
        for (size_t j = 0; j < count; j++)
            to[j] = from[j] / (1.0f + exp_minus_2u(from[j]));
        dt_cpu_write(out, i, to, count);
    }
}

void DT_CPU(gelu_backward)(struct dt_stream *stream, struct dt_view dx,
                           struct dt_view dout, struct dt_view x)
{
    (void)stream;
    assert(dx.count == x.count && dout.count == x.count);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK) {
        float input[DT_CPU_BLOCK], grad[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
        size_t count = dt_cpu_block(i, x.count);
        const float *from = dt_cpu_read(input, x, i, count);
        const float *g = dt_cpu_read(grad, dout, i, count);
        float *to = dt_cpu_place(output, dx, i);
#pragma omp simd
        for (size_t j = 0; j < count; j++) {
            float v = from[j];
            float e = exp_minus_2u(v), s = 1.0f / (1.0f + e);
            float slope = TWO_U1 + 3.0f * TWO_U3 * v * v;
            to[j] = g[j] * (s + v * s * (e * s) * slope);
        }
        dt_cpu_write(dx, i, to, count);
    }
}
