/* SPDX-License-Identifier: Apache-2.0 */
/* test_spank_exit.c - what a rank's end makes its node do */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/contract.h"
#include "spank/task/task_step.h"
#include "tests/unit/spank/spank_stub.h"

/* slurmstepd reads the environment with the rights of the user, before it is
 * root again.
 */
static void begin_step(const char *console)
{
    stub_reset();
    spank_setenv(NULL, DT_ENV_CONFIG, "/c.yaml", 1);
    if (console)
        spank_setenv(NULL, DT_ENV_CONSOLE, console, 1);
    dtspank_step_user_init(NULL);
    spank_unsetenv(NULL, DT_ENV_CONFIG);
    spank_unsetenv(NULL, DT_ENV_CONSOLE);
}

/* It comes first, since a process waits once. */
static void a_nodes_first_failed_rank_gets_time_for_its_output(void **state)
{
    static const int harmless[] = {0, SIGTERM}; /* as wait() has them */
    (void)state;
    stub_reset();
    stub.exit_status = 1 << 8;
    dtspank_step_task_exit(NULL);
    assert_int_equal(stub.slept_ms, 0); /* not a step of ours */

    begin_step(NULL);
    for (size_t i = 0; i < sizeof(harmless) / sizeof(*harmless); i++) {
        stub.exit_status = harmless[i];
        dtspank_step_task_exit(NULL);
        assert_int_equal(stub.slept_ms, 0);
    }

    stub.exit_status = 1 << 8;
    dtspank_step_task_exit(NULL);
    long slept_ms = stub.slept_ms;
    assert_in_range(slept_ms, 100, 1000); /* srun needs about 10 */
    dtspank_step_task_exit(NULL);
    assert_int_equal(stub.slept_ms, slept_ms);
}

/* A process says it once: what is said must come last. */
static void a_killed_rank_is_reported_once(void **state)
{
    char expected[128], host[64];
    (void)state;
    stub_reset();
    dtspank_step_user_init(NULL);
    stub.task = 3;
    stub.exit_status = SIGKILL; /* as wait() has it */
    dtspank_step_task_exit(NULL);
    assert_string_equal(stub.said, ""); /* not a step of ours */

    begin_step(NULL);
    stub.task = 3;
    stub.exit_status = 69 << 8;
    dtspank_step_task_exit(NULL);
    stub.exit_status = SIGTERM;
    dtspank_step_task_exit(NULL);
    assert_string_equal(stub.said, "");

    stub.exit_status = SIGKILL;
    dtspank_step_task_exit(NULL);
    dtspank_step_task_exit(NULL);
    gethostname(host, sizeof(host));
    snprintf(expected, sizeof(expected),
             "disttrain: rank 3 on %s was killed by signal 9 (Killed)\n", host);
    assert_string_equal(stub.said, expected);
}

/* The log of slurmd has what is said here, and any client sends a token. */
static void only_a_token_of_digits_is_repeated(void **state)
{
    static const char *const bad[] = {
        "0af9\nslurmstepd: forged",         "", " label", "0AF9", "0af9;", "\n",
        "0123456789abcdef0123456789abcdef0"};
    char expected[128], host[64];
    (void)state;
    gethostname(host, sizeof(host));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        begin_step(bad[i]);
        stub.task = 3;
        stub.exit_status = 2 << 8;
        dtspank_step_task_exit(NULL);
        if (stub.said[0])
            fail_msg("case %zu: %s", i, stub.said);
    }
    begin_step("0af9 label");
    stub.task = 3;
    stub.exit_status = 2 << 8;
    dtspank_step_task_exit(NULL);
    snprintf(expected, sizeof(expected), DT_RECORD "0af9 exit 3 %s ", host);
    assert_memory_equal(stub.said, expected, strlen(expected));
    assert_non_null(strstr(stub.said, " 512\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nodes_first_failed_rank_gets_time_for_its_output),
        cmocka_unit_test(a_killed_rank_is_reported_once),
        cmocka_unit_test(only_a_token_of_digits_is_repeated),
    };
    return cmocka_run_group_tests_name("spank_exit", tests, NULL, NULL);
}
