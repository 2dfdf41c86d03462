/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - dropout, decided by the words of struct dt_dropout */
#include "config.h"

#include "ops/cpu/cpu_rows.h"
#include "ops/cpu/dropout.h"

/* Interleaves the lanes of a and b: lower halves go to a, upper ones to b. */
static void interleave(dt_words *a, dt_words *b)
{
    dt_words lower = __builtin_shufflevector(*a, *b, DT_LOWER);

    *b = __builtin_shufflevector(*a, *b, DT_UPPER);
    *a = lower;
}

void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count)
{
    enum { STEP = 4 * LANES };
    const struct dt_drops drops = dt_drops_of(dropout, b);
    const size_t skip = first % 4; /* elements of the first block */

    for (size_t i = 0; i < skip + count; i += STEP) {
        size_t from = i < skip ? skip - i : 0;
        size_t end = skip + count - i < STEP ? skip + count - i : STEP;
        uint64_t block[LANES];
        float factors[STEP];
        dt_words w[4];
        for (size_t j = 0; j < LANES; j++)
            block[j] = (first - skip + i) / 4 + j;
        dt_drop_words(w, &drops, block);
        interleave(&w[0], &w[2]);
        interleave(&w[1], &w[3]);
        interleave(&w[0], &w[1]);
        interleave(&w[2], &w[3]);
        for (size_t j = 0; j < 4; j++)
            *(dt_vec *)(factors + j * LANES) = dt_drop_factors(&drops, w[j]);
#pragma omp simd
        for (size_t e = from; e < end; e++)
            x[i + e - skip] *= factors[e];
    }
}

void DT_CPU(dropout_backward)(struct dt_stream *stream, struct dt_view dx,
                              struct dt_view dout, size_t N, size_t C,
                              const struct dt_dropout *dropout)
{
    const size_t T = dropout->rate > 0.0 ? N / dropout->rows.count : N;
    (void)stream;
    assert(dx.count == N * C && dout.count == N * C);

#pragma omp parallel for schedule(static) if (N * C > DT_CPU_SMALL)
    for (size_t n = 0; n < N; n++) {
        for (size_t c = 0; c < C; c += DT_CPU_BLOCK) {
            size_t at = n * C + c, count = dt_cpu_block(c, C);
            float buffer[DT_CPU_BLOCK], result[DT_CPU_BLOCK];
            const float *g = dt_cpu_read(buffer, dout, at, count);
            float *to = dt_cpu_place(result, dx, at);
            memmove(to, g, count * sizeof(*to));
            if (dropout->rate > 0.0)
                DT_CPU(dropout_apply)
            (to, dropout, n / T, n % T * C + c, count);
            dt_cpu_write(dx, at, to, count);
        }
    }
}
