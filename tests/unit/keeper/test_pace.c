/* SPDX-License-Identifier: Apache-2.0 */
/* test_pace.c - workers that get on, and the one that others wait for */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keeper/pace.h"
#include "keeper/verdict.h"
#include "tests/unit/turned_clock.h"

enum { RANKS = 3 };

static struct dt_pace pace;
static struct dt_ending endings[RANKS];

static int begin(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        endings[r] = (struct dt_ending){0};
    if (dt_pace_init(&pace, RANKS) < 0)
        return -1;
    dt_pace_begin(&pace);
    return 0;
}

static int end(void **state)
{
    (void)state;
    turned_s = 0;
    dt_pace_fini(&pace);
    return 0;
}

static void beat(int rank, long step, uint64_t started, int patience_s)
{
    const struct dt_wire_beat b = {
        .step = step, .started = started, .patience_ms = patience_s * 1000};
    dt_pace_note(&pace, rank, &b);
}

static bool hangs(void)
{
    double seconds;
    return dt_pace_hangs(&pace, endings, &seconds);
}

static void who_gets_on_does_not_hang(void **state)
{
    double seconds;
    (void)state;
    for (int r = 0; r < RANKS; r++)
        beat(r, 1, 9, 10 + r);
    turned_s = 11; /* the slowest allows 12 */
    assert_false(hangs());
    turned_s = 13;
    assert_true(dt_pace_hangs(&pace, endings, &seconds));
    assert_true(seconds >= 13);
    beat(1, 1, 10, 11); /* a collective */
    assert_false(hangs());
    turned_s = 26;
    assert_true(hangs());
    beat(2, 2, 9, 12); /* a step */
    assert_false(hangs());
    beat(2, 2, 9, 12); /* the same again */
    turned_s = 39;
    assert_true(hangs());
    dt_pace_begin(&pace); /* they start again */
    assert_false(hangs());
}

static void a_worker_that_may_take_any_time_never_hangs(void **state)
{
    (void)state;
    beat(0, 1, 9, 10);
    beat(1, 1, 9, 10);
    turned_s = 100000; /* the third has not been heard yet */
    assert_false(hangs());
    beat(2, 0, 0, 0);
    assert_false(hangs());
    endings[2].there = true; /* who has ended does not count */
    assert_true(hangs());
    endings[0].there = endings[1].there = true;
    assert_false(hangs());
}

/* As in an evaluation or a save; not while it is stopped for a moment. */
static void a_worker_that_is_stopped_hangs_whatever_it_does(void **state)
{
    const struct dt_wire_beat stopped = {.step = 1, .started = 9, .frozen = 1};
    (void)state;
    for (int r = 0; r < RANKS; r++)
        beat(r, 1, 9, 0);
    turned_s = 5000;
    dt_pace_note(&pace, 1, &stopped);
    assert_false(hangs());
    turned_s += 599;
    assert_false(hangs());
    beat(0, 1, 10, 0); /* the others get on */
    turned_s += 599;
    assert_false(hangs());
    turned_s += 2;
    assert_true(hangs());
    assert_int_equal(dt_pace_culprit(&pace, endings), 1);
    beat(1, 1, 9, 0); /* it runs again */
    assert_false(hangs());
    turned_s += 100000;
    assert_false(hangs());
    /* among steps it is found earlier */
    for (int r = 0; r < RANKS; r++)
        beat(r, 1, 11, 30);
    const struct dt_wire_beat in_step = {
        .step = 1, .started = 11, .patience_ms = 30000, .frozen = 1};
    dt_pace_note(&pace, 1, &in_step);
    turned_s += 31;
    assert_true(hangs());
}

static void who_is_behind_or_stopped_is_the_culprit(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        beat(r, 1, 9, 10);
    assert_int_equal(dt_pace_culprit(&pace, endings), -1);
    beat(0, 1, 10, 10);
    beat(2, 1, 10, 10);
    assert_int_equal(dt_pace_culprit(&pace, endings), 1);
    beat(0, 1, 8, 10);
    assert_int_equal(dt_pace_culprit(&pace, endings), 0);
    endings[0].there = true;
    assert_int_equal(dt_pace_culprit(&pace, endings), 1);
    const struct dt_wire_beat frozen = {.started = 10, .frozen = 1};
    dt_pace_note(&pace, 2, &frozen);
    assert_int_equal(dt_pace_culprit(&pace, endings), 2);
    char text[DT_KEEPER_NOTE_BYTES];
    dt_pace_describe(&pace, 2, "n2", 31.4, text);
    assert_string_equal(text, "rank 2 on n2 hangs: it was stopped by a signal, "
                              "and the others have waited for 31 s");
    dt_pace_describe(&pace, 1, "n1", 31.4, text);
    assert_string_equal(text, "rank 1 on n1 hangs: it has started fewer "
                              "collectives, and the others have waited for "
                              "31 s");
    dt_pace_describe(&pace, -1, "", 31.4, text);
    assert_string_equal(text, "no rank has got on for 31 s, and all wait at "
                              "the same place");
    endings[1].there = endings[2].there = true;
    assert_int_equal(dt_pace_culprit(&pace, endings), -1);
}

static void no_rank_that_has_ended_is_blamed(void **state)
{
    (void)state;
    for (int r = 0; r < RANKS; r++)
        beat(r, 1, 9, 10);
    assert_int_equal(dt_pace_blame(&pace, endings, 2), 2);
    assert_int_equal(dt_pace_blame(&pace, endings, -1), 0);
    endings[0].there = true;
    assert_int_equal(dt_pace_culprit(&pace, endings), -1);
    assert_int_equal(dt_pace_blame(&pace, endings, -1), 1);
    endings[1].there = true;
    assert_int_equal(dt_pace_blame(&pace, endings, -1), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_gets_on_does_not_hang, begin, end),
        cmocka_unit_test_setup_teardown(
            a_worker_that_may_take_any_time_never_hangs, begin, end),
        cmocka_unit_test_setup_teardown(
            a_worker_that_is_stopped_hangs_whatever_it_does, begin, end),
        cmocka_unit_test_setup_teardown(who_is_behind_or_stopped_is_the_culprit,
                                        begin, end),
        cmocka_unit_test_setup_teardown(no_rank_that_has_ended_is_blamed, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
