/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.cu - the hash of a tensor's bits, as fast as memory is read
 *
 * Whole numbers are added, so the blocks may come in any order.
 */
#include "config.h"

#include "ops/cuda/cuda.h"
#include "ops/hash.h"
#include "tensor/kernel.cuh"

namespace
{

typedef unsigned long long Sum;

enum {
    BLOCK = 512,
    BLOCKS = 1056, /* two rounds of four on each multiprocessor of an H200 */
    AHEAD = 4,     /* loads of a thread at once */
};

template <int W> __device__ Sum hash_vector(Vec<uint32_t, W> x, size_t i)
{
    Sum sum = 0;
    for (int j = 0; j < W; j++)
        sum += (Sum)x.v[j] * dt_hash_factor((uint32_t)(i * W + (size_t)j));
    return sum;
}

/* The first block adds the words that fill no vector. */
template <int W>
__global__ void __launch_bounds__(BLOCK)
    hash_kernel(Sum *total, const uint32_t *word, size_t words)
{
    __shared__ Sum shared[WARP];
    const Vec<uint32_t, W> *from = (const Vec<uint32_t, W> *)word;
    const size_t vecs = words / W, stride = (size_t)gridDim.x * BLOCK;
    size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    Sum sum = 0;

    for (; i + (AHEAD - 1) * stride < vecs; i += AHEAD * stride) {
        Vec<uint32_t, W> x[AHEAD];
        for (int k = 0; k < AHEAD; k++)
            x[k] = from[i + (size_t)k * stride];
        for (int k = 0; k < AHEAD; k++)
            sum += hash_vector(x[k], i + (size_t)k * stride);
    }
    for (; i < vecs; i += stride)
        sum += hash_vector(from[i], i);
    if (blockIdx.x == 0 && threadIdx.x < words % W) {
        const size_t last = vecs * W + threadIdx.x;
        sum += (Sum)word[last] * dt_hash_factor((uint32_t)last);
    }
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0)
        atomicAdd(total, sum);
}

} // namespace

extern "C" void dt_cuda_hash(struct dt_stream *stream, struct dt_view sum,
                             struct dt_view x)
{
    const size_t words = dt_view_bytes(x) / sizeof(uint32_t);
    unsigned blocks = BLOCKS;
    assert(sum.count == 1 && dt_view_bytes(x) % sizeof(uint32_t) == 0);

    if (words == 0)
        return;
    if (words < (size_t)BLOCKS * BLOCK * 4)
        blocks = blocks_for(words, BLOCK * 4);
    const uint32_t *word = (const uint32_t *)dt_view_data(x);
    launch(stream, aligned(0, 4, 4, word) ? hash_kernel<4> : hash_kernel<1>,
           blocks, BLOCK, (Sum *)dt_view_i64(sum), word, words);
}
