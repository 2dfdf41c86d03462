/* SPDX-License-Identifier: Apache-2.0 */
/* test_outcome_trust.c - whose words about a step are believed */
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

/* Anybody may print a line that begins with our name: a warning of the plugin,
 * a wrapper around the program.
 */
static void a_line_with_our_name_hides_no_failure(void **state)
{
    static const struct {
        const char *line; /* the last one of rank 0, which Slurm ends */
        int status;       /* of rank 3, which fails */
        bool told;
    } cases[] = {
        {"disttrain: warning: this step has no MPI\n", EXIT(3), false},
        {"disttrain: warning: this step has no MPI\n", EXIT(66), false},
        {"disttrain: hello from my wrapper\n", EXIT(1), false},
        {"disttrain: rank 0 of 8 on n1 failed: text\n", EXIT(1), false},
        {"disttrain: rank 0 of 2 on n1 failed: text\n", EXIT(66), false},
        {"disttrain: rank 1 of 8 on n1 failed: text\n", EXIT(66), false},
        {"disttrain: rank 0 of 8 on n1 failed: text\n", EXIT(66), true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *text = NULL;
        size_t bytes;
        FILE *out = open_memstream(&text, &bytes);
        struct dt_outcome *o = step();
        start_all(o);
        say(o, 0, 101500, cases[i].line);
        record(o, 102000, "exit", 3, 102000, cases[i].status);
        record(o, 102100, "exit", 0, 102100, SIGTERM);
        dt_outcome_report(o, out);
        fclose(out);
        assert_int_equal(cases[i].told, text[0] == '\0');
        free(text);
        dt_outcome_destroy(o);
    }
    /* of one rank the runtime says less, and so does launch.command */
    static const int ends[] = {EXIT(73), EXIT(127), EXIT(1), EXIT(2)};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct dt_outcome_ending ending;
        struct dt_outcome *o = step();
        say(o, 3, 101500, "disttrain: run.output_dir is not empty\n");
        record(o, 102000, "exit", 3, 102000, ends[i]);
        assert_true(dt_outcome_ending(o, &ending));
        assert_int_equal(!strcmp(ending.text, "run.output_dir is not empty"),
                         i < 2);
        dt_outcome_destroy(o);
    }
}

/* Lets a line come from who prints it: with srun's label of a rank, or, without
 * labels, from anybody.
 */
static void print(struct dt_outcome *o, uint32_t rank, int64_t ms,
                  const char *line)
{
    static const struct dt_step_identity step = {.token = "a1b2", .id = "7.0"};
    struct dt_console_event event;
    dt_console_event_parse(
        line, strlen(line), &step,
        rank == DT_NO_RANK ? DT_ORIGIN_UNKNOWN : DT_ORIGIN_TASK, &event);
    dt_message_note(o, &event, rank, ms);
}

/* Ranks start, on streams without labels. */
static struct dt_outcome *unlabelled_step(void)
{
    struct dt_outcome *o = step();
    start_all(o);
    return o;
}

#define LATER "disttrain: 1 rank was ended by Slurm\n"

static void an_srun_in_a_task_does_not_fail_the_step(void **state)
{
    static const char *const lines[] = {
        "srun: error: n2: task 3: Exited with exit code 9",
        "srun: error: n2: task 3: Out Of Memory",
        "srun: error: Node failure on n2",
        "srun: error: Aborting, io error and missing step on node 1",
        "srun: Job step aborted: Waiting up to 32 seconds for job step",
        "srun: sending Ctrl-C to StepId=7.1",
        "slurmstepd: error: *** STEP 7.1 ON n2 CANCELLED AT now ***",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct dt_outcome_ending ending;
        struct dt_outcome *o = unlabelled_step();
        print(o, DT_NO_RANK, 102000, lines[i]);
        assert_int_equal(dt_outcome_status(o), 0);
        assert_false(dt_outcome_ending(o, &ending));
        expect_report(o, "");
        /* nor does it hide what fails later, or take its place */
        o = unlabelled_step();
        print(o, DT_NO_RANK, 102000, lines[i]);
        record(o, 103000, "exit", 5, 103000, EXIT(3));
        record(o, 103100, "exit", 2, 103100, SIGTERM);
        expect_report(o, "disttrain: first failure: rank 5 on n3, exit status "
                         "3, 2.0 s after the start\n" LATER);
        o = unlabelled_step();
        print(o, DT_NO_RANK, 102000, lines[i]);
        dt_outcome_srun_ended(o, 0);
        expect_report(o, "");
    }
}

/* Whatever Slurm says of a node: its ranks may have gone on elsewhere. */
static void a_step_that_ends_well_has_no_first_failure(void **state)
{
    struct dt_outcome_ending ending;
    (void)state;
    for (int status = 0; status < 2; status++) {
        struct dt_outcome *o = step();
        start_all(o);
        say(o, DT_NO_RANK, 102000, "srun: error: Node failure on n2");
        dt_outcome_srun_ended(o, status);
        assert_int_equal(dt_outcome_ending(o, &ending), status);
        expect_report(o, status == 0
                             ? ""
                             : "disttrain: first failure: node n2 was lost, "
                               "according to Slurm, 1.0 s after the start: "
                               "ranks 2-3 on n2\n");
    }
}

/* A record that SIGKILL has prevented, a node that is lost. */
static void srun_is_heard_where_records_are_missing(void **state)
{
    (void)state;
    struct dt_outcome *o = unlabelled_step();
    print(o, DT_NO_RANK, 102000, "srun: error: n2: task 3: Out Of Memory");
    print(o, DT_NO_RANK, 102010,
          "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    record(o, 102100, "exit", 2, 102100, SIGTERM);
    expect_report(o, "disttrain: first failure: rank 3 on n2, out of memory "
                     "(killed by the kernel), 1.0 s after the start\n" LATER);
    o = unlabelled_step();
    print(o, DT_NO_RANK, 102000, "srun: error: Node failure on n2");
    record(o, 102100, "exit", 0, 102100, SIGTERM);
    expect_report(o, "disttrain: first failure: node n2 was lost, according to "
                     "Slurm, 1.0 s after the start: ranks 2-3 on n2\n" LATER);
    /* all records are missing, but srun's status is there */
    o = unlabelled_step();
    print(o, DT_NO_RANK, 102000,
          "srun: error: n2: task 3: Exited with exit code 4");
    print(o, DT_NO_RANK, 102050, "srun: error: n2: task 2: Terminated");
    dt_outcome_srun_ended(o, 4);
    expect_report(o, "disttrain: first failure: rank 3 on n2, exit status 4, "
                     "1.0 s after the start\n");
    o = unlabelled_step();
    print(o, DT_NO_RANK, 102000, "srun: Job step aborted: Waiting up to 2 s");
    print(o, DT_NO_RANK, 102050,
          "srun: error: n2: task 3: Exited with exit code 1");
    dt_outcome_srun_ended(o, 1);
    expect_report(o, "");
    /* what was stopped from outside is no failure */
    o = unlabelled_step();
    print(o, DT_NO_RANK, 102000, "srun: Job step aborted: Waiting up to 2 s");
    print(o, DT_NO_RANK, 102010,
          "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT now ***");
    record(o, 102100, "exit", 0, 101900, EXIT(1));
    print(o, DT_NO_RANK, 104000, "srun: error: n2: task 3: Killed");
    expect_report(o, "");
}

static void only_slurmstepd_says_that_the_step_is_stopped(void **state)
{
    static const struct {
        const char *line;
        uint32_t rank; /* that prints it, and fails */
        bool stopped;
    } cases[] = {
        {"slurmstepd: error: *** CANCELLED AT now ***", 4, false},
        {"slurmstepd: error: *** x CANCELLED AT now ***", 4, false},
        {"[2026-01-01T00:00:00.1] error: *** x CANCELLED AT now", 4, false},
        {"slurmstepd: error: *** STEP 7.1 ON n3 CANCELLED AT now ***", 4,
         false},
        {"slurmstepd: error: *** JOB 8 ON n3 CANCELLED AT now ***", 4, false},
        /* slurmstepd writes on the stderr of the first task of a node */
        {"slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT now ***", 5,
         false},
        {"slurmstepd: error: *** STEP 7.0 ON n3 CANCELLED AT now ***", 4, true},
        {"slurmstepd: error: *** JOB 7 ON n3 CANCELLED AT now ***", 4, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char want[256] = "";
        struct dt_outcome *o = step();
        start_all(o);
        print(o, cases[i].rank, 102000, cases[i].line);
        record(o, 102100, "exit", cases[i].rank, 102100, EXIT(3));
        if (!cases[i].stopped)
            snprintf(want, sizeof(want),
                     "disttrain: first failure: rank %u on n3, exit status 3, "
                     "1.1 s after the start\n",
                     cases[i].rank);
        expect_report(o, want);
    }
}

/* A record tells of the task on whose stream it has come; slurmstepd writes it
 * on that of the first task of the node.
 */
static void a_record_on_a_foreign_stream_is_ignored(void **state)
{
    struct dt_outcome *o = step();
    (void)state;
    start_all(o);
    say(o, 0, 105000, RECORD "exit 7 n4 103.000 256");
    say(o, 6, 105000, RECORD "exit 5 n3 103.000 256");
    say(o, 5, 105000, RECORD "exit 4 n3 103.000 256");
    say(o, 7, 105000, RECORD "exit 7 n4 103.000 256");
    say(o, 6, 105000, RECORD "exit 7 n4 104.000 512");
    expect_report(o, "disttrain: first failure: rank 7 on n4, exit status 2, "
                     "3.0 s after the start\n");
    o = step();
    say(o, 0, 101000, RECORD "start 7 n4 101.000");
    say(o, 6, 101000, RECORD "start 7 n4 101.000");
    assert_int_equal(dt_outcome_missing(o), 8);
    say(o, 7, 101000, RECORD "start 7 n4 101.000");
    assert_int_equal(dt_outcome_missing(o), 7);
    dt_outcome_destroy(o);
}

/* srun says it once, and may end with status 0. */
static void a_rank_that_is_not_launched_is_the_first_failure(void **state)
{
    static const char advice[] =
        "disttrain: slurmd's log on that node says why; if a plugin has "
        "failed, run `disttrain doctor --plugin` there\n";
    static const struct {
        const char *line, *ranks, *reason;
    } cases[] = {
        {"srun: error: task 3 launch failed: Plugin initialization failed\n",
         "rank 3 on n2", "Plugin initialization failed"},
        {"srun: error: Task launch for StepId=7.0 failed on node n3: Invalid "
         "job credential\n",
         "ranks 4-5 on n3", "Invalid job credential"},
    };
    char want[512];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct dt_outcome *o = step();
        record(o, 101000, "start", 0, 101000, 0);
        say(o, DT_NO_RANK, 101000, cases[i].line);
        record(o, 113500, "exit", 0, 113500, EXIT(69));
        assert_int_not_equal(dt_outcome_status(o), EX_TEMPFAIL);
        snprintf(want, sizeof(want),
                 "disttrain: first failure: %s could not be launched, "
                 "according to Slurm: %s\n%s"
                 "disttrain: rank 0 on n1: exit status 69 (another rank or a "
                 "service was lost), 12.5 s after the start\n",
                 cases[i].ranks, cases[i].reason, advice);
        expect_report(o, want);
    }
    /* an srun that a task has started speaks of others */
    struct dt_outcome *o = step();
    start_all(o);
    say(o, DT_NO_RANK, 101000, cases[0].line);
    expect_report(o, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_with_our_name_hides_no_failure),
        cmocka_unit_test(an_srun_in_a_task_does_not_fail_the_step),
        cmocka_unit_test(a_step_that_ends_well_has_no_first_failure),
        cmocka_unit_test(srun_is_heard_where_records_are_missing),
        cmocka_unit_test(a_record_on_a_foreign_stream_is_ignored),
        cmocka_unit_test(a_rank_that_is_not_launched_is_the_first_failure),
        cmocka_unit_test(only_slurmstepd_says_that_the_step_is_stopped),
    };
    return cmocka_run_group_tests_name("trust", tests, NULL, NULL);
}
