/* SPDX-License-Identifier: Apache-2.0 */
/* test_hang.c - ranks that hang are noticed, and the odd one is told */
#include "config.h"

#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "console/console_impl.h"
#include "doctor/doctor_impl.h"
#include "tests/unit/console/outcome.h"
#include "tests/unit/scratch.h"
#include "tests/unit/turned_clock.h"

static char root[256];

static void put(int pid, const char *name, const char *text, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/proc/%d", root, pid);
    assert_int_equal(dt_file_mkdirs(path, NULL), 0);
    snprintf(path, sizeof(path), "%s/proc/%d/%s", root, pid, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fwrite(text, 1, bytes, file);
    fclose(file);
}

static void put_stat(int pid, const char *name, char state, int parent,
                     int ticks)
{
    char line[256];
    int n = snprintf(line, sizeof(line),
                     "%d (%s) %c %d 1 1 0 -1 4194304 9 0 0 0 %d 0 0 0 20 0 1 "
                     "0 %d 1000 200",
                     pid, name, state, parent, ticks, pid);
    put(pid, "stat", line, (size_t)n);
}

/* A process of a rank of step 7.STEP, with 4 tasks. */
static void put_process(int pid, int rank, int step, const char *command)
{
    char environment[256];
    int n = snprintf(environment, sizeof(environment),
                     "HOME=/%cSLURM_PROCID=%d%cSLURM_JOB_ID=7%c"
                     "SLURM_STEP_ID=%d%cSLURM_STEP_NUM_TASKS=4%c",
                     0, rank, 0, 0, step, 0, 0);
    put(pid, "environ", environment, (size_t)n);
    put(pid, "cmdline", command, strlen(command) + 1);
    put(pid, "wchan", "0", 1);
}

static char *look_twice(void (*between)(void))
{
    struct dt_doctor_ranks before = {0};
    struct dt_doctor_ranks now = {0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dt_doctor_ranks_look(&before, root, getuid(), "7.0");
    between();
    dt_doctor_ranks_look(&now, root, getuid(), "7.0");
    dt_doctor_ranks_print(&before, &now, 0.5, root, "n1", out);
    dt_doctor_ranks_fini(&before);
    dt_doctor_ranks_fini(&now);
    fclose(out);
    return text;
}

/* Half a second later; there are 100 ticks in one. */
static void half_a_second(void)
{
    put_stat(10, "sh", 'S', 1, 5);
    put_stat(11, "train (x) y", 'R', 10, 150);
    put_stat(20, "a", 'S', 1, 7);
    put_stat(21, "b", 'D', 20, 7);
    put_stat(30, "a", 'T', 1, 7);
    put_stat(40, "disttrain-keep", 'S', 1, 7);
    put_stat(41, "disttrain", 'S', 40, 7);
    put(41, "wchan", "do_wait", 7);
}

static void the_processes_of_a_rank_tell_its_state(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", scratch_path("root"));
    put_process(10, 0, 0, "sh\0-c");
    put_process(11, 0, 0, "/usr/bin/train\0-x");
    put(11, "cmdline", "/usr/bin/train\0-x\n\0", 19);
    put_process(20, 1, 0, "a");
    put_process(21, 1, 0, "/b");
    put(21, "wchan", "nfs_wait", 8);
    put_process(30, 2, 0, "");
    put_process(40, 3, 0, "disttrain");
    put_process(41, 3, 0, "a b");
    put_process(50, 0, 1, "another step");
    put(60, "environ", "SLURM_JOB_ID=7\0SLURM_STEP_ID=0", 31);
    put_stat(60, "no rank", 'R', 1, 0);
    half_a_second();
    put_stat(50, "other", 'R', 1, 0);
    put_stat(11, "train (x) y", 'R', 10, 100);
    char *text = look_twice(half_a_second);
    assert_string_equal(text,
                        "rank 0 4 11 100 n1\tbusy (computes, or polls as in a "
                        "collective)\ttrain -x \n"
                        "rank 1 4 21 0 n1\twaits in nfs_wait (state D)\tb\n"
                        "rank 2 4 30 0 n1\tstopped (state T)\ta\n"
                        "rank 3 4 41 0 n1\twaits in do_wait\ta b\n");
    free(text);
}

/* A process that ends between the looks, one that waits for a moment, and one
 * that gets no CPU.
 */
static void second_ends(void)
{
    put_stat(10, "a", 'D', 1, 5);
    put(20, "environ", "", 0);
    put_stat(30, "c", 'R', 1, 5);
    put_stat(41, "e", 'D', 40, 5);
}

static void momentary_states_of_processes_do_not_mislead(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", scratch_path("moments"));
    put_process(10, 0, 0, "a");
    put_process(20, 0, 0, "b");
    put_stat(10, "a", 'S', 1, 5);
    put_stat(20, "b", 'D', 10, 5);
    put_process(30, 1, 0, "c");
    put_stat(30, "c", 'R', 1, 5);
    put_process(40, 2, 0, "d");
    put_process(41, 2, 0, "e");
    put_stat(40, "d", 'S', 1, 5);
    put_stat(41, "e", 'S', 40, 5);
    char *text = look_twice(second_ends);
    assert_string_equal(
        text,
        "rank 0 4 10 0 n1\twaits in the kernel (state D)\ta\n"
        "rank 1 4 30 0 n1\tbusy (computes, or polls as in a collective)\tc\n"
        "rank 2 4 40 0 n1\tsleeps\td\n");
    free(text);
}

/* py-spy is asked about Python programs, and may fail. */
static void python_programs_show_their_stack_frames(void **state)
{
    static const char spy[] =
        "#!/bin/sh\n[ \"$*\" != 'dump --nonblocking --pid 20' ] || exit 1\n"
        "printf 'Process 10: x\\nPython v3\\n\\nThread 11 (idle)\\n    f (f:1)"
        "\\n\\nThread 10 (active): \"MainThread\"\\n    a (t.py:3)\\n"
        "    b (t.py:2)\\n    c (t.py:1)\\n    d (t.py:0)\\n'\n";
    char path[1024];
    char *before = strdup(getenv("PATH"));
    (void)state;
    chmod(scratch_write("py-spy", spy, sizeof(spy) - 1), 0755);
    snprintf(path, sizeof(path), "%s:%s", scratch_root, before);
    setenv("PATH", path, 1);
    snprintf(root, sizeof(root), "%s", scratch_path("frames"));
    put_process(10, 0, 0, "python3");
    put_process(20, 1, 0, "python3");
    put_stat(10, "python3", 'S', 1, 5);
    put_stat(20, "python3", 'S', 1, 5);
    struct dt_doctor_ranks now = {0};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    dt_doctor_ranks_look(&now, root, getuid(), "7.0");
    dt_doctor_ranks_print(&now, &now, 0.5, root, "n1", out);
    dt_doctor_ranks_fini(&now);
    fclose(out);
    assert_string_equal(
        text, "rank 0 4 10 0 n1\tsleeps, in a (t.py:3) < b (t.py:2) < c "
              "(t.py:1)\tpython3\nrank 1 4 20 0 n1\tsleeps\tpython3\n");
    free(text);
    setenv("PATH", before, 1);
    free(before);
}

/* The worker of task 2 has become rank 0 of 2; task 1 is a spare. What a worker
 * starts may count its own ranks.
 */
static void workers_have_the_ranks_of_their_keepers(void **state)
{
    static const char kept[] = "RANK=5\0SLURM_PROCID=2\0SLURM_JOB_ID=7\0"
                               "SLURM_STEP_ID=0\0SLURM_STEP_NUM_TASKS=3\0"
                               "DISTTRAIN_EPOCH=0123456789abcdef 2 0 2";
    struct dt_doctor_ranks now = {0};
    char *text = NULL;
    size_t bytes;
    (void)state;
    snprintf(root, sizeof(root), "%s", scratch_path("kept"));
    put_process(10, 1, 0, "disttrain");
    put_stat(10, "disttrain-keep", 'S', 1, 5);
    put_process(20, 2, 0, "disttrain");
    put_stat(20, "disttrain-keep", 'S', 1, 5);
    put_process(21, 2, 0, "worker");
    put(21, "environ", kept, sizeof(kept));
    put_stat(21, "worker", 'T', 20, 5);
    FILE *out = open_memstream(&text, &bytes);
    dt_doctor_ranks_look(&now, root, getuid(), "7.0");
    dt_doctor_ranks_print(&now, &now, 0.5, root, "n3", out);
    dt_doctor_ranks_fini(&now);
    fclose(out);
    assert_string_equal(text, "rank 0 2 21 0 n3\tstopped (state T)\tworker\n");
    free(text);
}

static void expect_doing(const char *said, const char *want)
{
    char *nodes[] = {"n1", "n2", NULL};
    struct dt_error err;
    char *text = NULL;
    size_t bytes;
    char *copy = strdup(said);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(dt_rank_states_print(copy, nodes, 2, out, &err), 0);
    fclose(out);
    assert_string_equal(text, want);
    free(text);
    free(copy);
}

static void ranks_that_do_the_same_share_a_line(void **state)
{
    (void)state;
    expect_doing("rank 2 4 9 99 n2\tbusy\tb x=2\nend n2\n"
                 "rank 0 4 7 100 n1\tbusy\tb x=1\nnoise\nrank x\nrank 1 4 3 2\n"
                 "rank 1 4 8 0 n1\tsleeps\ta\nrank 3 4 9 98 n2\tbusy\tb x=2\n"
                 "end n1\n",
                 "rank 1 on n1: sleeps, 0 % of a CPU: a (pid 8)\n"
                 "ranks 0, 2-3 on n1, n2: busy, 98-100 % of a CPU: b x=1 "
                 "...\n");
    /* of one and one, who computes is not the one */
    expect_doing("rank 0 2 7 50 n1\tbusy\tb\nrank 1 2 8 1 n2\tsleeps\tb\n"
                 "end n1\nend n2\n",
                 "rank 1 on n2: sleeps, 1 % of a CPU: b (pid 8)\n"
                 "rank 0 on n1: busy, 50 % of a CPU: b (pid 7)\n");
}

/* Many that cannot go on come before one that waits for them. */
static void the_ranks_in_the_worst_state_come_first(void **state)
{
    static const char *const bad[] = {
        "has ended (state Z)", "stopped (state T)", "waits in nfs (state D)",
        "waits in do_wait"};
    char said[512];
    char want[512];
    (void)state;
    for (int worse = 0; worse < 4; worse++)
        for (int other = worse + 1; other < 4; other++) {
            snprintf(said, sizeof(said),
                     "rank 0 3 7 0 n1\t%s\tb\nrank 1 3 8 0 n1\t%s\tb\n"
                     "rank 2 3 9 0 n2\t%s\tb\nend n1\nend n2\n",
                     bad[other], bad[worse], bad[worse]);
            snprintf(want, sizeof(want),
                     "ranks 1-2 on n1, n2: %s, 0 %% of a CPU: b\n"
                     "rank 0 on n1: %s, 0 %% of a CPU: b (pid 7)\n",
                     bad[worse], bad[other]);
            expect_doing(said, want);
        }
}

/* The first and the last rank, on the first and the last node. */
static void a_lost_first_or_last_rank_is_named(void **state)
{
    static const char *const lines[] = {
        "rank 0 4 5 0 n1\tbusy\tb\n", "rank 1 4 6 0 n1\tbusy\tb\n",
        "rank 2 4 7 0 n2\tbusy\tb\n", "rank 3 4 8 0 n2\tbusy\tb\n"};
    static const char *const others[] = {"1-3 on n1, n2", "", "",
                                         "0-2 on n1, n2"};
    (void)state;
    for (int lost = 0; lost < 4; lost += 3) {
        char said[512] = "end n1\nend n2\n";
        char want[512];
        for (int rank = 0; rank < 4; rank++)
            if (rank != lost)
                strcat(said, lines[rank]);
        snprintf(want, sizeof(want),
                 "rank %d: no longer running\n"
                 "ranks %s: busy, 0 %% of a CPU: b\n",
                 lost, others[lost]);
        expect_doing(said, want);
    }
    expect_doing("rank 2 4 7 0 n2\tbusy\tb\nrank 3 4 8 0 n2\tbusy\tb\nend n2\n",
                 "node n1 does not answer\n"
                 "ranks 0-1: unknown, or no longer running\n"
                 "ranks 2-3 on n2: busy, 0 % of a CPU: b\n");
}

static void ranks_that_no_longer_run_are_named(void **state)
{
    (void)state;
    expect_doing("rank 0 3 7 50 n1\tbusy\tb\nrank 2 3 8 50 n1\tbusy\tb\n"
                 "end n1\nend n2\n",
                 "rank 1: no longer running\n"
                 "ranks 0, 2 on n1: busy, 50 % of a CPU: b\n");
    expect_doing("rank 0 3 7 50 n1\tbusy\tb\nend n1\nend n2\n",
                 "ranks 1-2: no longer running\n"
                 "rank 0 on n1: busy, 50 % of a CPU: b (pid 7)\n");
    expect_doing("rank 0 2 7 50 n1\tbusy\tb\nend n1\n",
                 "node n2 does not answer\n"
                 "rank 1: unknown, or no longer running\n"
                 "rank 0 on n1: busy, 50 % of a CPU: b (pid 7)\n");
    expect_doing("end n1\nend n2\n", "no rank is running\n");
}

static void a_silence_beyond_the_limit_is_reported_once(void **state)
{
    struct dt_hang_timer timer = {.limit_s = 10};
    struct dt_hang_timer none = {.limit_s = 0};
    (void)state;
    dt_hang_timer_reset(&timer, 100);
    assert_true(dt_hang_timer_left(&timer, 103) == 7);
    assert_false(dt_hang_timer_expired(&timer, 109));
    dt_hang_timer_reset(&timer, 109);
    assert_false(dt_hang_timer_expired(&timer, 118));
    assert_true(dt_hang_timer_left(&timer, 200) == 0);
    assert_true(dt_hang_timer_expired(&timer, 119));
    assert_false(dt_hang_timer_expired(&timer, 200));
    assert_true(isinf(dt_hang_timer_left(&timer, 120)));
    timer = (struct dt_hang_timer){.limit_s = 10, .since = 200};
    assert_true(dt_hang_timer_expired(&timer, 210));
    /* 12 s were fine, so 20 s are, and 24 s are not */
    dt_hang_timer_reset(&timer, 212);
    assert_true(dt_hang_timer_left(&timer, 232) == 4);
    assert_true(dt_hang_timer_expired(&timer, 236));
    /* a silence that was not told teaches nothing */
    dt_hang_timer_reset(&timer, 237);
    dt_hang_timer_reset(&timer, 257);
    assert_true(dt_hang_timer_left(&timer, 257) == 50);
    assert_true(isinf(dt_hang_timer_left(&none, 1e9)));
    assert_false(dt_hang_timer_expired(&none, 1e9));
}

static char *report(struct dt_outcome *outcome)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    dt_outcome_report(outcome, out);
    fclose(out);
    return text;
}

static void a_hang_does_not_hide_an_earlier_failure(void **state)
{
    struct dt_error err;
    struct dt_console_event failed = parse(RECORD "exit 1 n1 2.000 256");
    struct dt_console_event killed = parse(RECORD "exit 0 n1 5.500 9");
    (void)state;
    for (int early = 0; early < 2; early++) {
        struct dt_outcome *outcome = dt_outcome_create(2, 1000, &err);
        assert_non_null(outcome);
        if (early)
            dt_message_note(outcome, &failed, 1, 2000);
        dt_outcome_hang(outcome, "nothing", 5000);
        dt_message_note(outcome, &killed, 0, 5500);
        char *text = report(outcome);
        assert_string_equal(
            text, early ? "disttrain: first failure: rank 1 on n1, exit status "
                          "1, 1.0 s after the start\n"
                          "disttrain: 1 rank was ended by Slurm\n"
                        : "disttrain: first failure: nothing\n"
                          "disttrain: 1 rank was ended by Slurm\n");
        free(text);
        assert_int_equal(dt_outcome_status(outcome), early ? 1 : 128 + SIGKILL);
        dt_outcome_destroy(outcome);
    }
}

/* "600 end", "0", and what holds when nobody has said anything. */
static void the_wish_of_the_user_sets_the_limit(void **state)
{
    static const struct {
        const char *wish;
        double low, high;
    } cases[] = {
        {NULL, 290, 300}, {"600 end", 590, 600}, {"0", INFINITY, 1e99}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dt_hang *hang = dt_hang_create(cases[i].wish, "7.0");
        assert_non_null(hang);
        double left = dt_hang_left(hang);
        assert_true(left >= cases[i].low);
        assert_true(left <= cases[i].high || isinf(cases[i].low));
        dt_hang_destroy(hang);
    }
}

/* The doctor may speak in pieces, and is not asked before all ranks have
 * started.
 */
static void the_doctor_is_asked_once_all_ranks_run(void **state)
{
    struct dt_error err;
    struct dt_console_event start = parse(RECORD "start 0 n1 0.000");
    struct dt_outcome *outcome = dt_outcome_create(1, 1000, &err);
    struct dt_hang *hang = dt_hang_create("0.01", "7.0");
    char *text = NULL;
    double begin = dt_clock_now();
    (void)state;
    assert_non_null(hang);
    while (dt_clock_now() < begin + 0.1) {
        assert_null(dt_hang_watch(hang, outcome, 2000));
        assert_int_equal(dt_hang_fd(hang), -1);
    }
    dt_message_note(outcome, &start, 0, 1000);
    while (!text && dt_clock_now() < begin + 20) {
        struct pollfd p = {.fd = dt_hang_fd(hang), .events = POLLIN};
        poll(&p, 1, 10);
        text = dt_hang_watch(hang, outcome, 2000);
    }
    assert_non_null(text);
    assert_non_null(strstr(text, "\n    --job=7.0\n    second piece\n"));
    free(text);
    dt_hang_destroy(hang);
    dt_outcome_destroy(outcome);
}

/* That of step 7.1 never speaks; its time is over when the clock says so. */
static void a_doctor_that_does_not_answer_is_given_up(void **state)
{
    struct dt_error err;
    struct dt_console_event start = parse(RECORD "start 0 n1 0.000");
    struct dt_outcome *outcome = dt_outcome_create(1, 1000, &err);
    struct dt_hang *hang = dt_hang_create("0.01", "7.1");
    (void)state;
    assert_non_null(hang);
    dt_message_note(outcome, &start, 0, 1000);
    for (int i = 0; i < 6000 && dt_hang_fd(hang) < 0; i++) {
        assert_null(dt_hang_watch(hang, outcome, 2000));
        dt_clock_sleep(0.01);
    }
    assert_true(dt_hang_fd(hang) >= 0);
    turned_s += 60;
    assert_true(dt_hang_left(hang) == 0);
    char *text = dt_hang_watch(hang, outcome, 2000);
    assert_non_null(text);
    assert_non_null(strstr(
        text, "\n    unknown: disttrain doctor --ranks does not answer\n"));
    assert_int_equal(dt_hang_fd(hang), -1);
    turned_s = 0;
    free(text);
    dt_hang_destroy(hang);
    dt_outcome_destroy(outcome);
}

/* What the console starts as `disttrain doctor --ranks --job=7.0` is this
 * program.
 */
static int speak(const char *job)
{
    if (!strcmp(job, "--job=7.1"))
        return pause();
    printf("%s\n", job);
    fflush(stdout);
    dt_clock_sleep(0.3);
    puts("second piece");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 3)
        return speak(argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_processes_of_a_rank_tell_its_state),
        cmocka_unit_test(momentary_states_of_processes_do_not_mislead),
        cmocka_unit_test(workers_have_the_ranks_of_their_keepers),
        cmocka_unit_test(python_programs_show_their_stack_frames),
        cmocka_unit_test(ranks_that_do_the_same_share_a_line),
        cmocka_unit_test(ranks_that_no_longer_run_are_named),
        cmocka_unit_test(a_silence_beyond_the_limit_is_reported_once),
        cmocka_unit_test(a_hang_does_not_hide_an_earlier_failure),
        cmocka_unit_test(the_ranks_in_the_worst_state_come_first),
        cmocka_unit_test(a_lost_first_or_last_rank_is_named),
        cmocka_unit_test(the_wish_of_the_user_sets_the_limit),
        cmocka_unit_test(the_doctor_is_asked_once_all_ranks_run),
        cmocka_unit_test(a_doctor_that_does_not_answer_is_given_up),
    };
    return cmocka_run_group_tests_name("hang", tests, NULL, NULL);
}
