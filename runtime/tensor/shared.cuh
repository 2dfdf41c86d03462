/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared.cuh - dynamic shared memory, and asynchronous copies into it
 *
 * A block has as many bytes of it as launch_shared was given, of any content.
 * copy_async returns at once: what it copies is there for this thread after its
 * copy_wait, and for other threads after a barrier behind that. tests/simt
 * copies no earlier, and lets no thread return before it has waited.
 */
#ifndef DT_TENSOR_SHARED_CUH
#define DT_TENSOR_SHARED_CUH

#include "tensor/kernel.cuh"

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

#endif /* DT_TENSOR_SHARED_CUH */
