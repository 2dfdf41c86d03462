/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.c - activations of MLPs, alone and as gates
 *
 * All but one are x s, where s = 1 / (1 + e) is the logistic function of t(x),
 * e = exp(-t): one exp and one division. t is x (SiLU), 1.702 x (quick GELU),
 * or 2u, u = sqrt(2/pi) (x + 0.044715 x^3), 0.5 (1 + tanh u) being s:
 *   (x s)' = s + x s (e s) t'(x), e s being 1 - s
 * GELU itself is x P, P the normal distribution function, whose derivative is
 * its density p:
 *   (x P)' = P + x p
 * Gated: out = act(g) u,  dg = dout u act'(g),  du = dout act(g)
 */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/vec.h"
#include "ops/normal.h"

static const float TWO_U1 = 1.59576912f;   /* 2 sqrt(2/pi) */
static const float TWO_U3 = 0.0713548163f; /* 2 sqrt(2/pi) 0.044715 */
static const float QUICK = 1.702f;

/* Loops that have one activation each. */
#define DT_ALWAYS_INLINE inline __attribute__((always_inline))

/* e */
static DT_ALWAYS_INLINE float exp_minus_t(enum dt_activation act, float x)
{
    return dt_expf(act == DT_SILU         ? -x
                   : act == DT_QUICK_GELU ? -x * QUICK
                                          : -x * (TWO_U1 + TWO_U3 * x * x));
}

/* t'(x) */
static DT_ALWAYS_INLINE float slope_of_t(enum dt_activation act, float x)
{
    return act == DT_SILU         ? 1.0f
           : act == DT_QUICK_GELU ? QUICK
                                  : TWO_U1 + 3.0f * TWO_U3 * x * x;
}

static DT_ALWAYS_INLINE float exp_minus_half_square(float x)
{
    return dt_expf(-0.5f * x * x);
}

static DT_ALWAYS_INLINE float activate(enum dt_activation act, float x)
{
    return act == DT_GELU_ERF ? x * dt_normal(x, exp_minus_half_square(x))
                              : x / (1.0f + exp_minus_t(act, x));
}

/* by act'(x), and act(x) / x */
static DT_ALWAYS_INLINE float times_slope(enum dt_activation act, float by,
                                          float x, float *share)
{
    float e, s;

    if (act == DT_GELU_ERF) {
        e = exp_minus_half_square(x);
        *share = dt_normal(x, e);
        return by * (*share + x * (DT_NORMAL_DENSITY * e));
    }
    e = exp_minus_t(act, x);
    s = 1.0f / (1.0f + e);
    *share = s;
    if (act == DT_SILU)
        return by * s * (1.0f + x * (e * s));
    return by * (s + x * s * (e * s) * slope_of_t(act, x));
}

/* Calls the loop with a constant for the activation. */
#define FOR_ACTIVATION(act, loop, ...)                                         \
    do {                                                                       \
        switch (act) {                                                         \
        case DT_SILU:                                                          \
            loop(DT_SILU, __VA_ARGS__);                                        \
            break;                                                             \
        case DT_GELU_TANH:                                                     \
            loop(DT_GELU_TANH, __VA_ARGS__);                                   \
            break;                                                             \
        case DT_GELU_ERF:                                                      \
            loop(DT_GELU_ERF, __VA_ARGS__);                                    \
            break;                                                             \
        case DT_QUICK_GELU:                                                    \
            loop(DT_QUICK_GELU, __VA_ARGS__);                                  \
            break;                                                             \
        }                                                                      \
    } while (0)

static DT_ALWAYS_INLINE void activate_loop(enum dt_activation act, float *to,
                                           const float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = activate(act, x[i]);
}

void DT_CPU(activation_forward)(struct dt_stream *stream, struct dt_view out,
                                struct dt_view x, enum dt_activation activation)
{
    (void)stream;
    assert(out.count == x.count);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK) {
        float input[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
        size_t count = dt_cpu_block(i, x.count);
        const float *from = dt_cpu_read(input, x, i, count);
        float *to = dt_cpu_place(output, out, i);
        FOR_ACTIVATION(activation, activate_loop, to, from, count);
        dt_cpu_write(out, i, to, count);
    }
}

static DT_ALWAYS_INLINE void gradient_loop(enum dt_activation act, float *dx,
                                           const float *dout, const float *x,
                                           size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float share;
        dx[i] = times_slope(act, dout[i], x[i], &share);
    }
}

void DT_CPU(activation_backward)(struct dt_stream *stream, struct dt_view dx,
                                 struct dt_view dout, struct dt_view x,
                                 enum dt_activation activation)
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
        FOR_ACTIVATION(activation, gradient_loop, to, g, from, count);
        dt_cpu_write(dx, i, to, count);
    }
}

static DT_ALWAYS_INLINE void glu_loop(enum dt_activation act, float *to,
                                      const float *g, const float *u,
                                      size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = activate(act, g[i]) * u[i];
}

static void glu_block(struct dt_view out, struct dt_view x,
                      enum dt_activation activation, size_t n, size_t first,
                      size_t I)
{
    float gates[DT_CPU_BLOCK], input[DT_CPU_BLOCK], output[DT_CPU_BLOCK];
    size_t count = dt_cpu_block(first, I);
    const float *g = dt_cpu_read(gates, x, n * 2 * I + first, count);
    const float *u = dt_cpu_read(input, x, n * 2 * I + I + first, count);
    float *to = dt_cpu_place(output, out, n * I + first);

    FOR_ACTIVATION(activation, glu_loop, to, g, u, count);
    dt_cpu_write(out, n * I + first, to, count);
}

void DT_CPU(glu_forward)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, enum dt_activation activation,
                         size_t N, size_t I)
{
    (void)stream;
    assert(out.count == N * I && x.count == 2 * N * I);

#pragma omp parallel for schedule(static) if (N * I > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t i = 0; i < I; i += DT_CPU_BLOCK)
            glu_block(out, x, activation, n, i, I);
    }
}

static DT_ALWAYS_INLINE void glu_gradient_loop(enum dt_activation act,
                                               float *dg, float *du,
                                               const float *d, const float *g,
                                               const float *u, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float gi = g[i], ui = u[i], share; /* dx may be x */
        dg[i] = times_slope(act, d[i] * ui, gi, &share);
        du[i] = d[i] * gi * share;
    }
}

static void glu_backward_block(struct dt_view dx, struct dt_view dout,
                               struct dt_view x, enum dt_activation activation,
                               size_t n, size_t first, size_t I)
{
    float gates[DT_CPU_BLOCK], input[DT_CPU_BLOCK], grad[DT_CPU_BLOCK];
    float gate_grad[DT_CPU_BLOCK], input_grad[DT_CPU_BLOCK];
    size_t count = dt_cpu_block(first, I), at = n * 2 * I + first;
    const float *g = dt_cpu_read(gates, x, at, count);
    const float *u = dt_cpu_read(input, x, at + I, count);
    const float *d = dt_cpu_read(grad, dout, n * I + first, count);
    float *dg = dt_cpu_place(gate_grad, dx, at);
    float *du = dt_cpu_place(input_grad, dx, at + I);

    FOR_ACTIVATION(activation, glu_gradient_loop, dg, du, d, g, u, count);
    dt_cpu_write(dx, at, dg, count);
    dt_cpu_write(dx, at + I, du, count);
}

void DT_CPU(glu_backward)(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dout, struct dt_view x,
                          enum dt_activation activation, size_t N, size_t I)
{
    (void)stream;
    assert(dx.count == 2 * N * I && dout.count == N * I && x.count == dx.count);

#pragma omp parallel for schedule(static) if (N * I > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t i = 0; i < I; i += DT_CPU_BLOCK)
            glu_backward_block(dx, dout, x, activation, n, i, I);
    }
}
