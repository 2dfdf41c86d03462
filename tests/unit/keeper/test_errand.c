/* SPDX-License-Identifier: Apache-2.0 */
/* test_errand.c - work in a child, whose number may become that of another */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "keeper/errand.h"

static pid_t killed; /* the last one; 0: none */

/* In place of libc's. */
int kill(pid_t pid, int signal)
{
    killed = pid;
    return (int)syscall(SYS_kill, pid, signal);
}

static int give_seven(const void *context)
{
    (void)context;
    return 7;
}

static int sleep_long(const void *context)
{
    (void)context;
    dt_clock_sleep(1000);
    return 0;
}

static void a_result_comes_back(void **state)
{
    struct dt_errand errand = {.fd = -1};
    int result = -1;
    (void)state;
    assert_int_equal(dt_errand_start(&errand, give_seven, NULL), 0);
    while (!dt_errand_done(&errand, &result))
        dt_clock_sleep(0.001);
    assert_int_equal(result, 7);
    assert_int_equal(errand.pid, 0);
    assert_true(waitpid(-1, NULL, 0) > 0);
}

static void one_that_runs_is_killed(void **state)
{
    struct dt_errand errand = {.fd = -1};
    int result, status;
    (void)state;
    killed = 0;
    assert_int_equal(dt_errand_start(&errand, sleep_long, NULL), 0);
    const pid_t pid = errand.pid;
    assert_false(dt_errand_done(&errand, &result));
    assert_int_equal(dt_errand_pid(&errand), pid);
    dt_errand_end(&errand);
    assert_int_equal(killed, pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    killed = 0;
    dt_errand_end(&errand);
    assert_int_equal(killed, 0);
}

/* As when a worker with the number of the errand was started meanwhile. */
static void one_that_was_reaped_is_left_alone(void **state)
{
    struct dt_errand errand = {.fd = -1};
    (void)state;
    killed = 0;
    assert_int_equal(dt_errand_start(&errand, give_seven, NULL), 0);
    assert_int_equal(waitpid(errand.pid, NULL, 0), errand.pid);
    assert_int_equal(dt_errand_pid(&errand), 0);
    dt_errand_end(&errand);
    assert_int_equal(killed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_comes_back),
        cmocka_unit_test(one_that_runs_is_killed),
        cmocka_unit_test(one_that_was_reaped_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
