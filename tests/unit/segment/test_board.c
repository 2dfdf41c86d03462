/* SPDX-License-Identifier: Apache-2.0 */
/* test_board.c - the page that a worker leaves to its keeper */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/inherited.h"
#include "segment/board.h"

static void inherit(int fd)
{
    const struct dt_inherited inherited = {-1, fd, -1};
    assert_int_equal(dt_inherited_set(&inherited), 0);
}

/* The worker of a keeper is killed. */
static void what_a_killed_worker_wrote_stays(void **state)
{
    struct dt_error err;
    struct dt_board *board = dt_board_create(&err), *own = NULL;
    int status;
    (void)state;
    assert_non_null(board);
    assert_int_equal(dt_board_step(board), -1);
    assert_int_equal(fcntl(dt_board_fd(board), F_GETFD), FD_CLOEXEC);
    inherit(dt_board_fd(board));
    pid_t pid = fork();
    if (pid == 0) {
        if (dt_board_open(&own, &err) == 0)
            dt_board_set_step(own, 7L << 40);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(dt_board_step(board), 7L << 40);
    dt_board_clear(board);
    assert_int_equal(dt_board_step(board), -1);
    dt_board_close(board);
}

static void a_process_without_a_keeper_has_none(void **state)
{
    struct dt_board *board = (void *)1;
    struct dt_error err;
    (void)state;
    unsetenv(DT_INHERITED);
    assert_int_equal(dt_board_open(&board, &err), 0);
    assert_null(board);
    dt_board_set_step(NULL, 3);
    dt_board_close(NULL);
}

static void any_other_descriptor_is_refused(void **state)
{
    struct dt_board *board;
    struct dt_error err;
    int ends[2], empty = memfd_create("empty", MFD_CLOEXEC),
                 zeros = memfd_create("zeros", MFD_CLOEXEC);
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(ftruncate(zeros, 4096), 0);
    const int wrong[] = {ends[0], empty, zeros, 1000};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        inherit(wrong[i]);
        assert_int_equal(dt_board_open(&board, &err), -1);
        assert_int_equal(err.status, EX_SOFTWARE);
        assert_null(board);
    }
    close(ends[0]);
    close(ends[1]);
    close(empty);
    unsetenv(DT_INHERITED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_killed_worker_wrote_stays),
        cmocka_unit_test(a_process_without_a_keeper_has_none),
        cmocka_unit_test(any_other_descriptor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
