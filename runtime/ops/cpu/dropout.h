/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.h - the random decisions of dropout, a vector at a time */
#ifndef DT_OPS_CPU_DROPOUT_H
#define DT_OPS_CPU_DROPOUT_H

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"

/* The global number of row b of the batch. */
static inline uint64_t dt_dropout_row(const struct dt_dropout *dropout,
                                      size_t b)
{
    const int64_t *rows = dt_view_data(dropout->rows);

    assert(dropout->rows.dtype == DT_I64 && b < dropout->rows.count);
    return (uint64_t)rows[b];
}

/* What an element with this word is multiplied by. */
static inline float dt_dropout_factor(const struct dt_dropout *dropout,
                                      uint32_t word)
{
    bool kept = word >= (uint32_t)(dropout->rate * 0x1p32);

    return kept ? (float)(1.0 / (1.0 - dropout->rate)) : 0.0f;
}

static inline __attribute__((always_inline)) void dt_philox_round(uint32_t c[4],
                                                                  uint32_t k0,
                                                                  uint32_t k1)
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];

    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[3] = (uint32_t)p0;
}

/* The words of dt_rng_dropout (base/rng.h) for LANES blocks of four elements:
 * words[i][j] is that of element 4 block[j] + i.
 */
static inline void dt_dropout_words(uint32_t words[4][LANES],
                                    const struct dt_dropout *dropout,
                                    uint64_t row, const uint64_t block[LANES])
{
    const uint32_t k0 = (uint32_t)dropout->seed;
    const uint32_t k1 = (uint32_t)(dropout->seed >> 32);
    const uint32_t place = dropout->place << 16;
    const uint32_t low = (uint32_t)row;
    const uint32_t high = (uint32_t)(row >> 32) | 1u << 31;

#pragma omp simd
    for (int j = 0; j < LANES; j++) {
        uint32_t c[4] = {(uint32_t)block[j], (uint32_t)(block[j] >> 32) | place,
                         low, high};
#pragma GCC unroll 10
        for (uint32_t i = 0; i < 10; i++)
            dt_philox_round(c, k0 + i * 0x9E3779B9u, k1 + i * 0xBB67AE85u);
        for (int i = 0; i < 4; i++)
            words[i][j] = c[i];
    }
}

#ifdef DT_CPU_VARIANT
/* x(count), elements first... of row b of the batch, times their factors. */
void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count);
#endif

#endif /* DT_OPS_CPU_DROPOUT_H */
