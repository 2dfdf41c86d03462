/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_simt.cuh - what the tests of the emulation share
 */
#ifndef DT_SIMT_TEST_SIMT_CUH
#define DT_SIMT_TEST_SIMT_CUH

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

#include <cuda_runtime.h>

#include "test_simt.h"

enum { SEEDS = 20 };

/* Runs f in a process of its own: how that ended, and what it said. */
static inline int in_child(void (*f)(void), char *text, size_t bytes)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        signal(SIGSEGV, SIG_DFL); /* cmocka has handlers */
        signal(SIGABRT, SIG_DFL);
        f();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t n;
    while ((n = read(ends[0], text + used, bytes - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static inline void expect_death(void (*f)(void), int how, const char *what)
{
    char text[2048];
    int status = in_child(f, text, sizeof(text));
    if (!WIFSIGNALED(status) || WTERMSIG(status) != how || !strstr(text, what))
        fail_msg("status %#x: \"%s\" instead of \"%s\"", (unsigned)status, text,
                 what);
}

/* One block, with `bytes` of dynamic shared memory. */
template <typename... P, typename... A>
static inline cudaError_t start_shared(size_t bytes, unsigned block,
                                       void (*kernel)(P...), A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(block);
    config.dynamicSmemBytes = bytes;
    return cudaLaunchKernelEx(&config, kernel, P(args)...);
}

template <typename... P, typename... A>
static inline cudaError_t start(cudaStream_t stream, unsigned grid,
                                unsigned block, void (*kernel)(P...), A... args)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(block);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, P(args)...);
}

static inline void set_seed(unsigned seed)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", seed);
    setenv("SIMT_SEED", text, 1);
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline int *new_ints(size_t count)
{
    int *data;
    check(cudaMalloc(&data, count * sizeof(int)));
    return data;
}

static inline int first_of(const int *data)
{
    int value;
    check(cudaMemcpy(&value, data, sizeof(value), cudaMemcpyDefault));
    return value;
}

/* out[i] = i */
__global__ static void number(int *out, size_t count)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = (int)i;
}

#endif /* DT_SIMT_TEST_SIMT_CUH */
