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

/* Where the sums of the columns go, C of them each; NULL is left out. */
struct Sums {
    float *to[3];
    bool accumulate[3]; /* = or += */
};

/* Columns c < C of the parts belong to sums.to[0], the next C to to[1], ...
 * Warp i reads lines of 32 columns of the parts i, i + WARP, ...
 */
__global__ static void __launch_bounds__(WARP *WARP)
    sum_parts(Sums all, const float *partial, unsigned parts, unsigned C,
              unsigned columns)
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
        float *to = all.to[c / C];
        if (to) {
            to += c % C;
            *to = all.accumulate[c / C] ? *to + sum : sum;
        }
    }
}

/* sums.to = or += the sums of partial(parts, columns). The last of them may
 * have fewer than C.
 */
static inline void add_parts(struct dt_stream *stream, const Sums &sums,
                             const float *partial, size_t parts, size_t C,
                             size_t columns)
{
    assert(columns <= 3 * C);
    launch(stream, sum_parts, blocks_for(columns, WARP), WARP * WARP, sums,
           partial, (unsigned)parts, (unsigned)C, (unsigned)columns);
}

#endif /* DT_OPS_CUDA_PARTS_CUH */
