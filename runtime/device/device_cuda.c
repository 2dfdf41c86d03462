/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda.c - an NVIDIA GPU: its choice, memory, streams, events, graphs */
#include "config.h"

#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h> /* is all in the header */
#define HAVE_NVTX 1
#endif

#include "base/clock.h"
#include "device/device_cuda.h"

/* --- the choice of a GPU, or why there is none --- */

/* The lowest capability that computes in bf16. */
enum { BF16_CAPABILITY = 80 };

/* The oldest driver of a toolkit ("CUDA Toolkit Release Notes", table of
 * minor version compatibility), NULL for one that is newer than this file.
 */
static const char *oldest_driver(int toolkit)
{
    return toolkit / 1000 == 12 ? "525" : toolkit / 1000 == 13 ? "580" : NULL;
}

static int no_driver(int driver, struct dt_error *err)
{
    int toolkit = 0;
    cudaRuntimeGetVersion(&toolkit);
    const char *oldest = oldest_driver(toolkit);
    if (driver == 0)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "there is no NVIDIA driver here (no libcuda.so.1): "
                            "this is no GPU node, or a container that was not "
                            "started for GPUs");
    return dt_error_set(err, EX_UNAVAILABLE,
                        "the NVIDIA driver is for CUDA %d.%d and older, and "
                        "this disttrain was built with %d.%d: it needs %s%s",
                        driver / 1000, driver % 1000 / 10, toolkit / 1000,
                        toolkit % 1000 / 10, oldest ? "driver " : "a newer one",
                        oldest ? oldest : "");
}

static int no_gpu(struct dt_error *err)
{
    char host[128] = "this host";
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    gethostname(host, sizeof(host) - 1);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "no GPU is visible on %s (CUDA_VISIBLE_DEVICES %s%s): "
                        "ask for some with --gpus-per-node",
                        host, visible ? "is " : "is not set",
                        visible && *visible ? visible
                        : visible           ? "empty"
                                            : "");
}

static int count_gpus(struct dt_error *err)
{
    int count = 0, driver = 0;
    cudaError_t code = cudaGetDeviceCount(&count);
    if (code == cudaSuccess && count > 0)
        return count;
    cudaGetLastError();
    cudaDriverGetVersion(&driver);
    if (code == cudaErrorInsufficientDriver || driver == 0)
        return no_driver(driver, err);
    if (code == cudaSuccess || code == cudaErrorNoDevice)
        return no_gpu(err);
    return dt_error_set(err, EX_UNAVAILABLE, "cudaGetDeviceCount: %s",
                        dt_cuda_words(code));
}

static int capability_of(int index)
{
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    return major * 10 + minor;
}

/* Machine code runs on GPUs of its own generation with at least its number. For
 * newer generations the driver compiles the newest PTX.
 */
static bool is_built_for(int capability)
{
    int arch = 0;
    for (const char *list = DT_CUDA_ARCHS; *list;) {
        char *end;
        arch = (int)strtol(list, &end, 10);
        list = end + strspn(end, " ");
        if (capability / 10 == arch / 10 && capability >= arch)
            return true;
    }
    return capability > arch;
}

/* The index of the only visible GPU, or else of the one for local_rank, and its
 * capability; nothing is allocated on it. -1: EX_UNAVAILABLE, with the thing to
 * check: there is no driver, or it is too old, or no GPU, or fewer than ranks,
 * or this module is not built for it.
 */
static int choose(int local_rank, int *capability, struct dt_error *err)
{
    int count = count_gpus(err);
    int index = count == 1 ? 0 : local_rank;
    if (count < 0)
        return -1;
    if (index >= count) {
        char host[128] = "this host";
        gethostname(host, sizeof(host) - 1);
        return dt_error_set(err, EX_UNAVAILABLE,
                            "this is local rank %d, and only %d GPUs are "
                            "visible on %s: --ntasks-per-node and "
                            "--gpus-per-node must be the same",
                            local_rank, count, host);
    }
    *capability = capability_of(index);
    if (*capability < BF16_CAPABILITY)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "GPU %d is sm_%d, which is older than sm_%d: it "
                            "cannot compute in bf16",
                            index, *capability, (int)BF16_CAPABILITY);
    if (!is_built_for(*capability))
        return dt_error_set(
            err, EX_UNAVAILABLE,
            "GPU %d is sm_%d, and this disttrain is built for " DT_CUDA_ARCHS
            ": configure it --with-cuda-arch=%d",
            index, *capability, *capability);
    return index;
}

/* Writes "NVIDIA H200, 139.8 GiB, sm_90, driver 13.0". */
static void describe(int index, char *text, size_t bytes)
{
    struct cudaDeviceProp prop;
    int driver = 0;
    cudaError_t code = cudaGetDeviceProperties(&prop, index);
    cudaDriverGetVersion(&driver);
    if (code != cudaSuccess)
        snprintf(text, bytes, "%s", cudaGetErrorString(code));
    else
        snprintf(text, bytes, "%.100s, %.1f GiB, sm_%d%d, driver %d.%d",
                 prop.name, (double)prop.totalGlobalMem / (1 << 30), prop.major,
                 prop.minor, driver / 1000, driver % 1000 / 10);
}

void dt_cuda_gpu_list(char *text, size_t bytes)
{
    struct dt_error err;
    int count = count_gpus(&err);
    if (count < 0)
        snprintf(text, bytes, "GPU: none, %s\n", err.text);
    for (int i = 0; i < count && bytes > 1; i++) {
        char gpu[160];
        describe(i, gpu, sizeof(gpu));
        int n = snprintf(text, bytes, "GPU %d: %s\n", i, gpu);
        size_t used = (size_t)n < bytes ? (size_t)n : bytes - 1;
        text += used;
        bytes -= used;
    }
}

/* --- the GPU that was opened, and errors of CUDA --- */

static struct {
    int index;          /* of the GPU that was opened */
    size_t bytes, peak; /* allocated on it */
    char text[160];     /* of describe */
} gpu = {.index = -1};

const char *dt_cuda_words(cudaError_t code)
{
    enum { CONTAINED = 226 }; /* cudaErrorContained, which CUDA 12.0 lacks */
    static _Thread_local char text[256];
    bool hardware = code == cudaErrorECCUncorrectable ||
                    code == cudaErrorNvlinkUncorrectable ||
                    code == cudaErrorHardwareStackError ||
                    (int)code == CONTAINED;
    snprintf(text, sizeof(text), "%s (%s)%s", cudaGetErrorString(code),
             cudaGetErrorName(code),
             hardware ? ": the kernel's log has more under Xid" : "");
    return text;
}

/* 0 if the formatted call has succeeded. Otherwise -1, with err "<call>:
 * <words>", and clears CUDA's error, unless it is sticky.
 */
__attribute__((format(printf, 3, 4))) static int result_of(struct dt_error *err,
                                                           cudaError_t code,
                                                           const char *fmt, ...)
{
    char call[128];
    va_list args;
    if (code == cudaSuccess)
        return 0;
    va_start(args, fmt);
    vsnprintf(call, sizeof(call), fmt, args);
    va_end(args);
    cudaGetLastError();
    return dt_error_set(err, EX_OSERR, "%s: %s", call, dt_cuda_words(code));
}

void dt_cuda_check(cudaError_t code, const char *call)
{
    if (code != cudaSuccess)
        dt_cuda_fail("%s: %s", call, dt_cuda_words(code));
}

/* --- memory --- */

/* GPU memory held back for kernels, ours and of libraries, which are loaded
 * lazily.
 */
enum { KERNEL_RESERVE = 512 << 20 };

static const double GiB = 1 << 30;

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
        return result_of(err, code, "cudaMalloc(%zu bytes)", bytes);
    code = cudaMemset(*data, 0, bytes);
    if (code == cudaSuccess)
        code = cudaStreamSynchronize(NULL);
    if (code != cudaSuccess) {
        cudaFree(*data);
        return result_of(err, code, "cudaMemset(%zu bytes)", bytes);
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
        return result_of(err, code,
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
    if (stream->end)
        cudaEventDestroy(stream->end);
    if (stream->cuda)
        cudaStreamDestroy(stream->cuda);
    free(stream);
}

static int copy_stream_create(struct dt_stream **stream, struct dt_error *err)
{
    struct dt_stream *s = calloc(1, sizeof(*s));
    if (!s)
        return dt_error_set(err, EX_OSERR, "out of memory");
    cudaError_t code =
        cudaStreamCreateWithFlags(&s->cuda, cudaStreamNonBlocking);
    if (code != cudaSuccess) {
        result_of(err, code, "cudaStreamCreateWithFlags");
        goto error;
    }
    code = cudaEventCreateWithFlags(&s->end, cudaEventDisableTiming);
    if (code != cudaSuccess) {
        result_of(err, code, "cudaEventCreateWithFlags");
        goto error;
    }
    *stream = s;
    return 0;
error:
    stream_destroy(s);
    return -1;
}

static int stream_create(struct dt_stream **stream, struct dt_error *err)
{
    if (copy_stream_create(stream, err) < 0)
        return -1;
    if (cuda_allocate(DT_CUDA_WORKSPACE, &(*stream)->workspace, err) == 0) {
        (*stream)->workspace_bytes = DT_CUDA_WORKSPACE;
        return 0;
    }
    stream_destroy(*stream);
    *stream = NULL;
    return -1;
}

/* Launches return nothing; CUDA keeps their error for each thread. An event
 * that was not reached yet is no error, but may be kept as one.
 */
static int check_launches(struct dt_error *err)
{
    cudaError_t code = cudaGetLastError();
    if (code != cudaSuccess && code != cudaErrorNotReady)
        return result_of(err, code, "a kernel could not be started");
    return 0;
}

/* The same, and errors of operations, for the thread that queues them. */
static int check_queued(struct dt_error *err)
{
    const char *text = dt_cuda_failure();
    if (text)
        return dt_error_set(err, EX_SOFTWARE, "%s", text);
    return check_launches(err);
}

/* --- events: a struct dt_event is a cudaEvent_t --- */

static int event_create(struct dt_event **event, struct dt_error *err)
{
    cudaEvent_t cuda;
    cudaError_t code = cudaEventCreateWithFlags(&cuda, cudaEventDisableTiming);
    if (code != cudaSuccess)
        return result_of(err, code, "cudaEventCreateWithFlags");
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
    return result_of(err, cudaEventRecord((cudaEvent_t)event, stream->cuda),
                     "cudaEventRecord");
}

/* A thread that never chose a GPU would create a context on GPU 0. */
static void choose_gpu(void)
{
    static _Thread_local bool chosen;
    if (!chosen)
        cudaSetDevice(gpu.index);
    chosen = true;
}

static int cuda_lock(void *data, size_t bytes, struct dt_error *err)
{
    choose_gpu();
    return result_of(err,
                     cudaHostRegister(data, bytes, cudaHostRegisterDefault),
                     "cudaHostRegister(%zu bytes)", bytes);
}

static void cuda_unlock(void *data)
{
    cudaHostUnregister(data);
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
        return result_of(err, code, "cudaEventQuery, of work queued before");
    return 1;
}

/* --- waits --- */

static const double PAUSE_S = 20e-6; /* as in dt_event_wait */

/* A collective in the stream never ends if a rank is lost, and CUDA would wait
 * for it.
 */
static int wait_watched(struct dt_stream *stream, struct dt_error *err)
{
    cudaError_t code = cudaEventRecord(stream->end, stream->cuda);
    int done = 0;
    if (code != cudaSuccess)
        return result_of(err, code, "cudaEventRecord");
    while ((done = event_done((struct dt_event *)stream->end, err)) == 0) {
        if (stream->watch(stream->watch_ctx, err) < 0)
            return -1;
        dt_clock_sleep(PAUSE_S);
    }
    return done < 0 ? -1 : 0;
}

int dt_cuda_stream_wait(struct dt_stream *stream, struct dt_error *err)
{
    if (check_queued(err) < 0 ||
        (stream->watch && wait_watched(stream, err) < 0))
        return -1;
    return result_of(err, cudaStreamSynchronize(stream->cuda),
                     "cudaStreamSynchronize, of work queued before");
}

static int watch(struct dt_stream *stream, struct dt_error *err)
{
    return stream->watch ? stream->watch(stream->watch_ctx, err) : 0;
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
    const bool waits = is_pageable(from) || is_pageable(to);
    if (waits && stream->watch && wait_watched(stream, err) < 0)
        return -1;
    cudaError_t code =
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->cuda);
    if (code == cudaSuccess && waits)
        code = cudaStreamSynchronize(stream->cuda);
    return result_of(err, code, "cudaMemcpyAsync(%zu bytes)", bytes);
}

/* --- graphs: a struct dt_graph is a cudaGraphExec_t --- */

/* Only this thread is restricted to calls that can be recorded: others may
 * still wait for their events.
 */
static int record_begin(struct dt_stream *stream, struct dt_error *err)
{
    if (check_queued(err) < 0)
        return -1;
    return result_of(
        err,
        cudaStreamBeginCapture(stream->cuda, cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
}

/* `unknown` if CUDA does not say. */
static size_t free_memory(size_t unknown)
{
    size_t free_bytes, total;
    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes
                                                              : unknown;
}

static int record_end(struct dt_stream *stream, struct dt_graph **graph,
                      size_t *bytes, struct dt_error *err)
{
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t exec = NULL;
    int queued = check_queued(err); /* says more than the errors that follow */
    dt_cuda_forget_failure();       /* nothing has run */
    const char *call = "cudaStreamEndCapture";
    cudaError_t code = cudaStreamEndCapture(stream->cuda, &recorded);
    const size_t before = free_memory(0);
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
        const size_t after = free_memory(before);
        *graph = (struct dt_graph *)exec;
        *bytes = after > before ? SIZE_MAX : before - after;
        return 0;
    }
    if (exec)
        cudaGraphExecDestroy(exec);
    return queued < 0 ? -1 : result_of(err, code, "%s", call);
}

static int cuda_replay(struct dt_stream *stream, struct dt_graph *graph,
                       struct dt_error *err)
{
    return result_of(err, cudaGraphLaunch((cudaGraphExec_t)graph, stream->cuda),
                     "cudaGraphLaunch");
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
    int index = choose(local_rank, capability, err);
    if (index < 0)
        return -1;
    cudaError_t code = cudaSetDevice(index);
    if (code != cudaSuccess)
        return dt_error_set(err, EX_UNAVAILABLE, "cudaSetDevice(%d): %s", index,
                            cudaGetErrorString(code));
    code = cudaDeviceGetAttribute(multiprocessors,
                                  cudaDevAttrMultiProcessorCount, index);
    if (code != cudaSuccess)
        return result_of(err, code, "cudaDeviceGetAttribute(%d)", index);
    gpu.index = index;
    describe(index, gpu.text, sizeof(gpu.text));
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
    .copy_stream_create = copy_stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait = dt_cuda_stream_wait,
    .watch = watch,
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
