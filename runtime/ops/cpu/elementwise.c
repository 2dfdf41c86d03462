/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c - zeros, conversions and sums, element by element */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

void DT_CPU(zero)(struct dt_stream *stream, struct dt_view x)
{
    const size_t size = dt_dtype_bytes(x.dtype);
    char *to = dt_view_data(x);
    (void)stream;

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK)
        memset(to + i * size, 0, dt_cpu_block(i, x.count) * size);
}

void DT_CPU(convert)(struct dt_stream *stream, struct dt_view out,
                     struct dt_view x)
{
    (void)stream;
    assert(out.count == x.count);
    assert(out.dtype == DT_F32 || x.dtype == DT_F32);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK) {
        size_t count = dt_cpu_block(i, x.count);
        const void *from = dt_cpu_at(dt_view_data(x), x.dtype, i);
        if (out.dtype == DT_F32)
            dt_cpu_widen(dt_view_f32(out) + i, from, x.dtype, count);
        else
            dt_cpu_write(out, i, from, count);
    }
}

void DT_CPU(add)(struct dt_stream *stream, struct dt_view out, struct dt_view x)
{
    float *to = dt_view_f32(out);
    const float *from = dt_cpu_f32(x, out.count);
    (void)stream;

#pragma omp parallel for simd schedule(static) if (out.count > DT_CPU_SMALL)
    for (size_t i = 0; i < out.count; i++)
        to[i] += from[i];
}

void DT_CPU(combine)(struct dt_stream *stream, struct dt_view out,
                     struct dt_view x, float a, struct dt_view y, float b)
{
    (void)stream;
    assert(out.count == x.count && (y.count == 0 || y.count == x.count));

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < x.count; i += DT_CPU_BLOCK) {
        float left[DT_CPU_BLOCK], right[DT_CPU_BLOCK], sum[DT_CPU_BLOCK];
        size_t count = dt_cpu_block(i, x.count);
        const float *l = dt_cpu_read(left, x, i, count);
        float *to = dt_cpu_place(sum, out, i);
        if (y.count > 0) {
            const float *r = dt_cpu_read(right, y, i, count);
#pragma omp simd
            for (size_t j = 0; j < count; j++)
                to[j] = a * l[j] + b * r[j];
        } else {
#pragma omp simd
            for (size_t j = 0; j < count; j++)
                to[j] = a * l[j];
        }
        dt_cpu_write(out, i, to, count);
    }
}
