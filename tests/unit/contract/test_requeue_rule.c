/* SPDX-License-Identifier: Apache-2.0 */
/* test_requeue_rule.c - which ends put a job back into the queue */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "contract/requeue_rule.h"

/* Of these statuses, how many put a job back that was restarted so often. */
static int count_due(const char *most, const char *restarts,
                     const int *statuses)
{
    struct dt_requeue requeue;
    int count = 0;
    unsetenv(DT_ENV_REQUEUE);
    unsetenv("SLURM_RESTART_COUNT");
    if (most)
        setenv(DT_ENV_REQUEUE, most, 1);
    if (restarts)
        setenv("SLURM_RESTART_COUNT", restarts, 1);
    dt_requeue_read(&requeue);
    for (; *statuses >= 0; statuses++)
        count += dt_requeue_is_due(&requeue, *statuses);
    return count;
}

static const int complete[] = {0, -1};
static const int stopped[] = {75, -1};
static const int crashed[] = {1, 69, 70, 71, 74, 134, 137, 139, -1};
static const int vain[] = {2, 64, 65, 66, 77, 78, 126, 127, -1};

static void a_run_that_was_stopped_goes_back_always(void **state)
{
    (void)state;
    assert_int_equal(count_due(NULL, NULL, stopped), 0);
    assert_int_equal(count_due("0", NULL, stopped), 1);
    assert_int_equal(count_due("2", "7", stopped), 1);
}

/* One that has lost too many nodes is one of them. */
static void a_crash_goes_back_up_to_the_limit(void **state)
{
    (void)state;
    assert_int_equal(count_due(NULL, NULL, crashed), 0);
    assert_int_equal(count_due("0", NULL, crashed), 0);
    assert_int_equal(count_due("2", NULL, crashed), 8);
    assert_int_equal(count_due("2", "1", crashed), 8);
    assert_int_equal(count_due("2", "2", crashed), 0);
}

static void a_mistake_and_a_complete_run_never_go_back(void **state)
{
    (void)state;
    assert_int_equal(count_due("2", NULL, vain), 0);
    assert_int_equal(count_due("2", NULL, complete), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_was_stopped_goes_back_always),
        cmocka_unit_test(a_crash_goes_back_up_to_the_limit),
        cmocka_unit_test(a_mistake_and_a_complete_run_never_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
