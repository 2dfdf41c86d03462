/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - parts of traces: clocks, order, flows, which ranks, requests
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/span.h"
#include "tests/unit/scratch.h"
#include "trace/trace.h"
#include "trace/trace_impl.h"

enum { MAX = 64, US = 1000 };

/* A rank whose clock is ahead by `ahead` at time 0 and gains `gains` ns a
 * second, which is 1 ns each 1e9 / gains ns.
 */
struct rank {
    struct dt_trace_event events[MAX];
    struct dt_trace_part part;
    int64_t ahead, gains;
};

static int64_t local(const struct rank *rank, int64_t time)
{
    return time + rank->ahead +
           (int64_t)((double)time * 1e-9 * (double)rank->gains);
}

static void rank_init(struct rank *rank, int number, int64_t ahead,
                      int64_t gains)
{
    *rank = (struct rank){.ahead = ahead, .gains = gains};
    rank->part.events = rank->events;
    rank->part.head.rank = number;
    rank->part.head.lanes = 2;
    snprintf(rank->part.head.host, DT_TRACE_HOST, "node%d", number / 2);
    snprintf(rank->part.head.lane[0], DT_TRACE_NAME, "host");
    snprintf(rank->part.head.lane[1], DT_TRACE_NAME, "comm");
}

static struct dt_trace_event *add(struct rank *rank, enum dt_span_kind kind,
                                  int64_t begin, int64_t end)
{
    struct dt_trace_event *event = &rank->events[rank->part.head.events++];
    *event = (struct dt_trace_event){
        .begin = local(rank, begin),
        .end = local(rank, end),
        .kind = (uint8_t)kind,
        .name = DT_TRACE_NAMES,
        .lane = kind == DT_SPAN_COLLECTIVE,
    };
    return event;
}

/* A collective of all, which rank r begins at begin[r] and which takes
 * `message` ns from the last of them.
 */
static void meet(struct rank *ranks, int count, uint64_t number,
                 const int64_t *begin, int64_t message)
{
    int64_t last = 0;
    for (int r = 0; r < count; r++)
        last = begin[r] > last ? begin[r] : last;
    for (int r = 0; r < count; r++) {
        struct dt_trace_event *event =
            add(&ranks[r], DT_SPAN_COLLECTIVE, begin[r], last + message);
        event->number = number;
        event->size = count;
    }
}

static void set_window(struct rank *ranks, int count, int64_t begin,
                       int64_t end)
{
    for (int r = 0; r < count; r++) {
        ranks[r].part.head.begin = local(&ranks[r], begin);
        ranks[r].part.head.end = local(&ranks[r], end);
    }
}

enum { SECOND = 1000000000 };

/* Two ranks that compare clocks, trace from second 1 to 2, and compare again.
 * Each comes late once, by 50 us.
 */
static void two_ranks(struct rank *ranks, int64_t ahead, int64_t gains)
{
    const int64_t late = 50 * US;
    uint64_t number = 1;
    rank_init(&ranks[0], 0, 0, 0);
    rank_init(&ranks[1], 1, ahead, gains);
    set_window(ranks, 2, SECOND, 2 * (int64_t)SECOND);
    for (int i = 0; i < 4; i++) {
        int64_t at = SECOND - (4 - i) * 1000 * US;
        meet(ranks, 2, number++,
             (int64_t[]){at + (i % 2 ? late : 0), at + (i % 2 ? 0 : late)},
             10 * US + i * US);
    }
    meet(ranks, 2, number++, (int64_t[]){SECOND + 300 * US, SECOND + 500},
         20 * US);
    for (int i = 0; i < 4; i++) {
        int64_t at = 2 * (int64_t)SECOND + (i + 1) * 1000 * US;
        meet(ranks, 2, number++,
             (int64_t[]){at + (i % 2 ? late : 0), at + (i % 2 ? 0 : late)},
             10 * US + i * US);
    }
}

static void clocks_are_aligned_within_the_residual(void **state)
{
    static const int64_t aheads[] = {0, 7 * (int64_t)SECOND, -123456789};
    static const int64_t gains[] = {0, 30 * US, -200 * US};
    struct rank ranks[2];
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            two_ranks(ranks, aheads[i], gains[k]);
            const struct dt_trace_clock clock =
                dt_trace_align(&ranks[0].part, &ranks[1].part);
            /* the shortest message takes 10 us, and 11 the other way */
            assert_in_range(clock.residual, 10 * US, 13 * US);
            for (int64_t t = SECOND; t <= 2 * (int64_t)SECOND;
                 t += SECOND / 4) {
                int64_t off = dt_trace_aligned(&clock, &ranks[1].part.head,
                                               local(&ranks[1], t)) -
                              t;
                assert_true(llabs(off) <= clock.residual);
            }
        }
}

/* Messages to rank 1 take 400 us longer than back, so that its clock seems to
 * be 200 us off; a collective in the window with quick messages knows better.
 */
static void no_collective_ends_before_its_last_rank_has_come(void **state)
{
    struct rank ranks[2];
    (void)state;
    two_ranks(ranks, 0, 0);
    for (uint32_t i = 0; i < ranks[1].part.head.events; i++)
        if (i != 4)
            ranks[1].events[i].end += 400 * US;
    const struct dt_trace_clock clock =
        dt_trace_align(&ranks[0].part, &ranks[1].part);
    const struct dt_trace_event *zero = &ranks[0].events[4];
    const struct dt_trace_event *one = &ranks[1].events[4];
    const struct dt_trace_head *head = &ranks[1].part.head;
    assert_true(dt_trace_aligned(&clock, head, one->begin) <= zero->end);
    assert_true(dt_trace_aligned(&clock, head, one->end) >= zero->begin);
    assert_true(clock.begin < 200 * US && clock.residual >= clock.begin);
}

static void clocks_that_never_met_are_not_aligned(void **state)
{
    struct rank ranks[2];
    (void)state;
    two_ranks(ranks, 5, 0);
    ranks[1].part.head.events = 5; /* none behind the window */
    assert_int_equal(dt_trace_align(&ranks[0].part, &ranks[1].part).residual,
                     -1);
}

/* A set of two ranks, whose parts the caller frees with dt_trace_set_fini. */
static struct dt_trace_set joined(struct rank *ranks, int count)
{
    struct dt_trace_set set = {.first = 3, .last = 4, .world = count};
    set.parts = calloc((size_t)count, sizeof(*set.parts));
    set.count = (size_t)count;
    for (int r = 0; r < count; r++) {
        const size_t bytes = sizeof(ranks[r].events);
        set.parts[r] = ranks[r].part;
        set.parts[r].events = malloc(bytes);
        memcpy(set.parts[r].events, ranks[r].events, bytes);
    }
    assert_int_equal(dt_trace_join(&set, NULL), 0);
    return set;
}

static void a_join_has_the_window_in_order(void **state)
{
    struct rank ranks[2];
    (void)state;
    two_ranks(ranks, 0, 0);
    add(&ranks[0], DT_SPAN_OPTIMIZER, SECOND + 20 * US, SECOND + 30 * US);
    add(&ranks[0], DT_SPAN_STEP, SECOND + 10 * US, SECOND + 90 * US);
    add(&ranks[0], DT_SPAN_FORWARD, SECOND + 10 * US, SECOND + 20 * US);
    add(&ranks[0], DT_SPAN_SAVE, 2 * (int64_t)SECOND - 1,
        2 * (int64_t)SECOND + 1);
    struct dt_trace_set set = joined(ranks, 2);
    const struct dt_trace_event *events = set.parts[0].events;
    assert_int_equal(set.parts[0].head.events, 4);
    assert_int_equal(events[0].kind, DT_SPAN_STEP);
    assert_int_equal(events[1].kind, DT_SPAN_FORWARD);
    assert_int_equal(events[2].kind, DT_SPAN_OPTIMIZER);
    assert_int_equal(events[3].kind, DT_SPAN_COLLECTIVE);
    assert_int_equal(set.parts[1].head.events, 1);
    assert_int_equal(set.spans, 5);
    dt_trace_set_fini(&set);
}

static void a_flow_has_all_ranks_of_a_collective_and_two_ends(void **state)
{
    struct rank ranks[3];
    int64_t times[] = {SECOND + 100, SECOND + 300, SECOND + 200};
    (void)state;
    for (int r = 0; r < 3; r++)
        rank_init(&ranks[r], r, 0, 0);
    set_window(ranks, 3, SECOND, 2 * (int64_t)SECOND);
    meet(ranks, 3, 1, times, 50);
    add(&ranks[2], DT_SPAN_COLLECTIVE, SECOND + 400, SECOND + 500)->size = 3;
    struct dt_trace_set set = joined(ranks, 3);
    assert_int_equal(set.flow_count, 3);
    const uint64_t id =
        dt_trace_flow_of(&set, &set.parts[0], &set.parts[0].events[0]);
    assert_true(id > 0);
    for (size_t r = 1; r < 3; r++)
        assert_int_equal(
            dt_trace_flow_of(&set, &set.parts[r], &set.parts[r].events[0]), id);
    assert_int_equal(
        dt_trace_flow_of(&set, &set.parts[2], &set.parts[2].events[1]), 0);
    dt_trace_set_fini(&set);
}

static void a_trace_says_what_it_is_of(void **state)
{
    struct rank ranks[2];
    char text[512];
    (void)state;
    two_ranks(ranks, 0, 0);
    struct dt_trace_set set = joined(ranks, 2);
    set.residual = 18040;
    dt_trace_describe(&set, text, sizeof(text));
    assert_string_equal(text, "steps 3 to 4 of all 2 ranks; clocks aligned to "
                              "+-18.0 us");
    set.world = 1000;
    set.sampled = true;
    set.residual = -1;
    set.dropped = 7;
    dt_trace_describe(&set, text, sizeof(text));
    assert_string_equal(
        text, "steps 3 to 4 of 2 of 1000 ranks, the slowest, median and "
              "fastest of nodes; clocks not aligned; 7 spans left out, for "
              "which there was no room");
    dt_trace_set_fini(&set);
}

/* --- parts --- */

static void a_part_is_read_as_it_was_packed_or_refused(void **state)
{
    const struct dt_span_detail detail = {"all_gather", 9, 512, 2, 4};
    struct dt_trace_head head = {.rank = 3, .host = "node7", .begin = 1};
    struct dt_trace_part part;
    struct dt_error err;
    struct dt_span span;
    void *data;
    size_t bytes;
    (void)state;
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    dt_span_begin(&span, DT_SPAN_COLLECTIVE, &detail);
    dt_span_end(&span);
    dt_span_begin_number(&span, DT_SPAN_FORWARD, 5);
    dt_span_end(&span);
    dt_span_counter("memory", 4096);
    dt_span_trace_end();
    assert_int_equal(dt_trace_pack(&head, &data, &bytes, NULL), 0);
    assert_int_equal(dt_trace_unpack(&part, data, bytes, NULL), 0);
    assert_int_equal(part.head.events, 3);
    assert_string_equal(part.head.host, "node7");
    assert_string_equal(part.head.lane[0], "host");
    assert_string_equal(dt_trace_name(&part, &part.events[0]), "all_gather");
    assert_string_equal(dt_trace_name(&part, &part.events[1]), "forward");
    assert_int_equal(part.events[0].bytes, 512);
    assert_int_equal(part.events[1].number, 5);
    assert_true(dt_trace_is_counter(&part.events[2]));
    dt_trace_part_fini(&part);
    for (size_t cut = 0; cut < bytes; cut += 7) {
        assert_int_equal(dt_trace_unpack(&part, data, cut, &err), -1);
        dt_trace_part_fini(&part);
    }
    ((struct dt_trace_event *)((char *)data + sizeof(head)))[1].lane = 1;
    assert_int_equal(dt_trace_unpack(&part, data, bytes, &err), -1);
    assert_string_equal(err.text, "the trace of rank 3: a span is damaged");
    dt_trace_part_fini(&part);
    free(data);
}

/* As if this thread were three: a lane belongs to its thread. */
static void each_thread_has_a_lane_of_its_own_name(void **state)
{
    static const char *const names[] = {"data", "reward", "data"};
    struct dt_trace_head head = {.rank = 0};
    struct dt_trace_part part;
    struct dt_span span;
    void *data;
    size_t bytes;
    (void)state;
    assert_int_equal(dt_span_trace_begin(NULL), 0);
    for (int i = 0; i < 3; i++) {
        dt_span_lane(names[i]);
        dt_span_begin_number(&span, DT_SPAN_BATCH, 0);
        dt_span_end(&span);
    }
    dt_span_trace_end();
    assert_int_equal(dt_trace_pack(&head, &data, &bytes, NULL), 0);
    assert_int_equal(dt_trace_unpack(&part, data, bytes, NULL), 0);
    assert_int_equal(part.head.lanes, 3);
    assert_string_equal(part.head.lane[0], "data");
    assert_string_equal(part.head.lane[1], "reward");
    assert_string_equal(part.head.lane[2], "data 2");
    dt_trace_part_fini(&part);
    free(data);
}

/* --- which ranks --- */

static void all_ranks_are_chosen_if_they_fit(void **state)
{
    struct dt_trace_rank ranks[] = {
        {0, 1, 10, false}, {0, 2, 0, false}, {1, 3, 10, false}};
    (void)state;
    assert_false(dt_trace_choose(ranks, 3, 20));
    assert_true(ranks[0].chosen && !ranks[1].chosen && ranks[2].chosen);
}

/* Two nodes of four ranks, with room for five: rank 0, the slowest of each
 * node, the median of the slower node, the other one's.
 */
static void else_the_slowest_median_and_fastest_of_nodes(void **state)
{
    struct dt_trace_rank ranks[8];
    const double seconds[] = {1.0, 1.4, 1.2, 1.1, 2.0, 2.1, 2.3, 2.2};
    (void)state;
    for (int r = 0; r < 8; r++)
        ranks[r] = (struct dt_trace_rank){r / 4, seconds[r], 10, false};
    assert_true(dt_trace_choose(ranks, 8, 50));
    const bool expected[] = {true, true, false, true, false, true, true, false};
    for (int r = 0; r < 8; r++)
        assert_int_equal(ranks[r].chosen, expected[r]);
}

/* --- requests --- */

static void a_request_is_taken_once(void **state)
{
    const char *dir = scratch_path("");
    (void)state;
    assert_int_equal(dt_trace_request_take(dir, NULL), 0);
    assert_int_equal(dt_trace_request_write(dir, 12, NULL), 0);
    assert_true(dt_trace_request_waits(dir));
    assert_int_equal(dt_trace_request_take(dir, NULL), 12);
    assert_false(dt_trace_request_waits(dir));
    assert_int_equal(dt_trace_request_take(dir, NULL), 0);
}

static void a_request_that_is_none_is_refused_and_removed(void **state)
{
    static const char *const texts[] = {"",      "steps 0\n",    "steps 1001",
                                        "steps", "steps 3 json", "\n\n\n"};
    struct dt_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        FILE *file = fopen(scratch_path("trace.request"), "w");
        fputs(texts[i], file);
        fclose(file);
        assert_int_equal(dt_trace_request_take(scratch_path(""), &err), -1);
        assert_non_null(strstr(err.text, "trace.request: expected \"steps N"));
        assert_false(dt_trace_request_waits(scratch_path("")));
    }
}

static void a_request_rides_on_a_sum_of_whole_numbers(void **state)
{
    (void)state;
    for (long steps = 0; steps <= DT_TRACE_STEPS_MAX; steps++) {
        const double code = dt_trace_request_encode(steps);
        assert_true(code >= 0 && code < 0.5);
        for (double others = 0; others < 1e6; others = 10 * others + 1)
            assert_int_equal(dt_trace_request_decode(code + others), steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_aligned_within_the_residual),
        cmocka_unit_test(no_collective_ends_before_its_last_rank_has_come),
        cmocka_unit_test(clocks_that_never_met_are_not_aligned),
        cmocka_unit_test(a_join_has_the_window_in_order),
        cmocka_unit_test(a_flow_has_all_ranks_of_a_collective_and_two_ends),
        cmocka_unit_test(a_trace_says_what_it_is_of),
        cmocka_unit_test(a_part_is_read_as_it_was_packed_or_refused),
        cmocka_unit_test(each_thread_has_a_lane_of_its_own_name),
        cmocka_unit_test(all_ranks_are_chosen_if_they_fit),
        cmocka_unit_test(else_the_slowest_median_and_fastest_of_nodes),
        cmocka_unit_test(a_request_is_taken_once),
        cmocka_unit_test(a_request_that_is_none_is_refused_and_removed),
        cmocka_unit_test(a_request_rides_on_a_sum_of_whole_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
