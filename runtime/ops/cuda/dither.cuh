/* SPDX-License-Identifier: Apache-2.0 */
/* dither.cuh - numbers in bf16 that are rounded at random: ops/dither.h */
#ifndef DT_OPS_CUDA_DITHER_CUH
#define DT_OPS_CUDA_DITHER_CUH

#include "ops/cuda/rows.cuh"
#include "ops/dither.h"

/* Calls f(X()) with the C type of dtype, in which state is kept. */
template <typename F>
static inline void with_stored_type(enum dt_dtype dtype, F f)
{
    assert(dtype == DT_F32 || dtype == DT_BF16);
    if (dtype == DT_BF16)
        f(__nv_bfloat16());
    else
        f(float());
}

/* The random words of the block that has number n. */
__device__ static inline void dither_words(uint32_t (&words)[4],
                                           const struct dt_dither &dither,
                                           enum dt_dither_kind kind, uint64_t n)
{
    const uint32_t key[2] = {(uint32_t)dither.seed,
                             (uint32_t)(dither.seed >> 32)};
    const uint64_t block = n / DT_DITHER_BLOCK;
    uint32_t counter[3];

    dt_dither_counter(counter, &dither, kind, block);
    words[0] = (uint32_t)block;
    words[1] = counter[0];
    words[2] = counter[1];
    words[3] = counter[2];
    philox(words, key);
}

/* to(W) = x, elements i .. of a view, and x becomes what is stored. W is 1, or
 * a block, and i then a multiple of it.
 */
template <int W>
__device__ static inline void store_dithered(__nv_bfloat16 *to, float (&x)[W],
                                             const struct dt_dither &dither,
                                             enum dt_dither_kind kind, size_t i)
{
    static_assert(W == 1 || W == DT_DITHER_BLOCK, "a vector is a block");
    const uint64_t n = dither.first + i;
    uint32_t words[4];
    Vec<uint16_t, W> rounded;

    dither_words(words, dither, kind, n);
#pragma unroll
    for (int j = 0; j < W; j++) {
        const unsigned at = W == 1 ? n % DT_DITHER_BLOCK : j;
        const uint32_t low = at & 2 ? words[1] : words[0];
        const uint32_t high = at & 2 ? words[3] : words[2];
        const uint32_t word = at & 4 ? high : low;
        rounded.v[j] =
            dt_bf16_at_random(x[j], at & 1 ? word >> 16 : word & 0xffff);
        x[j] = __uint_as_float((uint32_t)rounded.v[j] << 16);
    }
    store_vec<uint16_t, W>((uint16_t *)to, rounded);
}

#endif /* DT_OPS_CUDA_DITHER_CUH */
