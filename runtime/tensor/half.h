/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.h - the 16-bit floats bf16 and f16 as they are stored, and fp32
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; values that are
 * too large become infinity, and a NaN stays a quiet NaN with its sign and the
 * upper bits of its payload. There are no branches, so loops vectorise; the
 * result is right even if the CPU flushes subnormals to 0.
 */
#ifndef DT_TENSOR_HALF_H
#define DT_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t dt_f32_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float dt_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* yes if the bit is 1, no if it is 0. With ?: the compiler would keep a branch,
 * because floating-point operations could trap.
 */
static inline uint32_t dt_half_select(int bit, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0 - (uint32_t)bit;
    return (yes & mask) | (no & ~mask);
}

/* bf16: sign, 8 bits of exponent, 7 of mantissa: the upper half of an fp32. */
static inline float dt_bf16_to_f32(uint16_t half)
{
    return dt_f32_of_bits((uint32_t)half << 16);
}

static inline uint16_t dt_f32_to_bf16(float value)
{
    uint32_t bits = dt_f32_bits(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

/* f16: sign, 5 bits of exponent, 10 of mantissa; the smallest is 2^-24. */
static inline float dt_f16_to_f32(uint16_t half)
{
    uint32_t magnitude = half & 0x7fff;
    uint32_t normal = (magnitude << 13) + (112U << 23);
    uint32_t subnormal = dt_f32_bits((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = dt_half_select(magnitude < 0x400, subnormal, normal);
    bits = dt_half_select(magnitude >= 0x7c00, normal + (112U << 23), bits);
    return dt_f32_of_bits(bits | (uint32_t)(half & 0x8000) << 16);
}

static inline uint16_t dt_f32_to_f16(float value)
{
    uint32_t bits = dt_f32_bits(value), magnitude = bits & 0x7fffffff;
    int32_t order = (int32_t)magnitude; /* SSE2 compares signed numbers */
    uint32_t normal = magnitude - (112U << 23);
    normal = (normal + 0xfff + (normal >> 13 & 1)) >> 13;
    /* 0.5 counts in steps of 2^-24, as subnormal f16 do */
    uint32_t subnormal =
        dt_f32_bits(dt_f32_of_bits(magnitude) + 0.5f) - dt_f32_bits(0.5f);
    uint32_t half = dt_half_select(order < 0x38800000, subnormal, normal);
    half = dt_half_select(order >= 0x47800000, 0x7c00, half);
    uint32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    half = dt_half_select(order > 0x7f800000, nan, half);
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

#endif /* DT_TENSOR_HALF_H */
