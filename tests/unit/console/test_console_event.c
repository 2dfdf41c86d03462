/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_console_event.c - lines of the plugin and Slurm are told from others'
 *
 * Recorded output of each release is in tests/console.
 */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "console/console_impl.h"
#include "contract/contract.h"

#define RECORD DT_RECORD "a1b2 "

static struct dt_console_event parse_from(enum dt_console_origin origin,
                                          const char *line)
{
    static const struct dt_step_identity step = {.token = "a1b2", .id = "5.0"};
    struct dt_console_event event;
    dt_console_event_parse(line, strlen(line), &step, origin, &event);
    return event;
}

static struct dt_console_event parse(const char *line)
{
    return parse_from(DT_ORIGIN_UNKNOWN, line);
}

static void only_whole_records_with_the_token_are_read(void **state)
{
    struct dt_console_event n;
    (void)state;
    n = parse(RECORD "start 5 n3 1763642213.042\n");
    assert_int_equal(n.kind, DT_EVENT_START);
    assert_int_equal(n.rank, 5);
    assert_string_equal(n.host, "n3");
    assert_int_equal(n.ms, INT64_C(1763642213042));
    assert_int_equal(n.begin, 0);

    n = parse("slurmstepd: " RECORD "exit 11 n4 17.500 256\n");
    assert_int_equal(n.kind, DT_EVENT_EXIT);
    assert_int_equal(n.rank, 11);
    assert_int_equal(n.status, 256);
    assert_int_equal(n.ms, 17500);
    assert_int_equal(n.begin, 0);

    /* behind the beginning of a line of the program */
    n = parse("loss 3.1 slurmstepd-n1: " RECORD "exit 1 n1 1.000 9\n");
    assert_int_equal(n.kind, DT_EVENT_EXIT);
    assert_int_equal(n.begin, strlen("loss 3.1 "));
    assert_false(n.from_slurm);

    static const char *const no_records[] = {
        DT_RECORD,
        RECORD,
        DT_RECORD "start 5 n3 1.000",
        DT_RECORD "a1b start 5 n3 1.000",
        DT_RECORD "a1b2start 5 n3 1.000",
        DT_RECORD "a1b2c start 5 n3 1.000",
        DT_RECORD "A1B2 start 5 n3 1.000",
        RECORD "start 5 n3",
        RECORD "start 5 n3 1.000 9",
        RECORD "exit 5 n3 1.000",
        RECORD "exit 5 n3 1.000 9 9",
        RECORD "stop 5 n3 1.000 9",
        RECORD "exit x n3 1.000 9",
        RECORD "exit 5 n3 -1.000 9",
        "disttrain: rank 0 of 2 failed",
        "srun: ",
        "",
    };
    for (size_t i = 0; i < sizeof(no_records) / sizeof(*no_records); i++)
        assert_int_equal(parse_from(DT_ORIGIN_TASK, no_records[i]).kind,
                         DT_EVENT_NONE);

    /* without a token in the console there are no records at all */
    const struct dt_step_identity none = {.token = ""};
    dt_console_event_parse(DT_RECORD " start 5 n3 1.000", 36, &none,
                           DT_ORIGIN_TASK, &n);
    assert_int_equal(n.kind, DT_EVENT_NONE);
}

/* A task may start sruns of its own, and print what it likes. */
static void the_origin_of_a_line_decides_its_meaning(void **state)
{
    static const struct {
        const char *line;
        enum dt_console_event_kind kinds[3]; /* by origin */
        bool from_slurm[3];
    } cases[] = {
        {"srun: Job step aborted: Waiting",
         {DT_EVENT_ASKED, DT_EVENT_ASKED, DT_EVENT_NONE},
         {true, true, false}},
        {"srun: error: n3: task 5: Killed",
         {DT_EVENT_TASKS, DT_EVENT_TASKS, DT_EVENT_NONE},
         {true, true, false}},
        {"[2026-04-29T23:36:37.809] error: n3: task 5: Killed",
         {DT_EVENT_NONE, DT_EVENT_TASKS, DT_EVENT_NONE},
         {false, true, false}},
        {"slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT now ***",
         {DT_EVENT_STOP, DT_EVENT_STOP, DT_EVENT_STOP},
         {true, true, true}},
        {"slurmstepd: error: *** STEP 5.1 ON n1 CANCELLED AT now ***",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {false, true, false}},
        {"slurmstepd: error: *** JOB 51 ON n1 CANCELLED AT now ***",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {false, true, false}},
        {"slurmstepd: error: *** CANCELLED AT now ***",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {true, true, true}},
        {"slurmstepd: error: Detected 1 oom-kill event(s) in StepId=5.01. x",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {false, true, false}},
        {"srun: error: task 5 launch failed: Invalid job credential",
         {DT_EVENT_UNLAUNCHED, DT_EVENT_UNLAUNCHED, DT_EVENT_NONE},
         {true, true, false}},
        {"srun: error: Application launch failed: Invalid credential",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {true, true, false}},
        {"srun: interrupt (one more within 1 sec to abort)",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {true, true, false}},
        {"a word of another plugin",
         {DT_EVENT_NONE, DT_EVENT_NONE, DT_EVENT_NONE},
         {false, true, false}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int origin = 0; origin < 3; origin++) {
            struct dt_console_event n =
                parse_from((enum dt_console_origin)origin, cases[i].line);
            assert_int_equal(n.kind, cases[i].kinds[origin]);
            assert_int_equal(n.from_slurm, cases[i].from_slurm[origin]);
        }
    /* without labels a line is believed if it names the step */
    assert_true(parse("srun: error: n3: task 5: Killed").hearsay);
    assert_true(parse("srun: sending Ctrl-C to StepId=5.1").hearsay);
    assert_false(parse("srun: sending Ctrl-C to StepId=5.0").hearsay);
    assert_false(
        parse_from(DT_ORIGIN_SRUN, "srun: error: n3: task 5: Killed").hearsay);
}

static void a_task_message_gives_ranks_and_status(void **state)
{
    static const struct {
        const char *text;
        const char *ranks;
        int status; /* -1: not understood */
        bool oom;
    } cases[] = {
        {"n2: task 5: Exited with exit code 3", "5", 0x300, false},
        {"n[1-2]: tasks 0-3,5: Terminated", "0-3,5", SIGTERM, false},
        {"n1: task 2: Segmentation fault (core dumped)", "2", SIGSEGV, false},
        {"n3: task 5: Out Of Memory", "5", SIGKILL, true},
        {"n3: task 5: Killed\r", "5", SIGKILL, false},
        {"n3: task 5: Nonsense", "", -1, false},
        {"n3: task 5: Exited with exit code 256", "", -1, false},
        {"n3: task 5: Exited with exit code -1", "", -1, false},
        {"n3: task 5: Exited with exit code 19999999999", "", -1, false},
        {"n3: task 5: Exited with exit code", "", -1, false},
        {"n3: task : Killed", "", -1, false},
        {"n3: task 5", "", -1, false},
        {"no such file: task", "", -1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "srun: error: %s\n", cases[i].text);
        struct dt_console_event n = parse(line);
        assert_int_equal(n.kind,
                         cases[i].status >= 0 ? DT_EVENT_TASKS : DT_EVENT_NONE);
        if (cases[i].status < 0)
            continue;
        assert_string_equal(n.list, cases[i].ranks);
        assert_int_equal(n.status, cases[i].status);
        assert_int_equal(n.oom, cases[i].oom);
    }
}

static void a_line_of_1024_bytes_is_not_read(void **state)
{
    static const char said[] = "srun: Job step aborted";
    char line[1024 + 1];
    (void)state;
    memset(line, ' ', sizeof(line));
    memcpy(line, said, strlen(said));
    line[1023] = '\0';
    assert_int_equal(parse(line).kind, DT_EVENT_ASKED);
    line[1023] = ' ';
    line[1024] = '\0';
    assert_int_equal(parse(line).kind, DT_EVENT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whole_records_with_the_token_are_read),
        cmocka_unit_test(the_origin_of_a_line_decides_its_meaning),
        cmocka_unit_test(a_task_message_gives_ranks_and_status),
        cmocka_unit_test(a_line_of_1024_bytes_is_not_read),
    };
    return cmocka_run_group_tests_name("notice", tests, NULL, NULL);
}
