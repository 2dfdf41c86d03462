/* SPDX-License-Identifier: Apache-2.0 */
/* test_doctor_child.c - programs that are asked something, and hang */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/clock.h"
#include "doctor/doctor_impl.h"
#include "tests/unit/turned_clock.h"

static void asking_a_program_always_ends_in_time(void **state)
{
    struct dt_error err;
    char answer[8];
    char *const none[] = {"/no/such/program", NULL};
    char *const sleeps[] = {"sleep", "20", NULL};
    char *const talks[] = {"sh", "-c", "echo 0123456789; exit 3", NULL};
    double start = dt_clock_now();
    (void)state;
    assert_int_equal(dt_child_ask(none, 1000, answer, 8, &err), -1);
    assert_string_equal(err.text,
                        "/no/such/program: No such file or directory");
    assert_int_equal(dt_child_ask(talks, 5000, answer, 8, &err), 3);
    assert_string_equal(answer, "0123456");
    assert_int_equal(dt_child_ask(sleeps, 100, answer, 8, &err), -1);
    assert_string_equal(err.text, "sleep: it did not end in time");
    assert_true(dt_clock_now() - start < 5);
}

static void pass_an_hour(int number)
{
    (void)number;
    turned_s += 3600;
}

/* Whoever says no more when the time is over is not waited for again. */
static void a_program_has_one_deadline_to_talk_and_to_end(void **state)
{
    const struct sigaction action = {.sa_handler = pass_an_hour};
    char *const lingers[] = {
        "sh", "-c", "kill -USR1 $PPID; exec sleep 60 >/dev/null", NULL};
    struct dt_error err = {0};
    char answer[8];
    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    int rc = dt_child_ask(lingers, 600000, answer, sizeof(answer), &err);
    assert_int_equal(turned_s, 3600);
    turned_s = 0;
    signal(SIGUSR1, SIG_DFL);
    assert_int_equal(rc, -1);
    assert_string_equal(err.text, "sh: it did not end in time");
}

static void ignore(int number)
{
    (void)number;
}

static void a_signal_does_not_cut_an_answer_short(void **state)
{
    const struct sigaction action = {.sa_handler = ignore};
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0}, {0}};
    struct dt_error err;
    char answer[16];
    char *const talks[] = {"sh", "-c", "printf 12; sleep 0.3; printf 34", NULL};
    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    int rc = dt_child_ask(talks, 60000, answer, sizeof(answer), &err);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_DFL);
    assert_int_equal(rc, 0);
    assert_string_equal(answer, "1234");
}

/* Whoever ends the asker ends what it has started, which may ignore SIGTERM. */
static void ending_the_asker_ends_its_children(void **state)
{
    static const char *const scripts[] = {
        "echo $$; exec sleep 60",
        "trap '' TERM INT HUP; echo $$; while :; do sleep 1; done"};
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        char *const argv[] = {"sh", "-c", (char *)scripts[i / 3], NULL};
        int grandchild = 0;
        int status = 0;
        int said[2];
        assert_int_equal(pipe(said), 0);
        pid_t pid = fork();
        if (pid == 0) {
            struct dt_child child;
            char text[16] = "";
            dt_child_guard();
            dt_child_start(&child, argv, NULL);
            ssize_t n = read(child.out, text, sizeof(text) - 1);
            dprintf(said[1], "%s", n > 0 ? text : "");
            dt_child_wait(&child, 60000, NULL);
            _exit(0);
        }
        FILE *in = fdopen(said[0], "r");
        assert_int_equal(fscanf(in, "%d", &grandchild), 1);
        kill(pid, signals[i % 3]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), signals[i % 3]);
        double deadline = dt_clock_now() + 10;
        while (kill(grandchild, 0) == 0 && dt_clock_now() < deadline)
            dt_clock_sleep(0.01); /* for whoever reaps it */
        assert_int_equal(kill(grandchild, 0), -1);
        fclose(in);
        close(said[1]);
    }
}

/* srun that takes no input: many nodes are more than a pipe holds. */
static void gathering_does_not_block_on_unread_input(void **state)
{
    enum { NODES = 3000 };
    char *const argv[] = {
        "awk",
        "BEGIN { for (i = 0; i < 3000; i++) print i, \"hello node\" i, "
        "\"10.11.12.13\", 12345; fflush(); system(\"sleep 60 </dev/null "
        ">/dev/null\") }",
        NULL};
    struct dt_doctor_report report;
    double start = dt_clock_now();
    (void)state;
    assert_int_equal(dt_doctor_report_init(&report, NODES, NULL), 0);
    assert_int_equal(dt_doctor_gather(&report, NODES, argv, NULL), 0);
    assert_int_equal(dt_doctor_report_present(&report), NODES);
    assert_int_equal(dt_doctor_report_done(&report), 0);
    assert_true(dt_clock_now() - start < 40);
    dt_doctor_report_fini(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asking_a_program_always_ends_in_time),
        cmocka_unit_test(a_program_has_one_deadline_to_talk_and_to_end),
        cmocka_unit_test(a_signal_does_not_cut_an_answer_short),
        cmocka_unit_test(ending_the_asker_ends_its_children),
        cmocka_unit_test(gathering_does_not_block_on_unread_input),
    };
    return cmocka_run_group_tests_name("doctor child", tests, NULL, NULL);
}
