/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu_choice.c - which GPU a rank opens, and how much memory is left
 *
 * Each case runs in a process of its own, which sees other emulated GPUs.
 */
#include "config.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/backend.h"

static const size_t MiB = 1 << 20;
static struct dt_error err;

/* A step of a case; a child must not assert. */
#define TRY(condition)                                                         \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "# %s:%d: %s: %s\n", __FILE__, __LINE__,           \
                    #condition, err.text);                                     \
            return 1;                                                          \
        }                                                                      \
    } while (0)

/* Runs the case where there are `count` GPUs of `mib` MiB each. */
static void run(int (*test)(void), const char *count, size_t mib)
{
    int status;
    pid_t pid;
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char bytes[32];
        snprintf(bytes, sizeof(bytes), "%zu", mib * MiB);
        setenv("SIMT_DEVICES", count, 1);
        setenv("SIMT_MEMORY", bytes, 1);
        alarm(300);
        _exit(test());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static const struct dt_device *open_gpu(int local_rank)
{
    const struct dt_backend_options options = {.local_rank = local_rank};
    const struct dt_backend *cuda =
        dt_backend_open("cuda", &options, NULL, 0, &err);
    return cuda ? cuda->device : NULL;
}

/* The GPU that a message names. */
static int opens_the_last(void)
{
    const struct dt_device *device = open_gpu(1);
    void *none;
    TRY(device && device->allocate((size_t)1 << 50, &none, &err) == -1);
    TRY(strstr(err.text, " of GPU 1 are free"));
    return 0;
}

static int opens_none(void)
{
    TRY(!open_gpu(2) && err.status == EX_CONFIG);
    TRY(strstr(err.text, "run.device cuda: this is local rank 2, and only 2 "
                         "GPUs are visible on "));
    return 0;
}

static int opens_the_only_one(void)
{
    TRY(open_gpu(3));
    return 0;
}

static void a_rank_takes_its_own_gpu_or_the_only_one(void **state)
{
    (void)state;
    run(opens_the_last, "2", 1024);
    run(opens_none, "2", 1024);
    run(opens_the_only_one, "1", 1024);
}

static int leaves_room(void)
{
    const struct dt_device *device = open_gpu(0);
    TRY(device && device->available_bytes() == 512 * MiB);
    return 0;
}

static int has_no_room(void)
{
    const struct dt_device *device = open_gpu(0);
    TRY(device && device->available_bytes() == 0);
    return 0;
}

/* Half a GiB stays for what CUDA still loads. */
static void half_a_gib_stays_free_for_cuda(void **state)
{
    (void)state;
    run(leaves_room, "1", 1024);
    run(has_no_room, "1", 511);
}

static int counts(void)
{
    const struct dt_device *device = open_gpu(0);
    size_t before;
    void *data;
    TRY(device);
    before = device->peak_bytes();
    TRY(device->allocate(64 * MiB, &data, &err) == 0);
    device->release(data, 64 * MiB);
    TRY(device->allocate(32 * MiB, &data, &err) == 0);
    TRY(device->peak_bytes() == before + 64 * MiB);
    device->release(data, 32 * MiB);
    TRY(device->allocate(2048 * MiB, &data, &err) == -1);
    TRY(!strcmp(err.text, "cudaMalloc(2147483648 bytes): out of memory: 1.0 of "
                          "1.0 GiB of GPU 0 are free, this process has 0.0"));
    return 0;
}

/* What was released counts neither as the most nor as one's own. */
static void released_memory_is_no_longer_counted(void **state)
{
    (void)state;
    run(counts, "1", 1024);
}

static int leaves_nothing(void)
{
    enum { WARM = 16, TIMES = 24 }; /* the allocator keeps a few at first */
    const struct dt_device *device = open_gpu(0);
    struct dt_stream *stream;
    size_t used = 0;
    TRY(device);
    for (int i = 0; i < TIMES; i++) {
        if (i == WARM)
            used = mallinfo2().uordblks;
        TRY(device->stream_create(&stream, &err) == -1);
        TRY(strstr(err.text, "cudaMalloc(67108864 bytes): out of memory: "));
    }
    TRY(mallinfo2().uordblks == used);
    return 0;
}

static void a_stream_that_does_not_fit_leaves_nothing_behind(void **state)
{
    (void)state;
    run(leaves_nothing, "1", 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_takes_its_own_gpu_or_the_only_one),
        cmocka_unit_test(half_a_gib_stays_free_for_cuda),
        cmocka_unit_test(released_memory_is_no_longer_counted),
        cmocka_unit_test(a_stream_that_does_not_fit_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("gpu_choice", tests, NULL, NULL);
}
