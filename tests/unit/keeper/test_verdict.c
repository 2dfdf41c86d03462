/* SPDX-License-Identifier: Apache-2.0 */
/* test_verdict.c - which end explains the others, and who starts again */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "keeper/verdict.h"

enum { RANKS = 3 };

#define EXIT(code) ((code) << 8)

static const struct dt_keeper_options training = {
    .trains = true, .max_restarts = 2, .spent = "enough"};
static const struct dt_keeper_options command = {.max_restarts = 2,
                                                 .spent = "enough"};

/* Ends with these statuses, in the order of ranks, after `step`. */
struct endings {
    struct dt_ending all[RANKS];
};

static struct endings ends(int s0, int s1, int s2, long step)
{
    const int statuses[] = {s0, s1, s2};
    struct endings e = {0};
    for (int r = 0; r < RANKS; r++)
        e.all[r] = (struct dt_ending){
            .there = true,
            .turn = r,
            .down = {.rank = r, .status = statuses[r], .step = step}};
    return e;
}

static bool restarts(struct dt_verdict *verdict,
                     const struct dt_keeper_options *options, struct endings e,
                     const char **why)
{
    return dt_verdict_restart(verdict, options, e.all, RANKS, false, why);
}

/* The rank of the cause; -1: none. */
static int cause_of(struct endings e)
{
    const struct dt_ending *cause = dt_ending_cause(e.all, RANKS);
    return cause ? cause->down.rank : -1;
}

static void the_cause_is_the_first_end_that_no_other_explains(void **state)
{
    (void)state;
    assert_int_equal(cause_of(ends(0, 0, 0, 0)), -1);
    assert_int_equal(cause_of(ends(0, EXIT(EX_TEMPFAIL), 0, 0)), -1);
    assert_int_equal(cause_of(ends(EXIT(1), EXIT(2), 0, 0)), 0);
    /* 69: it has lost a peer, who is the cause if there is one */
    assert_int_equal(cause_of(ends(EXIT(EX_UNAVAILABLE), EXIT(70), SIGKILL, 0)),
                     1);
    assert_int_equal(
        cause_of(ends(EXIT(EX_UNAVAILABLE), EXIT(EX_UNAVAILABLE), SIGKILL, 0)),
        2);
    assert_int_equal(
        cause_of(ends(0, EXIT(EX_UNAVAILABLE), EXIT(EX_UNAVAILABLE), 0)), 1);
    /* by time, not by rank */
    struct endings e = ends(SIGSEGV, SIGKILL, 0, 0);
    e.all[0].turn = 2;
    assert_int_equal(cause_of(e), 1);
    /* an end that the keeper caused explains nothing */
    e = ends(SIGKILL, EXIT(EX_UNAVAILABLE), SIGKILL, 0);
    e.all[0].down.stopped = e.all[2].down.stopped = 1;
    assert_int_equal(cause_of(e), 1);
}

static void an_end_is_told_with_rank_host_and_step(void **state)
{
    struct endings e = ends(SIGKILL, EXIT(3), EXIT(EX_UNAVAILABLE), 6);
    char text[DT_KEEPER_NOTE_BYTES];
    (void)state;
    dt_ending_describe(&e.all[0], "n1", text, sizeof(text));
    assert_string_equal(
        text, "rank 0 on n1 was killed by signal 9 (Killed) after step 6");
    dt_ending_describe(&e.all[1], "n1", text, sizeof(text));
    assert_string_equal(text, "rank 1 on n1 has ended with status 3 after "
                              "step 6");
    e.all[1].down.step = 0;
    dt_ending_describe(&e.all[1], "n1", text, sizeof(text));
    assert_string_equal(text, "rank 1 on n1 has ended with status 3");
    strcpy(e.all[2].note, "lost rank 1 on n2: no word for 60 s");
    dt_ending_describe(&e.all[2], "n1", text, sizeof(text));
    assert_string_equal(text, "lost rank 1 on n2: no word for 60 s");
    dt_ending_describe(&e.all[2], "n1", text, 10);
    assert_string_equal(text, "lost rank");
}

static void who_has_done_its_work_is_not_started_again(void **state)
{
    struct dt_verdict v = {0};
    const char *why = "";
    (void)state;
    assert_false(restarts(&v, &training, ends(0, 0, 0, 9), &why));
    assert_null(why);
    const int saved = EXIT(EX_TEMPFAIL);
    assert_false(restarts(&v, &training, ends(saved, saved, saved, 9), &why));
    assert_null(why);
    assert_int_equal(v.restarts, 0);
}

static void who_was_asked_to_end_is_not_started_again(void **state)
{
    struct dt_verdict v = {0};
    const char *why = "";
    struct endings e = ends(SIGTERM, SIGTERM, SIGTERM, 0);
    (void)state;
    e.all[2].down.asked = 1;
    assert_false(restarts(&v, &command, e, &why));
    assert_null(why);
    assert_int_equal(v.cause.status, SIGTERM);
    e.all[2].down.asked = 0;
    assert_true(restarts(&v, &command, e, &why));
}

/* While its keepers look for other nodes, too, or before it hears signals. */
static void training_that_was_asked_to_end_goes_back_into_the_queue(
    void **state)
{
    struct dt_verdict v = {0};
    const char *why = "";
    struct endings e = ends(SIGUSR1, SIGUSR1, SIGUSR1, -1);
    (void)state;
    e.all[0].down.asked = 1;
    assert_false(restarts(&v, &training, e, &why));
    assert_int_equal(v.cause.status, EXIT(EX_TEMPFAIL));
    for (int r = 0; r < RANKS; r++)
        e.all[r].down.status = SIGKILL; /* by somebody else */
    assert_false(restarts(&v, &training, e, &why));
    assert_int_equal(v.cause.status, SIGKILL);
}

static void errors_that_another_try_would_not_change_are_not_tried(void **state)
{
    static const int final[] = {EX_USAGE,     EX_DATAERR,  EX_NOINPUT,
                                EX_CANTCREAT, EX_TEMPFAIL, EX_NOPERM,
                                EX_CONFIG};
    static const int other[] = {1,        EX_UNAVAILABLE, EX_SOFTWARE, EX_OSERR,
                                EX_IOERR, EX_PROTOCOL,    137};
    const char *why;
    struct dt_verdict none = {0};
    (void)state;
    assert_false(restarts(&none, &command, ends(0, EXIT(126), 0, 0), &why));
    assert_false(restarts(&none, &command, ends(0, EXIT(127), 0, 0), &why));
    assert_null(why);
    for (size_t i = 0; i < sizeof(final) / sizeof(*final); i++) {
        struct dt_verdict v = {0};
        assert_false(
            restarts(&v, &training, ends(0, EXIT(final[i]), 0, 0), &why));
        assert_null(why);
        if (final[i] != EX_TEMPFAIL) /* a command's status says nothing */
            assert_true(
                restarts(&v, &command, ends(0, EXIT(final[i]), 0, 0), &why));
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
        struct dt_verdict v = {0};
        assert_true(
            restarts(&v, &training, ends(0, EXIT(other[i]), 0, 0), &why));
    }
}

static void max_restarts_counts_those_without_a_new_step(void **state)
{
    struct dt_verdict v = {0};
    const char *why;
    (void)state;
    assert_true(restarts(&v, &training, ends(SIGKILL, 0, 0, 5), &why));
    assert_true(restarts(&v, &training, ends(SIGKILL, 0, 0, 5), &why));
    assert_true(restarts(&v, &training, ends(SIGKILL, 0, 0, 6), &why));
    assert_true(restarts(&v, &training, ends(SIGKILL, 0, 0, 4), &why));
    assert_int_equal(v.restarts, 4);
    assert_int_equal(v.best, 6);
    assert_false(restarts(&v, &training, ends(SIGKILL, 0, 0, 6), &why));
    assert_string_equal(why, "enough");
    assert_int_equal(v.restarts, 4);
    /* 0: never */
    const struct dt_keeper_options none = {.trains = true, .spent = "enough"};
    v = (struct dt_verdict){0};
    assert_false(restarts(&v, &none, ends(SIGKILL, 0, 0, 5), &why));
    assert_non_null(why);
}

static void the_same_error_at_the_same_step_is_not_tried_again(void **state)
{
    struct dt_verdict v = {0};
    const char *why;
    (void)state;
    assert_true(restarts(&v, &training, ends(0, EXIT(70), 0, 3), &why));
    assert_true(restarts(&v, &training, ends(0, EXIT(71), 0, 3), &why));
    assert_true(restarts(&v, &training, ends(0, EXIT(71), 0, 4), &why));
    assert_true(restarts(&v, &training, ends(EXIT(71), 0, 0, 4), &why));
    assert_false(restarts(&v, &training, ends(EXIT(71), 0, 0, 4), &why));
    assert_string_equal(why, "it has failed twice at the same step");
    /* the first error of a run is no repetition of anything */
    v = (struct dt_verdict){0};
    assert_true(restarts(&v, &training, ends(EXIT(1), 0, 0, 0), &why));
    /* steps of a command are not known */
    v = (struct dt_verdict){0};
    assert_true(restarts(&v, &command, ends(0, EXIT(3), 0, 0), &why));
    assert_true(restarts(&v, &command, ends(0, EXIT(3), 0, 0), &why));
    assert_false(restarts(&v, &command, ends(0, EXIT(3), 0, 0), &why));
}

static struct endings starved(int rank, long step)
{
    struct endings e = ends(0, 0, 0, step);
    e.all[rank].down.status = SIGKILL;
    e.all[rank].down.starved = 1;
    return e;
}

static void memory_that_runs_out_twice_at_a_step_is_not_tried_again(
    void **state)
{
    struct dt_verdict v = {0};
    const char *why;
    char text[DT_KEEPER_NOTE_BYTES];
    (void)state;
    assert_true(restarts(&v, &training, starved(1, 5), &why));
    assert_true(restarts(&v, &training, starved(1, 6), &why));
    assert_false(restarts(&v, &training, starved(2, 6), &why));
    assert_non_null(strstr(why, "memory has run out twice at the same step"));
    struct endings e = starved(2, 6);
    dt_ending_describe(&e.all[2], "n1", text, sizeof(text));
    assert_string_equal(text, "rank 2 on n1 was killed because memory ran out "
                              "after step 6");
    /* steps of a command are not known */
    v = (struct dt_verdict){0};
    assert_true(restarts(&v, &command, starved(1, 0), &why));
    assert_true(restarts(&v, &command, starved(1, 0), &why));
}

static const struct dt_keeper_options losing = {
    .trains = true, .max_restarts = 3, .spent = "enough"};

/* Rank 1 of 2 is killed when the ranks have done these steps. Returns whether
 * all start again.
 */
static bool lose(struct dt_verdict *verdict, long step0, long step1, double at)
{
    const struct dt_ending endings[] = {
        {.there = true,
         .turn = 1,
         .down = {.step = step0, .rank = 0, .status = SIGKILL, .stopped = 1}},
        {.there = true, .down = {.step = step1, .rank = 1, .status = SIGKILL}}};
    char text[DT_KEEPER_NOTE_BYTES];
    const char *why;
    const bool again =
        dt_verdict_restart(verdict, &losing, endings, 2, false, &why);
    dt_ending_describe(dt_ending_cause(endings, 2), "n2", text, sizeof(text));
    dt_verdict_note(verdict, endings, 2, at, "n2", text);
    return again;
}

/* Whoever starts again is told of all losses that nobody could record: workers
 * that did not come to their steps have recorded nothing.
 */
static void losses_are_told_until_ranks_came_to_their_steps(void **state)
{
    struct dt_verdict verdict = {0};
    (void)state;
    assert_true(lose(&verdict, 7, 6, 100));
    assert_int_equal(verdict.loss_count, 1);
    assert_int_equal(verdict.losses[0].step, 7);
    assert_int_equal(verdict.losses[0].rank, 1);
    assert_true(verdict.losses[0].at == 100);
    assert_string_equal(
        verdict.losses[0].why,
        "rank 1 on n2 was killed by signal 9 (Killed) after step 6");
    assert_true(lose(&verdict, -1, -1, 101));
    assert_int_equal(verdict.loss_count, 2);
    assert_int_equal(verdict.losses[0].step, 7);
    assert_int_equal(verdict.losses[1].step, -1);
    assert_string_equal(verdict.losses[1].why,
                        "rank 1 on n2 was killed by signal 9 (Killed)");
    assert_true(lose(&verdict, 4, 4, 102)); /* of the resumed ranks */
    assert_int_equal(verdict.loss_count, 1);
    assert_true(verdict.losses[0].at == 102);
    free(verdict.losses);
}

/* All end with the status of the rank that has failed. Those that only noticed
 * it say so in a note, and may end first.
 */
static void the_cause_is_not_a_rank_that_lost_another(void **state)
{
    const struct dt_ending endings[] = {
        {.there = true,
         .down = {.rank = 0, .status = EX_SOFTWARE << 8},
         .note = "rank 1 on n2 failed"},
        {.there = true,
         .turn = 1,
         .down = {.rank = 1, .status = EX_SOFTWARE << 8}}};
    (void)state;
    assert_ptr_equal(dt_ending_cause(endings, 2), &endings[1]);
    assert_ptr_equal(dt_ending_cause(endings, 1), &endings[0]);
}

/* Nobody's end explains it: their keepers have ended all workers. */
static void a_lost_spare_restarts_all_as_often_as_it_may(void **state)
{
    (void)state;
    struct dt_verdict verdict = {.cause = {.starved = true, .step = 5}};
    struct endings e = ends(SIGKILL, SIGKILL, SIGKILL, 5);
    const char *why;
    for (int r = 0; r < RANKS; r++)
        e.all[r].down.stopped = true;
    for (int i = 0; i < 2; i++)
        assert_true(
            dt_verdict_restart(&verdict, &training, e.all, RANKS, true, &why));
    assert_false(
        dt_verdict_restart(&verdict, &training, e.all, RANKS, true, &why));
    assert_string_equal(why, "enough");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cause_is_the_first_end_that_no_other_explains),
        cmocka_unit_test(an_end_is_told_with_rank_host_and_step),
        cmocka_unit_test(who_has_done_its_work_is_not_started_again),
        cmocka_unit_test(who_was_asked_to_end_is_not_started_again),
        cmocka_unit_test(
            training_that_was_asked_to_end_goes_back_into_the_queue),
        cmocka_unit_test(
            errors_that_another_try_would_not_change_are_not_tried),
        cmocka_unit_test(max_restarts_counts_those_without_a_new_step),
        cmocka_unit_test(the_same_error_at_the_same_step_is_not_tried_again),
        cmocka_unit_test(the_cause_is_not_a_rank_that_lost_another),
        cmocka_unit_test(
            memory_that_runs_out_twice_at_a_step_is_not_tried_again),
        cmocka_unit_test(losses_are_told_until_ranks_came_to_their_steps),
        cmocka_unit_test(a_lost_spare_restarts_all_as_often_as_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
