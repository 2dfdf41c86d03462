/* SPDX-License-Identifier: Apache-2.0 */
/* test_span.c - spans nest, count once, and cost little */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/span.h"

/* What was counted since `before`. */
static struct dt_span_totals since(const struct dt_span_totals *before)
{
    struct dt_span_totals now;
    dt_span_totals(&now);
    for (int kind = 0; kind < DT_SPAN_KINDS; kind++) {
        now.seconds[kind] -= before->seconds[kind];
        now.count[kind] -= before->count[kind];
    }
    return now;
}

static void spend(enum dt_span_kind kind, double seconds)
{
    struct dt_span span;
    dt_span_begin_number(&span, kind, 7);
    if (seconds > 0)
        dt_clock_sleep(seconds);
    dt_span_end(&span);
}

static const struct dt_span_lane *find_lane(const struct dt_span_lane *lanes,
                                            size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lanes[i].name, name) == 0)
            return &lanes[i];
    return NULL;
}

static void a_total_is_without_the_spans_within(void **state)
{
    struct dt_span_totals before, spent;
    struct dt_span outer, middle;
    (void)state;
    dt_span_totals(&before);
    double start = dt_clock_now();
    dt_span_begin_number(&outer, DT_SPAN_STEP, 1);
    dt_span_begin_number(&middle, DT_SPAN_OPTIMIZER, 0);
    spend(DT_SPAN_COMM_WAIT, 0.02);
    spend(DT_SPAN_COMM_WAIT, 0.02);
    dt_span_end(&middle);
    dt_clock_sleep(0.01);
    dt_span_end(&outer);
    double all = dt_clock_now() - start;
    spent = since(&before);
    assert_int_equal(spent.count[DT_SPAN_COMM_WAIT], 2);
    assert_int_equal(spent.count[DT_SPAN_OPTIMIZER], 1);
    assert_true(spent.seconds[DT_SPAN_COMM_WAIT] >= 0.04);
    assert_true(spent.seconds[DT_SPAN_STEP] >= 0.01);
    double sum = spent.seconds[DT_SPAN_STEP] +
                 spent.seconds[DT_SPAN_OPTIMIZER] +
                 spent.seconds[DT_SPAN_COMM_WAIT];
    assert_true(sum <= all && spent.seconds[DT_SPAN_OPTIMIZER] <= all - 0.05);
}

static void all_of_a_save_is_that_of_the_save(void **state)
{
    struct dt_span_totals before, spent;
    struct dt_span outer;
    (void)state;
    dt_span_totals(&before);
    dt_span_begin_number(&outer, DT_SPAN_SAVE, 1);
    spend(DT_SPAN_COMM_WAIT, 0.02);
    dt_span_end(&outer);
    spend(DT_SPAN_DATA_WAIT, 0.001);
    spent = since(&before);
    assert_int_equal(spent.count[DT_SPAN_COMM_WAIT], 0);
    assert_true(spent.seconds[DT_SPAN_COMM_WAIT] == 0);
    assert_true(spent.seconds[DT_SPAN_SAVE] >= 0.02);
    assert_int_equal(spent.count[DT_SPAN_DATA_WAIT], 1);
}

static void *work_as_comm(void *arg)
{
    (void)arg;
    dt_span_lane("comm");
    spend(DT_SPAN_COLLECTIVE, 0.001);
    return NULL;
}

static void run_thread(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work_as_comm, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void totals_are_over_all_threads_also_those_that_ended(void **state)
{
    struct dt_span_totals before, spent;
    (void)state;
    dt_span_totals(&before);
    for (int i = 0; i < 2 * DT_SPAN_LANES; i++)
        run_thread();
    spend(DT_SPAN_DATA_WAIT, 0.001);
    spent = since(&before);
    assert_int_equal(spent.count[DT_SPAN_COLLECTIVE], 2 * DT_SPAN_LANES);
    assert_true(spent.seconds[DT_SPAN_COLLECTIVE] >= 0.001 * 2 * DT_SPAN_LANES);
    assert_int_equal(spent.count[DT_SPAN_DATA_WAIT], 1);
}

static void a_trace_keeps_what_begins_and_ends_in_it(void **state)
{
    struct dt_span_lane lanes[DT_SPAN_LANES];
    struct dt_span around, within;
    (void)state;
    dt_span_begin_number(&around, DT_SPAN_STEP, 1);
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    const struct dt_span_detail detail = {"all_reduce", 3, 4096, 1, 2};
    dt_span_begin(&within, DT_SPAN_COLLECTIVE, &detail);
    spend(DT_SPAN_FORWARD, 0);
    dt_span_end(&within);
    dt_span_end(&around);
    run_thread();
    dt_span_counter("memory", 99);
    dt_span_trace_end();
    spend(DT_SPAN_BACKWARD, 0);

    size_t count = dt_span_trace_lanes(lanes);
    assert_int_equal(count, 2);
    const struct dt_span_lane *host = find_lane(lanes, count, "host");
    const struct dt_span_lane *comm = find_lane(lanes, count, "comm");
    assert_true(host && host->count == 3 && host->dropped == 0);
    assert_int_equal(host->events[0].kind, DT_SPAN_FORWARD);
    assert_int_equal(host->events[0].detail.number, 7);
    assert_string_equal(host->events[1].detail.name, "all_reduce");
    assert_int_equal(host->events[1].detail.bytes, 4096);
    assert_true(host->events[1].begin <= host->events[0].begin);
    assert_true(host->events[0].end <= host->events[1].end);
    assert_string_equal(host->events[2].detail.name, "memory");
    assert_true(host->events[2].end < host->events[2].begin);
    assert_true(comm && comm->count == 1);
    assert_int_equal(comm->events[0].kind, DT_SPAN_COLLECTIVE);
}

static void a_second_trace_has_nothing_of_the_first(void **state)
{
    struct dt_span_lane lanes[DT_SPAN_LANES];
    (void)state;
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    spend(DT_SPAN_FORWARD, 0);
    dt_span_trace_end();
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    assert_int_equal(dt_span_trace_lanes(lanes), 0);
    spend(DT_SPAN_LOSS, 0);
    dt_span_trace_end();
    assert_int_equal(dt_span_trace_lanes(lanes), 1);
    assert_int_equal(lanes[0].count, 1);
    assert_int_equal(lanes[0].events[0].kind, DT_SPAN_LOSS);
}

static void what_has_no_room_is_counted(void **state)
{
    struct dt_span_lane lanes[DT_SPAN_LANES];
    (void)state;
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    for (int i = 0; i < DT_SPAN_EVENTS + 5; i++)
        spend(DT_SPAN_FORWARD, 0);
    dt_span_trace_end();
    assert_int_equal(dt_span_trace_lanes(lanes), 1);
    assert_int_equal(lanes[0].count, DT_SPAN_EVENTS);
    assert_int_equal(lanes[0].dropped, 5);
}

static char ranges[256];

static void range_begin(const char *name)
{
    strcat(strcat(ranges, name), "(");
}

static void range_end(void)
{
    strcat(ranges, ")");
}

static void a_profiler_is_told_of_spans_with_their_names(void **state)
{
    const struct dt_span_detail detail = {.name = "all_gather"};
    struct dt_span outer, inner;
    (void)state;
    dt_span_ranges(range_begin, range_end);
    dt_span_begin_number(&outer, DT_SPAN_DATA_WAIT, 0);
    dt_span_begin(&inner, DT_SPAN_COLLECTIVE, &detail);
    dt_span_end(&inner);
    dt_span_end(&outer);
    dt_span_ranges(NULL, NULL);
    spend(DT_SPAN_LOSS, 0);
    assert_string_equal(ranges, "data wait(all_gather())");
}

/* Nanoseconds a span, of the best of a few rounds. */
static double cost_ns(void)
{
    enum { ROUNDS = 5, SPANS = 20000 };
    double best = 1;
    struct dt_span span;
    for (int round = 0; round < ROUNDS; round++) {
        double start = dt_clock_now();
        for (int i = 0; i < SPANS; i++) {
            dt_span_begin_number(&span, DT_SPAN_FORWARD, 0);
            dt_span_end(&span);
        }
        double seconds = dt_clock_now() - start;
        best = seconds < best ? seconds : best;
    }
    return 1e9 * best / SPANS;
}

/* A step has some hundreds of spans. The limit is only for what would be
 * another order of magnitude, such as a lock or a system call.
 */
static void a_span_costs_little(void **state)
{
    (void)state;
    double plain = cost_ns();
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    double kept = cost_ns();
    dt_span_trace_end();
    print_message("# %.0f ns a span, %.0f ns while a trace is taken\n", plain,
                  kept);
    assert_true(plain < 1e4 && kept < 1e4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_total_is_without_the_spans_within),
        cmocka_unit_test(all_of_a_save_is_that_of_the_save),
        cmocka_unit_test(totals_are_over_all_threads_also_those_that_ended),
        cmocka_unit_test(a_trace_keeps_what_begins_and_ends_in_it),
        cmocka_unit_test(a_second_trace_has_nothing_of_the_first),
        cmocka_unit_test(what_has_no_room_is_counted),
        cmocka_unit_test(a_profiler_is_told_of_spans_with_their_names),
        cmocka_unit_test(a_span_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
