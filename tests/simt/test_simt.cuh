/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_simt.cuh - what the tests of the emulation share
 */
#ifndef DT_SIMT_TEST_SIMT_CUH
#define DT_SIMT_TEST_SIMT_CUH

extern "C" {
#include <cmocka.h>
}

#include <cuda_runtime.h>

#include "test_simt.h"

enum { SEEDS = 20 };

template <typename... P, typename... A>
static inline cudaError_t start(cudaStream_t stream, unsigned grid,
                                unsigned block, void (*kernel)(P...), A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(block);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, P(args)...);
}

static inline void set_seed(unsigned seed)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", seed);
    setenv("SIMT_SEED", text, 1);
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline int *new_ints(size_t count)
{
    int *data;
    check(cudaMalloc(&data, count * sizeof(int)));
    return data;
}

static inline int first_of(const int *data)
{
    int value;
    check(cudaMemcpy(&value, data, sizeof(value), cudaMemcpyDefault));
    return value;
}

/* out[i] = i */
__global__ static void number(int *out, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = (int)i;
}

#endif /* DT_SIMT_TEST_SIMT_CUH */
