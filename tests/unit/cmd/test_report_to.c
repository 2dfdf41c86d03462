/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_to.c - records that are written again for other programs */
#include "config.h"

#include <limits.h>

#include "tests/unit/sink_scene.h"

#include "cmd/cmd_impl.h"
#include "tests/unit/command.h"

/* Subcommands that are captured write to the current directory. */
static int enter_dir(void **state)
{
    return make_dir(state) < 0 || chdir(dir) < 0 ? -1 : 0;
}

static int leave_dir(void **state)
{
    return chdir("/") < 0 ? -1 : remove_dir(state);
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void write_run(void)
{
    write_file("metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 2.5, "
               "\"mfu\": null, \"time\": 1, \"wall\": 1700000001.5}\n"
               "{\"step\": 2, \"split\": \"train\", \"loss\": null, "
               "\"mfu\": 0.5, \"time\": 2, \"wall\": 1700000002}\n"
               "{\"step\": 2, \"split\": \"eval\", \"loss\": 2.25, "
               "\"a,\\\"b\\\"\": 1e-05, \"time\": 3}\n");
    write_file("run.json", run_json);
}

/* Runs `disttrain report` with up to four arguments and the run. */
static int report(const char *a, const char *b, const char *c, const char *d)
{
    char *argv[8] = {"report"};
    int argc = 1;
    const char *words[] = {a, b, c, d, dir};
    for (size_t i = 0; i < 5; i++)
        if (words[i])
            argv[argc++] = (char *)words[i];
    return run_command(dt_cmd_report, argc, argv);
}

#define TABLE                                                                  \
    "jq -rs '(add | keys_unsorted) as $k | $k, (.[] | [.[$k[]]]) | @csv' "     \
    "metrics.jsonl"

static void a_table_is_refused_with_the_line_that_makes_it(void **state)
{
    (void)state;
    write_run();
    assert_int_equal(report("--to", "csv", NULL, NULL), EX_USAGE);
    assert_string_equal(errors,
                        "disttrain report: --to: csv is gone: run " TABLE
                        " (see disttrain report --help)\n");
}

static void that_line_makes_a_column_for_each_name(void **state)
{
    char text[1024];
    (void)state;
    if (system("command -v jq >/dev/null") != 0)
        skip();
    write_run();
    FILE *table = popen(TABLE, "r");
    assert_non_null(table);
    text[fread(text, 1, sizeof(text) - 1, table)] = '\0';
    assert_int_equal(pclose(table), 0);
    assert_string_equal(text,
                        "\"step\",\"split\",\"loss\",\"mfu\",\"time\",\"wall\","
                        "\"a,\"\"b\"\"\"\n"
                        "1,\"train\",2.5,,1,1700000001.5,\n"
                        "2,\"train\",,0.5,2,1700000002,\n"
                        "2,\"eval\",2.25,,3,,1e-05\n");
}

static void event_files_are_made_of_the_records(void **state)
{
    char path[PATH_MAX], said[160], tb[128];
    (void)state;
    write_run();
    snprintf(path, sizeof(path), "%s/other", dir);
    assert_int_equal(report("--to", "tensorboard", "--output", path), 0);
    snprintf(tb, sizeof(tb), "%s/other/tb", dir);
    snprintf(said, sizeof(said), "%s\n", tb);
    assert_string_equal(out, said);
    find_name(tb, "events.", 0, path);
    struct dt_map map = map_file(path);
    assert_non_null(memmem(map.data, map.bytes, "train/loss", 10));
    assert_non_null(memmem(map.data, map.bytes, "eval/a,\"b\"", 10));
    dt_map_fini(&map);
}

static void wandb_is_refused_with_the_command_that_uploads(void **state)
{
    (void)state;
    write_run();
    assert_int_equal(report("--to", "wandb", NULL, NULL), EX_USAGE);
    assert_string_equal(errors,
                        "disttrain report: --to: wandb is gone: run "
                        "contrib/wandb-follow --once RUN (see disttrain report "
                        "--help)\n");
}

/* A run of an older version has neither run.json nor wall. */
static void a_run_without_facts_is_written(void **state)
{
    (void)state;
    write_file("metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 2.5}\n");
    assert_int_equal(report("--to", "tensorboard", NULL, NULL), 0);
}

static void what_cannot_be_written_is_refused(void **state)
{
    char path[128], said[256];
    (void)state;
    assert_int_equal(report("--to", "tensorboard", NULL, NULL), EX_NOINPUT);
    write_run();
    assert_int_equal(report("--to", "mlflow", NULL, NULL), EX_USAGE);
    assert_non_null(strstr(errors, "disttrain report: --to: expected "
                                   "tensorboard, got mlflow "));
    write_file("tb", "");
    assert_int_equal(report("--to", "tensorboard", NULL, NULL), EX_CANTCREAT);
    snprintf(path, sizeof(path), "%s/tb", dir);
    snprintf(said, sizeof(said), "disttrain report: %s: not a directory\n",
             path);
    assert_string_equal(errors, said);
    assert_string_equal(out, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter_dir, leave_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_table_is_refused_with_the_line_that_makes_it),
        TEST(that_line_makes_a_column_for_each_name),
        TEST(event_files_are_made_of_the_records),
        TEST(wandb_is_refused_with_the_command_that_uploads),
        TEST(a_run_without_facts_is_written),
        TEST(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
