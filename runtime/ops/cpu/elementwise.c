/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c - zeros, conversions and sums, element by element */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dither_block.h"

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
    (void)stream;
    assert(out.count == x.count);

#pragma omp parallel for schedule(static) if (out.count > DT_CPU_SMALL)
    for (size_t i = 0; i < out.count; i += DT_CPU_BLOCK) {
        float wide[DT_CPU_BLOCK];
        size_t count = dt_cpu_block(i, out.count);
        const float *from = dt_cpu_read(wide, x, i, count);
#pragma omp simd
        for (size_t j = 0; j < count; j++)
            to[i + j] += from[j];
    }
}

/* Elements [begin, end) of add_dithered. */
static void add_part(uint16_t *to, const float *from, bool accumulate,
                     const struct dt_dither *dither, size_t begin, size_t end)
{
    float sum[DT_DITHERED] = {0.0f};
    uint16_t random[DT_DITHERED];
    struct dt_dither_span span;

    for (size_t first = begin; first < end; first += span.count) {
        span = dt_dither_span_of(dither, first, end);
        if (accumulate)
            dt_cpu_widen(sum, to + first, DT_BF16, span.count);
#pragma omp simd
        for (size_t i = 0; i < span.count; i++)
            sum[i] = accumulate ? sum[i] + from[first + i] : from[first + i];
        dt_dither_words(random, dither, DT_DITHER_GRAD, first);
        dt_dither_narrow(to + first, sum, random + span.before, span.count);
    }
}

void DT_CPU(add_dithered)(struct dt_stream *stream, struct dt_view out,
                          struct dt_view x, bool accumulate,
                          const struct dt_dither *dither)
{
    uint16_t *to = dt_view_data(out);
    const float *from = dt_cpu_f32(x, out.count);
    (void)stream;
    assert(out.dtype == DT_BF16 && dither->first % DT_DITHER_BLOCK == 0);

#pragma omp parallel for schedule(static) if (out.count > DT_CPU_SMALL)
    for (size_t i = 0; i < out.count; i += DT_CPU_BLOCK)
        add_part(to, from, accumulate, dither, i,
                 i + dt_cpu_block(i, out.count));
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
