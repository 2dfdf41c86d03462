/* SPDX-License-Identifier: Apache-2.0 */
/* test_comm_patience.c - ranks with GPUs that are slow or rest, and not lost */
#include "config.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "ops/cuda/cuda.h"
#include "scene.h"
#include "simt.h"

/* Rank 1 is late, but not too late. */
static void act_late(struct rank *r)
{
    reduce(r, 100);
    if (dt_comm_rank(r->comm) == 1)
        dt_clock_sleep(3);
    reduce(r, 100);
}

static void test_late(void **state)
{
    struct scene scene = {.act = act_late, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++)
        assert_int_equal(scene.seen[r].rc, 0);
}

/* All ranks do something else for longer than the time-out. */
static void act_rest(struct rank *r)
{
    reduce(r, 100);
    dt_clock_sleep(6);
    reduce(r, 100);
}

/* Time without operations is not time spent waiting for somebody. */
static void test_rest(void **state)
{
    struct scene scene = {.act = act_rest, .timeout_ms = 5000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        if (scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

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

static int queue_work(struct rank *r, struct work *work)
{
    void *library = dlopen("libsimt.so", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*enqueue)(cudaStream_t, enum simt_progress(*)(void *),
                           void (*)(void *), void *);
    *(void **)&enqueue = library ? dlsym(library, "simt_enqueue") : NULL;
    if (!enqueue || enqueue(r->stream->cuda, compute, NULL, work) != 0)
        return dt_error_set(&r->seen->first, EX_SOFTWARE, "no work");
    return 0;
}

/* The GPU computes for longer than the time-out what the operation adds up. */
static void act_compute(struct rank *r)
{
    struct dt_error *err = &r->seen->first;
    struct dt_buffer *buf = dt_buffer_create(r->device, 4, "a test", err);
    struct work work = {dt_clock_now() + 6, buf->data};
    dt_ticket_t ticket;
    float sum = 0;
    int rc = queue_work(r, &work);
    if (rc == 0)
        rc = dt_comm_all_reduce(r->comm, dt_view_of(buf, DT_F32), DT_SUM,
                                DT_F32, &ticket, err);
    if (rc == 0)
        rc = dt_comm_wait(r->comm, ticket, err);
    if (rc == 0)
        rc = r->device->event_record(r->event, r->stream, err);
    if (rc == 0)
        rc = dt_comm_wait_event(r->comm, r->device, r->event, err);
    if (rc == 0)
        rc = r->device->copy(r->stream, &sum, buf->data, 4, err);
    if (rc == 0 && sum != (float)dt_comm_size(r->comm))
        rc = dt_error_set(err, EX_SOFTWARE, "the sum is %g", (double)sum);
    r->seen->rc = rc;
}

/* An operation waits for what the stream computes before it, and that is
 * waiting for nobody.
 */
static void test_computing(void **state)
{
    struct scene scene = {.act = act_compute, .timeout_ms = 5000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        if (scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_computing),
    };
    return cmocka_run_group_tests_name("comm patience", tests, NULL, NULL);
}
