/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.cuh - how tensors are divided among warps, and vectors of X as fp32
 *
 * A thread of a kernel reads all its inputs before it writes: outputs may be
 * inputs, so the compiler may not move a read above a write.
 */
#ifndef DT_OPS_CUDA_ROWS_CUH
#define DT_OPS_CUDA_ROWS_CUH

#include <string.h>
#include <type_traits>

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

template <typename X, int W>
__device__ static inline Vec<X, W> load_vec(const X *from)
{
    return *(const Vec<X, W> *)from;
}

template <typename X, int W>
__device__ static inline void store_vec(X *to, const Vec<X, W> &v)
{
    *(Vec<X, W> *)to = v;
}

/* Two numbers that share a register are rounded by one instruction. */
__device__ static inline __nv_bfloat162 round_pair(__nv_bfloat16, float low,
                                                   float high)
{
    return __floats2bfloat162_rn(low, high);
}
__device__ static inline __half2 round_pair(__half, float low, float high)
{
    return __floats2half2_rn(low, high);
}

template <typename X, int W>
__device__ static inline Vec<X, W> from_floats(const float (&from)[W])
{
    Vec<X, W> v;
    if constexpr (sizeof(X) == 2 && W % 2 == 0) {
#pragma unroll
        for (int i = 0; i < W; i += 2) {
            auto pair = round_pair(X(), from[i], from[i + 1]);
            memcpy((void *)&v.v[i], &pair, sizeof(pair));
        }
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            v.v[i] = from_float<X>(from[i]);
    }
    return v;
}

template <typename X, int W>
__device__ static inline void store_floats(X *to, const float (&from)[W])
{
    store_vec<X, W>(to, from_floats<X, W>(from));
}

/* Two bf16 numbers that share a register are converted in place. */
template <typename X, int W>
__device__ static inline void to_floats(float (&to)[W], const Vec<X, W> &v)
{
    if constexpr (std::is_same<X, __nv_bfloat16>::value && W % 2 == 0) {
#pragma unroll
        for (int i = 0; i < W; i += 2) {
            uint32_t pair;
            memcpy(&pair, &v.v[i], sizeof(pair));
            to[i] = __uint_as_float(pair << 16);
            to[i + 1] = __uint_as_float(pair & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < W; i++)
            to[i] = to_float(v.v[i]);
    }
}

template <typename X, int W>
__device__ static inline void load_floats(float (&to)[W], const X *from)
{
    to_floats<X, W>(to, load_vec<X, W>(from));
}

/* Calls f with the constants W = wide<X>() or 1. */
template <int W> struct Width {
    static constexpr int value = W;
};
template <typename X, typename F>
static inline void with_width(bool is_wide, F f)
{
    if (is_wide)
        f(Width<wide<X>()>());
    else
        f(Width<1>());
}

/* --- tiles: a warp takes up to WARP * TILE_VECS vectors of one row --- */

enum { TILE_VECS = 4, TILE_WARPS = 8, TILE_THREADS = TILE_WARPS * WARP };

static inline unsigned tiles_of_row(size_t vecs)
{
    return blocks_for(vecs, WARP * TILE_VECS);
}

/* Blocks of TILE_THREADS for N rows. */
static inline unsigned tile_blocks(size_t N, size_t vecs)
{
    assert(N * tiles_of_row(vecs) <= UINT32_MAX);
    return blocks_for(N * tiles_of_row(vecs), TILE_WARPS);
}

/* This thread has vectors first, first + WARP, ... of row n: TILE_VECS of them,
 * fewer at the end of the row, none if there is no row n.
 */
struct Tile {
    size_t n;
    unsigned first;
};
__device__ static inline Tile this_tile(unsigned per_row)
{
    unsigned tile = blockIdx.x * TILE_WARPS + threadIdx.x / WARP;
    unsigned part = tile % per_row;
    return {tile / per_row, part * WARP * TILE_VECS + threadIdx.x % WARP};
}

/* Blocks of TILE_THREADS for a tensor without rows; each thread has TILE_VECS
 * vectors, TILE_THREADS apart, from flat_first() on.
 */
static inline unsigned flat_blocks(size_t vecs)
{
    return blocks_for(vecs, TILE_THREADS * TILE_VECS);
}

__device__ static inline size_t flat_first()
{
    return (size_t)blockIdx.x * (TILE_THREADS * TILE_VECS) + threadIdx.x;
}

#endif /* DT_OPS_CUDA_ROWS_CUH */
