/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda.c - memory, streams, events and graphs of one NVIDIA GPU */
#include "config.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h> /* is all in the header */
#define HAVE_NVTX 1
#endif

#include "device/device_cuda.h"

/* GPU memory held back for kernels, ours and of libraries, which are loaded
 * lazily.
 */
enum { KERNEL_RESERVE = 512 << 20 };

static const double GiB = 1 << 30;

static struct {
    int index;          /* of the GPU that was opened */
    size_t bytes, peak; /* allocated on it */
    char text[160];     /* of describe */
} gpu = {.index = -1};

/* Sets err to "<formatted call>: <CUDA's text>" and clears CUDA's error, unless
 * it is sticky.
 */
__attribute__((format(printf, 3, 4))) static int cuda_failed(
    struct dt_error *err, cudaError_t code, const char *fmt, ...)
{
    char call[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(call, sizeof(call), fmt, args);
    va_end(args);
    cudaGetLastError();
    bool hardware = code == cudaErrorECCUncorrectable ||
                    code == cudaErrorNvlinkUncorrectable ||
                    code == cudaErrorHardwareStackError;
    return dt_error_set(err, EX_OSERR, "%s: %s (%s)%s", call,
                        cudaGetErrorString(code), cudaGetErrorName(code),
                        hardware ? ": the kernel's log has more under Xid"
                                 : "");
}

void dt_cuda_check(cudaError_t code, const char *call)
{
    if (code != cudaSuccess)
        dt_cuda_fail("%s: %s (%s)", call, cudaGetErrorString(code),
                     cudaGetErrorName(code));
}

/* --- memory --- */

static int out_of_memory(struct dt_error *err, size_t bytes)
{
    size_t free_bytes = 0, total = 0;
    cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        total = 0;
    return dt_error_set(
        err, EX_OSERR,
        "cudaMalloc(%zu bytes): out of memory: %.1f of %.1f GiB of GPU %d are "
        "free, this process has %.1f",
        bytes, (double)free_bytes / GiB, (double)total / GiB, gpu.index,
        (double)gpu.bytes / GiB);
}

/* Everything is allocated before the first step, so a pool would gain nothing.
 * Memory that is allocated later must be zero before any stream reads it.
 */
static int cuda_allocate(size_t bytes, void **data, struct dt_error *err)
{
    cudaError_t code = cudaMalloc(data, bytes);
    if (code == cudaErrorMemoryAllocation)
        return out_of_memory(err, bytes);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaMalloc(%zu bytes)", bytes);
    code = cudaMemset(*data, 0, bytes);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(NULL);
    if (code != cudaSuccess) {
        cudaFree(*data);
        return cuda_failed(err, code, "cudaMemset(%zu bytes)", bytes);
    }
    gpu.bytes += bytes;
    if (gpu.bytes > gpu.peak)
        gpu.peak = gpu.bytes;
    return 0;
}

static void cuda_release(void *data, size_t bytes)
{
    cudaFree(data);
    gpu.bytes -= bytes;
}

static int allocate_staging(size_t bytes, void **data, struct dt_error *err)
{
    cudaError_t code = cudaMallocHost(data, bytes);
    if (code != cudaSuccess)
        return cuda_failed(err, code,
                           "cudaMallocHost(%zu bytes of page-locked memory)",
                           bytes);
    memset(*data, 0, bytes);
    return 0;
}

static void release_staging(void *data, size_t bytes)
{
    (void)bytes;
    cudaFreeHost(data);
}

static int cuda_lock(void *data, size_t bytes, struct dt_error *err)
{
    cudaError_t code = cudaHostRegister(data, bytes, cudaHostRegisterDefault);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaHostRegister(%zu bytes)", bytes);
    return 0;
}

static void cuda_unlock(void *data)
{
    cudaHostUnregister(data);
}

static size_t available_bytes(void)
{
    size_t free_bytes, total;
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        return SIZE_MAX;
    return free_bytes > KERNEL_RESERVE ? free_bytes - KERNEL_RESERVE : 0;
}

#ifdef HAVE_NVTX
static void range_begin(const char *name)
{
    nvtxRangePushA(name);
}

static void range_end(void)
{
    nvtxRangePop();
}
#endif

static size_t used_bytes(void)
{
    return gpu.bytes;
}

static size_t peak_bytes(void)
{
    return gpu.peak;
}

/* --- streams --- */

static void stream_destroy(struct dt_stream *stream)
{
    if (!stream)
        return;
    if (stream->workspace)
        cuda_release(stream->workspace, stream->workspace_bytes);
    if (stream->cuda)
        cudaStreamDestroy(stream->cuda);
    free(stream);
}

static int stream_create(struct dt_stream **stream, struct dt_error *err)
{
    struct dt_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return dt_error_set(err, EX_OSERR, "out of memory");
    cudaError_t code =
        cudaStreamCreateWithFlags(&s->cuda, cudaStreamNonBlocking);
    if (code != cudaSuccess) {
        cuda_failed(err, code, "cudaStreamCreateWithFlags");
        goto error;
    }
    if (cuda_allocate(DT_CUDA_WORKSPACE, &s->workspace, err) < 0)
        goto error;
    s->workspace_bytes = DT_CUDA_WORKSPACE;
    *stream = s;
    return 0;
error:
    stream_destroy(s);
    return -1;
}

/* Launches return nothing; CUDA keeps their error for each thread. An event
 * that was not reached yet is no error, but may be kept as one.
 */
static int check_launches(struct dt_error *err)
{
    cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorNotReady)
        return cuda_failed(err, code, "a kernel could not be started");
    return 0;
}

/* The same for the operations of the thread that queues them. */
static int check_queued(struct dt_error *err)
{
    const char *text = dt_cuda_failure();
    if (text)
        return dt_error_set(err, EX_SOFTWARE, "%s", text);
    return check_launches(err);
}

static int stream_wait(struct dt_stream *stream, struct dt_error *err)
{
    if (check_queued(err) < 0)
        return -1;
    cudaError_t code = cudaStreamSynchronize(stream->cuda);
    if (code != cudaSuccess)
        return cuda_failed(err, code,
                           "cudaStreamSynchronize, of work queued before");
    return 0;
}

static bool is_pageable(const void *data)
{
    struct cudaPointerAttributes is;
    return cudaPointerGetAttributes(&is, data) == cudaSuccess &&
           is.type == cudaMemoryTypeUnregistered;
}

/* A GPU that reads pageable memory by itself (HMM, ATS) may do so after the
 * call has returned.
 */
static int cuda_copy(struct dt_stream *stream, void *to, const void *from,
                     size_t bytes, struct dt_error *err)
{
    cudaError_t code =
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->cuda);
    if (code == cudaSuccess && (is_pageable(from) || is_pageable(to)))
        code = cudaStreamSynchronize(stream->cuda);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaMemcpyAsync(%zu bytes)", bytes);
    return 0;
}

/* --- events: a struct dt_event is CUDA's own --- */

static int event_create(struct dt_event **event, struct dt_error *err)
{
    cudaEvent_t cuda;
    cudaError_t code = cudaEventCreateWithFlags(&cuda, cudaEventDisableTiming);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaEventCreateWithFlags");
    *event = (struct dt_event *)cuda;
    return 0;
}

static void event_destroy(struct dt_event *event)
{
    if (event)
        cudaEventDestroy((cudaEvent_t)event);
}

static int event_record(struct dt_event *event, struct dt_stream *stream,
                        struct dt_error *err)
{
    if (check_queued(err) < 0)
        return -1;
    cudaError_t code = cudaEventRecord((cudaEvent_t)event, stream->cuda);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaEventRecord");
    return 0;
}

/* A thread that never chose a GPU would create a context on GPU 0. */
static void choose_gpu(void)
{
    static _Thread_local bool chosen;
    if (!chosen)
        cudaSetDevice(gpu.index);
    chosen = true;
}

static int event_done(struct dt_event *event, struct dt_error *err)
{
    choose_gpu();
    if (check_launches(err) < 0)
        return -1;
    cudaError_t code = cudaEventQuery((cudaEvent_t)event);
    if (code == cudaErrorNotReady)
        return 0;
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaEventQuery, of work queued before");
    return 1;
}

/* --- graphs: a struct dt_graph is CUDA's executable one --- */

/* Only this thread is restricted to calls that can be recorded: others may
 * still wait for their events.
 */
static int record_begin(struct dt_stream *stream, struct dt_error *err)
{
    if (check_queued(err) < 0)
        return -1;
    cudaError_t code =
        cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeThreadLocal);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaStreamBeginCapture");
    return 0;
}

static int record_end(struct dt_stream *stream, struct dt_graph **graph,
                      struct dt_error *err)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t exec = NULL;
    int queued = check_queued(err); /* says more than the errors that follow */
    dt_cuda_forget_failure();       /* nothing has run */
    const char *call = "cudaStreamEndCapture";
    cudaError_t code = cudaStreamEndCapture(stream->cuda, &recorded);
    if (code == cudaSuccess) {
        call = "cudaGraphInstantiate";
        code = cudaGraphInstantiate(&exec, recorded, 0);
    }
    if (code == cudaSuccess) {
        call = "cudaGraphUpload";
        code = cudaGraphUpload(exec, stream->cuda);
    }
    if (recorded)
        cudaGraphDestroy(recorded);
    if (queued == 0 && code == cudaSuccess) {
        *graph = (struct dt_graph *)exec;
        return 0;
    }
    if (exec)
        cudaGraphExecDestroy(exec);
    return queued < 0 ? -1 : cuda_failed(err, code, "%s", call);
}

static int cuda_replay(struct dt_stream *stream, struct dt_graph *graph,
                       struct dt_error *err)
{
    cudaError_t code = cudaGraphLaunch((cudaGraphExec_t)graph, stream->cuda);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaGraphLaunch");
    return 0;
}

static void graph_destroy(struct dt_graph *graph)
{
    if (graph)
        cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

static const char *cuda_describe(void)
{
    return gpu.text;
}

static const char *cuda_bus_id(void)
{
    static char id[32];
    cudaError_t code = cudaDeviceGetPCIBusId(id, sizeof(id), gpu.index);
    return code == cudaSuccess ? id : NULL;
}

int dt_cuda_device_open(int local_rank, int *capability, int *multiprocessors,
                        struct dt_error *err)
{
    int index = dt_cuda_gpu_choose(local_rank, capability, err);
    if (index < 0)
        return -1;
    cudaError_t code = cudaSetDevice(index);
    if (code != cudaSuccess)
        return dt_error_set(err, EX_UNAVAILABLE, "cudaSetDevice(%d): %s", index,
                            cudaGetErrorString(code));
    code = cudaDeviceGetAttribute(multiprocessors,
                                  cudaDevAttrMultiProcessorCount, index);
    if (code != cudaSuccess)
        return cuda_failed(err, code, "cudaDeviceGetAttribute(%d)", index);
    gpu.index = index;
    dt_cuda_gpu_describe(index, gpu.text, sizeof(gpu.text));
    return 0;
}

const struct dt_device dt_cuda_device = {
    .name = "cuda",
    .is_host = false,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .allocate_staging = allocate_staging,
    .release_staging = release_staging,
    .lock = cuda_lock,
    .unlock = cuda_unlock,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = stream_wait,
    .copy = cuda_copy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_done = event_done,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = cuda_replay,
    .graph_destroy = graph_destroy,
    .lap = dt_cuda_lap,
    .lap_times = dt_cuda_lap_times,
    .available_bytes = available_bytes,
#ifdef HAVE_NVTX
    .range_begin = range_begin,
    .range_end = range_end,
#endif
    .used_bytes = used_bytes,
    .peak_bytes = peak_bytes,
    .describe = cuda_describe,
    .bus_id = cuda_bus_id,
};
