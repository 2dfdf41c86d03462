/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.h - the random decisions of dropout, a vector at a time */
#ifndef DT_OPS_CPU_DROPOUT_H
#define DT_OPS_CPU_DROPOUT_H

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"
#include "tensor/half.h"

/* Dropout of one row of the batch. */
struct dt_drops {
    uint32_t key[2], counter[3]; /* counter: without the block's low word */
    uint32_t limit;              /* an element with a smaller word is dropped */
    float scale;                 /* of elements that are kept */
};

static inline struct dt_drops dt_drops_of(const struct dt_dropout *dropout,
                                          size_t b)
{
    const uint64_t row = ((const uint64_t *)dt_view_data(dropout->rows))[b];

    assert(dropout->rows.dtype == DT_I64 && b < dropout->rows.count);
    return (struct dt_drops){
        .key = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)},
        .counter = {dropout->place << 16, (uint32_t)row,
                    (uint32_t)(row >> 32) | 1u << 31},
        .limit = (uint32_t)(dropout->rate * 0x1p32),
        .scale = (float)(1.0 / (1.0 - dropout->rate))};
}

typedef uint32_t dt_words __attribute__((vector_size(LANES * 4)));
typedef uint64_t dt_wide __attribute__((vector_size(LANES * 4)));

enum { WIDE = LANES / 2 }; /* lanes of it */

static const uint64_t LOW_WORD = 0xffffffff;

/* Multiplies the low words. Compilers do not find the one instruction for it.
 */
static inline dt_wide dt_wide_mul(dt_wide a, uint64_t b)
{
    dt_wide factor = (dt_wide){0} + b;
#if defined(__AVX512F__)
    return (dt_wide)_mm512_mul_epu32((__m512i)a, (__m512i)factor);
#elif defined(__AVX2__)
    return (dt_wide)_mm256_mul_epu32((__m256i)a, (__m256i)factor);
#elif defined(__SSE2__)
    return (dt_wide)_mm_mul_epu32((__m128i)a, (__m128i)factor);
#else
    return (a & LOW_WORD) * factor;
#endif
}

/* One round of Philox4x32-10 on WIDE counters. Only low words count. */
static inline __attribute__((always_inline)) void dt_philox_round(
    dt_wide c[4], const uint32_t key[2], uint32_t round)
{
    dt_wide p0 = dt_wide_mul(c[0], 0xD2511F53);
    dt_wide p1 = dt_wide_mul(c[2], 0xCD9E8D57);

    c[0] = (p1 >> 32) ^ c[1] ^ (key[0] + round * 0x9E3779B9);
    c[1] = p1;
    c[2] = (p0 >> 32) ^ c[3] ^ (key[1] + round * 0xBB67AE85);
    c[3] = p0;
}

/* The words of struct dt_dropout (ops.h) for LANES blocks of four
 * elements: lane j of words[i] is that of element 4 block[j] + i.
 */
static inline void dt_drop_words(dt_words words[4], const struct dt_drops *d,
                                 const uint64_t block[LANES])
{
    typedef uint32_t half __attribute__((vector_size(LANES * 2)));
    dt_wide c[2][4];
    half part[2];

    for (size_t h = 0; h < 2; h++) {
        memcpy(&c[h][0], block + h * WIDE, sizeof(c[h][0]));
        c[h][1] = c[h][0] >> 32 | d->counter[0];
        c[h][2] = (dt_wide){0} + d->counter[1];
        c[h][3] = (dt_wide){0} + d->counter[2];
    }
#pragma GCC unroll 10
    for (uint32_t i = 0; i < 10; i++) {
        dt_philox_round(c[0], d->key, i);
        dt_philox_round(c[1], d->key, i);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        part[0] = __builtin_convertvector(c[0][i] & LOW_WORD, half);
        part[1] = __builtin_convertvector(c[1][i] & LOW_WORD, half);
        memcpy(&words[i], part, sizeof(words[i]));
    }
}

/* The factors of elements with these words. */
static inline dt_vec dt_drop_factors(const struct dt_drops *d, dt_words words)
{
    dt_words kept = (dt_words)(words >= d->limit);

    return (dt_vec)(kept & dt_f32_bits(d->scale));
}

#ifdef DT_CPU_VARIANT
/* x(count), elements first... of row b of the batch, times their factors. */
void DT_CPU(dropout_apply)(float *x, const struct dt_dropout *dropout, size_t b,
                           uint64_t first, size_t count);
#endif

#endif /* DT_OPS_CPU_DROPOUT_H */
