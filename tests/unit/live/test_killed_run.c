/* SPDX-License-Identifier: Apache-2.0 */
/* test_killed_run.c - the files of a run whose rank 0 was killed are complete
 */
#include "config.h"

#include <jansson.h>
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

#include "base/file.h"
#include "live/live.h"
#include "live/state.h"
#include "tests/unit/scratch.h"

static const struct dt_live_ending killed = {
    .step = "123.4",
    .status = "failed",
    .text = "rank 0 on n1, killed by signal 9 (Killed)",
    .rank = 0,
    .host = "n1"};

static const char *make_dir(const char *name)
{
    const char *path = scratch_path(name);
    mkdir(path, 0755);
    return path;
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[600];
    struct dt_error err;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (dt_file_replace(path, text, strlen(text), &err) < 0)
        fail_msg("%s", err.text);
}

/* The caller frees it. */
static char *read_file(const char *dir, const char *name)
{
    char path[600];
    struct dt_error err;
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    char *text = dt_file_read(path, 1 << 20, &err);
    if (!text)
        fail_msg("%s", err.text);
    return text;
}

/* The run of step 123.4 at step 12, as rank 0 has left it. */
static const char *make_run(const char *name, const char *facts)
{
    const char *dir = make_dir(name);
    write_file(dir, "run.json", facts);
    write_file(dir, "status.json",
               "{\"version\": 1, \"name\": \"tiny\", \"job\": \"123.4\", "
               "\"status\": \"running\", \"phase\": \"training\", "
               "\"step\": 12, \"total_steps\": 100, \"eta_s\": 60, "
               "\"account\": {\"startup\": 5, \"saving\": 7}}");
    write_file(dir, "events.jsonl",
               "{\"event\": \"start\", \"step\": 0, \"wall\": 1.7e9, "
               "\"spent\": {\"startup\": 5}}\n"
               "{\"event\": \"save\", \"st");
    return dir;
}

#define RUNNING                                                                \
    "{\"version\": 1, \"job\": \"123.4\", \"status\": \"running\", "           \
    "\"verdict\": null, \"ended\": null, \"config\": {\"logging.report_to\": " \
    "[\"stdout\", \"jsonl\", \"html\"]}}"

static void end_run(const char *dir, const struct dt_live_ending *ending,
                    int wanted, bool wants_page)
{
    struct dt_error err = {.text = ""};
    bool page = false;
    int rc = dt_live_record_ending(dir, ending, &page, &err);
    if (rc != wanted)
        fail_msg("%d: %s", rc, err.text);
    if (rc == 1)
        assert_int_equal(page, wants_page);
}

static void expect_text(const json_t *object, const char *key, const char *want)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    assert_string_equal(text, want);
}

static void all_files_say_how_a_killed_run_has_ended(void **state)
{
    const char *dir = make_run("killed", RUNNING);
    struct dt_live_state status;
    struct dt_error err;
    (void)state;
    end_run(dir, &killed, 1, true);
    char *text = read_file(dir, "run.json");
    json_t *facts = json_loads(text, 0, NULL);
    expect_text(facts, "status", "failed");
    expect_text(facts, "verdict",
                "failed after step 12: rank 0 on n1, killed by signal 9 "
                "(Killed)");
    const double ended = json_number_value(json_object_get(facts, "ended"));
    assert_true(ended > 1.7e9);
    const json_t *account = json_object_get(facts, "account");
    assert_true(json_number_value(json_object_get(account, "startup")) == 5);
    assert_true(json_number_value(json_object_get(account, "saving")) == 7);
    assert_true(fabs(json_number_value(json_object_get(account, "steps")) -
                     (ended - 1.7e9 - 7)) < 1);
    json_decref(facts);
    free(text);

    text = read_file(dir, "events.jsonl");
    char *last = strstr(text, "\n") + 1; /* the torn line is gone */
    json_t *event = json_loads(last, 0, NULL);
    expect_text(event, "event", "failed");
    expect_text(event, "host", "n1");
    expect_text(event, "text", killed.text);
    assert_int_equal(json_integer_value(json_object_get(event, "step")), 12);
    json_decref(event);
    free(text);

    text = read_file(dir, "status.json");
    assert_int_equal(dt_live_parse_status(&status, dir, text, &err), 0);
    assert_string_equal(status.status, "failed");
    assert_string_equal(status.phase, DT_LIVE_ENDED);
    assert_non_null(strstr(status.verdict, "step 12: rank 0 on n1, killed"));
    free(text);
    end_run(dir, &killed, 0, true); /* once */
}

static void the_run_of_another_step_is_left_alone(void **state)
{
    static const char *const others[] = {
        "{\"job\": \"123.5\", \"status\": \"running\"}",
        "{\"job\": null, \"status\": \"running\"}",
        "{\"job\": \"123.4\", \"status\": \"finished\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        const char *dir = make_run("other", others[i]);
        end_run(dir, &killed, 0, false);
        char *text = read_file(dir, "run.json");
        assert_string_equal(text, others[i]);
        free(text);
        text = read_file(dir, "status.json");
        assert_non_null(strstr(text, "\"running\""));
        free(text);
    }
    end_run(make_dir("none"), &killed, 0, false);
}

static void a_run_without_a_page_or_a_state_is_ended_too(void **state)
{
    const char *dir =
        make_run("plain", "{\"job\": \"123.4\", \"status\": \"running\", "
                          "\"config\": {\"logging.report_to\": [\"jsonl\"]}}");
    struct dt_live_ending stopped = killed;
    (void)state;
    write_file(dir, "status.json",
               "{\"version\": 1, \"job\": \"99.0\", "
               "\"status\": \"running\"}");
    stopped.status = "stopped";
    stopped.text = "bad \xff and \033[31m red";
    stopped.rank = -1;
    stopped.host = "";
    end_run(dir, &stopped, 1, false);
    char *text = read_file(dir, "run.json");
    json_t *facts = json_loads(text, 0, NULL);
    expect_text(facts, "verdict", "stopped: bad ? and ?[31m red");
    json_decref(facts);
    free(text);
    text = read_file(dir, "events.jsonl");
    assert_non_null(strstr(text, "{\"event\": \"stop\", \"step\": 0"));
    assert_null(strstr(text, "rank"));
    free(text);
    text = read_file(dir, "status.json"); /* of an earlier run */
    assert_non_null(strstr(text, "\"running\""));
    free(text);
}

static void damage_is_said_and_changes_nothing(void **state)
{
    const char *dir = make_run("damaged", "{\"job\": ");
    struct dt_error err;
    bool page;
    (void)state;
    assert_int_equal(dt_live_record_ending(dir, &killed, &page, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "/run.json:1:"));
    char *text = read_file(dir, "events.jsonl");
    assert_null(strstr(text, "failed"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_files_say_how_a_killed_run_has_ended),
        cmocka_unit_test(the_run_of_another_step_is_left_alone),
        cmocka_unit_test(a_run_without_a_page_or_a_state_is_ended_too),
        cmocka_unit_test(damage_is_said_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
