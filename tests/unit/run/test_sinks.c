/* SPDX-License-Identifier: Apache-2.0 */
/* test_sinks.c - what failures of a sink cost a report */
#include "config.h"

#include "report/report.h"
#include "tests/unit/sink_scene.h"

/* How often a text occurs in another one. */
static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* A report with a sink, whose warnings go to the file `said`. */
static struct dt_report *create(void)
{
    struct dt_error err;
    char said[128];
    const struct dt_report_options options = {.dir = dir};
    struct dt_report *report = dt_report_create(&options, &err);
    json_t *run = json_loads(run_json, 0, NULL);
    const struct dt_sink_options sinks = {.dir = dir, .run = run};
    if (!report)
        fail_msg("%s", err.text);
    snprintf(said, sizeof(said), "%s/said", dir);
    assert_non_null(freopen(said, "w", stderr));
    dt_report_add_sink(report, &dt_sink_tensorboard, &sinks);
    json_decref(run);
    return report;
}

/* Steps with many values of short names, of which a sink writes more bytes than
 * metrics.jsonl: about 700 a step, not 500.
 */
static void take_steps(struct dt_report *report, long count)
{
    struct dt_report_step s = {
        .total_steps = count, .loss = 1.0, .tokens = 1, .seconds = 1};
    for (s.costs.count = 0; s.costs.count < 40; s.costs.count++)
        s.costs.value[s.costs.count] = (struct dt_report_value){"v", 1, false};
    for (s.step = 1; s.step <= count; s.step++)
        dt_report_step(report, &s);
}

/* Ends the report; returns what was said, and checks the lines of metrics. */
static char *end_report(struct dt_report *report, int lines)
{
    char path[128];
    dt_report_destroy(report);
    assert_non_null(freopen("/dev/null", "w", stderr));
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    char *text = dt_file_read(path, 1 << 20, NULL);
    assert_non_null(text);
    assert_int_equal(count_of(text, "\"split\": \"train\""), lines);
    free(text);
    snprintf(path, sizeof(path), "%s/said", dir);
    text = dt_file_read(path, 1 << 20, NULL);
    assert_non_null(text);
    return text;
}

static void remove_below(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_int_equal(dt_file_remove_tree(path, NULL), 0);
}

static void a_removed_directory_costs_a_warning(void **state)
{
    struct dt_report *report = create();
    (void)state;
    remove_below("tb");
    take_steps(report, 5);
    char *said = end_report(report, 5);
    assert_int_equal(count_of(said, "warning: tensorboard: "), 1);
    assert_int_equal(count_of(said, "nothing more is written there, and the "
                                    "run continues\n"),
                     1);
    free(said);
}

/* The disk is full for the sink, whose file is larger, and not for the metrics.
 */
static void a_full_disk_costs_a_warning(void **state)
{
    struct dt_report *report = create();
    (void)state;
    limit_files(4800);
    take_steps(report, 8);
    limit_files(0);
    char *said = end_report(report, 8);
    assert_int_equal(count_of(said, "warning: tensorboard: "), 1);
    free(said);
}

static void a_sink_that_cannot_be_opened_costs_a_warning(void **state)
{
    char path[128];
    (void)state;
    snprintf(path, sizeof(path), "%s/tb", dir);
    close(open(path, O_CREAT | O_WRONLY, 0666));
    struct dt_report *report = create();
    take_steps(report, 5);
    char *said = end_report(report, 5);
    assert_int_equal(count_of(said, "not a directory; the run continues "
                                    "without it\n"),
                     1);
    free(said);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_removed_directory_costs_a_warning),
        TEST(a_full_disk_costs_a_warning),
        TEST(a_sink_that_cannot_be_opened_costs_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
