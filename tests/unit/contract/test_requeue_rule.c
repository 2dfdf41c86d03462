/* SPDX-License-Identifier: Apache-2.0 */
/* test_requeue_rule.c - which ends put a job back into the queue */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sysexits.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "contract/requeue_rule.h"

/* What is said of ends with these statuses; all the same. */
static enum dt_requeue_verdict judge(struct dt_requeue facts,
                                     const int *statuses)
{
    facts.status = *statuses;
    const enum dt_requeue_verdict first = dt_requeue_judge(&facts);
    for (; *statuses >= 0; statuses++) {
        facts.status = *statuses;
        assert_int_equal(dt_requeue_judge(&facts), first);
    }
    return first;
}

static const int complete[] = {0, -1};
static const int stopped[] = {EX_TEMPFAIL, -1};
static const int crashed[] = {1,  3,   63,  67,  68,  69,  70,  71,  74, 76,
                              79, 125, 128, 134, 137, 139, 143, 255, -1};
static const int vain[] = {2, 64, 65, 66, 77, 78, 126, 127, -1};

static void a_run_that_was_stopped_goes_back_always(void **state)
{
    (void)state;
    assert_int_equal(judge((struct dt_requeue){.seconds = 60}, stopped),
                     DT_REQUEUE_NO);
    for (long restarts = 0; restarts < 9; restarts++)
        assert_int_equal(judge((struct dt_requeue){.allowed = true,
                                                   .most = restarts % 3,
                                                   .restarts = restarts,
                                                   .seconds = 60},
                               stopped),
                         DT_REQUEUE_DUE);
}

/* One that has lost too many nodes is one of them. */
static void a_crash_goes_back_up_to_the_limit(void **state)
{
    (void)state;
    assert_int_equal(judge((struct dt_requeue){.most = 2}, crashed),
                     DT_REQUEUE_NO);
    for (long most = 0; most < 6; most++)
        for (long restarts = 0; restarts < 9; restarts++)
            assert_int_equal(judge((struct dt_requeue){.allowed = true,
                                                       .most = most,
                                                       .restarts = restarts,
                                                       .seconds = 60},
                                   crashed),
                             most == 0         ? DT_REQUEUE_NO
                             : restarts < most ? DT_REQUEUE_DUE
                                               : DT_REQUEUE_SPENT);
}

static void a_mistake_and_a_complete_run_never_go_back(void **state)
{
    const struct dt_requeue facts = {.allowed = true, .most = 2, .seconds = 60};
    (void)state;
    assert_int_equal(judge(facts, vain), DT_REQUEUE_NO);
    assert_int_equal(judge(facts, complete), DT_REQUEUE_NO);
}

/* It may have been stopped in any way. */
static void whatever_fails_after_the_signal_goes_back(void **state)
{
    const struct dt_requeue facts = {
        .allowed = true, .restarts = 9, .late = true, .seconds = 60};
    (void)state;
    assert_int_equal(judge(facts, crashed), DT_REQUEUE_DUE);
    assert_int_equal(judge(facts, vain), DT_REQUEUE_DUE);
    assert_int_equal(judge(facts, stopped), DT_REQUEUE_DUE);
    assert_int_equal(judge(facts, complete), DT_REQUEUE_NO);
    assert_int_equal(
        judge((struct dt_requeue){.late = true, .seconds = 60}, crashed),
        DT_REQUEUE_NO);
}

static void short_steps_go_back_three_times(void **state)
{
    static const int *const ends[] = {stopped, crashed};
    static const struct {
        long restarts;
        double seconds;
        bool due;
    } cases[] = {
        {2, 0, true},  {2, 59.9, true},  {3, 0, false}, {3, 59.9, false},
        {3, 60, true}, {4, 59.9, false}, {4, 60, true}, {4, 61, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int end = 0; end < 2; end++)
            assert_int_equal(
                judge((struct dt_requeue){.allowed = true,
                                          .most = 9,
                                          .restarts = cases[i].restarts,
                                          .seconds = cases[i].seconds},
                      ends[end]),
                cases[i].due ? DT_REQUEUE_DUE : DT_REQUEUE_LOOPS);
}

/* Its ranks may have failed of that. */
static void a_cancelled_job_stays_cancelled(void **state)
{
    struct dt_requeue facts = {
        .allowed = true, .most = 2, .seconds = 60, .cancelled = true};
    (void)state;
    assert_int_equal(judge(facts, stopped), DT_REQUEUE_CANCELLED);
    assert_int_equal(judge(facts, crashed), DT_REQUEUE_CANCELLED);
    assert_int_equal(judge(facts, vain), DT_REQUEUE_NO);
    facts.late = true;
    assert_int_equal(judge(facts, vain), DT_REQUEUE_CANCELLED);
}

static void the_job_is_in_the_environment(void **state)
{
    struct dt_requeue facts = {.cancelled = true};
    (void)state;
    unsetenv(DT_ENV_REQUEUE);
    unsetenv("SLURM_RESTART_COUNT");
    dt_requeue_read(&facts);
    assert_false(facts.allowed);
    assert_int_equal(facts.most, 0);
    assert_int_equal(facts.restarts, 0);
    assert_false(facts.cancelled);
    setenv(DT_ENV_REQUEUE, "0", 1);
    setenv("SLURM_RESTART_COUNT", "7", 1);
    dt_requeue_read(&facts);
    assert_true(facts.allowed);
    assert_int_equal(facts.most, 0);
    assert_int_equal(facts.restarts, 7);
    setenv(DT_ENV_REQUEUE, "12", 1);
    dt_requeue_read(&facts);
    assert_int_equal(facts.most, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_was_stopped_goes_back_always),
        cmocka_unit_test(a_crash_goes_back_up_to_the_limit),
        cmocka_unit_test(a_mistake_and_a_complete_run_never_go_back),
        cmocka_unit_test(whatever_fails_after_the_signal_goes_back),
        cmocka_unit_test(short_steps_go_back_three_times),
        cmocka_unit_test(a_cancelled_job_stays_cancelled),
        cmocka_unit_test(the_job_is_in_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
