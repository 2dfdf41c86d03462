/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dither.h - numbers in bf16 that are rounded up or down at random
 *
 * A sum of many small terms stops growing where they are rounded to nearest, as
 * soon as a term is less than half of its last digit. Rounded up as often as
 * the lost part of that digit says, it is right on average (Gupta et al., "Deep
 * learning with limited numerical precision", arXiv 1502.02551, sec. 3). The
 * random bits are a function of struct dt_dither (ops.h), in the same bits on
 * every kind of hardware.
 */
#ifndef DT_OPS_DITHER_H
#define DT_OPS_DITHER_H

#include <stdint.h>
#include <string.h>

#include "ops/ops.h"

#ifdef __CUDACC__
#define DT_DITHER_FUNCTION __host__ __device__ static inline
#else
#define DT_DITHER_FUNCTION static inline
#endif

/* Kinds of values, each with random bits of its own. Values are part of the
 * checkpoint contract: never renumber.
 */
enum dt_dither_kind {
    DT_DITHER_WEIGHT,
    DT_DITHER_M,
    DT_DITHER_V,
    DT_DITHER_STATE, /* the number of these */
    DT_DITHER_GRAD = DT_DITHER_STATE,
};

/* Elements with the bits of one block of Philox (base/rng.h), 16 each: element
 * number n has the low half, for even n, or the high half of word n % 8 / 2 of
 * block n / 8.
 */
enum { DT_DITHER_BLOCK = 8 };

/* Words 1, 2 and 3 of the counter of a block, whose number is below 2^61; word
 * 0 is its low half. No other draws of the seed have bit 28 as the highest one
 * of word 3.
 */
DT_DITHER_FUNCTION void dt_dither_counter(uint32_t counter[3],
                                          const struct dt_dither *dither,
                                          enum dt_dither_kind kind,
                                          uint64_t block)
{
    counter[0] = (uint32_t)(block >> 32);
    counter[1] = (uint32_t)dither->step;
    counter[2] = UINT32_C(1) << 28 | (uint32_t)kind;
}

/* x in bf16, rounded away from zero if the 16 bits that this loses and `random`
 * < 2^16 add up to 2^16 or more. Numbers of bf16 stay as they are, and so do
 * infinities; no other number becomes one. NaN is as dt_f32_to_bf16 has it.
 */
DT_DITHER_FUNCTION uint16_t dt_bf16_at_random(float x, uint32_t random)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    const uint32_t magnitude = bits & 0x7fffffff, up = bits + random;
    const bool overflows =
        magnitude < 0x7f800000 && (up & 0x7fffffff) >= 0x7f800000;
    const uint32_t quiet = bits | 0x400000, kept = overflows ? bits : up;

    return (uint16_t)((magnitude > 0x7f800000 ? quiet : kept) >> 16);
}

#endif /* DT_OPS_DITHER_H */
