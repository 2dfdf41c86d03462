/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_simt.cu - the emulation computes what CUDA would, and finds mistakes
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tensor/kernel.cuh"
#include "test_simt.cuh"

/* --- kernels --- */

static void every_thread_of_a_grid_runs_once(void **state)
{
    enum { COUNT = 100000 };
    (void)state;
    static int host[COUNT];
    int *data = new_ints(COUNT);
    for (unsigned seed = 0; seed < 3; seed++) {
        set_seed(seed);
        cudaStream_t stream = new_stream();
        check(cudaMemsetAsync(data, 0, sizeof(host), stream));
        check(start(stream, (COUNT + 255) / 256, 256, number, data, COUNT));
        check(cudaMemcpyAsync(host, data, sizeof(host), cudaMemcpyDeviceToHost,
                              stream));
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(host[i], i);
        check(cudaStreamDestroy(stream));
    }
    check(cudaFree(data));
}

/* Sums of a block by each of the shuffles and by shared memory. */
__global__ void sums(int *out)
{
    __shared__ int shared[256];
    int lane = (int)threadIdx.x % 32, x = (int)threadIdx.x + 1;
    int by_xor = x, by_down = x, by_up = x;
    for (int step = 16; step > 0; step /= 2) {
        by_xor += __shfl_xor_sync(0xffffffffu, by_xor, step);
        by_down += __shfl_down_sync(0xffffffffu, by_down, (unsigned)step);
    }
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(0xffffffffu, by_up, (unsigned)step);
        by_up += lane >= step ? other : 0;
    }
    shared[threadIdx.x] = x;
    __syncthreads();
    int by_memory = 0;
    for (int i = 0; i < 32; i++)
        by_memory += shared[threadIdx.x / 32 * 32 + (unsigned)i];
    int last = __shfl_sync(0xffffffffu, by_up, 31);
    int first = __shfl_sync(0xffffffffu, by_down, 0);
    bool same = by_xor == by_memory && last == by_memory && first == by_memory;
    unsigned odd = __ballot_sync(0xffffffffu, threadIdx.x & 1);
    if (__syncthreads_and(same && odd == 0xaaaaaaaau) && threadIdx.x == 0)
        out[blockIdx.x] = 1;
}

static void shuffles_and_barriers_combine_the_threads(void **state)
{
    (void)state;
    int *out = new_ints(10), host[10];
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        check(cudaMemset(out, 0, sizeof(host)));
        check(start(0, 10, 256, sums, out));
        check(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDefault));
        for (int i = 0; i < 10; i++)
            assert_int_equal(host[i], 1);
    }
    check(cudaFree(out));
}

__global__ static void random_words(uint32_t *out, bool ones)
{
    uint32_t c[4], key[2];
    for (uint32_t &word : c)
        word = ones ? 0xffffffffu : 0;
    for (uint32_t &word : key)
        word = ones ? 0xffffffffu : 0;
    philox(c, key);
    if (threadIdx.x == 0)
        for (int i = 0; i < 4; i++)
            out[i] = c[i];
}

/* Known answers of Philox4x32-10 from the authors' kat_vectors. */
static void philox_gives_the_known_answers(void **state)
{
    static const uint32_t want[2][4] = {
        {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
    };
    uint32_t host[4], *out = (uint32_t *)new_ints(4);
    (void)state;
    for (int ones = 0; ones < 2; ones++) {
        check(start(0, 1, 32, random_words, out, ones == 1));
        check(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDefault));
        assert_memory_equal(host, want[ones], sizeof(host));
    }
    check(cudaFree(out));
}

/* Neighbors exchange numbers, with or without a barrier between. */
__global__ static void exchange(int *wrong, bool barrier)
{
    __shared__ unsigned shared[128];
    unsigned next = (threadIdx.x + 1) % 128;
    shared[threadIdx.x] = threadIdx.x;
    if (barrier)
        __syncthreads();
    if (shared[next] != next)
        atomicAdd(wrong, 1);
}

static int seeds_that_fail(bool barrier)
{
    int *wrong = new_ints(1), failed = 0;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        check(cudaMemset(wrong, 0, sizeof(*wrong)));
        check(start(0, 1, 128, exchange, wrong, barrier));
        failed += first_of(wrong) > 0;
    }
    check(cudaFree(wrong));
    return failed;
}

static void a_missing_barrier_is_found_with_every_seed(void **state)
{
    (void)state;
    assert_int_equal(seeds_that_fail(true), 0);
    assert_int_equal(seeds_that_fail(false), SEEDS);
}

__global__ void lonely_barrier(int *out)
{
    if (threadIdx.x < 40)
        __syncthreads();
    out[0] = 1;
}

__global__ void lonely_shuffle(int *out)
{
    if (threadIdx.x != 5)
        out[0] = __shfl_xor_sync(0xffffffffu, 1, 1);
}

static void run_lonely_barrier(void)
{
    check(start(0, 1, 64, lonely_barrier, new_ints(1)));
    cudaDeviceSynchronize();
}

static void run_lonely_shuffle(void)
{
    check(start(0, 1, 64, lonely_shuffle, new_ints(1)));
    cudaDeviceSynchronize();
}

static void a_barrier_that_not_all_reach_ends_the_process(void **state)
{
    (void)state;
    expect_death(run_lonely_barrier, SIGABRT,
                 "40 of 64 threads wait at __syncthreads, 24 have returned");
    expect_death(run_lonely_shuffle, SIGABRT,
                 "31 lanes of warp 0 wait at a shuffle");
}

static void launch_pageable(void)
{
    static int host;
    start(0, 1, 32, number, &host, 1);
}

static void wrong_launches_are_refused(void **state)
{
    (void)state;
    int *out = new_ints(1);
    assert_int_equal(start(0, 1, 2048, number, out, 1),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(start(0, 0, 32, number, out, 1),
                     cudaErrorInvalidConfiguration);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1, 65536);
    config.blockDim = dim3(32);
    assert_int_equal(cudaLaunchKernelEx(&config, number, out, (size_t)1),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    expect_death(launch_pageable, SIGABRT, "argument 1 of a kernel");
    check(cudaFree(out));
}

/* --- memory --- */

static void touch(void)
{
    *(volatile int *)new_ints(1) = 1;
}

__global__ void write_at(char *data, ptrdiff_t at)
{
    data[at] = 1;
}

static char *thousand(void)
{
    char *data;
    check(cudaMalloc(&data, 1000));
    return data;
}

static void write_after(void)
{
    check(start(0, 1, 32, write_at, thousand(), 1000));
    cudaDeviceSynchronize();
}

static void write_before(void)
{
    check(start(0, 1, 32, write_at, thousand(), -1));
    cudaDeviceSynchronize();
}

static void write_far(void)
{
    check(start(0, 1, 32, write_at, thousand(), 2000));
    cudaDeviceSynchronize();
}

static void copy_too_much(void)
{
    char host[1001];
    cudaMemcpy(thousand(), host, sizeof(host), cudaMemcpyDefault);
}

static void touching_memory_out_of_bounds_ends_the_process(void **state)
{
    (void)state;
    expect_death(touch, SIGSEGV, "of the host to device memory");
    expect_death(write_after, SIGABRT,
                 "bytes after an allocation of 1000 bytes were written");
    expect_death(write_before, SIGABRT,
                 "bytes before an allocation of 1000 bytes were written");
    expect_death(write_far, SIGSEGV,
                 "to byte 2000 of an allocation of 1000 bytes");
    expect_death(copy_too_much, SIGABRT, "leaves an allocation");
}

template <typename T>
__device__ static inline void read_fresh(const T *data, T *out)
{
    __shared__ T shared[32];
    if (data[0] == T(1)) /* never, but the compiler cannot know */
        shared[threadIdx.x] = T(1);
    out[threadIdx.x] = data[threadIdx.x];
    out[threadIdx.x + 32] = shared[threadIdx.x];
}

__global__ static void look(const float *data, float *out)
{
    __shared__ float shared[32];
    read_fresh(data, out);
    out[threadIdx.x + 64] = shared[threadIdx.x];
}

static void new_memory_is_not_a_number_and_is_counted(void **state)
{
    (void)state;
    float *data = (float *)new_ints(32), *out = (float *)new_ints(96), host[96];
    check(start(0, 1, 32, look, (const float *)data, out));
    check(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDefault));
    for (int i = 0; i < 96; i++)
#ifdef __SANITIZE_ADDRESS__ /* has places of its own for what is in templates  \
                             */
        if (i < 32 || i >= 64)
#endif
            assert_true(isnan(host[i]));
    size_t before, after, total;
    check(cudaMemGetInfo(&before, &total));
    check(cudaFree(data));
    check(cudaMemGetInfo(&after, &total));
    assert_int_equal(after - before, 32 * sizeof(float));
    assert_int_equal(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    check(cudaFree(out));
}

/* Pinned memory is read when the copy runs, other memory at once. */
static void pinned_memory_is_read_when_the_copy_runs(void **state)
{
    (void)state;
    cudaStream_t stream = new_stream();
    int *data = new_ints(2), *pinned, pageable = 1, host[2];
    check(cudaMallocHost(&pinned, sizeof(int)));
    *pinned = 1;
    check(cudaMemcpyAsync(data, pinned, 4, cudaMemcpyDefault, stream));
    check(cudaMemcpyAsync(data + 1, &pageable, 4, cudaMemcpyDefault, stream));
    *pinned = pageable = 2;
    check(cudaMemcpyAsync(host, data, 8, cudaMemcpyDefault, stream));
    assert_int_equal(host[0], 2);
    assert_int_equal(host[1], 1);
    assert_int_equal(cudaMemcpy(data, host, 8, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidMemcpyDirection);
    cudaGetLastError();
    check(cudaFreeHost(pinned));
    check(cudaFree(data));
    check(cudaStreamDestroy(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_of_a_grid_runs_once),
        cmocka_unit_test(shuffles_and_barriers_combine_the_threads),
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(a_missing_barrier_is_found_with_every_seed),
        cmocka_unit_test(a_barrier_that_not_all_reach_ends_the_process),
        cmocka_unit_test(wrong_launches_are_refused),
        cmocka_unit_test(copies_arrive_in_dynamic_shared_memory),
        cmocka_unit_test(a_missing_wait_for_copies_is_found_with_every_seed),
        cmocka_unit_test(copies_to_one_place_differ_with_some_seeds),
        cmocka_unit_test(wrong_uses_of_shared_memory_end_the_process),
        cmocka_unit_test(shared_memory_beyond_48_kib_must_be_asked_for),
        cmocka_unit_test(touching_memory_out_of_bounds_ends_the_process),
        cmocka_unit_test(new_memory_is_not_a_number_and_is_counted),
        cmocka_unit_test(pinned_memory_is_read_when_the_copy_runs),
        cmocka_unit_test(a_missing_event_is_found_with_some_seeds),
        cmocka_unit_test(an_event_is_not_ready_before_its_work_is_done),
        cmocka_unit_test(a_shorter_upload_leaves_nothing_of_a_longer_one),
        cmocka_unit_test(a_graph_repeats_the_work_of_two_streams),
        cmocka_unit_test(a_broken_capture_is_refused),
        cmocka_unit_test(short_floats_round_as_on_a_gpu),
        cmocka_unit_test(a_radix_sort_is_stable),
        cmocka_unit_test(matrix_products_match_a_loop_in_double),
        cmocka_unit_test(products_that_cublaslt_lacks_are_refused),
    };
    setenv("SIMT_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
