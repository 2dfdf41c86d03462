/* SPDX-License-Identifier: Apache-2.0 */
/* test_sinks.c - what a report gives to sinks, and what their failures cost */
#include "config.h"

#include "report/report.h"
#include "sink_scene.h"

/* How often a text occurs in another one. */
static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/* A report with both sinks, whose warnings go to the file `said`. */
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
    dt_report_add_sink(report, &dt_sink_wandb, &sinks);
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

static void removed_directories_cost_a_warning_each(void **state)
{
    struct dt_report *report = create();
    (void)state;
    remove_below("tb");
    remove_below("wandb");
    take_steps(report, 5);
    char *said = end_report(report, 5);
    assert_int_equal(count_of(said, "warning: tensorboard: "), 1);
    assert_int_equal(count_of(said, "warning: wandb: "), 1);
    assert_int_equal(count_of(said, "nothing more is written there, and the "
                                    "run continues\n"),
                     2);
    free(said);
}

/* The disk is full for the sinks, whose files are larger, and not for the
 * metrics.
 */
static void a_full_disk_costs_a_warning_each(void **state)
{
    struct dt_report *report = create();
    (void)state;
    limit_files(4800);
    take_steps(report, 8);
    limit_files(0);
    char *said = end_report(report, 8);
    assert_int_equal(count_of(said, "warning: tensorboard: "), 1);
    assert_int_equal(count_of(said, "warning: wandb: "), 1);
    free(said);
}

static void sinks_that_cannot_be_opened_cost_a_warning_each(void **state)
{
    char path[128];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, i ? "tb" : "wandb");
        close(open(path, O_CREAT | O_WRONLY, 0666));
    }
    struct dt_report *report = create();
    take_steps(report, 5);
    char *said = end_report(report, 5);
    assert_int_equal(count_of(said, "not a directory; the run continues "
                                    "without it\n"),
                     2);
    free(said);
}

/* What earlier starts have recorded, for a form that has the whole run. */
static void only_whole_sinks_get_the_past(void **state)
{
    char tb[80], path[PATH_MAX], wandb[PATH_MAX];
    struct dt_report *report = create();
    const struct dt_report_record record = a_record(DT_SPLIT_EVAL, 7, 2.0);
    (void)state;
    dt_report_past(report, &record, NULL);
    free(end_report(report, 0));
    snprintf(tb, sizeof(tb), "%s/tb", dir);
    find_name(tb, "events.", 0, path);
    struct dt_map map = map_file(path);
    assert_null(memmem(map.data, map.bytes,
                       "\x0a\x09"
                       "eval/loss\x15",
                       12));
    dt_map_fini(&map);
    snprintf(tb, sizeof(tb), "%s/wandb", dir);
    find_name(tb, "offline-run-", 0, wandb);
    find_name(wandb, "run-", 0, path);
    map = map_file(path);
    assert_non_null(memmem(map.data, map.bytes, "eval/loss", 9));
    dt_map_fini(&map);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(removed_directories_cost_a_warning_each),
        TEST(a_full_disk_costs_a_warning_each),
        TEST(sinks_that_cannot_be_opened_cost_a_warning_each),
        TEST(only_whole_sinks_get_the_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
