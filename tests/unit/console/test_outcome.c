/* SPDX-License-Identifier: Apache-2.0 */
/* test_outcome.c - the first failure of a step */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/console/outcome.h"

#define EXIT(code) ((code) << 8)

static void the_earliest_failure_is_reported_first(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    say(o, 5, 112000, "Traceback (most recent call last):\nE: x\n");
    /* comes first, and happened later */
    record(o, 113500, "exit", 2, 113400, SIGSEGV);
    record(o, 113600, "exit", 5, 113300, EXIT(1));
    record(o, 113700, "exit", 7, 113700, EXIT(1));
    record(o, 113700, "exit", 6, 113600, EXIT(1));
    say(o, DT_NO_RANK, 113800,
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    for (uint32_t rank = 0; rank < 2; rank++)
        record(o, 113900, "exit", rank, 113900, SIGTERM);
    record(o, 114000, "exit", 3, 114000, EXIT(1));
    record(o, 144000, "exit", 4, 144000, SIGKILL);
    expect_report(
        o, "disttrain: first failure: rank 5 on n3, exit status 1, 12.3 s "
           "after the start\n"
           "    Traceback (most recent call last):\n"
           "    E: x\n"
           "disttrain: rank 2 on n2: killed by signal 11 (Segmentation fault), "
           "0.1 s later\n"
           "disttrain: ranks 6-7: exit status 1, 0.3 to 0.4 s later\n"
           "disttrain: 4 ranks were ended by Slurm\n");
}

/* What Slurm does to the others after that is no failure; a failure is. */
static void only_a_step_without_failure_asks_for_requeue(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    assert_int_equal(dt_outcome_status(o), 0);
    record(o, 113500, "exit", 2, 113500, EXIT(75));
    say(o, DT_NO_RANK, 113600,
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    record(o, 113900, "exit", 0, 113900, SIGTERM);
    record(o, 114000, "exit", 3, 114000, EXIT(1));
    assert_int_equal(dt_outcome_status(o), 75);
    record(o, 114000, "exit", 4, 113400, EXIT(1));
    assert_int_equal(dt_outcome_status(o), 1);
    dt_outcome_destroy(o);
}

/* The console waits for the others from then on. */
/* Slurm 26.05 says so a little later. */
static void who_ends_after_a_request_for_requeue_was_told_to(void **state)
{
    static const char stops[] = "[2026-04-29T23:36:37.809] error: *** STEP 1.0 "
                                "ON n1 CANCELLED AT 2026-04-29T23:36:37 DUE TO "
                                "TASK FAILURE ***";
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct dt_outcome *o = step();
        for (uint32_t i = 0; i < 8; i++)
            record(o, 103000, "start", i, 103000, 0);
        record(o, 113500, "exit", 2, 113500, EXIT(75));
        record(o, 113510, "exit", 0, before ? 113490 : 113505, EXIT(3));
        say(o, 0, 113520, stops);
        assert_int_equal(dt_outcome_status(o), before ? 3 : 75);
        dt_outcome_destroy(o);
    }
}

static void the_last_keeper_that_leaves_counts(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    say(o, 2, 113500, DT_RECORD "c3d4 leaves 2 60");
    say(o, 3, 114500, DT_RECORD "c3d4 leaves 1 60");
    assert_int_equal(o->left, 2);
    assert_int_equal(o->left_ms, 114500);
    dt_outcome_destroy(o);
}

static int status_with(int status)
{
    struct dt_outcome *o = step();
    start_all(o);
    record(o, 113500, "exit", 2, 113500, status);
    int found = dt_outcome_status(o);
    dt_outcome_destroy(o);
    return found;
}

/* As a shell has it; a rank that was told to end has not failed. */
static void the_first_rank_to_fail_has_the_status(void **state)
{
    (void)state;
    assert_int_equal(status_with(EXIT(1)), 1);
    assert_int_equal(status_with(EXIT(69)), 69);
    assert_int_equal(status_with(EXIT(78)), 78);
    assert_int_equal(status_with(SIGKILL), 137);
    assert_int_equal(status_with(SIGSEGV), 139);
    assert_int_equal(status_with(EXIT(75)), 75);
    assert_int_equal(status_with(SIGTERM), 0);
    assert_int_equal(status_with(EXIT(143)), 0);
}

static void failures_are_ordered_despite_wrong_clocks(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    /* n1 is an hour ahead, n2 ten seconds behind */
    record(o, 101010, "start", 0, 101000 + 3600000, 0);
    record(o, 101010, "start", 2, 91000, 0);
    record(o, 102510, "exit", 0, 102500 + 3600000, EXIT(3));
    record(o, 102510, "exit", 2, 92400, EXIT(4));
    expect_report(
        o, "disttrain: first failure: rank 2 on n2, exit status 4, 1.4 s after "
           "the start\n"
           "disttrain: rank 0 on n1: exit status 3, 0.1 s later\n");
}

/* srun's message has the console's time, and a record that of its node. */
static void a_late_record_has_the_clock_of_its_node(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    record(o, 101010, "start", 0, 101000 + 3600000, 0);
    record(o, 101010, "start", 2, 101000, 0);
    say(o, DT_NO_RANK, 102500, "srun: error: n1: task 0: Killed\n");
    record(o, 102600, "exit", 0, 102300 + 3600000, SIGKILL);
    record(o, 102610, "exit", 2, 102400, EXIT(4));
    expect_report(o, "disttrain: first failure: rank 0 on n1, killed by signal "
                     "9 (Killed), 1.3 s after the start\n"
                     "disttrain: rank 2 on n2: exit status 4, 0.1 s later\n");
}

static void each_exit_status_is_explained_in_words(void **state)
{
    static const struct {
        int status;
        const char *cause; /* NULL: no failure */
    } cases[] = {
        {EXIT(1), "exit status 1"},
        {EXIT(78), "exit status 78 (configuration error)"},
        {EXIT(69), "exit status 69 (another rank or a service was lost)"},
        {EXIT(139), "exit status 139 (128 + signal 11, Segmentation fault)"},
        {EXIT(137), "exit status 137 (128 + signal 9, Killed)"},
        {EXIT(255), "exit status 255"},
        {SIGABRT | 0x80, "killed by signal 6 (Aborted)"},
        {SIGKILL, "killed by signal 9 (Killed)"},
        {SIGUSR1, "killed by signal 10 (User defined signal 1)"},
        {SIGTERM, NULL},
        {SIGINT, NULL},
        {EXIT(143), NULL},
        {EXIT(130), NULL},
        {EXIT(EX_TEMPFAIL), NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char want[256] = "";
        struct dt_outcome *o = step();
        start_all(o);
        record(o, 102000, "exit", 1, 102000, cases[i].status);
        if (cases[i].cause)
            snprintf(want, sizeof(want),
                     "disttrain: first failure: rank 1 on n1, %s, 1.0 s after "
                     "the start\n",
                     cases[i].cause);
        expect_report(o, want);
    }
}

static void running_out_of_memory_is_reported_as_such(void **state)
{
    static const char *const lines[] = {
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.0. Some "
        "of your processes may have been killed by the cgroup out-of-memory "
        "handler.\n",
        "srun: error: n3: task 5: Out Of Memory\n",
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_outcome *o = step();
        start_all(o);
        record(o, 103000, "exit", 5, 103000, SIGKILL);
        /* the line of slurmstepd has the label of the node's first task */
        say(o, i == 0 ? 4 : DT_NO_RANK, 103100, lines[i]);
        expect_report(o,
                      "disttrain: first failure: rank 5 on n3, out of memory "
                      "(killed by the kernel), 2.0 s after the start\n");
    }
}

/* Slurm 22.05 may lose the record of a task that SIGKILL has ended. */
static void a_message_of_srun_replaces_a_lost_record(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    record(o, 102900, "exit", 3, 102900, EXIT(1));
    say(o, DT_NO_RANK, 103000, "srun: error: n[1-2]: tasks 2-3: Killed\n");
    expect_report(o, "disttrain: first failure: rank 3 on n2, exit status 1, "
                     "1.9 s after the start\n"
                     "disttrain: rank 2 on n2: killed by signal 9 (Killed), "
                     "0.1 s later\n");
}

static void a_step_stopped_on_request_reports_no_failure(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    record(o, 104900, "exit", 1, 104800, EXIT(1)); /* as fast as srun */
    say(o, DT_NO_RANK, 105000, "srun: Job step aborted: Waiting up to 32 s");
    for (uint32_t rank = 0; rank < 8; rank++)
        record(o, 105100, "exit", rank, 105050, rank < 4 ? EXIT(1) : SIGKILL);
    expect_report(o, "");
    o = step();
    start_all(o);
    expect_report(o, "");

    /* Slurm 24.11 says that the step is cancelled before srun says why */
    o = step();
    start_all(o);
    say(o, 0, 105000,
        "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    say(o, DT_NO_RANK, 105001, "srun: Job step aborted: Waiting up to 4 s");
    for (uint32_t rank = 0; rank < 8; rank++)
        record(o, 105100, "exit", rank, 104990, EXIT(1));
    expect_report(o, "");

    /* ranks may be killed by two Ctrl-C before the message about it is read */
    o = step();
    start_all(o);
    say(o, DT_NO_RANK, 105000, "srun: sending Ctrl-C to StepId=7.0");
    say(o, DT_NO_RANK, 105000, "srun: forcing job termination");
    for (uint32_t rank = 0; rank < 8; rank++)
        record(o, 105100, "exit", rank, 104900, rank < 4 ? SIGKILL : SIGTERM);
    expect_report(o, "");

    /* what failed long before somebody had enough of it is a failure */
    o = step();
    start_all(o);
    record(o, 104000, "exit", 1, 104000, EXIT(1));
    say(o, DT_NO_RANK, 105000, "srun: Job step aborted: Waiting up to 32 s");
    expect_report(o, "disttrain: first failure: rank 1 on n1, exit status 1, "
                     "3.0 s after the start\n");
}

/* Since 26.05 srun does this if nobody reads its output. */
static void a_step_that_srun_kills_reports_no_failure(void **state)
{
    static const char killed[] = "[2026-11-22T20:52:24.917] error: *** STEP "
                                 "7.0 ON n1 CANCELLED AT 2026-11-22T20:52:24 "
                                 "DUE to SIGNAL Killed ***";
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    record(o, 102000, "exit", 0, 102000, SIGKILL);
    say(o, DT_NO_RANK, 103000, killed);
    record(o, 103100, "exit", 1, 102000, SIGKILL);
    expect_report(o, "");
    /* but what happened before it is one */
    o = step();
    start_all(o);
    record(o, 102000, "exit", 0, 102000, EXIT(1));
    say(o, DT_NO_RANK, 103000, killed);
    record(o, 103100, "exit", 1, 102500, SIGKILL);
    expect_report(o, "disttrain: first failure: rank 0 on n1, exit status 1, "
                     "1.0 s after the start\n"
                     "disttrain: 1 rank was ended by Slurm\n");
    /* and Slurm may kill those that have survived SIGTERM */
    o = step();
    start_all(o);
    record(o, 102000, "exit", 0, 102000, SIGKILL);
    say(o, DT_NO_RANK, 102100,
        "[2026-11-22T20:52:24.917] error: *** STEP 7.0 ON n1 CANCELLED AT "
        "2026-11-22T20:52:24 DUE TO TASK FAILURE ***");
    say(o, DT_NO_RANK, 103000, killed);
    expect_report(o, "disttrain: first failure: rank 0 on n1, killed by signal "
                     "9 (Killed), 1.0 s after the start\n");
}

static void a_lost_node_is_the_first_failure(void **state)
{
    (void)state;
    struct dt_outcome *o = step();
    start_all(o);
    record(o, 103000, "exit", 0, 103000, EXIT(69));
    say(o, DT_NO_RANK, 111000, "srun: error: Node failure on n3\n");
    record(o, 111200, "exit", 1, 111200, SIGTERM);
    expect_report(
        o, "disttrain: first failure: node n3 was lost, according to Slurm, "
           "10.0 s "
           "after the start: ranks 4-5 on n3\n"
           "disttrain: rank 0 on n1: exit status 69 (another rank or a "
           "service was lost), 2.0 s after the start\n"
           "disttrain: 1 rank was ended by Slurm\n");
    o = step();
    start_all(o);
    say(o, DT_NO_RANK, 111000,
        "srun: error: Aborting, io error and missing step on node 3\n");
    expect_report(
        o, "disttrain: first failure: node n4 was lost, according to Slurm, "
           "10.0 s after the start: ranks 6-7 on n4\n");
    o = step();
    say(o, DT_NO_RANK, 111000, "srun: error: Node failure on x[1-2]\n");
    expect_report(o, "disttrain: first failure: node x[1-2] was lost, "
                     "according to Slurm, 11.0 s after the start\n");
}

static void messages_of_the_runtime_are_not_repeated(void **state)
{
    struct dt_error err;
    (void)state;
    /* stdout where stderr is silent */
    struct dt_outcome *o = step();
    dt_outcome_text(o, 3, false, "on stdout\n", 10, 101900);
    record(o, 102000, "exit", 3, 102000, EXIT(2));
    expect_report(o, "disttrain: first failure: rank 3 on n2, exit status 2, "
                     "2.0 s after the start\n    on stdout\n");
    /* without labels, and without a layout */
    o = dt_outcome_create(2, 100000, &err);
    assert_non_null(o);
    dt_outcome_text(o, DT_NO_RANK, true, "of all\n", 7, 101900);
    record(o, 102000, "exit", 1, 102000, EXIT(2));
    expect_report(o, "disttrain: first failure: rank 1 on n1, exit status 2, "
                     "2.0 s after the start\n"
                     "disttrain: the last lines on stderr, of all ranks:\n"
                     "    of all\n");
    /* what our own runtime has said is not said again */
    o = step();
    say(o, 3, 102000, "disttrain: rank 3 of 8 on n2 failed: text\n");
    record(o, 102000, "exit", 3, 102000, EXIT(66));
    record(o, 102000, "exit", 2, 101990, EXIT(66)); /* told by rank 3 */
    expect_report(o, "");
    o = step();
    say(o, 3, 102000, "disttrain: rank 3 of 8 on n2: lost rank 2\n");
    record(o, 102000, "exit", 3, 102000, EXIT(69));
    record(o, 102000, "exit", 2, 101990, SIGKILL);
    expect_report(o, "disttrain: first failure: rank 2 on n2, killed by signal "
                     "9 (Killed), 2.0 s after the start\n"
                     "disttrain: rank 3 on n2: exit status 69 (another rank "
                     "or a service was lost), 0.0 s later\n");
    /* who says it may end last, and not of its own accord */
    static const int ends[] = {EXIT(66), SIGKILL, SIGTERM, EXIT(1)};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        o = step();
        record(o, 102000, "exit", 2, 101990, EXIT(66));
        say(o, DT_NO_RANK, 102001,
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
        say(o, 3, 102010, "disttrain: rank 3 of 8 on n2 failed: text\n");
        record(o, 102020, "exit", 3, 102020, ends[i]);
        expect_report(o, "");
    }
    /* one that is killed cannot have said it, however the others end */
    o = step();
    record(o, 102000, "exit", 2, 101990, SIGKILL);
    say(o, DT_NO_RANK, 102001,
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    say(o, 3, 102010, "disttrain: rank 3 of 8 on n2: lost rank 2\n");
    record(o, 102020, "exit", 3, 102020, SIGKILL);
    expect_report(o, "disttrain: first failure: rank 2 on n2, killed by signal "
                     "9 (Killed), 2.0 s after the start\n"
                     "disttrain: 1 rank was ended by Slurm\n");
    /* and a warning of ours is not the failure of another rank */
    o = step();
    say(o, 3, 102000, "disttrain: warning\n");
    record(o, 102000, "exit", 3, 102000, EXIT(1));
    record(o, 102000, "exit", 2, 101990, EXIT(66));
    expect_report(o, "disttrain: first failure: rank 2 on n2, exit status 66 "
                     "(missing input), 2.0 s after the start\n"
                     "disttrain: rank 3 on n2: exit status 1, 0.0 s later\n");
    /* records of ranks that cannot be do no harm */
    o = step();
    record(o, 102000, "exit", 8, 102000, EXIT(66));
    record(o, 102000, "exit", UINT32_MAX, 102000, EXIT(66));
    expect_report(o, "");
}

/* A rank that is killed has no words of its own. */
static void lines_from_long_before_are_said_to_be_old(void **state)
{
    (void)state;
    struct dt_outcome *o = step();
    say(o, 3, 101000, "plan: memory\n");
    record(o, 111000, "exit", 3, 111000, 9);
    expect_report(o, "disttrain: first failure: rank 3 on n2, killed by signal "
                     "9 (Killed), 11.0 s after the start\n    plan: memory\n");
    o = step();
    say(o, 3, 101000, "plan: memory\n");
    record(o, 111001, "exit", 3, 111001, 9);
    expect_report(o, "disttrain: first failure: rank 3 on n2, killed by signal "
                     "9 (Killed), 11.0 s after the start\n"
                     "disttrain: its last lines are 10 s older than its end:\n"
                     "    plan: memory\n");
    /* what came last, where both are old */
    o = step();
    say(o, 3, 101000, "plan: memory\n");
    dt_outcome_text(o, 3, false, "step 1\n", 7, 191000);
    record(o, 192000, "exit", 3, 192000, 9);
    expect_report(o, "disttrain: first failure: rank 3 on n2, killed by signal "
                     "9 (Killed), 92.0 s after the start\n    step 1\n");
    /* stderr, as long as it is of the end */
    o = step();
    say(o, 3, 185000, "why\n");
    dt_outcome_text(o, 3, false, "step 1\n", 7, 191000);
    record(o, 192000, "exit", 3, 192000, 9);
    expect_report(o, "disttrain: first failure: rank 3 on n2, killed by signal "
                     "9 (Killed), 92.0 s after the start\n    why\n");
}

/* All speak at once: the words that are shown are those of the rank named. */
static void the_report_quotes_the_rank_that_it_names(void **state)
{
    char line[64];
    char want[256];
    (void)state;
    for (uint32_t culprit = 0; culprit < 8; culprit++)
        for (int is_stderr = 0; is_stderr < 2; is_stderr++) {
            struct dt_outcome *o = step();
            for (uint32_t rank = 0; rank < 8; rank++) {
                int n = snprintf(line, sizeof(line), "words of %u\n", rank);
                dt_outcome_text(o, rank, is_stderr || rank != culprit, line,
                                (size_t)n, 101900);
            }
            dt_outcome_text(o, DT_NO_RANK, true, "of nobody\n", 10, 101900);
            record(o, 102000, "exit", culprit, 102000, EXIT(1));
            snprintf(want, sizeof(want),
                     "disttrain: first failure: rank %u on n%u, exit status 1, "
                     "2.0 s after the start\n    words of %u\n",
                     culprit, culprit / 2 + 1, culprit);
            expect_report(o, want);
        }
}

/* Checks how a run has ended, and destroys the outcome. */
static void expect_ending(struct dt_outcome *o, const char *status,
                          uint32_t rank, const char *host, const char *text)
{
    struct dt_outcome_ending ending;
    assert_true(dt_outcome_ending(o, &ending));
    assert_string_equal(ending.status, status);
    assert_string_equal(ending.text, text);
    assert_int_equal(ending.rank, rank);
    assert_string_equal(ending.host, host);
    dt_outcome_destroy(o);
}

static void a_run_ends_with_the_first_failure(void **state)
{
    struct dt_outcome_ending ending;
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    assert_false(dt_outcome_ending(o, &ending)); /* all are well */
    record(o, 113400, "exit", 0, 113400, SIGKILL);
    say(o, 3, 113500, "disttrain: rank 3 of 8 on n2: lost rank 0 on n1\n");
    record(o, 113500, "exit", 3, 113500, EXIT(69));
    expect_ending(o, "failed", 0, "n1",
                  "rank 0 on n1, killed by signal 9 (Killed), 12.4 s after "
                  "the start");

    o = step();
    start_all(o);
    say(o, 3, 113500, "disttrain: rank 3 of 8 on n2: lost rank 0 on n1\n");
    record(o, 113500, "exit", 3, 113500, EXIT(69));
    expect_ending(o, "failed", 3, "n2", "rank 3 of 8 on n2: lost rank 0 on n1");

    o = step();
    start_all(o);
    say(o, DT_NO_RANK, 114000, "srun: error: Node failure on n1");
    expect_ending(o, "failed", DT_NO_RANK, "n1",
                  "node n1 was lost, according to Slurm, 13.0 s after the "
                  "start: ranks 0-1 on n1");

    o = step();
    say(o, DT_NO_RANK, 101000, "srun: error: task 3 launch failed: reason");
    expect_ending(o, "failed", DT_NO_RANK, "n2",
                  "rank 3 on n2 could not be launched, according to Slurm: "
                  "reason");

    o = step();
    start_all(o);
    dt_outcome_hang(o, "no rank has printed anything for 9 s", 110000);
    expect_ending(o, "failed", DT_NO_RANK, "",
                  "no rank has printed anything for 9 s");

    o = step();
    start_all(o);
    say(o, DT_NO_RANK, 113800,
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    expect_ending(o, "stopped", DT_NO_RANK, "",
                  "from outside, by scancel, a time limit or a signal, before "
                  "it could save");
}

/* The kernel has killed a worker of n2, whose keepers go on and end with this
 * verdict; slurmstepd then says that tasks of its node have failed. In the
 * order in which all this arrives, the verdict may be the first or the last.
 */
static struct dt_outcome *starve(const char *verdict, bool first)
{
    struct dt_outcome *o = step();
    start_all(o);
    if (first)
        say(o, 0, 113400, verdict);
    say(o, 2, 113500,
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0.");
    say(o, DT_NO_RANK, 113600, "srun: error: n2: tasks 2-3: Out Of Memory");
    say(o, DT_NO_RANK, 113700,
        "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    record(o, 113800, "exit", 4, 113800, SIGKILL);
    if (!first)
        say(o, 0, 113900, verdict);
    return o;
}

static void after_a_good_verdict_of_keepers_nothing_has_failed(void **state)
{
    struct dt_outcome_ending ending;
    (void)state;
    for (int first = 0; first < 2; first++) {
        struct dt_outcome *o = starve(DT_RECORD "c3d4 verdict 0 0", first);
        dt_outcome_srun_ended(o, 1);
        assert_int_equal(dt_outcome_status(o), 0);
        assert_false(dt_outcome_ending(o, &ending));
        expect_report(o, "");
    }
}

static void another_verdict_of_keepers_keeps_the_first_failure(void **state)
{
    static const char *const verdicts[] = {
        "", DT_RECORD "c3d4 verdict 137 0", DT_RECORD "c3d4 verdict 75 0",
        DT_RECORD "a1b2 verdict 0 0" /* of somebody else */};
    (void)state;
    for (size_t i = 0; i < sizeof(verdicts) / sizeof(*verdicts); i++) {
        struct dt_outcome *o = starve(verdicts[i], true);
        assert_int_equal(dt_outcome_status(o), 137);
        expect_ending(o, "failed", 2, "n2",
                      "rank 2 on n2, out of memory (killed by the kernel), "
                      "12.6 s after the start");
    }
}

/* srun has heard of no end: the task of the verdict was ended with srun, and
 * the others are on lost nodes. What was told to end has not failed.
 */
static void a_bad_verdict_is_a_failure_of_which_srun_knows_nothing(void **state)
{
    static const int told[] = {75, 128 + SIGTERM};
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    say(o, 0, 113400, DT_RECORD "c3d4 verdict 139 1");
    say(o, DT_NO_RANK, 114400, "srun: forcing job termination");
    record(o, 114500, "exit", 0, 114500, SIGKILL);
    assert_int_equal(dt_outcome_status(o), 139);
    expect_ending(o, "failed", DT_NO_RANK, "",
                  "the step has ended with status 139, as its keepers say");
    for (int i = 0; i < 2; i++) {
        char line[64];
        o = step();
        start_all(o);
        snprintf(line, sizeof(line), DT_RECORD "c3d4 verdict %d 0", told[i]);
        say(o, 0, 113400, line);
        assert_int_equal(dt_outcome_status(o), 0);
        expect_report(o, "");
    }
}

/* The console has ended the step, and its programs have taken that well. */
static void a_hang_is_told_whatever_keepers_say(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    dt_outcome_hang(o, "no rank has printed anything for 9 s", 110000);
    say(o, 0, 110100, DT_RECORD "c3d4 verdict 0 0");
    assert_int_equal(dt_outcome_status(o), 137);
    expect_report(o, "disttrain: first failure: no rank has printed anything "
                     "for 9 s\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_failure_is_reported_first),
        cmocka_unit_test(failures_are_ordered_despite_wrong_clocks),
        cmocka_unit_test(a_late_record_has_the_clock_of_its_node),
        cmocka_unit_test(each_exit_status_is_explained_in_words),
        cmocka_unit_test(running_out_of_memory_is_reported_as_such),
        cmocka_unit_test(a_message_of_srun_replaces_a_lost_record),
        cmocka_unit_test(a_step_stopped_on_request_reports_no_failure),
        cmocka_unit_test(a_step_that_srun_kills_reports_no_failure),
        cmocka_unit_test(a_lost_node_is_the_first_failure),
        cmocka_unit_test(messages_of_the_runtime_are_not_repeated),
        cmocka_unit_test(only_a_step_without_failure_asks_for_requeue),
        cmocka_unit_test(who_ends_after_a_request_for_requeue_was_told_to),
        cmocka_unit_test(the_last_keeper_that_leaves_counts),
        cmocka_unit_test(lines_from_long_before_are_said_to_be_old),
        cmocka_unit_test(the_report_quotes_the_rank_that_it_names),
        cmocka_unit_test(the_first_rank_to_fail_has_the_status),
        cmocka_unit_test(a_run_ends_with_the_first_failure),
        cmocka_unit_test(after_a_good_verdict_of_keepers_nothing_has_failed),
        cmocka_unit_test(another_verdict_of_keepers_keeps_the_first_failure),
        cmocka_unit_test(
            a_bad_verdict_is_a_failure_of_which_srun_knows_nothing),
        cmocka_unit_test(a_hang_is_told_whatever_keepers_say),
    };
    return cmocka_run_group_tests_name("outcome", tests, NULL, NULL);
}
