/* SPDX-License-Identifier: Apache-2.0 */
/* test_device.c - memory, copies, events and graphs of a GPU */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "segment/segment.h"

enum { COUNT = 100000, BYTES = COUNT * sizeof(float) };

static const struct dt_device *device;
static struct dt_stream *stream;
static struct dt_error err;

/* Fails the test with the words of the device. */
#define MUST(call)                                                             \
    do {                                                                       \
        if ((call) < 0)                                                        \
            fail_msg("%s: %s", #call, err.text);                               \
    } while (0)

static int open_device(void **state)
{
    const struct dt_backend_options options = {.local_rank = 0};
    (void)state;
    const struct dt_backend *cuda =
        dt_backend_open("cuda", &options, NULL, 0, &err);
    if (!cuda) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    device = cuda->device;
    return device->stream_create(&stream, &err);
}

static int close_device(void **state)
{
    (void)state;
    if (device)
        device->stream_destroy(stream);
    return 0;
}

static void *allocated(size_t bytes)
{
    void *data = NULL;
    MUST(device->allocate(bytes, &data, &err));
    return data;
}

static float *staging(void)
{
    void *data = NULL;
    MUST(device->allocate_staging(BYTES, &data, &err));
    return data;
}

static void copy(void *to, const void *from, size_t bytes)
{
    MUST(device->copy(stream, to, from, bytes, &err));
}

static void wait_all(void)
{
    MUST(device->stream_wait(stream, &err));
}

static void the_device_describes_its_gpu(void **state)
{
    (void)state;
    assert_string_equal(device->name, "cuda");
    assert_false(device->is_host);
    assert_non_null(strstr(device->describe(), " GiB, sm_"));
    assert_non_null(strstr(device->describe(), ", driver "));
}

/* New memory is zero, also where other memory has been. */
static void new_memory_is_zero(void **state)
{
    float *host = staging();
    (void)state;
    for (int round = 0; round < 2; round++) {
        float *data = allocated(BYTES);
        assert_int_equal((uintptr_t)data % 256, 0);
        memset(host, 1, BYTES);
        copy(host, data, BYTES);
        wait_all();
        for (size_t i = 0; i < COUNT; i++)
            assert_true(host[i] == 0);
        memset(host, 1, BYTES);
        copy(data, host, BYTES);
        wait_all();
        device->release(data, BYTES);
    }
    device->release_staging(host, BYTES);
}

/* From and to memory of every kind; ordinary memory is free at once. */
static void copies_reach_memory_of_every_kind(void **state)
{
    float *host = staging(), *plain = malloc(BYTES);
    float *a = allocated(BYTES), *b = allocated(BYTES);
    (void)state;
    assert_non_null(plain);
    for (size_t i = 0; i < COUNT; i++)
        plain[i] = (float)i;
    copy(a, plain, BYTES);
    memset(plain, 1, BYTES);
    copy(b, a, BYTES);
    copy(host, b, BYTES);
    wait_all();
    copy(plain, b, BYTES);
    wait_all();
    for (size_t i = 0; i < COUNT; i++)
        assert_true(host[i] == (float)i && plain[i] == (float)i);
    device->release(a, BYTES);
    device->release(b, BYTES);
    device->release_staging(host, BYTES);
    free(plain);
}

/* As copies of a run are made (train/resume/copies.h): to a file in memory, in
 * a stream without a workspace, and read by whoever maps the file later.
 */
static void copies_reach_memory_that_outlives_a_process(void **state)
{
    const int fd = memfd_create("state", MFD_CLOEXEC);
    struct dt_segment *segment = dt_segment_open(fd, 1, &err);
    struct dt_buffer *kept = dt_segment_buffer(segment, "a copy", BYTES, &err);
    struct dt_stream *other = NULL;
    float *host = staging(), *data = allocated(BYTES);
    (void)state;
    assert_non_null(kept);
    for (size_t i = 0; i < COUNT; i++)
        host[i] = (float)i;
    copy(data, host, BYTES);
    wait_all();
    const size_t used = device->used_bytes();
    MUST(device->copy_stream_create(&other, &err));
    assert_int_equal(device->used_bytes(), used);
    MUST(device->lock(kept->data, BYTES, &err));
    MUST(device->copy(other, kept->data, data, BYTES, &err));
    MUST(device->stream_wait(other, &err));
    device->unlock(kept->data);
    dt_buffer_destroy(kept);
    dt_segment_close(segment);
    segment = dt_segment_open(fd, 1, &err);
    kept = dt_segment_buffer(segment, "a copy", BYTES, &err);
    assert_true(dt_segment_found(segment));
    assert_memory_equal(kept->data, host, BYTES);
    dt_buffer_destroy(kept);
    dt_segment_close(segment);
    close(fd);
    device->stream_destroy(other);
    device->release(data, BYTES);
    device->release_staging(host, BYTES);
}

static void *wait_for(void *event)
{
    static struct dt_error thread_err;
    return dt_event_wait(device, NULL, event, &thread_err) < 0 ? thread_err.text
                                                               : NULL;
}

/* What was queued before an event is there when it has been passed, and any
 * thread may wait for it.
 */
static void any_thread_may_wait_for_an_event(void **state)
{
    struct dt_event *event = NULL;
    float *host = staging(), *back = staging(), *data = allocated(BYTES);
    pthread_t thread;
    void *failed;
    (void)state;
    MUST(device->event_create(&event, &err));
    assert_int_equal(device->event_done(event, &err), 1);
    for (int round = 0; round < 3; round++) {
        host[COUNT - 1] = (float)round + 1;
        copy(data, host, BYTES);
        copy(back, data, BYTES);
        MUST(device->event_record(event, stream, &err));
        if (round < 2) {
            MUST(dt_event_wait(device, stream, event, &err));
        } else {
            assert_int_equal(pthread_create(&thread, NULL, wait_for, event), 0);
            assert_int_equal(pthread_join(thread, &failed), 0);
            assert_null(failed);
        }
        assert_true(back[COUNT - 1] == (float)round + 1);
    }
    device->event_destroy(event);
    device->release(data, BYTES);
    device->release_staging(host, BYTES);
    device->release_staging(back, BYTES);
}

/* Recording runs nothing; each replay runs all of it, with what is there. */
static void each_replay_runs_all_that_was_recorded(void **state)
{
    struct dt_graph *graph = NULL;
    size_t bytes;
    float *host = staging(), *back = staging();
    float *a = allocated(BYTES), *b = allocated(BYTES);
    (void)state;
    host[7] = 1;
    MUST(device->record_begin(stream, &err));
    copy(a, host, BYTES);
    copy(b, a, BYTES);
    MUST(device->record_end(stream, &graph, &bytes, &err));
    copy(back, b, BYTES);
    wait_all();
    assert_true(back[7] == 0);
    for (int round = 2; round < 5; round++) {
        host[7] = (float)round;
        MUST(device->replay(stream, graph, &err));
        copy(back, b, BYTES);
        wait_all();
        assert_true(back[7] == (float)round);
    }
    device->graph_destroy(graph);
    device->release(a, BYTES);
    device->release(b, BYTES);
    device->release_staging(host, BYTES);
    device->release_staging(back, BYTES);
}

/* All that is queued is done, and then some milliseconds have gone by. */
static void rest(long ms)
{
    const struct timespec time = {0, ms * 1000000};
    wait_all();
    nanosleep(&time, NULL);
}

/* Where the stream rests after each lap, times are those of the host; waits
 * between steps, and a lap that has begun already, change nothing.
 */
static void laps_are_times_of_steps(void **state)
{
    struct dt_lap_times before, now;
    (void)state;
    wait_all();
    device->lap_times(&before);
    for (int step = 0; step < 2; step++) {
        assert_int_equal(device->lap(stream, DT_LAP_WAIT), DT_LAP_OTHER);
        assert_int_equal(device->lap(stream, DT_LAP_OTHER), DT_LAP_OTHER);
        rest(50);
        device->lap(stream, DT_LAP_COMPUTE);
        rest(10);
        assert_int_equal(device->lap(stream, DT_LAP_WAIT), DT_LAP_COMPUTE);
        rest(30);
        assert_int_equal(device->lap(stream, DT_LAP_COMPUTE), DT_LAP_WAIT);
        device->lap(stream, DT_LAP_COMPUTE);
        rest(10);
        device->lap(stream, DT_LAP_OTHER);
    }
    device->lap(stream, DT_LAP_COMPUTE); /* of a step that has not ended */
    rest(50);
    wait_all();
    device->lap_times(&now);
    device->lap(stream, DT_LAP_OTHER);
    const double compute =
        now.seconds[DT_LAP_COMPUTE] - before.seconds[DT_LAP_COMPUTE];
    const double wait = now.seconds[DT_LAP_WAIT] - before.seconds[DT_LAP_WAIT];
    assert_int_equal(now.steps - before.steps, 2);
    assert_true(compute > 0.035 && wait > 0.055);
    assert_true(now.seconds[DT_LAP_OTHER] == 0);
}

/* More laps than are kept cost times, and no step. */
static void too_many_laps_still_count_steps(void **state)
{
    enum { STEPS = 20, LAPS = 1000 };
    struct dt_lap_times before, now;
    (void)state;
    wait_all();
    device->lap_times(&before);
    for (int step = 0; step < STEPS; step++) {
        device->lap(stream, DT_LAP_COMPUTE);
        for (int i = 0; i < LAPS; i++) {
            device->lap(stream, DT_LAP_WAIT);
            device->lap(stream, DT_LAP_COMPUTE);
        }
        device->lap(stream, DT_LAP_OTHER);
    }
    wait_all();
    device->lap_times(&now);
    assert_int_equal(now.steps - before.steps, STEPS);
}

static void free_and_peak_memory_are_counted(void **state)
{
    size_t available = device->available_bytes();
    size_t bytes = (size_t)64 << 20, much = (size_t)1 << 50;
    void *none = NULL;
    (void)state;
    void *first = allocated(bytes), *second = allocated(bytes);
    assert_true(device->available_bytes() <= available - 2 * bytes);
    assert_true(device->peak_bytes() >= 2 * bytes);
    size_t peak = device->peak_bytes();
    device->release(first, bytes);
    assert_int_equal(device->peak_bytes(), peak);
    device->release(second, bytes);
    assert_int_equal(device->allocate(much, &none, &err), -1);
    assert_int_equal(err.status, EX_OSERR);
    assert_non_null(strstr(
        err.text, "cudaMalloc(1125899906842624 bytes): out of memory: "));
    assert_non_null(strstr(err.text, " GiB of GPU 0 are free"));
    wait_all(); /* the device goes on working */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_describes_its_gpu),
        cmocka_unit_test(new_memory_is_zero),
        cmocka_unit_test(copies_reach_memory_of_every_kind),
        cmocka_unit_test(copies_reach_memory_that_outlives_a_process),
        cmocka_unit_test(any_thread_may_wait_for_an_event),
        cmocka_unit_test(each_replay_runs_all_that_was_recorded),
        cmocka_unit_test(laps_are_times_of_steps),
        cmocka_unit_test(too_many_laps_still_count_steps),
        cmocka_unit_test(free_and_peak_memory_are_counted),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
