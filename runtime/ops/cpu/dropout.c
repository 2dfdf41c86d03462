/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - dropout, decided by the words of dt_rng_dropout */
#include "config.h"

#include "ops/cpu/dropout.h"
#include "ops/cpu/rows.h"

void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count)
{
    const uint64_t row = dt_dropout_row(dropout, b);
    const size_t skip = first % 4; /* elements of the first block */

    for (size_t i = 0; i < skip + count; i += 4 * LANES) {
        size_t from = i < skip ? skip : i;
        size_t end =
            i + 4 * LANES < skip + count ? i + 4 * LANES : skip + count;
        uint32_t words[4][LANES];
        uint64_t block[LANES];
        for (size_t j = 0; j < LANES; j++)
            block[j] = (first - skip + i) / 4 + j;
        dt_dropout_words(words, dropout, row, block);
        for (size_t e = from; e < end; e++)
            x[e - skip] *=
                dt_dropout_factor(dropout, words[(e - i) % 4][(e - i) / 4]);
    }
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
