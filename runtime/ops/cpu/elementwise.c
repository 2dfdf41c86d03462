/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c - sums and zeros, element by element */
#include "config.h"

#include "ops/cpu/cpu.h"

void DT_CPU(residual_forward)(struct dt_stream *stream, struct dt_view sum,
                              struct dt_view x, struct dt_view y)
{
    float *to = dt_cpu_f32(sum, x.count);
    const float *a = dt_view_f32(x);
    const float *b = dt_cpu_f32(y, x.count);
    (void)stream;

#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < x.count; i++)
        to[i] = a[i] + b[i];
}

void DT_CPU(zero)(struct dt_stream *stream, struct dt_view x)
{
    float *to = dt_view_f32(x);
    (void)stream;

#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < x.count; i++)
        to[i] = 0.0f;
}
