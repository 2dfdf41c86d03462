/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared.cu - dynamic shared memory and asynchronous copies
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/kernel.cuh"
#include "test_simt.cuh"

enum { THREADS = 64, EACH = 4, ROW = THREADS * EACH }; /* int */

enum fault { NONE, NO_WAIT, NO_COMMIT, NO_BARRIER };

/* out(ROW) = in, from the other end */
__global__ static void turn_row(int *out, const int *in, enum fault fault)
{
    DYNAMIC_SHARED(area);
    int *row = (int *)area;
    const int own = (int)threadIdx.x * EACH;

    copy_async(row + own, in + own);
    if (fault != NO_COMMIT)
        copy_commit();
    if (fault != NO_WAIT)
        copy_wait<0>();
    if (fault != NO_BARRIER)
        __syncthreads();
    for (int i = (int)threadIdx.x; i < ROW; i += THREADS)
        out[i] = row[ROW - 1 - i];
    copy_commit();
    copy_wait<0>();
}

/* Waits for the first of two groups, and reads it or the second. */
__global__ static void read_group(int *out, const int *in, bool second)
{
    DYNAMIC_SHARED(area);
    int *own = (int *)area + threadIdx.x * 2 * EACH;

    for (int i = 0; i < 2; i++) {
        copy_async(own + i * EACH, in + i * EACH);
        copy_commit();
    }
    copy_wait<1>();
    out[threadIdx.x] = own[second ? EACH : 0];
    copy_wait<0>();
}

/* Copies twice to one place, in one group or in two. */
__global__ static void copy_twice(int *out, const int *in, bool apart)
{
    DYNAMIC_SHARED(area);
    int *own = (int *)area + threadIdx.x * EACH;

    copy_async(own, in);
    if (apart) {
        copy_commit();
        copy_wait<0>();
    }
    copy_async(own, in + EACH);
    copy_commit();
    copy_wait<0>();
    if (threadIdx.x == 0)
        out[0] = own[0];
}

/* in(ROW) with in[i] = i */
static int *numbers(void)
{
    int *data = new_ints(ROW);
    check(start(0, 1, ROW, number, data, (size_t)ROW));
    return data;
}

static bool turns(enum fault fault)
{
    int *in = numbers(), *out = new_ints(ROW), host[ROW];
    bool right = true;
    check(start_shared(sizeof(host), THREADS, turn_row, out, (const int *)in,
                       fault));
    check(cudaMemcpy(host, out, sizeof(host), cudaMemcpyDefault));
    for (int i = 0; i < ROW; i++)
        right = right && host[i] == ROW - 1 - i;
    check(cudaFree(in));
    check(cudaFree(out));
    return right;
}

/* out[0] of a kernel that has 32 bytes for each of its threads */
static int result_of(void (*kernel)(int *, const int *, bool), bool flag)
{
    int *in = numbers(), *out = new_ints(THREADS);
    check(start_shared(THREADS * 2 * EACH * sizeof(int), THREADS, kernel, out,
                       (const int *)in, flag));
    int value = first_of(out);
    check(cudaFree(in));
    check(cudaFree(out));
    return value;
}

void copies_arrive_in_dynamic_shared_memory(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        assert_true(turns(NONE));
        assert_int_equal(result_of(read_group, false), 0);
        assert_int_equal(result_of(copy_twice, true), EACH);
    }
}

void a_missing_wait_for_copies_is_found_with_every_seed(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        assert_false(turns(NO_WAIT));
        assert_false(turns(NO_COMMIT));
        assert_false(turns(NO_BARRIER));
        assert_int_not_equal(result_of(read_group, true), EACH);
    }
}

void copies_to_one_place_differ_with_some_seeds(void **state)
{
    int first = 0;
    (void)state;
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        set_seed(seed);
        first += result_of(copy_twice, false) == 0;
    }
    assert_in_range(first, 1, SEEDS - 1);
}

/* --- what ends the process --- */

__global__ static void write_int(int at)
{
    DYNAMIC_SHARED(area);
    ((int *)area)[at] = 1;
}

__global__ static void leave_copy(const int *in)
{
    DYNAMIC_SHARED(area);
    copy_async(area + threadIdx.x * 16, in + threadIdx.x * EACH);
    copy_commit();
}

/* Copies to byte `to` from element `from`. */
__global__ static void copy_one(int to, const int *in, int from)
{
    DYNAMIC_SHARED(area);
    copy_async(area + to, in + from);
    copy_commit();
    copy_wait<0>();
}

static void write_behind(void)
{
    check(start_shared(48, WARP, write_int, 12));
    cudaDeviceSynchronize();
}

static void use_none(void)
{
    check(start_shared(0, WARP, write_int, 0));
    cudaDeviceSynchronize();
}

static void leave_early(void)
{
    check(start_shared(WARP * 16, WARP, leave_copy, (const int *)numbers()));
    cudaDeviceSynchronize();
}

static void copy_unaligned(void)
{
    check(start_shared(16, WARP, copy_one, 0, (const int *)numbers(), 1));
    cudaDeviceSynchronize();
}

static void copy_behind(void)
{
    check(start_shared(16, WARP, copy_one, 16, (const int *)numbers(), 0));
    cudaDeviceSynchronize();
}

void wrong_uses_of_shared_memory_end_the_process(void **state)
{
    (void)state;
    set_seed(0);
    expect_death(write_behind, SIGSEGV, "access behind dynamic shared memory");
    expect_death(use_none, SIGABRT, "without dynamic shared memory");
    expect_death(leave_early, SIGABRT,
                 "returns with 1 asynchronous copies that it has not waited");
    expect_death(copy_unaligned, SIGABRT, "is not aligned");
    expect_death(copy_behind, SIGABRT,
                 "which is not in the 16 bytes of dynamic shared memory");
}

void shared_memory_beyond_48_kib_must_be_asked_for(void **state)
{
    enum { KIB = 1 << 10 };
    (void)state;
    check(start_shared(48 * KIB, WARP, write_int, 0));
    assert_int_equal(start_shared(64 * KIB, WARP, write_int, 0),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidConfiguration);
    assert_int_equal(allow_shared(write_int, 228 * KIB), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    check(allow_shared(write_int, 227 * KIB));
    check(start_shared(227 * KIB, WARP, write_int, 227 * KIB / 4 - 1));
    check(cudaDeviceSynchronize());
}
