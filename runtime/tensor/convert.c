/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - converts elements between types */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "tensor/tensor.h"
#include "tensor/half.h"

static inline uint16_t bf16_to_f16(uint16_t half)
{
    return dt_f32_to_f16(dt_bf16_to_f32(half));
}

static inline uint16_t f16_to_bf16(uint16_t half)
{
    return dt_f32_to_bf16(dt_f16_to_f32(half));
}

static inline float f64_to_f32(double value)
{
    return (float)value;
}

static inline uint16_t f64_to_bf16(double value)
{
    return dt_f32_to_bf16((float)value);
}

static inline uint16_t f64_to_f16(double value)
{
    return dt_f32_to_f16((float)value);
}

/* A loop of `function`, from FROM to TO. */
#define LOOP(name, function, TO, FROM)                                         \
    static void name(char *restrict to, const char *restrict from,             \
                     size_t count)                                             \
    {                                                                          \
        _Pragma("omp simd") for (size_t i = 0; i < count; i++)                 \
        {                                                                      \
            FROM in;                                                           \
            memcpy(&in, from + i * sizeof(in), sizeof(in));                    \
            TO out = function(in);                                             \
            memcpy(to + i * sizeof(out), &out, sizeof(out));                   \
        }                                                                      \
    }

LOOP(f32_from_bf16, dt_bf16_to_f32, float, uint16_t)
LOOP(f32_from_f16, dt_f16_to_f32, float, uint16_t)
LOOP(bf16_from_f32, dt_f32_to_bf16, uint16_t, float)
LOOP(bf16_from_f16, f16_to_bf16, uint16_t, uint16_t)
LOOP(f16_from_f32, dt_f32_to_f16, uint16_t, float)
LOOP(f16_from_bf16, bf16_to_f16, uint16_t, uint16_t)
LOOP(f32_from_f64, f64_to_f32, float, double)
LOOP(bf16_from_f64, f64_to_bf16, uint16_t, double)
LOOP(f16_from_f64, f64_to_f16, uint16_t, double)

void dt_convert(void *to, enum dt_dtype to_dtype, const void *from,
                enum dt_dtype from_dtype, size_t count)
{
    static void (*const loops[3][3])(char *restrict, const char *restrict,
                                     size_t) = {
        [DT_F32] = {[DT_BF16] = f32_from_bf16, [DT_F16] = f32_from_f16},
        [DT_BF16] = {[DT_F32] = bf16_from_f32, [DT_F16] = bf16_from_f16},
        [DT_F16] = {[DT_F32] = f16_from_f32, [DT_BF16] = f16_from_bf16},
    };
    if (to_dtype == from_dtype) {
        if (count > 0)
            memcpy(to, from, count * dt_dtype_bytes(to_dtype));
        return;
    }
    assert(dt_dtype_is_float(to_dtype));
    if (from_dtype == DT_F64) {
        (to_dtype == DT_F32    ? f32_from_f64
         : to_dtype == DT_BF16 ? bf16_from_f64
                               : f16_from_f64)(to, from, count);
        return;
    }
    assert(dt_dtype_is_float(from_dtype));
    loops[to_dtype][from_dtype](to, from, count);
}

/* The exponents of NaN and infinity are all ones: adding one to them carries
 * into the sign bit.
 */
#define OVERFLOWS(name, BITS, SIGN, LOWEST)                                    \
    static bool name(const char *data, size_t count)                           \
    {                                                                          \
        BITS found = 0;                                                        \
        _Pragma("omp simd reduction(|:found)") for (size_t i = 0; i < count;   \
                                                    i++)                       \
        {                                                                      \
            BITS bits;                                                         \
            memcpy(&bits, data + i * sizeof(bits), sizeof(bits));              \
            found |= (BITS)((bits & ~(SIGN)) + (LOWEST));                      \
        }                                                                      \
        return found & (SIGN);                                                 \
    }

OVERFLOWS(f32_overflows, uint32_t, 0x80000000U, 0x00800000U)
OVERFLOWS(bf16_overflows, uint16_t, 0x8000U, 0x0080U)
OVERFLOWS(f16_overflows, uint16_t, 0x8000U, 0x0400U)

bool dt_is_finite(const void *data, enum dt_dtype dtype, size_t count)
{
    assert(dt_dtype_is_float(dtype));
    return dtype == DT_F32    ? !f32_overflows(data, count)
           : dtype == DT_BF16 ? !bf16_overflows(data, count)
                              : !f16_overflows(data, count);
}
