/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_stream.cu - order and lack of it, graphs, sorts and short floats
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>

#include <cub/device/device_radix_sort.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "test_simt.cuh"

/* --- streams --- */

/* Does `two` read what `one` writes, if an event orders them or not? */
static int seeds_out_of_order(bool ordered)
{
    int *data = new_ints(1), *copy = new_ints(1), failed = 0;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        cudaStream_t one = new_stream(), two = new_stream();
        cudaEvent_t written;
        check(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
        check(cudaMemset(data, 0xff, sizeof(int)));
        check(cudaDeviceSynchronize());
        check(cudaMemsetAsync(data, 0, sizeof(int), one));
        check(cudaEventRecord(written, one));
        if (ordered)
            check(cudaStreamWaitEvent(two, written));
        check(cudaMemcpyAsync(copy, data, 4, cudaMemcpyDefault, two));
        check(cudaStreamSynchronize(two));
        failed += first_of(copy) != 0;
        check(cudaEventDestroy(written));
        check(cudaStreamDestroy(one));
        check(cudaStreamDestroy(two));
    }
    check(cudaFree(data));
    check(cudaFree(copy));
    return failed;
}

void a_missing_event_is_found_with_some_seeds(void **state)
{
    (void)state;
    assert_int_equal(seeds_out_of_order(true), 0);
    assert_in_range(seeds_out_of_order(false), 3, SEEDS);
}

void an_event_is_not_ready_before_its_work_is_done(void **state)
{
    (void)state;
    set_seed(0);
    cudaStream_t stream = new_stream();
    cudaEvent_t event;
    int *data = new_ints(100);
    float ms;
    check(cudaEventCreate(&event));
    check(cudaEventQuery(event));
    check(cudaEventSynchronize(event));
    for (int i = 0; i < 10; i++)
        check(cudaMemsetAsync(data, i, 100, stream));
    check(cudaEventRecord(event, stream));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    int queries = 0;
    while (cudaEventQuery(event) == cudaErrorNotReady)
        queries++;
    assert_in_range(queries, 1, 20);
    check(cudaStreamSynchronize(stream));
    cudaGetLastError();
    check(cudaEventElapsedTime(&ms, event, event));
    assert_true(ms == 0.0f);
    check(cudaEventDestroy(event));
    check(cudaStreamDestroy(stream));
    check(cudaFree(data));
}

/* A byte that an upload leaves is not that of the one before. */
void a_shorter_upload_leaves_nothing_of_a_longer_one(void **state)
{
    enum { WHOLE = 1000, PART = 999 };
    (void)state;
    cudaStream_t stream = new_stream();
    char *from, *to, read[2][WHOLE];
    check(cudaMallocHost((void **)&from, WHOLE));
    check(cudaMalloc((void **)&to, WHOLE));
    memset(from, 7, WHOLE);
    for (int i = 0; i < 2; i++) {
        check(cudaMemcpyAsync(to, from, i ? PART : WHOLE, cudaMemcpyDefault,
                              stream));
        check(cudaMemcpyAsync(read[i], to, WHOLE, cudaMemcpyDefault, stream));
    }
    assert_memory_equal(read[0], from, WHOLE);
    assert_memory_equal(read[1], from, PART);
    assert_int_equal((unsigned char)read[1][PART], 0xff);
    check(cudaFreeHost(from));
    check(cudaFree(to));
    check(cudaStreamDestroy(stream));
}

/* --- graphs --- */

__global__ void add(int *to, const int *from)
{
    if (threadIdx.x == 0)
        *to += *from;
}

/* x = 1; y += x in one stream, z += x in another, then y += z. */
static void record(cudaStream_t stream, cudaStream_t other, int *x, bool join)
{
    cudaEvent_t fork, joined;
    check(cudaEventCreate(&fork));
    check(cudaEventCreate(&joined));
    check(start(stream, 1, 32, number, x, (size_t)1));
    check(cudaMemsetAsync(x, 1, 1, stream));
    check(cudaEventRecord(fork, stream));
    check(cudaStreamWaitEvent(other, fork));
    check(start(stream, 1, 32, add, x + 1, (const int *)x));
    check(start(other, 1, 32, add, x + 2, (const int *)x));
    if (join) {
        check(cudaEventRecord(joined, other));
        check(cudaStreamWaitEvent(stream, joined));
        check(start(stream, 1, 32, add, x + 1, (const int *)x + 2));
    }
    assert_int_equal(cudaEventQuery(fork), cudaErrorCapturedEvent);
    check(cudaEventDestroy(fork));
    check(cudaEventDestroy(joined));
}

void a_graph_repeats_the_work_of_two_streams(void **state)
{
    (void)state;
    cudaStream_t stream = new_stream(), other = new_stream();
    int *x = new_ints(3), host[3];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check(cudaMemset(x, 0, sizeof(host)));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    record(stream, other, x, true);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&exec, graph, 0));
    check(cudaGraphDestroy(graph));
    check(cudaMemcpy(host, x, sizeof(host), cudaMemcpyDefault));
    assert_int_equal(host[1], 0);
    for (unsigned i = 0; i < SEEDS; i++) {
        set_seed(i);
        check(cudaMemsetAsync(x, 0, sizeof(host), stream));
        check(cudaGraphLaunch(exec, stream));
        check(cudaGraphLaunch(exec, stream));
        check(
            cudaMemcpyAsync(host, x, sizeof(host), cudaMemcpyDefault, stream));
        assert_int_equal(host[0], 1);
        assert_int_equal(host[1], 1 + 1 + 1 + 2);
        assert_int_equal(host[2], 2);
    }
    check(cudaGraphExecDestroy(exec));
    check(cudaStreamDestroy(stream));
    check(cudaStreamDestroy(other));
    check(cudaFree(x));
}

void a_broken_capture_is_refused(void **state)
{
    (void)state;
    cudaStream_t stream = new_stream(), other = new_stream();
    int *x = new_ints(3), *more;
    cudaGraph_t graph;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    record(stream, other, x, false);
    assert_int_equal(cudaStreamEndCapture(stream, &graph),
                     cudaErrorStreamCaptureUnjoined);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(cudaMalloc(&more, 1), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph),
                     cudaErrorStreamCaptureInvalidated);
    cudaEvent_t event;
    check(cudaEventCreate(&event));
    check(cudaEventRecord(event, other));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(cudaEventQuery(event), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(stream, &graph),
                     cudaErrorStreamCaptureInvalidated);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::thread([&] { check(cudaEventSynchronize(event)); }).join();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphDestroy(graph));
    check(cudaEventDestroy(event));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    assert_int_equal(cudaStreamSynchronize(stream),
                     cudaErrorStreamCaptureUnsupported);
    assert_int_equal(start(stream, 1, 32, number, x, 1),
                     cudaErrorStreamCaptureInvalidated);
    assert_int_equal(cudaStreamEndCapture(stream, &graph),
                     cudaErrorStreamCaptureInvalidated);
    assert_null(graph);
    check(cudaMalloc(&more, 1));
    check(cudaFree(more));
    check(cudaFree(x));
    check(cudaStreamDestroy(stream));
    check(cudaStreamDestroy(other));
    cudaGetLastError();
}

/* --- libraries --- */

void short_floats_round_as_on_a_gpu(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        __half h = __ushort_as_half((unsigned short)bits);
        __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)bits);
        if (!isnan((float)h))
            assert_int_equal(__half_as_ushort(__float2half_rn((float)h)), bits);
        if (!isnan((float)b))
            assert_int_equal(
                __bfloat16_as_ushort(__float2bfloat16_rn((float)b)), bits);
    }
    assert_true(__half2float(__float2half_rn(65519.0f)) == 65504.0f);
    assert_true(isinf(__half2float(__float2half_rn(65520.0f))));
    assert_true(__half2float(__float2half_rn(0x1.002p0f)) == 1.0f);
    assert_true(__half2float(__float2half_rn(0x1.006p0f)) == 0x1.008p0f);
    assert_true(__half2float(__float2half_rn(0x1.8p-24f)) == 0x1p-23f);
    assert_true(__bfloat162float(__float2bfloat16_rn(0x1.01p0f)) == 1.0f);
    assert_true(__bfloat162float(__float2bfloat16_rn(0x1.03p0f)) == 0x1.04p0f);
}

void a_radix_sort_is_stable(void **state)
{
    enum { COUNT = 1000 };
    (void)state;
    set_seed(1);
    int *keys = new_ints(4 * COUNT), host[2 * COUNT];
    size_t bytes = 0;
    void *storage;
    for (int i = 0; i < COUNT; i++) {
        host[i] = (i * 7919 + 13) % 50;
        host[COUNT + i] = i;
    }
    check(cudaMemcpy(keys, host, sizeof(host), cudaMemcpyDefault));
    int *sorted = keys + 2 * COUNT;
    for (int pass = 0; pass < 2; pass++) {
        check(cub::DeviceRadixSort::SortPairs(
            pass == 0 ? nullptr : storage, bytes, (const int *)keys, sorted,
            (const int *)keys + COUNT, sorted + COUNT, (int)COUNT, 0, 6));
        if (pass == 0)
            check(cudaMalloc(&storage, bytes));
    }
    check(cudaMemcpy(host, sorted, sizeof(host), cudaMemcpyDefault));
    for (int i = 0; i < COUNT; i++) {
        int from = host[COUNT + i];
        assert_int_equal(host[i], (from * 7919 + 13) % 50);
        if (i > 0 && host[i] == host[i - 1])
            assert_true(from > host[COUNT + i - 1]);
        else if (i > 0)
            assert_true(host[i] > host[i - 1]);
    }
    check(cudaFree(storage));
    check(cudaFree(keys));
}
