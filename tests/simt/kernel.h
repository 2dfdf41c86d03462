/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - what include/cuda_runtime.h declares for C++, for kernel.c
 */
#ifndef DT_SIMT_KERNEL_H
#define DT_SIMT_KERNEL_H

#include "simt.h"

struct simt_kernel {
    const void *address;
    void (*body)(void *call);
    void (*release)(void *call);
    void *call;
    char *shared, *shared_end;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* Waits for all threads of the block. Returns the sum of their values. */
unsigned simt_barrier(unsigned value);
/* Waits for all lanes of the warp. Returns their values, which are valid until
 * the next call on this lane.
 */
const uint64_t *simt_gather(unsigned mask, uint64_t value);
/* The dynamic shared memory of the kernel that runs: as many bytes as it was
 * launched with, NaN at first.
 */
char *simt_dynamic_shared(void);
/* Asynchronous copies of this thread into it. One leaves NaN at `to` until a
 * wait, which makes, in any order, those of all groups that were committed but
 * the last `left`.
 */
void simt_copy_async(void *to, const void *from, size_t bytes);
void simt_copy_commit(void);
void simt_copy_wait(unsigned left);
/* Queues a kernel and takes ownership of kernel->call. `pointers`: which of its
 * arguments are addresses, counted from 1.
 */
cudaError_t simt_launch(const cudaLaunchConfig_t *config,
                        const struct simt_kernel *kernel,
                        const void *const *pointers, size_t pointer_count);
/* Queues the work of a kernel by another name, if CUDA would start it; on
 * failure releases it.
 */
struct simt_work;
cudaError_t simt_launch_work(const cudaLaunchConfig_t *config,
                             const void *address, struct simt_work work);

#endif /* DT_SIMT_KERNEL_H */
