/* SPDX-License-Identifier: Apache-2.0 */
/* matmul_pairs.c - strips of pairs of bf16, for AVX512-BF16 */
#include "config.h"

#include <immintrin.h>

#define ADD_WORDS(sum, w, x)                                                   \
    ((dt_vec)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_ps(w),      \
                              (__m512bh)(x)))

#include "ops/cpu/strip.h"

void DT_CPU(multiply_pairs)(float *sum, const struct dt_strip *strip,
                            const float *x, size_t rows, size_t depth, bool add)
{
    multiply_strip(sum, strip, x, rows, depth, add);
}
