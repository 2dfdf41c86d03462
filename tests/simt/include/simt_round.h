/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simt_round.h - bf16, half and tf32 from float and back, for C and C++
 */
#ifndef DT_SIMT_ROUND_H
#define DT_SIMT_ROUND_H

#include <stdint.h>
#include <string.h>

static inline uint32_t simt_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}
static inline float simt_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* NaN becomes the NaN that NVIDIA's conversion gives, others round to even. */
static inline unsigned short simt_to_bf16(float x)
{
    uint32_t bits = simt_float_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float simt_from_bf16(unsigned short bits)
{
    return simt_bits_float((uint32_t)bits << 16);
}

/* Rounds to even; what is too large becomes infinite. */
static inline unsigned short simt_to_half(float x)
{
    uint32_t bits = simt_float_bits(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000u)
        return 0x7fff;
    if (bits >= 0x477ff000u) /* 65520 and more */
        return (unsigned short)(sign | 0x7c00);
    if (bits < 0x38800000u) { /* below 2^-14: a multiple of 2^-24 */
        float tiny = simt_bits_float(bits) + 0.5f;
        return (unsigned short)(sign | (simt_float_bits(tiny) - 0x3f000000u));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (unsigned short)(sign | (bits - 0x38000000u) >> 13);
}
static inline float simt_from_half(unsigned short half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = half & 0x7fff;
    if (bits >= 0x7c00) /* infinite, NaN */
        return simt_bits_float(sign | 0x7f800000u | (bits & 0x3ff) << 13);
    if (bits < 0x400)
        return simt_bits_float(sign | simt_float_bits((float)bits * 0x1p-24f));
    return simt_bits_float(sign | ((bits << 13) + 0x38000000u));
}

/* Ten bits of mantissa, halves away from zero. */
static inline float simt_to_tf32(float x)
{
    uint32_t bits = simt_float_bits(x);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return x;
    return simt_bits_float((bits + 0x1000) & ~0x1fffu);
}

#endif /* DT_SIMT_ROUND_H */
