/* SPDX-License-Identifier: Apache-2.0 */
/* test_account.c - where the time of a run went, from events of all its starts
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/account.h"

/* A run on a clock of its own. */
static struct {
    struct dt_account account;
    double wall, first;
    double ahead; /* the clock of calendars has jumped by so much */
    double spent[DT_ACCOUNT_COUNTED];
} run;

static int enter(void **state)
{
    (void)state;
    memset(&run, 0, sizeof(run));
    run.wall = run.first = 1.7e9;
    return 0;
}

/* Time of which no process of the run knows. */
static void pass(double seconds)
{
    run.wall += seconds;
}

static void spend(enum dt_account_part part, double seconds)
{
    run.spent[part] += seconds;
    pass(seconds);
}

static void say(const char *kind, long step, const char *allocation)
{
    struct dt_report_event event = {.kind = kind,
                                    .step = step,
                                    .wall = run.wall + run.ahead,
                                    .allocation = allocation};
    memcpy(event.spent, run.spent, sizeof(event.spent));
    dt_account_event(&run.account, &event);
}

/* An event of a process that could not say it. */
static void say_of(const char *kind, long step, double wall)
{
    const struct dt_report_event event = {
        .kind = kind, .step = step, .wall = wall + run.ahead};
    dt_account_event(&run.account, &event);
}

/* A process begins, and is ready for its steps two seconds later. */
static void begin(long step, const char *allocation)
{
    memset(run.spent, 0, sizeof(run.spent));
    spend(DT_ACCOUNT_STARTUP, 2);
    say(step > 0 ? "resume" : "start", step, allocation);
}

/* Steps of a second each, without an event. */
static void train(long steps)
{
    spend(DT_ACCOUNT_STEPS, (double)steps);
}

static void save(long step)
{
    spend(DT_ACCOUNT_SAVING, 0.5);
    say("save", step, NULL);
}

static double seconds(enum dt_account_part part)
{
    return run.account.sums.seconds[part];
}

static void assert_seconds(enum dt_account_part part, double wanted)
{
    if (fabs(seconds(part) - wanted) > 1e-6)
        fail_msg("%s: %g, expected %g", dt_account_names[part], seconds(part),
                 wanted);
}

/* Each second of the wall clock is in one part. */
static void assert_adds_up(void)
{
    const double sum =
        dt_account_total(&run.account.sums) + seconds(DT_ACCOUNT_IDLE);
    const double wall = run.wall - run.first;
    if (!(fabs(sum - wall) <= 1e-3 * wall))
        fail_msg("%g of %g s are accounted for", sum, wall);
}

static const char *text(void)
{
    static char line[DT_ACCOUNT_TEXT];
    return dt_account_format(&run.account.sums, line);
}

/* --- cases --- */

static void a_run_without_trouble_is_steps_and_its_start(void **state)
{
    (void)state;
    begin(0, "7");
    train(60);
    spend(DT_ACCOUNT_DATA, 0.25);
    save(60);
    spend(DT_ACCOUNT_EVALUATION, 3);
    say("eval", 60, NULL);
    train(30);
    say("end", 90, NULL);
    assert_adds_up();
    assert_seconds(DT_ACCOUNT_STARTUP, 2);
    assert_seconds(DT_ACCOUNT_STEPS, 90);
    assert_seconds(DT_ACCOUNT_DATA, 0.25);
    assert_seconds(DT_ACCOUNT_SAVING, 0.5);
    assert_seconds(DT_ACCOUNT_EVALUATION, 3);
    assert_seconds(DT_ACCOUNT_RECOVERY, 0);
    assert_string_equal(text(), "goodput 94.0 %: steps 01:30, start-up 00:02, "
                                "saving 00:01, evaluation 00:03");
    /* later, alone */
    pass(1000);
    say("eval", 90, NULL);
    assert_seconds(DT_ACCOUNT_EVALUATION, 3);
}

/* The moments at which a process is killed, after it has saved step 10. */
static void killed_in_step(void)
{
    train(4);
    pass(0.5);
}

static void killed_while_saving(void)
{
    train(5);
    pass(0.25);
}

static void killed_at_once(void)
{
}

static void killed_while_evaluating(void)
{
    train(5);
    spend(DT_ACCOUNT_EVALUATION, 1);
    say("eval", 15, NULL);
    pass(0.125);
}

/* The death of a process is told by the next one. What it did after its last
 * event counts as steps, which are lost as they are done again.
 */
static void a_kill_at_any_moment_adds_up(void **state)
{
    static const struct {
        void (*die)(void);
        long reached;
        double lost; /* seconds of steps */
    } cases[] = {{killed_in_step, 14, 4.5},
                 {killed_while_saving, 15, 5.25},
                 {killed_at_once, 10, 0},
                 {killed_while_evaluating, 15, 5.125}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enter(state);
        begin(0, "7");
        train(10);
        save(10);
        cases[i].die();
        const double died = run.wall;
        pass(0.75);
        memset(run.spent, 0, sizeof(run.spent));
        spend(DT_ACCOUNT_STARTUP, 2);
        say_of("restart", cases[i].reached, died);
        say("resume", 10, "7");
        train(10);
        save(20);
        say("end", 20, NULL);
        assert_adds_up();
        assert_seconds(DT_ACCOUNT_STEPS, 20);
        assert_seconds(DT_ACCOUNT_LOST, cases[i].lost);
        assert_seconds(DT_ACCOUNT_RECOVERY, 2.75);
        assert_seconds(DT_ACCOUNT_STARTUP, 2);
        assert_int_equal(run.account.sums.redone, cases[i].reached - 10);
        assert_int_equal(run.account.sums.starts, 2);
    }
}

/* A process that was killed, or hung first, after step 10 was saved: what it
 * has told last in status.json says what it did since then.
 */
static void what_a_killed_process_has_told_is_in_its_account(void **state)
{
    static const struct {
        double unheard, hung; /* seconds after the last evaluation */
    } cases[] = {{0, 0}, {1.5, 0}, {0, 60}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dt_account_sums told;
        enter(state);
        begin(0, "7");
        train(10);
        save(10);
        train(4);
        spend(DT_ACCOUNT_DATA, 1);
        spend(DT_ACCOUNT_EVALUATION, 20);
        train(2);
        struct dt_report_event lost = {
            .kind = "restart", .step = 16, .wall = run.wall + cases[i].unheard};
        spend(DT_ACCOUNT_STEPS, cases[i].hung);
        dt_account_now(&run.account, run.spent, &told);
        dt_account_guess(&run.account, &told, lost.wall, lost.spent);
        pass(cases[i].unheard + 0.75);
        memset(run.spent, 0, sizeof(run.spent));
        spend(DT_ACCOUNT_STARTUP, 2);
        dt_account_event(&run.account, &lost);
        say("resume", 16, "7");
        say("end", 16, NULL);
        assert_adds_up();
        assert_seconds(DT_ACCOUNT_STEPS, 16 + cases[i].unheard);
        assert_seconds(DT_ACCOUNT_DATA, 1);
        assert_seconds(DT_ACCOUNT_EVALUATION, 20);
        assert_seconds(DT_ACCOUNT_RECOVERY, 2.75 + cases[i].hung);
    }
}

/* Without a status nothing is known, and after the loss nothing of before. */
static void nothing_is_guessed_of_a_process_that_told_nothing(void **state)
{
    double spent[DT_ACCOUNT_COUNTED];
    struct dt_account_sums told = {0};
    (void)state;
    begin(0, "7");
    train(10);
    dt_account_guess(&run.account, &told, run.wall, spent);
    assert_true(spent[DT_ACCOUNT_STEPS] == 0);
    dt_account_now(&run.account, run.spent, &told);
    dt_account_guess(&run.account, &told, run.wall - 11, spent);
    assert_true(spent[DT_ACCOUNT_STEPS] == 0);
    dt_account_guess(&run.account, &told, run.wall, spent);
    assert_true(spent[DT_ACCOUNT_STEPS] == 10);
}

/* Rank 0 of a run that hangs may tell something, as a warning, and then that
 * the others were killed. From the time of the loss on it did nothing.
 */
static void a_hang_is_recovery_whatever_was_told_in_it(void **state)
{
    for (int told = 0; told < 4; told++) {
        enter(state);
        begin(0, "7");
        train(10);
        save(10);
        train(3);
        const double lost = run.wall;
        spend(DT_ACCOUNT_STEPS, 20);
        if (told & 1)
            say("warning", 13, NULL);
        spend(DT_ACCOUNT_STEPS, 10);
        if (told & 2)
            say("failed", 13, NULL);
        pass(1);
        memset(run.spent, 0, sizeof(run.spent));
        spend(DT_ACCOUNT_STARTUP, 2);
        say_of("restart", 13, lost);
        say("resume", 13, "7");
        say("end", 13, NULL);
        assert_adds_up();
        /* a warning takes what was before it for steps */
        assert_seconds(DT_ACCOUNT_STEPS, told & 1 ? 33 : 13);
        assert_seconds(DT_ACCOUNT_RECOVERY, told & 1 ? 13 : 33);
        assert_seconds(DT_ACCOUNT_LOST, 0);
    }
}

/* Rank 0 has lived to say that another one was lost, and the next processes
 * died before they could say anything.
 */
static void a_kill_during_recovery_is_more_recovery(void **state)
{
    (void)state;
    begin(0, "7");
    train(10);
    save(10);
    train(3);
    const double lost = run.wall;
    pass(0.1);
    run.spent[DT_ACCOUNT_STEPS] += 0.1;
    say("failed", 13, NULL);
    pass(1.5);
    const double again = run.wall;
    pass(0.5);
    memset(run.spent, 0, sizeof(run.spent));
    spend(DT_ACCOUNT_STARTUP, 2);
    say_of("restart", 13, lost);
    say_of("restart", 10, again);
    say("resume", 10, "7");
    train(5);
    say("end", 15, NULL);
    assert_adds_up();
    assert_seconds(DT_ACCOUNT_STEPS, 15);
    assert_seconds(DT_ACCOUNT_LOST, 3);
    assert_seconds(DT_ACCOUNT_RECOVERY, 4.1);
    assert_int_equal(run.account.sums.redone, 3);
    assert_string_equal(
        text(), "goodput 61.0 %: steps 00:15, start-up 00:02, saving 00:01, "
                "recovery 00:04 (1 restart), lost 00:03 (3 steps)");
}

static void before_the_first_save_all_is_lost(void **state)
{
    (void)state;
    begin(0, NULL);
    train(7);
    say("epoch", 7, NULL);
    say_of("failed", 9, run.wall + 2);
    pass(12);
    begin(0, NULL);
    train(1);
    say("end", 1, NULL);
    assert_adds_up();
    assert_seconds(DT_ACCOUNT_STEPS, 1);
    assert_seconds(DT_ACCOUNT_LOST, 9);
    assert_seconds(DT_ACCOUNT_IDLE, 10);
    assert_int_equal(run.account.sums.redone, 9);
}

static void a_clock_that_is_set_changes_nothing_in_a_process(void **state)
{
    static const double jumps[] = {3600, -3600};
    for (size_t i = 0; i < 2; i++) {
        enter(state);
        begin(0, "7");
        train(10);
        run.ahead = jumps[i];
        save(10);
        train(10);
        say("failed", 20, NULL);
        pass(1);
        begin(10, "7");
        train(10);
        run.ahead = 0;
        say("end", 20, NULL);
        assert_adds_up();
        assert_seconds(DT_ACCOUNT_STEPS, 20);
        assert_seconds(DT_ACCOUNT_LOST, 10);
        assert_seconds(DT_ACCOUNT_RECOVERY, 3);
    }
}

/* Between two processes only that clock tells: time never counts as less than
 * none.
 */
static void a_clock_that_is_set_back_between_processes_takes_nothing(
    void **state)
{
    (void)state;
    begin(0, "7");
    train(10);
    say("stop", 10, NULL);
    run.ahead = -3600;
    begin(10, "8");
    train(10);
    say("end", 20, NULL);
    assert_seconds(DT_ACCOUNT_IDLE, 0);
    assert_seconds(DT_ACCOUNT_STEPS, 20);
    assert_seconds(DT_ACCOUNT_RECOVERY, 2);
}

/* The queue costs nobody's GPUs; a step of the same allocation does. */
static void time_between_allocations_is_apart(void **state)
{
    static const struct {
        const char *next;
        double idle, recovery;
    } cases[] = {{"7", 0, 102}, {"8", 100, 2}, {"7, requeue 1", 100, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enter(state);
        begin(0, "7");
        train(10);
        save(10);
        say("stop", 10, NULL);
        pass(100);
        begin(10, cases[i].next);
        train(10);
        say("end", 20, NULL);
        assert_adds_up();
        assert_seconds(DT_ACCOUNT_STEPS, 20);
        assert_seconds(DT_ACCOUNT_LOST, 0);
        assert_seconds(DT_ACCOUNT_IDLE, cases[i].idle);
        assert_seconds(DT_ACCOUNT_RECOVERY, cases[i].recovery);
    }
    assert_string_equal(text(),
                        "goodput 81.6 %: steps 00:20, start-up 00:02, saving "
                        "00:01, recovery 00:02 (1 restart), idle between jobs "
                        "01:40");
}

/* As training.resume: PATH does, also between two events. */
static void an_older_checkpoint_takes_later_steps_back(void **state)
{
    (void)state;
    begin(0, NULL);
    for (long step = 10; step <= 100; step += 10) {
        train(10);
        save(step);
    }
    say("end", 100, NULL);
    begin(35, NULL);
    train(5);
    say("end", 40, NULL);
    assert_adds_up();
    assert_seconds(DT_ACCOUNT_STEPS, 40);
    assert_seconds(DT_ACCOUNT_LOST, 65);
    assert_seconds(DT_ACCOUNT_SAVING, 5);
    assert_int_equal(run.account.sums.redone, 65);
    begin(20, NULL);
    say("end", 20, NULL);
    assert_seconds(DT_ACCOUNT_STEPS, 20);
    assert_seconds(DT_ACCOUNT_LOST, 85);
}

static void a_thousand_saves_need_no_more_room(void **state)
{
    (void)state;
    begin(0, NULL);
    for (long step = 1; step <= 1000; step++) {
        train(1);
        save(step);
    }
    say("end", 1000, NULL);
    begin(501, NULL);
    say("end", 501, NULL);
    assert_adds_up();
    assert_seconds(DT_ACCOUNT_STEPS, 501);
    assert_seconds(DT_ACCOUNT_LOST, 499);
}

static void events_of_an_older_version_have_no_account(void **state)
{
    (void)state;
    say_of("start", 0, run.wall);
    say_of("end", 10, run.wall + 20);
    assert_false(run.account.sums.known);
    assert_true(isnan(dt_account_goodput(&run.account.sums)));
    begin(10, NULL); /* by this version */
    assert_false(run.account.sums.known);
    json_t *json = dt_account_json(&run.account.sums);
    assert_true(json_is_null(json));
    json_decref(json);
}

static void what_runs_is_in_the_sums_of_now(void **state)
{
    struct dt_account_sums now;
    (void)state;
    begin(0, "7");
    train(10);
    dt_account_now(&run.account, run.spent, &now);
    assert_true(now.seconds[DT_ACCOUNT_STEPS] == 10);
    assert_seconds(DT_ACCOUNT_STEPS, 0);
    say("end", 10, NULL);
    dt_account_now(&run.account, run.spent, &now);
    assert_true(now.seconds[DT_ACCOUNT_STEPS] == 10);
}

static void sums_are_the_same_from_json(void **state)
{
    struct dt_account_sums back;
    (void)state;
    begin(0, "7");
    train(10);
    say_of("restart", 10, run.wall);
    begin(0, "7");
    train(20);
    say("end", 20, NULL);
    json_t *json = dt_account_json(&run.account.sums);
    assert_true(json_real_value(json_object_get(json, "goodput")) == 0.5882);
    assert_int_equal(json_integer_value(json_object_get(json, "restarts")), 1);
    dt_account_read(json, &back);
    assert_memory_equal(&back, &run.account.sums, sizeof(back));
    json_decref(json);
    dt_account_read(NULL, &back);
    assert_false(back.known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup(f, enter)
        CASE(a_run_without_trouble_is_steps_and_its_start),
        CASE(a_kill_at_any_moment_adds_up),
        CASE(what_a_killed_process_has_told_is_in_its_account),
        CASE(nothing_is_guessed_of_a_process_that_told_nothing),
        CASE(a_hang_is_recovery_whatever_was_told_in_it),
        CASE(a_kill_during_recovery_is_more_recovery),
        CASE(before_the_first_save_all_is_lost),
        CASE(a_clock_that_is_set_changes_nothing_in_a_process),
        CASE(a_clock_that_is_set_back_between_processes_takes_nothing),
        CASE(time_between_allocations_is_apart),
        CASE(an_older_checkpoint_takes_later_steps_back),
        CASE(a_thousand_saves_need_no_more_room),
        CASE(events_of_an_older_version_have_no_account),
        CASE(what_runs_is_in_the_sums_of_now),
        CASE(sums_are_the_same_from_json),
    };
    return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
