/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - the interface of the module disttrain-cuda.so */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "backend/backend.h"
#include "comm/comm_impl.h"
#include "device/device_cuda.h"
#include "ops/cuda/cuda.h"

static int open_gpu(const struct dt_backend_options *options,
                    struct dt_error *err)
{
    struct dt_cuda_facts facts = {
        .local_rank = options->local_rank,
        .deterministic = options->deterministic,
        .tf32 = options->tf32,
        .attention = options->attention,
    };
    if (dt_cuda_device_open(options->local_rank, &facts.capability,
                            &facts.multiprocessors, err) < 0)
        return -1;
    return dt_cuda_ops_open(&facts, err);
}

static void describe(char *text, size_t bytes)
{
    int toolkit = 0, gpus = 0;
    cudaRuntimeGetVersion(&toolkit);
    bool gpu = cudaGetDeviceCount(&gpus) == cudaSuccess && gpus > 0;
    int n = snprintf(text, bytes,
                     "CUDA: %d.%d, for sm_" DT_CUDA_ARCHS "\n"
                     "GPU matmul: %s\n"
                     "GPU attention: "
                     "%s\n"
                     "GPU collectives: "
                     "%s\n",
                     toolkit / 1000, toolkit % 1000 / 10, dt_cuda_ops.library(),
                     dt_cuda_attention_try(gpu), dt_comm_nccl_library());
    if (n > 0 && (size_t)n < bytes)
        dt_cuda_gpu_list(text + n, bytes - (size_t)n);
}

const struct dt_backend dt_backend_module = {
    .version = DT_BACKEND_VERSION,
    .name = "cuda",
    .open = open_gpu,
    .describe = describe,
    .device = &dt_cuda_device,
    .ops = &dt_cuda_ops,
    .connect = dt_comm_nccl,
};
