/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_comm_nccl.c - errors of NCCL, GPUs that do not fit together, and work
 * that takes long; on the emulation, whose NCCL waits for ever as the real one
 */
#include "config.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"
#include "simt.h"
#include "../comm/scene.h"

/* --- NCCL's own errors --- */

static void break_rank_1(int rank)
{
    if (rank == 1)
        setenv("SIMT_NCCL_FAIL", "3", 1);
}

static void act_loop(struct actor *a)
{
    for (int i = 0; i < 10 && reduce(a, 50) == 0; i++)
        continue;
}

static void an_error_of_nccl_reaches_all_ranks(void **state)
{
    struct scene scene = {
        .prepare = break_rank_1, .act = act_loop, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(scene.seen[r].rc, -1);
        assert_int_equal(scene.seen[r].first.status, EX_OSERR);
        assert_text(&scene.seen[r].first,
                    r == 1 ? "comm/nccl: all_reduce(50 x f32): ncclAllReduce: "
                             "unhandled system error: SIMT_NCCL_FAIL"
                           : "comm/nccl: all_reduce(50 x f32): rank 1 on h1 "
                             "failed: ncclAllReduce: unhandled system error: "
                             "SIMT_NCCL_FAIL");
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

/* --- coming --- */

static void absent_rank_1(int rank)
{
    if (rank == 1)
        setenv("SIMT_NCCL_ABSENT", "1", 1);
}

static void connecting_without_end_fails_after_the_timeout(void **state)
{
    struct scene scene = {.prepare = absent_rank_1, .timeout_ms = 2000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_false(scene.seen[r].connected);
        assert_text(&scene.seen[r].first,
                    "comm/nccl: connecting 3 GPUs: all ranks have started "
                    "it, but it did not end within 2000 ms: ");
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

static void same_host(int rank)
{
    (void)rank;
    setenv("NCCL_HOSTID", "one", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
}

static void two_ranks_with_the_same_gpu_are_refused(void **state)
{
    struct scene scene = {.prepare = same_host, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "comm/nccl: rank %d on h%d: ranks 0 and 1 on h0 have the "
                 "same GPU, 0000:01:00.0 (SIMT): each rank needs one of its "
                 "own. Start no more tasks on a node than it has GPUs, and let "
                 "each task see all of them (srun --gpus-per-node=N) or one of "
                 "its own (launch.gpu_visibility: one); CUDA_VISIBLE_DEVICES "
                 "of rank 1 is \"0\"",
                 r, r);
        assert_false(scene.seen[r].connected);
        assert_string_equal(scene.seen[r].first.text, text);
        assert_int_equal(scene.seen[r].first.status, EX_CONFIG);
        assert_true(scene.seen[r].failed_after < IN_TIME);
    }
}

static void other_version(int rank)
{
    if (rank == 2)
        setenv("SIMT_NCCL_VERSION", "22703", 1);
}

static void ranks_with_another_nccl_are_refused(void **state)
{
    struct scene scene = {.prepare = other_version, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        assert_false(scene.seen[r].connected);
        assert_text(&scene.seen[r].first,
                    "rank 0 on h0 has NCCL 2.28.9, rank 2 on h2 has 2.27.3: "
                    "all ranks need the same one; see LD_LIBRARY_PATH");
        assert_int_equal(scene.seen[r].first.status, EX_CONFIG);
    }
}

/* --- work that takes long --- */

/* Work of a stream that takes its time. */
struct work {
    double until;
    float *result; /* becomes 1, on the GPU */
};

static enum simt_progress compute(void *ctx)
{
    struct work *work = ctx;
    if (dt_clock_now() < work->until)
        return SIMT_BLOCKED;
    *work->result = 1;
    return SIMT_DONE;
}

static int queue_work(struct actor *a, struct work *work)
{
    void *library = dlopen("libsimt.so", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*enqueue)(cudaStream_t, enum simt_progress(*)(void *),
                           void (*)(void *), void *);
    *(void **)&enqueue = library ? dlsym(library, "simt_enqueue") : NULL;
    if (!enqueue || enqueue(a->rank.stream->cuda, compute, NULL, work) != 0)
        return dt_error_set(&a->seen->first, EX_SOFTWARE, "no work");
    return 0;
}

/* The GPU computes for longer than the time-out what the operation adds up. */
static void act_compute(struct actor *a)
{
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    struct dt_buffer *buf = dt_buffer_create(r->device, 4, "a test", err);
    struct work work = {dt_clock_now() + 6, buf->data};
    dt_ticket_t ticket;
    float sum = 0;
    int rc = queue_work(a, &work);
    if (rc == 0)
        rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    if (rc == 0)
        rc = rank_finish(r, err);
    if (rc == 0)
        rc = r->device->copy(r->stream, &sum, buf->data, 4, err);
    if (rc == 0 && sum != (float)dt_comm_size(r->comm))
        rc = dt_error_set(err, EX_SOFTWARE, "the sum is %g", (double)sum);
    a->seen->rc = rc;
}

/* An operation waits for what the stream computes before it, and that is
 * waiting for nobody.
 */
static void computing_before_an_operation_is_no_delay(void **state)
{
    struct scene scene = {.act = act_compute, .timeout_ms = 5000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        if (!scene.seen[r].connected || scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

/* --- waits that are none of comm's --- */

/* The step of a rank: a reduction that the odd rank does not come to, and then
 * a wait for the stream.
 */
static void act_wait(struct actor *a,
                     int (*wait)(struct rank *r, struct dt_error *err))
{
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    dt_ticket_t ticket;
    double begun;
    if (r->rank == a->odd) {
        for (int i = 0; i < r->size; i++)
            while (i != a->odd && *(volatile int *)&a->all[i].rc == 0)
                dt_clock_sleep(0.05);
        return;
    }
    a->pending = dt_buffer_create(r->device, 400, "a test", err);
    int rc = dt_comm_all_reduce(r->comm, dt_view_of(a->pending, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    begun = dt_clock_now();
    if (rc == 0)
        rc = wait(r, err);
    a->seen->failed_after = dt_clock_now() - begun;
    a->seen->rc = rc < 0 ? -1 : 1;
}

static int wait_for_stream(struct rank *r, struct dt_error *err)
{
    return r->device->stream_wait(r->stream, err);
}

static int copy_pageable(struct rank *r, struct dt_error *err)
{
    char there[400];
    struct dt_buffer *buf = dt_buffer_create(r->device, 400, "a test", err);
    int rc = r->device->copy(r->stream, there, buf->data, 400, err);
    dt_buffer_destroy(buf);
    return rc;
}

static int wait_for_event(struct rank *r, struct dt_error *err)
{
    if (r->device->event_record(r->event, r->stream, err) < 0)
        return -1;
    return dt_event_wait(r->device, r->stream, r->event, err);
}

static void act_wait_for_stream(struct actor *a)
{
    act_wait(a, wait_for_stream);
}

static void act_copy_pageable(struct actor *a)
{
    act_wait(a, copy_pageable);
}

static void act_wait_for_event(struct actor *a)
{
    act_wait(a, wait_for_event);
}

static void every_wait_for_the_stream_has_the_time_out(void **state)
{
    static void (*const acts[])(struct actor * a) = {
        act_wait_for_stream, act_copy_pageable, act_wait_for_event};
    (void)state;
    for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
        struct scene scene = {.act = acts[i], .timeout_ms = 1500, .odd = 2};
        play(&scene, 3, -1);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(scene.seen[r].rc, -1);
            assert_text(&scene.seen[r].first,
                        "all_reduce(100 x f32): rank 2 on h2 did not answer "
                        "within 1500 ms");
            assert_true(scene.seen[r].failed_after < IN_TIME);
        }
    }
}

/* --- errors of the GPU --- */

static void break_gpu_1(int rank)
{
    if (rank == 1)
        setenv("SIMT_FAIL_QUERY", "5", 1);
}

static void act_barriers(struct actor *a)
{
    for (int i = 0; i < 10 && a->seen->rc == 0; i++)
        a->seen->rc = dt_comm_barrier(a->rank.comm, &a->seen->first);
}

static void an_error_of_the_gpu_says_where_to_read_on(void **state)
{
    struct scene scene = {
        .prepare = break_gpu_1, .act = act_barriers, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    assert_int_equal(scene.seen[1].rc, -1);
    assert_text(&scene.seen[1].first,
                "cudaEventQuery: uncorrectable ECC error encountered "
                "(cudaErrorECCUncorrectable): the kernel's log has more under "
                "Xid");
}

/* --- groups that do not come about --- */

/* The odd rank does not come to the making of a group of all. */
static void act_split(struct actor *a)
{
    const int ranks[] = {0, 1, 2};
    struct rank *r = &a->rank;
    if (reduce(a, 10) < 0)
        return;
    if (r->rank == a->odd) {
        for (int i = 0; i < r->size; i++)
            while (i != a->odd && *(volatile int *)&a->all[i].rc == 0)
                dt_clock_sleep(0.05);
        return;
    }
    a->seen->rc = dt_comm_group(r->comm, ranks, 3, &a->seen->first) ? 1 : -1;
}

/* The emulation ends a process that frees the place of a group's handle before
 * the communicator that is split has ended.
 */
static void a_group_that_does_not_come_about_ends_after_the_world(void **state)
{
    struct scene scene = {.act = act_split, .timeout_ms = 1500, .odd = 2};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(scene.seen[r].rc, -1);
        assert_text(&scene.seen[r].first,
                    "connecting a group of 3 GPUs: rank 2 on h2 did not answer "
                    "within 1500 ms");
    }
}

/* --- registered memory --- */

enum { REGISTERED = 16 << 20 }; /* bytes that are worth it */

/* Sums of two buffers, one after the other: the emulation ends a process that
 * frees memory which NCCL goes on using.
 */
static void act_free(struct actor *a)
{
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    dt_ticket_t ticket;
    for (int i = 0; i < 2 && a->seen->rc == 0; i++) {
        struct dt_buffer *buf =
            dt_buffer_create(r->device, REGISTERED, "a test", err);
        if (!buf ||
            dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM, DT_F32,
                               &ticket, err) < 0 ||
            dt_comm_wait(r->comm, ticket, err) < 0 || rank_finish(r, err) < 0)
            a->seen->rc = -1;
        dt_comm_forget_memory(r->comm);
        dt_buffer_destroy(buf);
    }
}

static void memory_is_taken_back_from_nccl_before_it_is_freed(void **state)
{
    struct scene scene = {.act = act_free, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        if (!scene.seen[r].connected || scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

/* A reduction under way, of which one rank frees the memory. */
static void act_free_early(struct actor *a)
{
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    dt_ticket_t ticket;
    if (r->rank == a->odd) {
        while (*(volatile int *)&a->all[0].rc == 0)
            dt_clock_sleep(0.05);
        reduce(a, 10);
        return;
    }
    struct dt_buffer *buf =
        dt_buffer_create(r->device, REGISTERED, "a test", err);
    int rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    dt_comm_forget_memory(r->comm);
    dt_buffer_destroy(buf);
    a->seen->rc = rc < 0 ? -1 : 1;
}

static void memory_of_what_is_under_way_is_freed_and_others_hear_of_it(
    void **state)
{
    struct scene scene = {
        .act = act_free_early, .timeout_ms = PATIENCE_MS, .odd = 1};
    (void)state;
    play(&scene, 2, -1);
    assert_int_equal(scene.seen[0].rc, 1);
    assert_int_equal(scene.seen[1].rc, -1);
    assert_text(&scene.seen[1].first,
                "rank 0 on h0 has freed its memory in the middle of it");
}

/* --- the order of sums --- */

/* Sums of 1, 2^24 and -2^24 are 1 if these two come one after the other. */
static void act_add(struct actor *a)
{
    static const float parts[] = {1.0f, 0x1p24f, -0x1p24f};
    enum { COUNT = 48 };
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    struct dt_buffer *buf =
        dt_buffer_create(r->device, COUNT * sizeof(float), "a test", err);
    struct dt_view v = dt_view_of(buf, DT_F32);
    float x[2][COUNT];
    dt_ticket_t ticket;
    for (int way = 0; way < 2 && a->seen->rc == 0; way++) {
        for (int i = 0; i < COUNT; i++)
            x[way][i] = parts[r->rank];
        if (r->device->copy(r->stream, buf->data, x[way], sizeof(x[way]), err) <
                0 ||
            (way == 0
                 ? dt_comm_all_reduce(r->comm, v, DT_SUM, DT_F32, &ticket, err)
                 : dt_comm_reduce_scatter(r->comm, v, DT_SUM, DT_F32, &ticket,
                                          err)) < 0 ||
            dt_comm_wait(r->comm, ticket, err) < 0 || rank_finish(r, err) < 0 ||
            r->device->copy(r->stream, x[way], buf->data, sizeof(x[way]), err) <
                0)
            a->seen->rc = -1;
    }
    for (int i = 0; i < COUNT && a->seen->rc == 0; i++) {
        bool own = i / 16 == r->rank;
        if (x[0][i] != (i < 32) || (own && x[1][i] != (i < 32)))
            a->seen->rc = dt_error_set(err, EX_SOFTWARE, "%d: %g and %g", i,
                                       (double)x[0][i], (double)x[1][i]);
    }
    dt_buffer_destroy(buf);
}

static void sums_go_around_a_ring(void **state)
{
    struct scene scene = {.act = act_add, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        if (!scene.seen[r].connected || scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_nccl_reaches_all_ranks),
        cmocka_unit_test(connecting_without_end_fails_after_the_timeout),
        cmocka_unit_test(two_ranks_with_the_same_gpu_are_refused),
        cmocka_unit_test(ranks_with_another_nccl_are_refused),
        cmocka_unit_test(computing_before_an_operation_is_no_delay),
        cmocka_unit_test(every_wait_for_the_stream_has_the_time_out),
        cmocka_unit_test(an_error_of_the_gpu_says_where_to_read_on),
        cmocka_unit_test(a_group_that_does_not_come_about_ends_after_the_world),
        cmocka_unit_test(memory_is_taken_back_from_nccl_before_it_is_freed),
        cmocka_unit_test(
            memory_of_what_is_under_way_is_freed_and_others_hear_of_it),
        cmocka_unit_test(sums_go_around_a_ring),
    };
    setenv("DT_TEST_DEVICE", "cuda", 1);
    return cmocka_run_group_tests_name("comm over NCCL", tests, NULL, NULL);
}
