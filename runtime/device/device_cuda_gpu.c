/* SPDX-License-Identifier: Apache-2.0 */
/* device_cuda_gpu.c - chooses a GPU, or says why there is none */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#include "device/device_cuda.h"

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
    return dt_error_set(err, EX_UNAVAILABLE, "cudaGetDeviceCount: %s (%s)",
                        cudaGetErrorString(code), cudaGetErrorName(code));
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

int dt_cuda_gpu_choose(int local_rank, int *capability, struct dt_error *err)
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

void dt_cuda_gpu_describe(int index, char *text, size_t bytes)
{
    struct cudaDeviceProp prop;
    int driver = 0;
    cudaError_t code = cudaGetDeviceProperties(&prop, index);
    cudaDriverGetVersion(&driver);
    if (code != cudaSuccess)
        snprintf(text, bytes, "%s", cudaGetErrorString(code));
    else
        snprintf(text, bytes, "%s, %.1f GiB, sm_%d%d, driver %d.%d", prop.name,
                 (double)prop.totalGlobalMem / (1 << 30), prop.major,
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
        dt_cuda_gpu_describe(i, gpu, sizeof(gpu));
        int n = snprintf(text, bytes, "GPU %d: %s\n", i, gpu);
        size_t used = (size_t)n < bytes ? (size_t)n : bytes - 1;
        text += used;
        bytes -= used;
    }
}
