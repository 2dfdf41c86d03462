/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_bf16.h - bfloat16: the upper half of a float
 */
#ifndef DT_SIMT_CUDA_BF16_H
#define DT_SIMT_CUDA_BF16_H

#include "cuda_runtime.h"
#include "simt_round.h"

#define SIMT_HALF __nv_bfloat16
#define SIMT_HALF2 __nv_bfloat162
#define SIMT_HALF_RAW __nv_bfloat16_raw
#define SIMT_TO_BITS simt_to_bf16
#define SIMT_FROM_BITS simt_from_bf16
#include "simt_half.h"
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float x)
{
    return __nv_bfloat16(x);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    return __nv_bfloat16(x);
}
static inline float __bfloat162float(__nv_bfloat16 x)
{
    return (float)x;
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x)
{
    return __floats2bfloat162_rn(x.x, x.y);
}
static inline __nv_bfloat162 __float2bfloat162_rn(float x)
{
    return __floats2bfloat162_rn(x, x);
}
static inline float2 __bfloat1622float2(__nv_bfloat162 x)
{
    return make_float2((float)x.x, (float)x.y);
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x,
                                                __nv_bfloat16 y)
{
    return __nv_bfloat162(x, y);
}
static inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x)
{
    return __nv_bfloat162(x, x);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x)
{
    return simt_bits<unsigned short>(x);
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x)
{
    return simt_bits<__nv_bfloat16>(x);
}

#endif /* DT_SIMT_CUDA_BF16_H */
