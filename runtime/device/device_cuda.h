/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda.h - one NVIDIA GPU (private to the module) */
#ifndef DT_DEVICE_DEVICE_CUDA_H
#define DT_DEVICE_DEVICE_CUDA_H

#include <stddef.h>

#include <cuda_runtime_api.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Made by device_cuda.c; operations and comm queue their work to `cuda`. The
 * content of `workspace` is over when the operation that used it has run:
 * operations of one stream share it.
 */
struct dt_stream {
    cudaStream_t cuda;
    void *workspace; /* 256-byte aligned */
    size_t workspace_bytes;
    cudaEvent_t end; /* of what was queued before a wait */
    int (*watch)(void *ctx, struct dt_error *err); /* set by comm, or NULL */
    void *watch_ctx;
};

/* workspace_bytes of every stream that has one. */
enum { DT_CUDA_WORKSPACE = 64 << 20 };

/* Operations cannot fail, but libraries can: the first text given to
 * dt_cuda_fail is kept ("cublasLtMatmul(...): not supported"), and functions
 * that wait for a stream fail with it; dt_cuda_check gives it the error of a
 * call of CUDA, if there is one. dt_cuda_failure: that text, valid as long as
 * the process, or NULL if nothing went wrong since dt_cuda_forget_failure.
 */
void dt_cuda_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void dt_cuda_check(cudaError_t code, const char *call);
void dt_cuda_forget_failure(void);
const char *dt_cuda_failure(void);

/* "uncorrectable ECC error encountered (cudaErrorECCUncorrectable): the
 * kernel's log has more under Xid": CUDA's text and name of an error, and where
 * to read on. Valid until the thread's next call.
 */
const char *dt_cuda_words(cudaError_t code);

/* As stream_wait of struct dt_device, for operations. */
int dt_cuda_stream_wait(struct dt_stream *stream, struct dt_error *err);

/* The GPU that dt_cuda_device_open chose. */
extern const struct dt_device dt_cuda_device;

/* As in struct dt_device. */
enum dt_lap dt_cuda_lap(struct dt_stream *stream, enum dt_lap lap);
void dt_cuda_lap_times(struct dt_lap_times *times);

/* Chooses the only visible GPU, or else the one for local_rank, and makes it
 * this thread's. *capability is 90 for sm_90, *multiprocessors how many it has.
 * -1: EX_UNAVAILABLE, with the thing to check.
 */
int dt_cuda_device_open(int local_rank, int *capability, int *multiprocessors,
                        struct dt_error *err);

/* Writes a line "GPU 0: NVIDIA H200, ...\n" for each visible GPU, or "GPU: "
 * and why there is none, truncated to `bytes`.
 */
void dt_cuda_gpu_list(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DT_DEVICE_DEVICE_CUDA_H */
