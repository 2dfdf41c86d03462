/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arithmetic.c - instructions that compute each lane from registers of its own
 *
 * Approximations (ex2, rcp, rsqrt, ...) are rounded results, closer than those
 * of a GPU.
 */
#include "config.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "include/simt_round.h"
#include "ptx.h"

/* --- what C has no operator for --- */

static float flushed(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0f, x) : x;
}

/* NaN only if both are; -0 is less than 0. */
#define LEAST(x, y)                                                            \
    ((x) != (x)   ? (y)                                                        \
     : (y) != (y) ? (x)                                                        \
     : (x) == (y) ? (signbit(x) ? (x) : (y))                                   \
     : (x) < (y)  ? (x)                                                        \
                  : (y))
#define GREATEST(x, y)                                                         \
    ((x) != (x)   ? (y)                                                        \
     : (y) != (y) ? (x)                                                        \
     : (x) == (y) ? (signbit(x) ? (y) : (x))                                   \
     : (x) > (y)  ? (x)                                                        \
                  : (y))

static uint32_t reversed(uint32_t x)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i++)
        r |= (x >> i & 1) << (31 - i);
    return r;
}

/* `n` bits of `f` at bit `at` of `x`. */
static uint64_t inserted(uint64_t f, uint64_t x, uint32_t at, uint32_t n,
                         uint32_t width)
{
    at &= 0xff;
    n &= 0xff;
    if (at >= width || n == 0)
        return x;
    uint64_t bits = n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1;
    return (x & ~(bits << at)) | (f & bits) << at;
}

static uint32_t extracted(uint32_t x, uint32_t at, uint32_t n)
{
    uint64_t bits = (n & 0xff) >= 32 ? UINT32_MAX : (1u << (n & 0xff)) - 1u;
    return (at & 0xff) >= 32 ? 0 : (uint32_t)(x >> (at & 0xff) & bits);
}

static uint32_t permuted(uint32_t x, uint32_t y, uint32_t how)
{
    uint64_t all = x | (uint64_t)y << 32;
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t n = how >> (4 * i),
                 byte = (uint32_t)(all >> (n & 7) * 8) & 0xff;
        if (n & 8) /* its sign */
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << (8 * i);
    }
    return r;
}

static uint32_t looked_up(uint32_t x, uint32_t y, uint32_t z, uint32_t table)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            r |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    return r;
}

static uint32_t bit_mask(uint32_t at, uint32_t n)
{
    uint64_t bits = ((uint64_t)1 << (n < 32 ? n : 32)) - 1;
    return at >= 32 ? 0 : (uint32_t)(bits << at);
}

/* What a division by zero gives is not defined: all bits, as on a GPU. */
#define QUOTIENT(x, y, none) ((y) == 0 ? (none) : (x) / (y))
#define REST(x, y) ((y) == 0 ? (x) : (x) % (y))
#define LEFT(x, y, bits) ((y) >= (bits) ? 0 : (x) << (y))
#define RIGHT(x, y, bits) ((y) >= (bits) ? 0 : (x) >> (y))
#define RIGHT_SIGNED(x, y, bits) ((x) >> ((y) >= (bits) ? (bits)-1 : (y)))

typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;

/* id, name, shape, type of the result, types of x, y and z, result */
#define UNARY(F)                                                               \
    F(mov_b32, "mov.b32", "ww", u32, u32, x)                                   \
    F(mov_b64, "mov.b64", "dd", u64, u64, x)                                   \
    F(mov_b16, "mov.b16", "hh", u32, u32, x)                                   \
    F(not_b32, "not.b32", "ww", u32, u32, ~x)                                  \
    F(not_b64, "not.b64", "dd", u64, u64, ~x)                                  \
    F(not_b16, "not.b16", "hh", u32, u32, ~x & 0xffff)                         \
    F(neg_s32, "neg.s32", "ww", u32, u32, 0 - x)                               \
    F(neg_s64, "neg.s64", "dd", u64, u64, 0 - x)                               \
    F(abs_s32, "abs.s32", "ww", u32, s32, x < 0 ? 0 - (u32)x : (u32)x)         \
    F(popc_b32, "popc.b32", "ww", u32, u32, (u32)__builtin_popcount(x))        \
    F(popc_b64, "popc.b64", "wd", u32, u64, (u32)__builtin_popcountll(x))      \
    F(clz_b32, "clz.b32", "ww", u32, u32, x ? (u32)__builtin_clz(x) : 32)      \
    F(clz_b64, "clz.b64", "wd", u32, u64, x ? (u32)__builtin_clzll(x) : 64)    \
    F(brev_b32, "brev.b32", "ww", u32, u32, reversed(x))                       \
    F(bfind_u32, "bfind.u32", "ww", u32, u32,                                  \
      x ? 31 - (u32)__builtin_clz(x) : UINT32_MAX)                             \
    F(bfind_shift_u32, "bfind.shiftamt.u32", "ww", u32, u32,                   \
      x ? (u32)__builtin_clz(x) : UINT32_MAX)                                  \
    F(neg_f32, "neg.f32", "ww", float, float, -x)                              \
    F(neg_f64, "neg.f64", "dd", double, double, -x)                            \
    F(abs_f32, "abs.f32", "ww", float, float, fabsf(x))                        \
    F(abs_f64, "abs.f64", "dd", double, double, fabs(x))                       \
    F(rcp_f32, "rcp.rn.f32", "ww", float, float, 1.0f / x)                     \
    F(rcp_ftz_f32, "rcp.approx.ftz.f32", "ww", float, float,                   \
      flushed(1.0f / flushed(x)))                                              \
    F(rcp_f64, "rcp.rn.f64", "dd", double, double, 1.0 / x)                    \
    F(sqrt_f32, "sqrt.rn.f32", "ww", float, float, sqrtf(x))                   \
    F(sqrt_f64, "sqrt.rn.f64", "dd", double, double, sqrt(x))                  \
    F(rsqrt_f32, "rsqrt.approx.f32", "ww", float, float,                       \
      (float)(1.0 / sqrt((double)x)))                                          \
    F(ex2_f32, "ex2.approx.f32", "ww", float, float, exp2f(x))                 \
    F(ex2_ftz_f32, "ex2.approx.ftz.f32", "ww", float, float,                   \
      flushed(exp2f(flushed(x))))                                              \
    F(lg2_f32, "lg2.approx.f32", "ww", float, float, log2f(x))                 \
    F(lg2_ftz_f32, "lg2.approx.ftz.f32", "ww", float, float,                   \
      log2f(flushed(x)))                                                       \
    F(sin_f32, "sin.approx.f32", "ww", float, float, sinf(x))                  \
    F(cos_f32, "cos.approx.f32", "ww", float, float, cosf(x))                  \
    F(tanh_f32, "tanh.approx.f32", "ww", float, float, tanhf(x))               \
    F(u32_of_u64, "cvt.u32.u64", "wd", u32, u64, (u32)x)                       \
    F(u64_of_u32, "cvt.u64.u32", "dw", u64, u32, x)                            \
    F(s64_of_s32, "cvt.s64.s32", "dw", s64, s32, x)                            \
    F(u32_of_u16, "cvt.u32.u16", "wh", u32, u32, x)                            \
    F(u16_of_u32, "cvt.u16.u32", "hw", u32, u32, x & 0xffff)                   \
    F(f64_of_f32, "cvt.f64.f32", "dw", double, float, (double)x)               \
    F(f32_of_f64, "cvt.rn.f32.f64", "wd", float, double, (float)x)             \
    F(f32_of_f16, "cvt.f32.f16", "wh", float, u32,                             \
      simt_from_half((unsigned short)x))                                       \
    F(f32_of_bf16, "cvt.f32.bf16", "wh", float, u32,                           \
      simt_from_bf16((unsigned short)x))                                       \
    F(f16_of_f32, "cvt.rn.f16.f32", "hw", u32, float, simt_to_half(x))         \
    F(bf16_of_f32, "cvt.rn.bf16.f32", "hw", u32, float, simt_to_bf16(x))

#define BINARY(F)                                                              \
    F(add_b32, "add.s32", "www", u32, u32, u32, x + y)                         \
    F(add_b64, "add.s64", "ddd", u64, u64, u64, x + y)                         \
    F(add_b16, "add.s16", "hhh", u32, u32, u32, (x + y) & 0xffff)              \
    F(sub_b32, "sub.s32", "www", u32, u32, u32, x - y)                         \
    F(sub_b64, "sub.s64", "ddd", u64, u64, u64, x - y)                         \
    F(sub_b16, "sub.s16", "hhh", u32, u32, u32, (x - y) & 0xffff)              \
    F(mul_b32, "mul.lo.s32", "www", u32, u32, u32, x *y)                       \
    F(mul_b64, "mul.lo.s64", "ddd", u64, u64, u64, x *y)                       \
    F(mul_b16, "mul.lo.s16", "hhh", u32, u32, u32, (x * y) & 0xffff)           \
    F(mul_wide_u32, "mul.wide.u32", "dww", u64, u32, u32, (u64)x *y)           \
    F(mul_wide_s32, "mul.wide.s32", "dww", s64, s32, s32, (s64)x *y)           \
    F(mul_wide_u16, "mul.wide.u16", "whh", u32, u32, u32, x *y)                \
    F(mul_hi_u32, "mul.hi.u32", "www", u32, u32, u32, (u32)((u64)x * y >> 32)) \
    F(mul_hi_s32, "mul.hi.s32", "www", u32, s32, s32, (u32)((s64)x * y >> 32)) \
    F(mul_hi_u64, "mul.hi.u64", "ddd", u64, u64, u64,                          \
      (u64)((unsigned __int128)x * y >> 64))                                   \
    F(and_b32, "and.b32", "www", u32, u32, u32, x &y)                          \
    F(and_b64, "and.b64", "ddd", u64, u64, u64, x &y)                          \
    F(and_b16, "and.b16", "hhh", u32, u32, u32, x &y)                          \
    F(or_b32, "or.b32", "www", u32, u32, u32, x | y)                           \
    F(or_b64, "or.b64", "ddd", u64, u64, u64, x | y)                           \
    F(or_b16, "or.b16", "hhh", u32, u32, u32, x | y)                           \
    F(xor_b32, "xor.b32", "www", u32, u32, u32, x ^ y)                         \
    F(xor_b64, "xor.b64", "ddd", u64, u64, u64, x ^ y)                         \
    F(xor_b16, "xor.b16", "hhh", u32, u32, u32, x ^ y)                         \
    F(shl_b32, "shl.b32", "www", u32, u32, u32, LEFT(x, y, 32))                \
    F(shl_b64, "shl.b64", "ddw", u64, u64, u32, LEFT(x, y, 64))                \
    F(shl_b16, "shl.b16", "hhw", u32, u32, u32, LEFT(x, y, 16) & 0xffff)       \
    F(shr_u32, "shr.u32", "www", u32, u32, u32, RIGHT(x, y, 32))               \
    F(shr_u64, "shr.u64", "ddw", u64, u64, u32, RIGHT(x, y, 64))               \
    F(shr_u16, "shr.u16", "hhw", u32, u32, u32, RIGHT(x, y, 16))               \
    F(shr_s32, "shr.s32", "www", s32, s32, u32, RIGHT_SIGNED(x, y, 32))        \
    F(shr_s64, "shr.s64", "ddw", s64, s64, u32, RIGHT_SIGNED(x, y, 64))        \
    F(bmsk_b32, "bmsk.clamp.b32", "www", u32, u32, u32, bit_mask(x, y))        \
    F(min_s32, "min.s32", "www", s32, s32, s32, x < y ? x : y)                 \
    F(min_u32, "min.u32", "www", u32, u32, u32, x < y ? x : y)                 \
    F(min_s64, "min.s64", "ddd", s64, s64, s64, x < y ? x : y)                 \
    F(min_u64, "min.u64", "ddd", u64, u64, u64, x < y ? x : y)                 \
    F(max_s32, "max.s32", "www", s32, s32, s32, x > y ? x : y)                 \
    F(max_u32, "max.u32", "www", u32, u32, u32, x > y ? x : y)                 \
    F(max_s64, "max.s64", "ddd", s64, s64, s64, x > y ? x : y)                 \
    F(max_u64, "max.u64", "ddd", u64, u64, u64, x > y ? x : y)                 \
    F(div_u32, "div.u32", "www", u32, u32, u32, QUOTIENT(x, y, UINT32_MAX))    \
    F(div_s32, "div.s32", "www", s32, s32, s32,                                \
      y == -1 ? (s32)(0 - (u32)x) : QUOTIENT(x, y, -1))                        \
    F(div_u64, "div.u64", "ddd", u64, u64, u64, QUOTIENT(x, y, UINT64_MAX))    \
    F(div_s64, "div.s64", "ddd", s64, s64, s64,                                \
      y == -1 ? (s64)(0 - (u64)x) : QUOTIENT(x, y, -1))                        \
    F(rem_u32, "rem.u32", "www", u32, u32, u32, REST(x, y))                    \
    F(rem_s32, "rem.s32", "www", s32, s32, s32, y == -1 ? 0 : REST(x, y))      \
    F(rem_u64, "rem.u64", "ddd", u64, u64, u64, REST(x, y))                    \
    F(rem_s64, "rem.s64", "ddd", s64, s64, s64, y == -1 ? 0 : REST(x, y))      \
    F(add_f32, "add.f32", "www", float, float, float, x + y)                   \
    F(sub_f32, "sub.f32", "www", float, float, float, x - y)                   \
    F(mul_f32, "mul.f32", "www", float, float, float, x *y)                    \
    F(div_f32, "div.rn.f32", "www", float, float, float, x / y)                \
    F(min_f32, "min.f32", "www", float, float, float, LEAST(x, y))             \
    F(max_f32, "max.f32", "www", float, float, float, GREATEST(x, y))          \
    F(copysign_f32, "copysign.f32", "www", float, float, float,                \
      copysignf(y, x))                                                         \
    F(add_f64, "add.f64", "ddd", double, double, double, x + y)                \
    F(sub_f64, "sub.f64", "ddd", double, double, double, x - y)                \
    F(mul_f64, "mul.f64", "ddd", double, double, double, x *y)                 \
    F(div_f64, "div.rn.f64", "ddd", double, double, double, x / y)             \
    F(min_f64, "min.f64", "ddd", double, double, double, LEAST(x, y))          \
    F(max_f64, "max.f64", "ddd", double, double, double, GREATEST(x, y))       \
    F(copysign_f64, "copysign.f64", "ddd", double, double, double,             \
      copysign(y, x))                                                          \
    F(f16x2_of_f32, "cvt.rn.f16x2.f32", "www", u32, float, float,              \
      (u32)simt_to_half(x) << 16 | simt_to_half(y))                            \
    F(bf16x2_of_f32, "cvt.rn.bf16x2.f32", "www", u32, float, float,            \
      (u32)simt_to_bf16(x) << 16 | simt_to_bf16(y))

#define TERNARY(F)                                                             \
    F(mad_b32, "mad.lo.s32", "wwww", u32, u32, u32, u32, x *y + z)             \
    F(mad_b64, "mad.lo.s64", "dddd", u64, u64, u64, u64, x *y + z)             \
    F(mad_wide_u32, "mad.wide.u32", "dwwd", u64, u32, u32, u64, (u64)x *y + z) \
    F(mad_wide_s32, "mad.wide.s32", "dwwd", u64, s32, s32, u64,                \
      (u64)((s64)x * y) + z)                                                   \
    F(fma_f64, "fma.rn.f64", "dddd", double, double, double, double,           \
      fma(x, y, z))                                                            \
    F(prmt_b32, "prmt.b32", "wwww", u32, u32, u32, u32, permuted(x, y, z))     \
    F(bfe_u32, "bfe.u32", "wwww", u32, u32, u32, u32, extracted(x, y, z))      \
    F(shf_l, "shf.l.wrap.b32", "wwww", u32, u32, u32, u32,                     \
      (u32)(((u64)y << 32 | x) << (z & 31) >> 32))                             \
    F(shf_r, "shf.r.wrap.b32", "wwww", u32, u32, u32, u32,                     \
      (u32)(((u64)y << 32 | x) >> (z & 31)))

#define ARGUMENTS struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask

#define DEFINE_UNARY(id, name, shape, D, X, result)                            \
    static void id(ARGUMENTS)                                                  \
    {                                                                          \
        D *d = ptx_register(w, i->op[0]);                                      \
        const X *a = ptx_register(w, i->op[1]);                                \
        PTX_EACH(mask, X x = a[l]; d[l] = result;);                            \
    }
#define DEFINE_BINARY(id, name, shape, D, X, Y, result)                        \
    static void id(ARGUMENTS)                                                  \
    {                                                                          \
        D *d = ptx_register(w, i->op[0]);                                      \
        const X *a = ptx_register(w, i->op[1]);                                \
        const Y *b = ptx_register(w, i->op[2]);                                \
        PTX_EACH(mask, X x = a[l]; Y y = b[l]; d[l] = result;);                \
    }
#define DEFINE_TERNARY(id, name, shape, D, X, Y, Z, result)                    \
    static void id(ARGUMENTS)                                                  \
    {                                                                          \
        D *d = ptx_register(w, i->op[0]);                                      \
        const X *a = ptx_register(w, i->op[1]);                                \
        const Y *b = ptx_register(w, i->op[2]);                                \
        const Z *c = ptx_register(w, i->op[3]);                                \
        PTX_EACH(mask, X x = a[l]; Y y = b[l]; Z z = c[l]; d[l] = result;);    \
    }
UNARY(DEFINE_UNARY)
BINARY(DEFINE_BINARY)
TERNARY(DEFINE_TERNARY)

/* --- those with other operands --- */

static void fma_f32(ARGUMENTS)
{
    float *d = ptx_register(w, i->op[0]);
    const float *a = ptx_register(w, i->op[1]);
    const float *b = ptx_register(w, i->op[2]);
    const float *c = ptx_register(w, i->op[3]);
    PTX_EACH(mask, d[l] = fmaf(a[l], b[l], c[l]););
}

/* Rounded down. */
static void fma_down(ARGUMENTS)
{
    int before = fegetround();
    fesetround(FE_DOWNWARD);
    for (unsigned l = 0; l < PTX_LANES; l++) {
        volatile float a = ((float *)ptx_register(w, i->op[1]))[l];
        volatile float b = ((float *)ptx_register(w, i->op[2]))[l];
        volatile float c = ((float *)ptx_register(w, i->op[3]))[l];
        volatile float result = fmaf(a, b, c);
        if (mask >> l & 1)
            ((float *)ptx_register(w, i->op[0]))[l] = result;
    }
    fesetround(before);
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void fma_f32_fast(ARGUMENTS)
{
    float *d = ptx_register(w, i->op[0]);
    const float *a = ptx_register(w, i->op[1]);
    const float *b = ptx_register(w, i->op[2]);
    const float *c = ptx_register(w, i->op[3]);
    PTX_EACH(mask, d[l] = fmaf(a[l], b[l], c[l]););
}
#endif

static void insert_b32(ARGUMENTS)
{
    u32 *d = ptx_words(w, i, 0);
    const u32 *f = ptx_words(w, i, 1), *x = ptx_words(w, i, 2);
    const u32 *at = ptx_words(w, i, 3), *n = ptx_words(w, i, 4);
    PTX_EACH(mask, d[l] = (u32)inserted(f[l], x[l], at[l], n[l], 32););
}

static void insert_b64(ARGUMENTS)
{
    u64 *d = ptx_longs(w, i, 0);
    const u64 *f = ptx_longs(w, i, 1), *x = ptx_longs(w, i, 2);
    const u32 *at = ptx_words(w, i, 3), *n = ptx_words(w, i, 4);
    PTX_EACH(mask, d[l] = inserted(f[l], x[l], at[l], n[l], 64););
}

static void look_up(ARGUMENTS)
{
    u32 *d = ptx_words(w, i, 0);
    const u32 *x = ptx_words(w, i, 1), *y = ptx_words(w, i, 2);
    const u32 *z = ptx_words(w, i, 3), *table = ptx_words(w, i, 4);
    PTX_EACH(mask, d[l] = looked_up(x[l], y[l], z[l], table[l]););
}

static void select_words(ARGUMENTS)
{
    u32 *d = ptx_words(w, i, 0), p = *ptx_words(w, i, 3);
    const u32 *x = ptx_words(w, i, 1), *y = ptx_words(w, i, 2);
    PTX_EACH(mask, d[l] = p >> l & 1 ? x[l] : y[l];);
}

static void select_longs(ARGUMENTS)
{
    u64 *d = ptx_longs(w, i, 0);
    const u64 *x = ptx_longs(w, i, 1), *y = ptx_longs(w, i, 2);
    u32 p = *ptx_words(w, i, 3);
    PTX_EACH(mask, d[l] = p >> l & 1 ? x[l] : y[l];);
}

static void mov_pred(ARGUMENTS)
{
    ptx_set(w, i->op[0], mask, *ptx_words(w, i, 1));
}

static void not_pred(ARGUMENTS)
{
    ptx_set(w, i->op[0], mask, ~*ptx_words(w, i, 1));
}

static void and_pred(ARGUMENTS)
{
    ptx_set(w, i->op[0], mask, *ptx_words(w, i, 1) & *ptx_words(w, i, 2));
}

static void or_pred(ARGUMENTS)
{
    ptx_set(w, i->op[0], mask, *ptx_words(w, i, 1) | *ptx_words(w, i, 2));
}

static void xor_pred(ARGUMENTS)
{
    ptx_set(w, i->op[0], mask, *ptx_words(w, i, 1) ^ *ptx_words(w, i, 2));
}

/* Halves of a register, the lower first. */
static void pack_halves(ARGUMENTS)
{
    u32 *d = ptx_words(w, i, 0);
    const u32 *low = ptx_words(w, i, 1), *high = ptx_words(w, i, 2);
    PTX_EACH(mask, d[l] = low[l] | high[l] << 16;);
}

static void pack_words(ARGUMENTS)
{
    u64 *d = ptx_longs(w, i, 0);
    const u32 *low = ptx_words(w, i, 1), *high = ptx_words(w, i, 2);
    PTX_EACH(mask, d[l] = low[l] | (u64)high[l] << 32;);
}

static void unpack_halves(ARGUMENTS)
{
    u32 *low = ptx_words(w, i, 0), *high = ptx_words(w, i, 1);
    const u32 *x = ptx_words(w, i, 2);
    PTX_EACH(mask, u32 both = x[l]; low[l] = both & 0xffff;
             high[l] = both >> 16;);
}

static void unpack_words(ARGUMENTS)
{
    u32 *low = ptx_words(w, i, 0), *high = ptx_words(w, i, 1);
    const u64 *x = ptx_longs(w, i, 2);
    PTX_EACH(mask, u64 both = x[l]; low[l] = (u32)both;
             high[l] = (u32)(both >> 32););
}

static void nothing(ARGUMENTS)
{
    (void)w;
    (void)i;
    (void)mask;
}

struct entry {
    const char *name, *shape;
    ptx_execute_f execute;
};

#define ENTER_UNARY(id, name, shape, D, X, result) {name, shape, id},
#define ENTER_BINARY(id, name, shape, D, X, Y, result) {name, shape, id},
#define ENTER_TERNARY(id, name, shape, D, X, Y, Z, result) {name, shape, id},
static const struct entry TABLE[] = {
    UNARY(ENTER_UNARY) BINARY(ENTER_BINARY)
        TERNARY(ENTER_TERNARY){"mov.u32", "ww", mov_b32},
    {"mov.s32", "ww", mov_b32},
    {"mov.f32", "ww", mov_b32},
    {"mov.u64", "dd", mov_b64},
    {"mov.s64", "dd", mov_b64},
    {"mov.f64", "dd", mov_b64},
    {"mov.u16", "hh", mov_b16},
    {"mov.pred", "pp", mov_pred},
    {"mov.b32.pack", "w2h", pack_halves},
    {"mov.b64.pack", "d2w", pack_words},
    {"mov.b32.unpack", "2hw", unpack_halves},
    {"mov.b64.unpack", "2wd", unpack_words},
    {"add.u32", "www", add_b32},
    {"add.u64", "ddd", add_b64},
    {"sub.u32", "www", sub_b32},
    {"sub.u64", "ddd", sub_b64},
    {"mul.lo.u32", "www", mul_b32},
    {"mul.lo.u64", "ddd", mul_b64},
    {"mad.lo.u32", "wwww", mad_b32},
    {"mad.lo.u64", "dddd", mad_b64},
    {"shr.b32", "www", shr_u32},
    {"shr.b64", "ddw", shr_u64},
    {"add.rn.f32", "www", add_f32},
    {"sub.rn.f32", "www", sub_f32},
    {"mul.rn.f32", "www", mul_f32},
    {"add.rn.f64", "ddd", add_f64},
    {"sub.rn.f64", "ddd", sub_f64},
    {"mul.rn.f64", "ddd", mul_f64},
    {"div.approx.f32", "www", div_f32},
    {"div.full.f32", "www", div_f32},
    {"rcp.approx.f32", "ww", rcp_f32},
    {"sqrt.approx.f32", "ww", sqrt_f32},
    {"fma.rn.f32", "wwww", fma_f32},
    {"fma.rm.f32", "wwww", fma_down},
    {"bfi.b32", "wwwww", insert_b32},
    {"bfi.b64", "dddww", insert_b64},
    {"lop3.b32", "wwwww", look_up},
    {"selp.b32", "wwwp", select_words},
    {"selp.u32", "wwwp", select_words},
    {"selp.s32", "wwwp", select_words},
    {"selp.f32", "wwwp", select_words},
    {"selp.b16", "hhhp", select_words},
    {"selp.u16", "hhhp", select_words},
    {"selp.s16", "hhhp", select_words},
    {"selp.b64", "dddp", select_longs},
    {"selp.u64", "dddp", select_longs},
    {"selp.s64", "dddp", select_longs},
    {"selp.f64", "dddp", select_longs},
    {"not.pred", "pp", not_pred},
    {"and.pred", "ppp", and_pred},
    {"or.pred", "ppp", or_pred},
    {"xor.pred", "ppp", xor_pred},
    /* blocks run one after another, and a lane sees what another has stored */
    {"membar.cta", "", nothing},
    {"membar.gl", "", nothing},
    {"fence.acq_rel.gpu", "", nothing},
};

const char *ptx_decode_arithmetic(struct ptx_instr *i, const char *opcode)
{
    for (size_t n = 0; n < sizeof(TABLE) / sizeof(TABLE[0]); n++)
        if (strcmp(TABLE[n].name, opcode) == 0) {
            i->execute = TABLE[n].execute;
#ifdef __x86_64__
            if (i->execute == fma_f32 && __builtin_cpu_supports("fma") &&
                __builtin_cpu_supports("avx2"))
                i->execute = fma_f32_fast;
#endif
            return TABLE[n].shape;
        }
    return NULL;
}
