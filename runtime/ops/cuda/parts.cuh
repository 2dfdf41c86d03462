/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.cuh - sums over rows, from partial sums of blocks in the workspace
 *
 * partial(parts, columns): gradients of parameters to which every row of a
 * tensor adds. The assignment of rows to blocks is fixed and parts are summed
 * in their order, so the bits are the same in every run on one kind of GPU.
 */
#ifndef DT_OPS_CUDA_PARTS_CUH
#define DT_OPS_CUDA_PARTS_CUH

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

/* Parts of so many columns that the workspace holds, `wanted` at most. */
static inline size_t parts_that_fit(const struct dt_stream *stream,
                                    size_t columns, size_t wanted)
{
    size_t most = stream->workspace_bytes / (columns * sizeof(float));
    assert(most > 0);
    return wanted < most ? wanted : most;
}

/* Columns c < C of the parts belong to a, the others to b. Warp i reads lines
 * of 32 columns of the parts i, i + WARP, ...
 */
__global__ static void __launch_bounds__(WARP *WARP)
    sum_parts(float *a, float *b, const float *partial, unsigned parts,
              unsigned C, unsigned columns, bool accumulate)
{
    __shared__ float sums[WARP][WARP + 1];
    const unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    unsigned c = blockIdx.x * WARP + lane;
    float sum = 0.0f;

    if (c < columns) {
#pragma unroll 8
        for (unsigned i = warp; i < parts; i += WARP)
            sum += partial[(size_t)i * columns + c];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    sum = warp_sum(sums[lane][warp]);
    c = blockIdx.x * WARP + warp;
    if (lane == 0 && c < columns) {
        float *to = c < C ? a : b;
        if (to) {
            to += c < C ? c : c - C;
            *to = accumulate ? *to + sum : sum;
        }
    }
}

/* a(C) and b(C), F32, = or += the sums of partial(parts, columns): `columns` is
 * C or, for both, 2 C. NULL is left out.
 */
static inline void add_parts(struct dt_stream *stream, float *a, float *b,
                             const float *partial, size_t parts, size_t C,
                             size_t columns, bool accumulate)
{
    launch(stream, sum_parts, blocks_for(columns, WARP), WARP * WARP, a, b,
           partial, (unsigned)parts, (unsigned)C, (unsigned)columns,
           accumulate);
}

#endif /* DT_OPS_CUDA_PARTS_CUH */
