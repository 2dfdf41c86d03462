/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - products with sparse matrices: means and interpolations of rows */
#include "config.h"

#include <string.h>

#include "ops/cpu/cpu.h"
#include "ops/cpu/cpu_rows.h"

/* sum(count) += value x(count) */
static void add_product(float *restrict sum, const float *restrict x,
                        float value, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        sum[i] += value * x[i];
}

/* Columns [first, first + count) of row n of out. */
static void row_part(struct dt_view out, struct dt_view x,
                     const struct dt_sparse *a, size_t n, size_t C,
                     size_t first, size_t count, bool accumulate)
{
    const int32_t *starts = dt_view_i32(a->starts);
    const size_t at = n * C + first;
    float sum[DT_CPU_BLOCK] = {0}, buffer[DT_CPU_BLOCK];
    for (int32_t e = starts[n]; e < starts[n + 1]; e++) {
        const size_t row = (size_t)dt_view_i32(a->columns)[e];
        add_product(sum, dt_cpu_read(buffer, x, row * C + first, count),
                    dt_view_f32(a->values)[e], count);
    }
    float *to = dt_cpu_place(buffer, out, at);
    if (accumulate)
        add_product(sum, dt_cpu_read(buffer, out, at, count), 1.0f, count);
    memcpy(to, sum, count * sizeof(*to));
    dt_cpu_write(out, at, to, count);
}

void DT_CPU(sparse_matmul)(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, const struct dt_sparse *a,
                           size_t N, size_t C, bool accumulate)
{
    (void)stream;
    assert(out.count == N * C && (N == 0 || a->starts.count == N + 1));
    assert(a->columns.count == a->values.count);
    assert(out.dtype == x.dtype || out.dtype == DT_F32);

#pragma omp parallel for schedule(static) if (out.count > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK)
            row_part(out, x, a, n, C, c, dt_cpu_block(c, C), accumulate);
    }
}
