/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - dropout, decided by the words of dt_rng_dropout */
#include "config.h"

#include "base/rng.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/rows.h"

void DT_CPU(dropout_factors)(float *factors, const struct dt_dropout *dropout,
                             int64_t row, uint64_t first, size_t count)
{
    const uint32_t limit = dt_dropout_limit(dropout);
    const float scale = dt_dropout_scale(dropout);

    for (size_t i = 0; i < count; i++) {
        uint32_t word = dt_rng_dropout(dropout->seed, dropout->place,
                                       (uint64_t)row, first + i);
        factors[i] = word < limit ? 0.0f : scale;
    }
}

void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count)
{
    const int64_t *rows = dt_view_data(dropout->rows);
    float factors[DT_CPU_BLOCK];

    assert(dropout->rows.dtype == DT_I64 && b < dropout->rows.count);
    assert(count <= DT_CPU_BLOCK);
    DT_CPU(dropout_factors)(factors, dropout, rows[b], first, count);
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        x[i] *= factors[i];
}

void DT_CPU(dropout_backward)(struct dt_stream *stream, struct dt_view dx,
                              struct dt_view dout, size_t N, size_t C,
                              const struct dt_dropout *dropout)
{
    const size_t T = dropout->rate > 0.0 ? N / dropout->rows.count : N;
    (void)stream;
    assert(dx.count == N * C && dout.count == N * C);

#pragma omp parallel for schedule(static)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK) {
            size_t at = n * C + c, count = dt_cpu_block(c, C);
            float scratch[DT_CPU_BLOCK], result[DT_CPU_BLOCK];
            const float *g = dt_cpu_read(scratch, dout, at, count);
            float *to = dt_cpu_place(result, dx, at);
            memmove(to, g, count * sizeof(*to));
            if (dropout->rate > 0.0)
                DT_CPU(dropout_apply)
            (to, dropout, n / T, n % T * C + c, count);
            dt_cpu_write(dx, at, to, count);
        }
    }
}
