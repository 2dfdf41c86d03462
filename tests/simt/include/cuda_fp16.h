/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_fp16.h - IEEE half precision
 */
#ifndef DT_SIMT_CUDA_FP16_H
#define DT_SIMT_CUDA_FP16_H

#include "cuda_runtime.h"
#include "simt_round.h"

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
