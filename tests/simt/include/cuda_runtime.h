/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_runtime.h - what kernels are written in, for a C++ compiler
 *
 * Each thread of a block is a fiber of ../kernel.c. Blocks run one after
 * another, so that __shared__ is static; its section lets the emulation fill
 * it with garbage. GCC 12 does not put what is in a template there:
 * ../module.mk does, and knows it by its alignment.
 */
#ifndef DT_SIMT_CUDA_RUNTIME_H
#define DT_SIMT_CUDA_RUNTIME_H

#ifndef __cplusplus
#error "kernels are C++"
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static __attribute__((section("simt_shared"), aligned(256)))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

extern "C" {

/* For the kernel they are constant: a fiber always finds its own. */
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;

/* Waits for all threads of the block; the sum of their values. */
unsigned simt_barrier(unsigned value);
/* Waits for all 32 lanes; their values, valid until this lane calls again. */
const uint64_t *simt_gather(unsigned mask, uint64_t value);

/* Dynamic shared memory of the block, and this thread's asynchronous copies
 * into it, which are made when it waits for their group.
 */
char *simt_dynamic_shared(void);
void simt_copy_async(void *to, const void *from, size_t bytes);
void simt_copy_commit(void);
void simt_copy_wait(unsigned left);

struct simt_kernel {
    const void *address;      /* of the kernel, for messages */
    void (*body)(void *call); /* runs it as the present thread */
    void (*release)(void *call);
    void *call;
    char *shared, *shared_end; /* all __shared__ of this program or module */
};
/* Takes `call`. `pointers`: arguments that are addresses. */
cudaError_t simt_launch(const cudaLaunchConfig_t *config,
                        const struct simt_kernel *kernel,
                        const void *const *pointers, size_t pointer_count);

extern char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));
}

static constexpr int warpSize = 32;

/* --- launches --- */

template <typename... Params> struct simt_call {
    void (*kernel)(Params...);
    std::tuple<Params...> args;

    static void body(void *call)
    {
        auto self = (simt_call *)call;
        std::apply(self->kernel, self->args);
    }
    static void release(void *call)
    {
        delete (simt_call *)call;
    }
};

template <typename T> static inline const void *simt_address(const T &x)
{
    if constexpr (std::is_pointer_v<T>)
        return (const void *)x;
    else
        return (void)x, nullptr;
}

template <typename... Params, typename... Args>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                                             void (*kernel)(Params...),
                                             Args &&...args)
{
    using Call = simt_call<Params...>;
    return [&](Params... a) {
        const void *pointers[] = {nullptr, simt_address(a)...};
        struct simt_kernel k = {
            (const void *)kernel, Call::body,
            Call::release,        new Call{kernel, std::tuple<Params...>(a...)},
            __start_simt_shared,  __stop_simt_shared};
        return simt_launch(config, &k, pointers,
                           sizeof(pointers) / sizeof(*pointers));
    }(std::forward<Args>(args)...);
}

/* --- calls of the runtime that C++ may make with any pointer --- */

template <typename T> static inline cudaError_t cudaMalloc(T **p, size_t bytes)
{
    return ::cudaMalloc((void **)p, bytes);
}
template <typename T>
static inline cudaError_t cudaMallocAsync(T **p, size_t bytes, cudaStream_t s)
{
    return ::cudaMallocAsync((void **)p, bytes, s);
}
template <typename T>
static inline cudaError_t cudaMallocHost(T **p, size_t bytes,
                                         unsigned flags = 0)
{
    return ::cudaHostAlloc((void **)p, bytes, flags);
}
template <typename... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...),
                                               enum cudaFuncAttribute attr,
                                               int value)
{
    return ::cudaFuncSetAttribute((const void *)kernel, attr, value);
}
template <typename... P>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, void (*kernel)(P...), int block_size, size_t shared_bytes)
{
    return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks, (const void *)kernel, block_size, shared_bytes);
}

#include "simt_device.h"

#endif /* DT_SIMT_CUDA_RUNTIME_H */
