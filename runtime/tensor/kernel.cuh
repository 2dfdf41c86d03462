/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.cuh - launches, vectors and sums of CUDA kernels, in ops and comm
 *
 * Kernels compute in fp32 and round once. They use no atomics on floats: every
 * sum has one order, so every run has the same bits. So that tests/simt can
 * run them without a GPU, kernels keep to a subset: started by launch() or
 * launch_shared(), dynamic shared memory by DYNAMIC_SHARED only, blocks of
 * whole warps, all lanes of a warp at every shuffle.
 */
#ifndef DT_TENSOR_KERNEL_CUH
#define DT_TENSOR_KERNEL_CUH

#include <assert.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "device/device_cuda.h"
#include "tensor/tensor.h"

enum { WARP = 32 };

/* Queues kernel(args...) in the stream, with `bytes` of dynamic shared memory.
 * Its errors are reported when the host waits for the stream. A kernel that
 * cannot be started is noted at once, since CUB clears the error that CUDA
 * keeps.
 */
template <typename... Params, typename... Args>
static inline void launch_shared(struct dt_stream *stream,
                                 void (*kernel)(Params...), dim3 grid,
                                 dim3 block, size_t bytes, Args... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = bytes;
    config.stream = stream->cuda;
    cudaError_t code = cudaLaunchKernelEx(&config, kernel, Params(args)...);
    if (code != cudaSuccess)
        dt_cuda_fail("a kernel of %u x %u x %u blocks of %u threads could not "
                     "be started with %zu bytes of dynamic shared memory: %s",
                     grid.x, grid.y, grid.z, block.x * block.y * block.z, bytes,
                     cudaGetErrorString(code));
}

template <typename... Params, typename... Args>
static inline void launch(struct dt_stream *stream, void (*kernel)(Params...),
                          dim3 grid, dim3 block, Args... args)
{
    launch_shared(stream, kernel, grid, block, 0, args...);
}

static inline unsigned blocks_for(size_t count, size_t per_block)
{
    return (unsigned)((count + per_block - 1) / per_block);
}

/* --- types --- */

__device__ static inline float to_float(float x) { return x; }
__device__ static inline float to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
__device__ static inline float to_float(__half x) { return __half2float(x); }

template <typename X> __device__ static inline X from_float(float x);
template <> __device__ inline float from_float<float>(float x) { return x; }
template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline __half from_float<__half>(float x)
{
    return __float2half_rn(x);
}

/* Calls f(X()) with the C type of dtype, one of the compute types. */
template <typename F> static inline void with_type(enum dt_dtype dtype, F f)
{
    switch (dtype) {
    case DT_BF16:
        f(__nv_bfloat16());
        break;
    case DT_F16:
        f(__half());
        break;
    default:
        assert(dtype == DT_F32);
        f(float());
    }
}

/* The elements of a view, NULL if it is absent. */
template <typename X> static inline X *data_of(struct dt_view v)
{
    assert(v.count == 0 || dt_dtype_bytes(v.dtype) == sizeof(X));
    return v.count > 0 ? (X *)dt_view_data(v) : nullptr;
}

/* --- vectors: W neighboring elements in one access --- */

/* Copy it whole or pass it by value: nvcc loads the members of a reference one
 * by one.
 */
template <typename X, int W> struct alignas(sizeof(X) * W) Vec {
    X v[W];
};

/* Elements of X in 16 bytes. */
template <typename X> __host__ __device__ constexpr int wide()
{
    return (int)(16 / sizeof(X));
}

/* Can rows of C elements of these addresses be read W at a time? An absent
 * tensor can.
 */
static inline bool aligned(size_t C, int W, size_t size, const void *a,
                           const void *b = nullptr, const void *c = nullptr,
                           const void *d = nullptr)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d;
    return C % (size_t)W == 0 && all % ((size_t)W * size) == 0;
}

/* --- sums over warps and blocks, in a fixed order --- */

template <typename T> __device__ static inline T warp_sum(T x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ static inline float warp_max(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* All threads of the block (at most 1024) get the sum. `shared` may be used
 * before and after.
 */
template <typename T>
__device__ static inline T block_sum(T x, T (&shared)[WARP])
{
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / WARP ? shared[lane] : T(0);
    return warp_sum(x);
}

__device__ static inline float block_max(float x, float (&shared)[WARP])
{
    unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0)
        shared[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / WARP ? shared[lane] : -INFINITY;
    return warp_max(x);
}

/* --- random numbers --- */

/* Philox4x32-10, as base/rng.c has it: the counter becomes four random words.
 */
__device__ static inline void philox(uint32_t (&c)[4], const uint32_t (&key)[2])
{
    uint32_t k0 = key[0], k1 = key[1];
#pragma unroll
    for (int i = 0; i < 10; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* Declares `name`, the dynamic shared memory of the block: char, aligned to 16
 * bytes.
 */
#ifdef __CUDACC__
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) char name[]
#else
#define DYNAMIC_SHARED(name) char *const name = simt_dynamic_shared()
#endif

/* Lets launches of the kernel have up to `bytes` of dynamic shared memory,
 * which beyond 48 KiB are refused without, and asks for as much of a
 * multiprocessor's first-level cache as that takes.
 */
template <typename... Params>
static inline cudaError_t allow_shared(void (*kernel)(Params...), size_t bytes)
{
    const cudaError_t code = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    enum { MOST_PERCENT = 100 };

    return code != cudaSuccess
               ? code
               : cudaFuncSetAttribute(
                     kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                     MOST_PERCENT);
}

/* Begins to copy 16 bytes `from` global `to` shared memory, both aligned to
 * that.
 */
__device__ static inline void copy_async(void *to, const void *from)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from)
                 : "memory");
#elif defined(__CUDACC__)
    *(uint4 *)to = *(const uint4 *)from;
#else
    simt_copy_async(to, from, 16);
#endif
}

/* Ends a group of copies of this thread. */
__device__ static inline void copy_commit(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
    simt_copy_commit();
#endif
}

/* Waits for all groups of this thread but the last LEFT. */
template <int LEFT> __device__ static inline void copy_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#elif !defined(__CUDACC__)
    simt_copy_wait(LEFT);
#endif
}

#endif /* DT_TENSOR_KERNEL_CUH */
