/* SPDX-License-Identifier: Apache-2.0 */
/* test_join.c - which rank tells the user about a failure */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cmd_impl.h"
#include "launch/launch_impl.h"

static void ignore_abort(struct dt_launch *launch, int status,
                         const char *reason)
{
    (void)launch, (void)status, (void)reason;
}

/* A rank of three in a process of its own, which fails before there is a
 * communicator. Returns where its stderr can be read.
 */
static int fail_rank(int rank, int lost, int status)
{
    static const struct dt_launch_backend backend = {.abort = ignore_abort};
    static char *hosts[] = {"h0", "h1", "h2"};
    struct dt_launch launch = {
        .backend = &backend, .rank = rank, .size = 3, .hosts = hosts};
    struct dt_error err;
    int said[2];
    assert_int_equal(pipe(said), 0);
    if (fork() == 0) {
        dup2(said[1], STDERR_FILENO);
        dt_error_set(&err, status, "lost rank %d", lost);
        err.lost_rank = lost;
        dt_join_failed(&launch, NULL, &err);
        _exit(0);
    }
    close(said[1]);
    return said[0];
}

/* The rank with the lowest number tells of one that was lost without a word, or
 * the next where that is the lost one. Of its own failure each rank tells.
 */
static void one_rank_tells_of_a_lost_one(void **state)
{
    static const struct {
        int rank, lost, status;
        const char *says;
    } cases[] = {
        {0, 1, EX_UNAVAILABLE, "disttrain: rank 0 of 3 on h0: lost rank 1\n"},
        {2, 1, EX_UNAVAILABLE, ""},
        {1, 0, EX_UNAVAILABLE, "disttrain: rank 1 of 3 on h1: lost rank 0\n"},
        {2, 0, EX_UNAVAILABLE, ""},
        {0, 2, EX_DATAERR, ""}, /* rank 2 has told why */
        {2, -1, EX_DATAERR,
         "disttrain: rank 2 of 3 on h2 failed: lost rank -1\n"},
    };
    enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
    int said[COUNT], status;
    (void)state;
    for (int i = 0; i < COUNT; i++)
        said[i] = fail_rank(cases[i].rank, cases[i].lost, cases[i].status);
    for (int i = 0; i < COUNT; i++) {
        char text[256] = "";
        FILE *file = fdopen(said[i], "r");
        assert_non_null(file);
        if (!fgets(text, sizeof(text), file))
            text[0] = '\0';
        fclose(file);
        assert_string_equal(text, cases[i].says);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_tells_of_a_lost_one),
    };
    return cmocka_run_group_tests_name("join", tests, NULL, NULL);
}
