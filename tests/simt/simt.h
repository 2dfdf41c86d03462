/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simt.h - the functions of the fake CUDA runtime that fake libraries need
 *
 * tests/simt runs the module for NVIDIA GPUs on the CPU, where there is neither
 * toolkit nor GPU. It is made to find mistakes: work that was queued runs only
 * while the host waits, heads of streams in an order that $SIMT_SEED chooses;
 * device memory can be touched only meanwhile; blocks and threads of a kernel
 * run in an order that the seed chooses.
 */
#ifndef DT_TESTS_SIMT_H
#define DT_TESTS_SIMT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a call that lets a piece of queued work continue. */
enum simt_progress {
    SIMT_BLOCKED, /* nothing could be done yet: call again later */
    SIMT_DONE,
    SIMT_MOVED, /* something was done, but not all */
};

/* Queues work at the end of `stream`. When everything before it is done and
 * the host waits for something, `progress(ctx)` is called again and again until
 * it returns SIMT_DONE; device memory can be touched inside it, and it must not
 * wait nor call the runtime (simt_is_*, simt_fail, simt_random are allowed).
 * Between two calls work of other streams may run. Then `release(ctx)` (may be
 * NULL) frees it.
 *
 * In a stream that is captured the work becomes part of the graph: it runs once
 * for each launch (a call after SIMT_DONE starts again) and is released with
 * the last of graph and executables. On failure (a stream that does not exist,
 * a capture that was broken) `release` is called and the error returned.
 */
cudaError_t simt_enqueue(cudaStream_t stream,
                         enum simt_progress (*progress)(void *ctx),
                         void (*release)(void *ctx), void *ctx);

/* simt_enqueue for a function that never has to wait. `release` may be NULL. */
cudaError_t simt_enqueue_call(cudaStream_t stream, void (*function)(void *data),
                              void (*release)(void *data), void *data);

/* Whether these bytes are inside one live allocation of device memory. */
bool simt_is_device(const void *data, size_t bytes);

/* Ends the process with `what` unless they are. */
void simt_expect_device(const void *data, size_t bytes, const char *what);

/* Whether these bytes are in memory from cudaMallocHost. */
bool simt_is_pinned(const void *data, size_t bytes);

/* Ends the process with "simt: ...": the program broke a rule of CUDA, which
 * would be undefined behavior on a real GPU.
 */
void simt_fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* The next random number below `bound` from $SIMT_SEED; always 0 for seed 0. To
 * be called only inside `progress`.
 */
uint32_t simt_random(uint32_t bound);

/* How often a block of any kernel has passed __syncthreads, by which a test counts
 * the turns of a loop.
 */
unsigned long long simt_barriers(void);

#ifdef __cplusplus
}
#endif

#endif /* DT_TESTS_SIMT_H */
