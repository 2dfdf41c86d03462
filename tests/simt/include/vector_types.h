/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vector_types.h - dim3 and short vectors, as CUDA aligns them
 */
#ifndef DT_SIMT_VECTOR_TYPES_H
#define DT_SIMT_VECTOR_TYPES_H

#define SIMT_VECTORS(base, type, align2, align4)                               \
    typedef struct base##1                                                     \
    {                                                                          \
        type x;                                                                \
    }                                                                          \
    base##1;                                                                   \
    typedef struct __attribute__((aligned(align2))) base##2                    \
    {                                                                          \
        type x, y;                                                             \
    }                                                                          \
    base##2;                                                                   \
    typedef struct base##3                                                     \
    {                                                                          \
        type x, y, z;                                                          \
    }                                                                          \
    base##3;                                                                   \
    typedef struct __attribute__((aligned(align4))) base##4                    \
    {                                                                          \
        type x, y, z, w;                                                       \
    }                                                                          \
    base##4;

SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(uint, unsigned, 8, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(double, double, 16, 16)
#undef SIMT_VECTORS

struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1)
        : x(vx), y(vy), z(vz)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    constexpr operator uint3() const
    {
        return uint3{x, y, z};
    }
#endif
};
typedef struct dim3 dim3;

#endif /* DT_SIMT_VECTOR_TYPES_H */
