/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_fp16.h - IEEE half precision
 */
#ifndef DT_SIMT_CUDA_FP16_H
#define DT_SIMT_CUDA_FP16_H

#include "cuda_runtime.h"

/* Rounds to even; what is too large becomes infinite. */
static inline unsigned short simt_to_half(float x)
{
    uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000u)
        return 0x7fff;
    if (bits >= 0x477ff000u) /* 65520 and more */
        return (unsigned short)(sign | 0x7c00);
    if (bits < 0x38800000u) { /* below 2^-14: a multiple of 2^-24 */
        float tiny = __uint_as_float(bits) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(tiny) - 0x3f000000u));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (unsigned short)(sign | (bits - 0x38000000u) >> 13);
}
static inline float simt_from_half(unsigned short half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = half & 0x7fff;
    if (bits >= 0x7c00) /* infinite, NaN */
        return __uint_as_float(sign | 0x7f800000u | (bits & 0x3ff) << 13);
    if (bits < 0x400)
        return __uint_as_float(sign | __float_as_uint((float)bits * 0x1p-24f));
    return __uint_as_float(sign | ((bits << 13) + 0x38000000u));
}

#define SIMT_HALF __half
#define SIMT_HALF2 __half2
#define SIMT_HALF_RAW __half_raw
#define SIMT_TO_BITS simt_to_half
#define SIMT_FROM_BITS simt_from_half
#include "simt_half.h"
typedef __half half;
typedef __half2 half2;

static inline __half __float2half(float x)
{
    return __half(x);
}
static inline __half __float2half_rn(float x)
{
    return __half(x);
}
static inline float __half2float(__half x)
{
    return (float)x;
}
static inline __half2 __floats2half2_rn(float x, float y)
{
    return __half2(__half(x), __half(y));
}
static inline __half2 __float22half2_rn(float2 x)
{
    return __floats2half2_rn(x.x, x.y);
}
static inline __half2 __float2half2_rn(float x)
{
    return __floats2half2_rn(x, x);
}
static inline float2 __half22float2(__half2 x)
{
    return make_float2((float)x.x, (float)x.y);
}
static inline __half2 __halves2half2(__half x, __half y)
{
    return __half2(x, y);
}
static inline __half2 __half2half2(__half x)
{
    return __half2(x, x);
}
static inline unsigned short __half_as_ushort(__half x)
{
    return simt_bits<unsigned short>(x);
}
static inline __half __ushort_as_half(unsigned short x)
{
    return simt_bits<__half>(x);
}

#endif /* DT_SIMT_CUDA_FP16_H */
