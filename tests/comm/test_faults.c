/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - ranks that die, hang, leave, come late or do not agree */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/clock.h"
#include "scene.h"

/* --- lost --- */

/* The odd rank is killed in the middle of a stream of operations. */
static void act_killed(struct actor *a)
{
    for (int i = 0; i < 1000000; i++) {
        if (i == 20 && a->rank.rank == a->odd)
            raise(SIGKILL);
        if (reduce(a, 300000) < 0)
            break;
    }
    reduce(a, 300000);
}

static void check_killed(int odd)
{
    struct scene scene = {
        .act = act_killed, .timeout_ms = PATIENCE_MS, .odd = odd};
    char text[96];
    snprintf(text, sizeof(text),
             "all_reduce(300000 x f32): lost rank %d on h%d: ", odd, odd);
    play(&scene, 4, odd);
    for (int r = 0; r < 4; r++) {
        if (r == odd)
            continue;
        assert_seen(&scene.seen[r], text);
        assert_int_equal(scene.seen[r].first.lost_rank, odd);
        assert_string_equal(scene.seen[r].later.text, scene.seen[r].first.text);
    }
}

static void a_killed_rank_is_named_at_once(void **state)
{
    (void)state;
    check_killed(0);
    check_killed(2);
    check_killed(3);
}

/* Rank 2 is killed while rank 0 waits for scalars and rank 1 in a barrier. */
static void act_scalars(struct actor *a)
{
    struct rank *r = &a->rank;
    double value = 1;
    reduce(a, 10);
    if (r->rank == 2) {
        dt_clock_sleep(1); /* the others are in the next operation */
        raise(SIGKILL);
    }
    if (r->rank == 0)
        a->seen->rc =
            dt_comm_reduce_scalars(r->comm, &value, 1, DT_SUM, &a->seen->first);
    else
        a->seen->rc = dt_comm_barrier(r->comm, &a->seen->first);
}

static void a_rank_killed_during_scalars_is_named(void **state)
{
    struct scene scene = {.act = act_scalars, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, 2);
    assert_seen(&scene.seen[0], "reduce_scalars(1 x f64): lost rank 2 on h2: ");
    assert_seen(&scene.seen[1], "barrier: lost rank 2 on h2: ");
}

static void check_hung(int odd)
{
    struct scene scene = {.act = act_hung, .timeout_ms = 2000, .odd = odd};
    char text[128];
    snprintf(text, sizeof(text),
             "all_reduce(100 x f32): rank %d on h%d did not answer within "
             "2000 ms",
             odd, odd);
    play(&scene, 4, -1);
    for (int r = 0; r < 4; r++) {
        assert_seen(&scene.seen[r], text);
        if (r == odd)
            continue;
        assert_int_equal(scene.seen[r].first.lost_rank, odd);
        assert_true(scene.seen[r].failed_after > 1.5);
    }
}

static void a_rank_that_hangs_is_named_after_the_timeout(void **state)
{
    (void)state;
    check_hung(0);
    check_hung(1);
    check_hung(3);
}

/* --- not lost --- */

/* Rank 1 is late, but not too late: the others say so each time. */
static void act_late(struct actor *a)
{
    for (int times = 0; times < 2; times++) {
        reduce(a, 100);
        if (a->rank.rank == 1)
            dt_clock_sleep(2);
    }
    reduce(a, 100);
}

static void a_late_rank_has_until_the_timeout(void **state)
{
    struct scene scene = {.act = act_late, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++)
        assert_int_equal(scene.seen[r].rc, 0);
}

/* All ranks do something else for longer than the time-out. */
static void act_rest(struct actor *a)
{
    reduce(a, 100);
    dt_clock_sleep(6);
    reduce(a, 100);
}

static void time_without_operations_does_not_count(void **state)
{
    struct scene scene = {.act = act_rest, .timeout_ms = 5000};
    (void)state;
    play(&scene, 3, -1);
    for (int r = 0; r < 3; r++) {
        if (scene.seen[r].rc < 0)
            fail_msg("%s", scene.seen[r].first.text);
    }
}

/* --- disagreeing --- */

/* The odd rank does the same operation with another size. */
static void act_other_size(struct actor *a)
{
    reduce(a, a->rank.rank == a->odd ? 20 : 10);
}

static void act_other_kind(struct actor *a)
{
    struct rank *r = &a->rank;
    struct dt_error *err = &a->seen->first;
    dt_ticket_t ticket;
    if (r->rank != a->odd) {
        reduce(a, 10);
        return;
    }
    a->pending = dt_buffer_create(r->device, 40, "a test", err);
    a->seen->rc = dt_comm_all_gather(r->comm, dt_view_of(a->pending, DT_F32),
                                     &ticket, err);
    if (a->seen->rc == 0)
        a->seen->rc = dt_comm_wait(r->comm, ticket, err);
    if (a->seen->rc == 0)
        a->seen->rc = rank_finish(r, err);
}

/* Ranks that compare: who is faster names the other, with what both do. */
static void check_mismatch(void (*act)(struct actor *), int odd,
                           const char *usual, const char *other)
{
    struct scene scene = {.act = act, .timeout_ms = 2000, .odd = odd};
    int named = 0;
    play(&scene, 2, -1);
    for (int r = 0; r < 2; r++) {
        const struct seen *seen = &scene.seen[r];
        char text[128] = "";
        if (!hardware()->compares)
            assert_text(&seen->first, "did not answer within 2000 ms");
        else if (seen->first.lost_rank == r)
            continue; /* the other one was faster */
        else
            snprintf(text, sizeof(text), "%s: rank %d on h%d does %s instead",
                     r == odd ? other : usual, 1 - r, 1 - r,
                     r == odd ? usual : other);
        assert_seen(seen, text);
        named++;
    }
    assert_true(named > 0);
}

static void ranks_in_different_operations_never_mix_data(void **state)
{
    (void)state;
    check_mismatch(act_other_size, 1, "all_reduce(10 x f32)",
                   "all_reduce(20 x f32)");
    check_mismatch(act_other_kind, 0, "all_reduce(10 x f32)",
                   "all_gather(10 x f32)");
}

/* --- leaving --- */

/* The odd rank leaves before the others do. */
static void act_leave(struct actor *a)
{
    reduce(a, 10);
    if (a->rank.rank != a->odd)
        reduce(a, 10);
}

static void a_rank_that_leaves_early_is_named(void **state)
{
    (void)state;
    for (int odd = 0; odd < 3; odd++) {
        struct scene scene = {
            .act = act_leave, .timeout_ms = PATIENCE_MS, .odd = odd};
        char text[128];
        snprintf(text, sizeof(text),
                 "all_reduce(10 x f32): rank %d on h%d has exited normally: it "
                 "started fewer operations than this rank",
                 odd, odd);
        play(&scene, 3, -1);
        assert_int_equal(scene.seen[odd].rc, 0);
        for (int r = 0; r < 3; r++)
            if (r != odd)
                assert_seen(&scene.seen[r], text);
    }
}

/* All leave at once, without waiting for each other. */
static void act_end(struct actor *a)
{
    for (int i = 0; i < 5; i++)
        reduce(a, 200000);
}

static void all_ranks_can_leave_at_the_same_time(void **state)
{
    struct scene scene = {.act = act_end, .timeout_ms = PATIENCE_MS};
    (void)state;
    for (int i = 0; i < 10; i++) {
        play(&scene, 4, -1);
        for (int r = 0; r < 4; r++) {
            assert_int_equal(scene.seen[r].rc, 0);
            assert_true(scene.seen[r].destroy_took < IN_TIME);
        }
    }
}

/* Rank 0 leaves while its operation cannot end; rank 1 is in none until it has
 * left.
 */
static void act_give_up(struct actor *a)
{
    struct rank *r = &a->rank;
    dt_ticket_t ticket;
    if (r->rank != 0) {
        while (*(volatile double *)&a->all[0].destroy_took == 0)
            dt_clock_sleep(0.05);
        reduce(a, 4);
        return;
    }
    a->pending = dt_buffer_create(r->device, 16, "a test", &a->seen->first);
    a->seen->rc = dt_comm_all_reduce(r->comm, dt_view_of(a->pending, DT_F32),
                                     DT_SUM, DT_F32, &ticket, &a->seen->first);
    dt_clock_sleep(1); /* it is under way */
}

static void a_rank_that_leaves_mid_operation_is_named(void **state)
{
    struct scene scene = {.act = act_give_up, .timeout_ms = PATIENCE_MS};
    (void)state;
    play(&scene, 2, -1);
    assert_int_equal(scene.seen[0].rc, 0);
    assert_true(scene.seen[0].destroy_took < IN_TIME);
    assert_seen(&scene.seen[1],
                "all_reduce(4 x f32): rank 0 on h0 has exited in "
                "the middle of it");
}

static void the_failure_of_one_rank_reaches_the_others(void **state)
{
    struct scene scene = {.act = act_abandon, .timeout_ms = PATIENCE_MS};
    char text[128];
    (void)state;
    snprintf(text, sizeof(text),
             "comm/%s: all_reduce(4 x f32): rank 0 on h0 failed: disk full",
             hardware()->backend);
    play(&scene, 3, -1);
    for (int r = 1; r < 3; r++) {
        const struct seen *seen = &scene.seen[r];
        assert_int_equal(seen->rc, -1);
        assert_string_equal(seen->first.text, text);
        assert_int_equal(seen->first.status, EX_IOERR);
        assert_int_equal(seen->first.lost_rank, 0);
        assert_true(seen->failed_after < IN_TIME);
    }
    assert_true(scene.seen[0].destroy_took < IN_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named_at_once),
        cmocka_unit_test(a_rank_killed_during_scalars_is_named),
        cmocka_unit_test(a_rank_that_hangs_is_named_after_the_timeout),
        cmocka_unit_test(a_late_rank_has_until_the_timeout),
        cmocka_unit_test(time_without_operations_does_not_count),
        cmocka_unit_test(ranks_in_different_operations_never_mix_data),
        cmocka_unit_test(a_rank_that_leaves_early_is_named),
        cmocka_unit_test(all_ranks_can_leave_at_the_same_time),
        cmocka_unit_test(a_rank_that_leaves_mid_operation_is_named),
        cmocka_unit_test(the_failure_of_one_rank_reaches_the_others),
    };
    return cmocka_run_group_tests_name("comm faults", tests, NULL, NULL);
}
