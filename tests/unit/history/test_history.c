/* SPDX-License-Identifier: Apache-2.0 */
/* test_history.c - what a run wrote, read back: whole, torn, damaged, old */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "history/history.h"
#include "tests/unit/scratch.h"

static struct dt_report_record record;

static void write_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static struct dt_history *open_history(const char *name)
{
    struct dt_error err;
    struct dt_history *history = dt_history_open(scratch_path(name), &err);
    if (!history)
        fail_msg("%s", err.text);
    return history;
}

static int next(struct dt_history *history)
{
    struct dt_error err = {0};
    int rc = dt_history_next(history, &record, &err);
    if (rc < 0)
        fail_msg("%s", err.text);
    return rc;
}

static double value_of(const char *name)
{
    for (size_t i = 0; i < record.count; i++)
        if (!strcmp(record.value[i].name, name))
            return record.value[i].value;
    fail_msg("there is no %s", name);
    return NAN;
}

static void a_run_of_an_older_version_has_records_and_no_facts(void **state)
{
    (void)state;
    write_text("metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 3.25, "
               "\"lr\": 1.25e-05, \"time\": 0.5}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": null, "
               "\"lr\": -0.1, \"time\": 1}\n"
               "{\"step\": 2, \"split\": \"eval\", \"loss\": 4, "
               "\"wall\": 1700000000.25}\n");
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(next(history), 1);
    assert_int_equal(record.split, DT_SPLIT_TRAIN);
    assert_int_equal(record.step, 1);
    assert_int_equal(record.count, 2);
    assert_true(isnan(record.wall));
    assert_true(value_of("loss") == 3.25 && value_of("lr") == 1.25e-05);
    assert_true(dt_history_seconds(history) == 0.5);
    assert_int_equal(next(history), 1);
    assert_true(isnan(value_of("loss")) && value_of("lr") == -0.1);
    assert_int_equal(next(history), 1);
    assert_int_equal(record.split, DT_SPLIT_EVAL);
    assert_true(record.wall == 1700000000.25);
    assert_true(isnan(dt_history_seconds(history)));
    assert_int_equal(next(history), 0);
    assert_int_equal(dt_history_damaged(history, DT_HISTORY_METRICS), 0);

    const struct dt_history_facts *facts = dt_history_facts(history);
    assert_non_null(strstr(dt_history_dir(history), facts->name));
    assert_null(facts->json);
    assert_null(facts->problem);
    assert_true(isnan(facts->world));
    struct dt_report_event event;
    struct dt_error err;
    assert_int_equal(dt_history_next_event(history, &event, &err), 0);
    dt_history_destroy(history);
}

/* Every number is what strtod says, whichever reader takes it. */
static void numbers_are_the_nearest_doubles(void **state)
{
    static const char *const numbers[] = {"0",        "-0.0",
                                          "17",       "0.1",
                                          "1e22",     "1e23",
                                          "1e-22",    "3.7e-23",
                                          "5e-324",   "1.7e308",
                                          "0.3",      "123456789012345",
                                          "2.5e+3",   "2.5E-3",
                                          "0.000001", "9007199254740993",
                                          "1.5e-300", "0.1234567890123456789"};
    enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };
    (void)state;
    char text[4096] = "";
    for (int i = 0; i < COUNT; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used,
                 "{\"step\": %d, \"split\": \"train\", \"x\": %s}\n", i,
                 numbers[i]);
    }
    write_text("metrics.jsonl", text);
    struct dt_history *history = open_history("metrics.jsonl");
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(next(history), 1);
        assert_true(value_of("x") == strtod(numbers[i], NULL));
    }
    dt_history_destroy(history);
}

static void damaged_lines_are_counted_and_a_torn_one_is_not(void **state)
{
    (void)state;
    write_text("metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 1}\n"
               "\n"
               "{\"step\": 2, \"split\": \"tr\n"
               "[1]\n"
               "{\"step\": -2, \"split\": \"train\"}\n"
               "{\"step\": 2.5, \"split\": \"train\"}\n"
               "{\"step\": 2, \"split\": \"test\"}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": 1, \"loss\": 2}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": 01}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": 1} x\n"
               "{\"step\": 3, \"split\": \"train\", \"text\": \"a\", "
               "\"list\": [{\"loss\": 9}], \"loss\": 3}\n"
               "{\"step\": 4, \"split\": \"train\", \"loss\": 0.");
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(next(history), 1);
    assert_int_equal(next(history), 1);
    assert_int_equal(record.step, 3);
    assert_int_equal(record.count, 1);
    assert_true(value_of("loss") == 3);
    assert_int_equal(next(history), 0);
    assert_int_equal(dt_history_damaged(history, DT_HISTORY_METRICS), 8);
    dt_history_destroy(history);
}

static void a_last_line_without_its_end_counts_if_it_is_whole(void **state)
{
    (void)state;
    write_text("metrics.jsonl", "{\"step\": 7, \"split\": \"eval\"}");
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(next(history), 1);
    assert_int_equal(record.step, 7);
    assert_int_equal(next(history), 0);
    dt_history_destroy(history);
}

/* A line of 300 kB is beyond the limit; the one behind it is read. */
static void a_line_that_is_too_long_is_damage(void **state)
{
    enum { LONG = 300000 };
    static char text[LONG + 100];
    (void)state;
    memset(text, 'x', LONG);
    strcpy(text + LONG, "\n{\"step\": 9, \"split\": \"train\"}\n");
    write_text("metrics.jsonl", text);
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(next(history), 1);
    assert_int_equal(record.step, 9);
    assert_int_equal(next(history), 0);
    assert_int_equal(dt_history_damaged(history, DT_HISTORY_METRICS), 1);
    dt_history_destroy(history);
}

/* 1000 names on a line: as many values as a record has room for. */
static void more_names_than_a_record_holds_are_left_out(void **state)
{
    static char text[1 << 15];
    (void)state;
    strcpy(text, "{\"step\": 1, \"split\": \"train\"");
    for (int i = 0; i < 1000; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, ", \"name %d\": %d", i, i);
    }
    strcat(text, "}\n");
    write_text("metrics.jsonl", text);
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(next(history), 1);
    assert_int_equal(record.count, DT_RECORD_VALUES_MAX);
    assert_true(value_of("name 0") == 0 && value_of("name 77") == 77);
    dt_history_destroy(history);
}

static void events_have_their_texts_and_what_is_missing_is_unknown(void **state)
{
    struct dt_report_event event;
    struct dt_error err;
    (void)state;
    write_text("metrics.jsonl", "");
    write_text("events.jsonl",
               "{\"event\": \"save\", \"step\": 100, \"wall\": 1.5e9, "
               "\"seconds\": 0.25, \"bytes\": 512, \"text\": \"a \\\"b\\\"\"}\n"
               "{\"step\": 100}\n"
               "{\"event\": \"fault\", \"step\": 7, \"rank\": 3, "
               "\"host\": \"n7\", \"text\": \"SIGKILL\"}\n");
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(dt_history_next_event(history, &event, &err), 1);
    assert_string_equal(event.kind, "save");
    assert_string_equal(event.text, "a \"b\"");
    assert_int_equal(event.step, 100);
    assert_int_equal(event.rank, -1);
    assert_null(event.host);
    assert_true(event.bytes == 512);
    assert_true(event.seconds == 0.25 && event.wall == 1.5e9);
    assert_int_equal(dt_history_next_event(history, &event, &err), 1);
    assert_string_equal(event.host, "n7");
    assert_int_equal(event.rank, 3);
    assert_true(isnan(event.seconds) && isnan(event.wall));
    assert_int_equal(dt_history_next_event(history, &event, &err), 0);
    assert_int_equal(dt_history_damaged(history, DT_HISTORY_EVENTS), 1);
    dt_history_destroy(history);
    remove(scratch_path("events.jsonl"));
}

/* Values that no run writes are none. */
static void the_account_is_read_from_events(void **state)
{
    struct dt_account account = {0};
    struct dt_error err;
    (void)state;
    write_text("metrics.jsonl", "");
    write_text("events.jsonl",
               "{\"event\": \"start\", \"step\": 0, \"wall\": 102, "
               "\"allocation\": \"7\", \"spent\": {\"startup\": 2, \"data\": "
               "-1, \"saving\": \"x\"}}\n"
               "{\"event\": \"restart\", \"step\": 9, \"wall\": 110, "
               "\"redone\": 9}\n"
               "{\"event\": \"start\", \"step\": 0, \"wall\": 115, "
               "\"allocation\": \"7\", \"spent\": {\"startup\": 3}}\n"
               "{\"event\": \"end\", \"step\": 20, \"wall\": 135, \"spent\": "
               "{\"startup\": 3, \"steps\": 19, \"data\": 1}}\n");
    assert_int_equal(dt_history_account(scratch_path(""), &account, &err), 0);
    assert_int_equal(account.sums.redone, 9);
    assert_true(account.sums.seconds[DT_ACCOUNT_STARTUP] == 2);
    assert_true(account.sums.seconds[DT_ACCOUNT_LOST] == 8);
    assert_true(account.sums.seconds[DT_ACCOUNT_RECOVERY] == 5);
    assert_true(account.sums.seconds[DT_ACCOUNT_STEPS] == 19);
    assert_true(account.sums.seconds[DT_ACCOUNT_DATA] == 1);
    assert_true(account.sums.seconds[DT_ACCOUNT_SAVING] == 0);
    assert_int_equal(dt_history_account(scratch_path("none"), &account, &err),
                     -1);
    assert_int_equal(err.status, EX_NOINPUT);
    remove(scratch_path("events.jsonl"));
}

static void ranks_are_arrays_of_one_length(void **state)
{
    struct dt_report_ranks ranks;
    struct dt_error err;
    (void)state;
    write_text("metrics.jsonl", "");
    write_text("ranks.jsonl",
               "{\"step\": 5, \"wall\": 2, \"compute_s\": [1, 2, null], "
               "\"comm_s\": [1, 2], \"mem\": [7, 8, 9], \"power_w\": null}\n"
               "{\"step\": 6, \"wall\": 3}\n");
    struct dt_history *history = open_history("metrics.jsonl");
    assert_int_equal(dt_history_next_ranks(history, &ranks, &err), 1);
    assert_int_equal(ranks.count, 3);
    assert_int_equal(ranks.step, 5);
    assert_true(ranks.compute_s[1] == 2 && isnan(ranks.compute_s[2]));
    assert_true(ranks.mem[2] == 9);
    assert_null(ranks.comm_s);
    assert_null(ranks.power_w);
    assert_int_equal(dt_history_next_ranks(history, &ranks, &err), 0);
    assert_int_equal(dt_history_damaged(history, DT_HISTORY_RANKS), 1);
    dt_history_destroy(history);
    remove(scratch_path("ranks.jsonl"));
}

static void the_facts_are_those_of_run_json(void **state)
{
    (void)state;
    mkdir(scratch_path("run"), 0777);
    mkdir(scratch_path("run/logs"), 0777);
    write_text("run/logs/run.json",
               "{\"name\": \"helper\", \"world\": 2, \"job\": null, "
               "\"nodes\": [{\"host\": \"n1\", \"ranks\": [0, 1]}], "
               "\"devices\": [\"cpu\", 5], \"model\": {\"parameters\": 1e9, "
               "\"family\": \"llama\"}, \"data\": {\"train\": [\"a\", 5, "
               "\"b.jsonl\"]}, "
               "\"config\": {\"optimizer.lr\": 0.001, \"run.name\": \"x\", "
               "\"data.train\": [\"a\", 1]}, \"given\": [\"run.name\"], "
               "\"starts\": [{\"wall\": 5, \"step\": 40, \"job\": \"1.0\"}], "
               "\"peak_flops\": \"fast\"}");
    struct dt_history *history = open_history("run");
    const struct dt_history_facts *facts = dt_history_facts(history);
    assert_string_equal(facts->name, "helper");
    assert_null(facts->job);
    assert_true(facts->world == 2 && facts->parameters == 1e9);
    assert_true(isnan(facts->peak_flops) && isnan(facts->ended));
    assert_string_equal(facts->train_data, "a, b.jsonl");
    assert_int_equal(facts->node_count, 1);
    assert_int_equal(facts->nodes[0].ranks, 2);
    assert_string_equal(facts->devices[1], "");
    assert_int_equal(facts->setting_count, 3);
    assert_string_equal(facts->settings[0].value, "0.001");
    assert_string_equal(facts->settings[1].value, "x");
    assert_true(facts->settings[1].given && !facts->settings[0].given);
    assert_string_equal(facts->settings[2].value, "[\"a\",1]");
    assert_int_equal(facts->starts[0].step, 40);
    assert_int_equal(next(history), 0);
    dt_history_destroy(history);
}

static void a_run_json_that_is_damaged_is_a_problem_and_no_end(void **state)
{
    (void)state;
    write_text("run/logs/run.json", "{\"name\": \n");
    struct dt_history *history = open_history("run/logs");
    const struct dt_history_facts *facts = dt_history_facts(history);
    assert_string_equal(facts->name, "run");
    assert_non_null(strstr(facts->problem, "run/logs/run.json:2:0: "));
    assert_null(facts->json);
    dt_history_destroy(history);
}

static void a_directory_of_no_run_is_refused(void **state)
{
    struct dt_error err;
    char expected[1024];
    (void)state;
    mkdir(scratch_path("empty"), 0777);
    assert_null(dt_history_open(scratch_path("empty"), &err));
    snprintf(expected, sizeof(expected),
             "%s: neither metrics.jsonl nor run.json is here or in logs/; "
             "expected the output directory of a run, its logging.dir, or a "
             "metrics.jsonl",
             scratch_path("empty"));
    assert_string_equal(err.text, expected);
    assert_int_equal(err.status, EX_NOINPUT);
    assert_null(dt_history_open(scratch_path("nothing"), &err));
    assert_non_null(strstr(err.text, "nothing: cannot open: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_of_an_older_version_has_records_and_no_facts),
        cmocka_unit_test(numbers_are_the_nearest_doubles),
        cmocka_unit_test(damaged_lines_are_counted_and_a_torn_one_is_not),
        cmocka_unit_test(a_last_line_without_its_end_counts_if_it_is_whole),
        cmocka_unit_test(a_line_that_is_too_long_is_damage),
        cmocka_unit_test(more_names_than_a_record_holds_are_left_out),
        cmocka_unit_test(
            events_have_their_texts_and_what_is_missing_is_unknown),
        cmocka_unit_test(the_account_is_read_from_events),
        cmocka_unit_test(ranks_are_arrays_of_one_length),
        cmocka_unit_test(the_facts_are_those_of_run_json),
        cmocka_unit_test(a_run_json_that_is_damaged_is_a_problem_and_no_end),
        cmocka_unit_test(a_directory_of_no_run_is_refused),
    };
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
