/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c - open files: the soft limit is raised, the hard one named */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/proc.h"

static rlim_t soft_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

static void the_soft_limit_is_raised_as_far_as_needed(void **state)
{
    struct rlimit limit, low;
    struct dt_error err;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){30, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    assert_int_equal(dt_limits_open_files(1, &err), 0);
    assert_int_equal(soft_limit(), 30);
    assert_int_equal(dt_limits_open_files(50, &err), 0);
    assert_in_range(soft_limit(), 53, 70);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* In a process of its own, as a hard limit cannot be raised again. */
static void a_hard_limit_that_is_too_low_is_named(void **state)
{
    int status;
    pid_t pid = fork();
    (void)state;
    if (pid == 0) {
        const struct rlimit low = {30, 30};
        struct dt_error err;
        if (setrlimit(RLIMIT_NOFILE, &low) < 0 ||
            dt_limits_open_files(50, &err) != -1 || err.status != EX_OSERR)
            _exit(1);
        _exit(strstr(err.text, " open files, and its hard limit is 30: raise "
                               "it (ulimit -Hn where the job is submitted, or "
                               "LimitNOFILE of slurmd's service)")
                  ? 0
                  : 2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_soft_limit_is_raised_as_far_as_needed),
        cmocka_unit_test(a_hard_limit_that_is_too_low_is_named),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
