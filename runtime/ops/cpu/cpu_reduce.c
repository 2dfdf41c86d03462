/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_reduce.c - sums whose bits do not depend on the number of threads */
#include "config.h"

#include "ops/cpu/cpu.h"

enum {
    PARTS = 1024, /* partial sums, added in order at the end */
    LINE = 16,    /* elements; a part starts at a multiple of it */
    AHEAD = 512,  /* elements to prefetch */
};

static double part_sum(const float *x, size_t count)
{
    const size_t whole = count - count % LINE;
    double sum = 0.0, lane[LINE] = {0.0};

    for (size_t i = 0; i < whole; i += LINE) {
        __builtin_prefetch(x + i + AHEAD);
#pragma omp simd
        for (size_t j = 0; j < LINE; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    }
    for (size_t i = whole; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    for (size_t j = 0; j < LINE; j++)
        sum += lane[j];
    return sum;
}

void DT_CPU(sum_of_squares)(struct dt_stream *stream, struct dt_view step,
                            struct dt_view x)
{
    const float *from = dt_view_f32(x);
    size_t size = (x.count / PARTS / LINE + 1) * LINE;
    double part[PARTS], total = 0.0;
    (void)stream;
    assert(step.count == DT_STEP_COUNT);

#pragma omp parallel for schedule(static) if (x.count > DT_CPU_SMALL)
    for (size_t i = 0; i < PARTS; i++) {
        size_t first = i * size < x.count ? i * size : x.count;
        size_t end = x.count - first < size ? x.count : first + size;
        part[i] = part_sum(from + first, end - first);
    }
    for (size_t i = 0; i < PARTS; i++)
        total += part[i];
    dt_view_f64(step)[DT_STEP_SQUARES] += total;
}
