/* SPDX-License-Identifier: Apache-2.0 */
/* test_large_faults.c - lost and late ranks of a world with few connections */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scene.h"

enum { MANY = 24 };

/* Ranks that are lost: a loop over ranks that leaves out one of its ends still
 * finds those in the middle.
 */
static const int odd_ranks[] = {0, 5, MANY - 1};
enum { ODD_RANKS = sizeof(odd_ranks) / sizeof(odd_ranks[0]) };

/* The odd rank is killed in the middle of a stream of operations. */
static void act_killed(struct actor *a)
{
    for (int i = 0; i < 1000000; i++) {
        if (i == 5 && a->rank.rank == a->odd)
            raise(SIGKILL);
        if (reduce(a, 30000) < 0)
            break;
    }
}

static void all_ranks_name_the_one_that_was_killed(void **state)
{
    (void)state;
    for (int i = 0; i < ODD_RANKS; i++) {
        struct scene scene = {
            .act = act_killed, .timeout_ms = PATIENCE_MS, .odd = odd_ranks[i]};
        char text[64];
        snprintf(text, sizeof(text),
                 "all_reduce(30000 x f32): lost rank %d on h%d: ", scene.odd,
                 scene.odd);
        play(&scene, MANY, scene.odd);
        for (int r = 0; r < MANY; r++) {
            if (r == scene.odd)
                continue;
            assert_seen(&scene.seen[r], text);
            assert_int_equal(scene.seen[r].first.lost_rank, scene.odd);
        }
    }
}

/* The one that waits, which is not connected to the odd rank. */
static int waiting(int odd)
{
    return (odd + MANY - 11) % MANY;
}

/* One rank waits while the odd rank is killed. All the others are at other work
 * until that one knows.
 */
static void act_idle(struct actor *a)
{
    const int waits = waiting(a->odd);
    reduce(a, 100);
    if (a->rank.rank == a->odd) {
        dt_clock_sleep(1);
        raise(SIGKILL);
    }
    while (a->rank.rank != waits && *(volatile int *)&a->all[waits].rc == 0)
        dt_clock_sleep(0.05);
    reduce(a, 100);
}

/* Whoever passes it on names the first who saw it, and not itself. */
static void assert_one_witness(const char *text)
{
    static const char by[] = " (as seen by rank ";
    const char *first = strstr(text, by);
    if (first && strstr(first + 1, by))
        fail_msg("%s", text);
}

static void check_idle(int odd)
{
    static const char operation[] = "all_reduce(100 x f32): ";
    struct scene scene = {
        .act = act_idle, .timeout_ms = PATIENCE_MS, .odd = odd};
    char text[96];
    const char *lost = text + strlen(operation);
    snprintf(text, sizeof(text), "%slost rank %d on h%d: ", operation, odd,
             odd);
    play(&scene, MANY, odd);
    assert_seen(&scene.seen[waiting(odd)], text);
    for (int r = 0; r < MANY; r++)
        if (r != odd && r != waiting(odd)) {
            assert_int_equal(scene.seen[r].rc, -1);
            assert_text(&scene.seen[r].first, lost);
            assert_one_witness(scene.seen[r].first.text);
        }
}

static void ranks_at_other_work_pass_on_who_is_lost(void **state)
{
    (void)state;
    check_idle(11); /* rank 0 waits */
    for (int i = 0; i < ODD_RANKS; i++)
        check_idle(odd_ranks[i]);
}

/* Most ranks wait for one that waits for the odd one. */
static void check_hung(int odd)
{
    static const char operation[] = "all_reduce(100 x f32): ";
    struct scene scene = {.act = act_hung, .timeout_ms = 10000, .odd = odd};
    char text[96];
    snprintf(text, sizeof(text),
             "%srank %d on h%d did not answer within 10000 ms", operation, odd,
             odd);
    play(&scene, MANY, -1);
    for (int r = 0; r < MANY; r++) {
        const struct seen *seen = &scene.seen[r];
        /* the odd rank hears it between two operations */
        assert_text(&seen->first, r == odd ? text + strlen(operation) : text);
        if (r != odd)
            assert_int_equal(seen->first.lost_rank, odd);
    }
}

/* The time to connect has the same limit, so it is a long one. */
static void a_rank_that_hangs_is_named_and_none_that_waits(void **state)
{
    (void)state;
    for (int i = 0; i < ODD_RANKS; i++)
        check_hung(odd_ranks[i]);
}

/* All leave at once, without waiting for each other. */
static void act_end(struct actor *a)
{
    for (int i = 0; i < 3; i++)
        reduce(a, 20000);
}

static void all_ranks_can_leave_at_the_same_time(void **state)
{
    struct scene scene = {.act = act_end, .timeout_ms = PATIENCE_MS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        play(&scene, MANY, -1);
        for (int r = 0; r < MANY; r++)
            if (scene.seen[r].rc < 0)
                fail_msg("rank %d: %s", r, scene.seen[r].first.text);
    }
}

static void the_failure_of_one_rank_reaches_all_others(void **state)
{
    struct scene scene = {.act = act_abandon, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, MANY, -1);
    for (int r = 1; r < MANY; r++) {
        assert_string_equal(scene.seen[r].first.text,
                            "comm/gloo: all_reduce(4 x f32): rank 0 on h0 "
                            "failed: disk full");
        assert_int_equal(scene.seen[r].first.status, EX_IOERR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_name_the_one_that_was_killed),
        cmocka_unit_test(ranks_at_other_work_pass_on_who_is_lost),
        cmocka_unit_test(a_rank_that_hangs_is_named_and_none_that_waits),
        cmocka_unit_test(all_ranks_can_leave_at_the_same_time),
        cmocka_unit_test(the_failure_of_one_rank_reaches_all_others),
    };
    return cmocka_run_group_tests_name("faults of large worlds", tests, NULL,
                                       NULL);
}
