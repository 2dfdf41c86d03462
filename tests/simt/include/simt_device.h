/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simt_device.h - the functions that kernels call (part of cuda_runtime.h)
 */
#ifndef DT_SIMT_DEVICE_H
#define DT_SIMT_DEVICE_H

/* --- barriers and warps --- */

static inline void __syncthreads(void)
{
    simt_barrier(0);
}
static inline int __syncthreads_count(int predicate)
{
    return (int)simt_barrier(predicate != 0);
}
static inline int __syncthreads_or(int predicate)
{
    return __syncthreads_count(predicate) > 0;
}
static inline int __syncthreads_and(int predicate)
{
    return __syncthreads_count(!predicate) == 0;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    simt_gather(mask, 0);
}
static inline void __threadfence(void)
{
}
static inline void __threadfence_block(void)
{
}

static inline unsigned simt_lane(void)
{
    return (threadIdx.x +
            blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) %
           32;
}

/* The value of `lane` if that is inside this lane's segment of `width`. */
template <typename T>
static inline T simt_shuffle(unsigned mask, T value, unsigned lane, bool inside)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2,
                  "what CUDA can shuffle");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    const uint64_t *all = simt_gather(mask, bits);
    if (inside)
        memcpy((void *)&value, &all[lane % 32], sizeof(T));
    return value;
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32)
{
    unsigned w = (unsigned)width, first = simt_lane() / w * w;
    return simt_shuffle(mask, value, first + (unsigned)from % w, true);
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int bits,
                                int width = 32)
{
    /* lanes of later segments cannot be read, those of earlier ones can */
    unsigned lane = simt_lane(), from = lane ^ (unsigned)bits;
    unsigned w = (unsigned)width, end = lane / w * w + w;
    return simt_shuffle(mask, value, from, from < end);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by,
                                 int width = 32)
{
    unsigned w = (unsigned)width, lane = simt_lane();
    return simt_shuffle(mask, value, lane + by, lane % w + by < w);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by,
                               int width = 32)
{
    unsigned w = (unsigned)width, lane = simt_lane();
    return simt_shuffle(mask, value, lane - by, lane % w >= by);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate)
{
    const uint64_t *all = simt_gather(mask, predicate != 0);
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        ballot |= (unsigned)all[lane] << lane;
    return ballot;
}
static inline int __any_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate)
{
    return __ballot_sync(mask, predicate) == 0xffffffffu;
}
static inline unsigned __activemask(void)
{
    return 0xffffffffu;
}
template <typename T, typename F> static inline T simt_reduce(T x, F f)
{
    const uint64_t *all = simt_gather(0xffffffffu, (uint64_t)x);
    T result = (T)all[0];
    for (int lane = 1; lane < 32; lane++)
        result = f(result, (T)all[lane]);
    return result;
}
static inline unsigned __reduce_add_sync(unsigned, unsigned x)
{
    return simt_reduce(x, [](unsigned a, unsigned b) { return a + b; });
}
static inline unsigned __reduce_max_sync(unsigned, unsigned x)
{
    return simt_reduce(x, [](unsigned a, unsigned b) { return a > b ? a : b; });
}

/* --- atomics: of integers only, floats would add in any order --- */

template <typename T>
using simt_integer = std::enable_if_t<
    std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), T>;

template <typename T>
static inline simt_integer<T> atomicAdd(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = (T)(old + x);
    return old;
}
template <typename T>
static inline simt_integer<T> atomicSub(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = (T)(old - x);
    return old;
}
template <typename T>
static inline simt_integer<T> atomicMax(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = old > x ? old : x;
    return old;
}
template <typename T>
static inline simt_integer<T> atomicMin(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = old < x ? old : x;
    return old;
}
template <typename T>
static inline simt_integer<T> atomicOr(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = old | x;
    return old;
}
template <typename T>
static inline simt_integer<T> atomicAnd(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = old & x;
    return old;
}
template <typename T>
static inline simt_integer<T> atomicExch(T *p, std::common_type_t<T> x)
{
    T old = *p;
    *p = x;
    return old;
}
template <typename T>
static inline simt_integer<T> atomicCAS(T *p, std::common_type_t<T> expected,
                                        std::common_type_t<T> x)
{
    T old = *p;
    if (old == expected)
        *p = x;
    return old;
}
/* Goes round: 0 after `last`. */
static inline unsigned atomicInc(unsigned *p, unsigned last)
{
    unsigned old = *p;
    *p = old >= last ? 0 : old + 1;
    return old;
}

/* --- loads and stores with hints --- */

#define SIMT_LOAD(name)                                                        \
    template <typename T> static inline T name(const T *p)                     \
    {                                                                          \
        return *p;                                                             \
    }
#define SIMT_STORE(name)                                                       \
    template <typename T>                                                      \
    static inline void name(T *p, std::common_type_t<T> x)                     \
    {                                                                          \
        *p = x;                                                                \
    }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

/* --- bits --- */

template <typename To, typename From> static inline To simt_bits(From x)
{
    static_assert(sizeof(To) == sizeof(From), "same bits");
    To to;
    memcpy((void *)&to, &x, sizeof(to));
    return to;
}
static inline unsigned __float_as_uint(float x)
{
    return simt_bits<unsigned>(x);
}
static inline int __float_as_int(float x)
{
    return simt_bits<int>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return simt_bits<float>(x);
}
static inline float __int_as_float(int x)
{
    return simt_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return simt_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return simt_bits<double>(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __mulhi(int a, int b)
{
    return (int)((int64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a,
                                            unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
static inline int __clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high,
                                       unsigned shift)
{
    uint64_t both = (uint64_t)high << 32 | low;
    return (unsigned)(both << (shift & 31) >> 32);
}

/* --- arithmetic --- */

/* Names with __ are those of quick versions; the C library declares some of
 * them for itself, so that only a macro can have them.
 */
#define __expf(x) expf(x)
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, s, c) sincosf(x, s, c)
#define rsqrtf(x) simt_rsqrt((float)(x))
#define rsqrt(x) simt_rsqrt((double)(x))

static inline float simt_rsqrt(float x)
{
    return 1.0f / sqrtf(x);
}
static inline double simt_rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
static inline float __fdividef(float a, float b)
{
    return fabsf(b) > 0x1p126f && !isinf(b) ? 0.0f * a : a / b;
}
static inline float __frcp_rn(float x)
{
    return 1.0f / x;
}
static inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
static inline float __frsqrt_rn(float x)
{
    return (float)(1.0 / sqrt((double)x));
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
/* never fused */
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline double __dmul_rn(double a, double b)
{
    return a * b;
}
static inline double __dadd_rn(double a, double b)
{
    return a + b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __saturatef(float x)
{
    return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}
static inline int __float2int_rn(float x)
{
    return (int)lrintf(x);
}
static inline int __float2int_rz(float x)
{
    return (int)x;
}
static inline float __int2float_rn(int x)
{
    return (float)x;
}
static inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
static inline float __uint2float_rz(unsigned x)
{
    float f = (float)x;
    return (double)f > (double)x ? nextafterf(f, 0.0f) : f;
}
static inline float __ull2float_rn(unsigned long long x)
{
    return (float)x;
}
static inline float __double2float_rn(double x)
{
    return (float)x;
}

template <typename A, typename B>
static inline std::common_type_t<A, B> max(A a, B b)
{
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>)
        return fmax((C)a, (C)b);
    else
        return (C)a > (C)b ? (C)a : (C)b;
}
template <typename A, typename B>
static inline std::common_type_t<A, B> min(A a, B b)
{
    using C = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<C>)
        return fmin((C)a, (C)b);
    else
        return (C)a < (C)b ? (C)a : (C)b;
}

/* --- vectors --- */

#define SIMT_MAKE(base, type)                                                  \
    static inline base##2 make_##base##2(type x, type y)                       \
    {                                                                          \
        return base##2 {x, y};                                                 \
    }                                                                          \
    static inline base##3 make_##base##3(type x, type y, type z)               \
    {                                                                          \
        return base##3 {x, y, z};                                              \
    }                                                                          \
    static inline base##4 make_##base##4(type x, type y, type z, type w)       \
    {                                                                          \
        return base##4 {x, y, z, w};                                           \
    }
SIMT_MAKE(int, int)
SIMT_MAKE(uint, unsigned)
SIMT_MAKE(short, short)
SIMT_MAKE(ushort, unsigned short)
SIMT_MAKE(longlong, long long)
SIMT_MAKE(ulonglong, unsigned long long)
SIMT_MAKE(float, float)
SIMT_MAKE(double, double)
#undef SIMT_MAKE

#endif /* DT_SIMT_DEVICE_H */
