/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.c - activations of MLPs: GELU, and the products of gated ones
 *
 * GELU by the tanh approximation: with u = sqrt(2/pi) (x + 0.044715 x^3),
 * 0.5 (1 + tanh u) is the logistic function s = 1 / (1 + e), e = exp(-2u): one
 * exp and one division.
 *   gelu(x) = x s,  gelu'(x) = s + x s (e s) 2 u'(x), e s being 1 - s
 *
 * Gated: with t the gate g (SiLU) or 2 u(g) (GELU), s = 1 / (1 + e),
 * e = exp(-t):
 *   out = g s u,  dg = dout u s (1 + g e s t'(g)),  du = dout g s
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

static void glu_block(struct dt_view out, struct dt_view x, enum dt_gate gate,
                      size_t n, size_t first, size_t I)
{
    float gates[DT_CPU_BLOCK], input[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
    size_t count = dt_cpu_block(first, I);
    const float *g = dt_cpu_read(gates, x, n * 2 * I + first, count);
    const float *u = dt_cpu_read(input, x, n * 2 * I + I + first, count);
    float *to = dt_cpu_place(output, out, n * I + first);

    if (gate == DT_GATE_SILU) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = g[i] / (1.0f + dt_expf(-g[i])) * u[i];
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = g[i] / (1.0f + exp_minus_2u(g[i])) * u[i];
    }
    dt_cpu_write(out, n * I + first, to, count);
}

void DT_CPU(glu_forward)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, enum dt_gate gate, size_t N,
                         size_t I)
{
    (void)stream;
    assert(out.count == N * I && x.count == 2 * N * I);

#pragma omp parallel for schedule(static) if (N * I > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t i = 0; i < I; i += DT_CPU_BLOCK)
            glu_block(out, x, gate, n, i, I);
    }
}

static void glu_backward_block(struct dt_view dx, struct dt_view dout,
                               struct dt_view x, enum dt_gate gate, size_t n,
                               size_t first, size_t I)
{
    float gates[DT_CPU_BLOCK], input[DT_CPU_BLOCK], grad[DT_CPU_BLOCK];
    float gate_grad[DT_CPU_BLOCK], input_grad[DT_CPU_BLOCK];
    size_t count = dt_cpu_block(first, I), at = n * 2 * I + first;
    const float *g = dt_cpu_read(gates, x, at, count);
    const float *u = dt_cpu_read(input, x, at + I, count);
    const float *d = dt_cpu_read(grad, dout, n * I + first, count);
    float *dg = dt_cpu_place(gate_grad, dx, at);
    float *du = dt_cpu_place(input_grad, dx, at + I);

    if (gate == DT_GATE_SILU) {
#pragma omp simd
        for (size_t i = 0; i < count; i++) {
            float gi = g[i], ui = u[i]; /* dx may be x */
            float e = dt_expf(-gi), s = 1.0f / (1.0f + e);
            dg[i] = d[i] * ui * s * (1.0f + gi * (e * s));
            du[i] = d[i] * gi * s;
        }
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++) {
            float gi = g[i], ui = u[i];
            float slope = TWO_U1 + 3.0f * TWO_U3 * gi * gi;
            float e = exp_minus_2u(gi), s = 1.0f / (1.0f + e);
            dg[i] = d[i] * ui * (s + gi * s * (e * s) * slope);
            du[i] = d[i] * gi * s;
        }
    }
    dt_cpu_write(dx, at, dg, count);
    dt_cpu_write(dx, at + I, du, count);
}

void DT_CPU(glu_backward)(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dout, struct dt_view x,
                          enum dt_gate gate, size_t N, size_t I)
{
    (void)stream;
    assert(dx.count == 2 * N * I && dout.count == N * I && x.count == dx.count);

#pragma omp parallel for schedule(static) if (N * I > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t i = 0; i < I; i += DT_CPU_BLOCK)
            glu_backward_block(dx, dout, x, gate, n, i, I);
    }
}
