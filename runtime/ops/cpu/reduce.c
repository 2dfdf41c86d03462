/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - sums whose bits do not depend on the number of threads */
#include "config.h"

#include "ops/cpu/cpu.h"

enum {
    PARTS = 1024, /* partial sums, added in order at the end */
    ALIGN = 64,   /* elements; a part starts at a multiple of it */
};

double DT_CPU(sum_of_squares)(struct dt_stream *stream, struct dt_view x)
{
    const float *from = dt_view_f32(x);
    size_t size = (x.count / PARTS / ALIGN + 1) * ALIGN;
    double part[PARTS], total = 0.0;
    (void)stream;

#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < PARTS; i++) {
        size_t first = i * size;
        size_t end = x.count < first + size ? x.count : first + size;
        double sum = 0.0;
#pragma omp simd reduction(+ : sum)
        for (size_t j = first; j < end; j++)
            sum += (double)from[j] * (double)from[j];
        part[i] = sum;
    }
    for (size_t i = 0; i < PARTS; i++)
        total += part[i];
    return total;
}
