/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_to.c - records that are written again for other programs */
#include "config.h"

#include <limits.h>

#include "sink_scene.h"

#include "cmd/cmd.h"
#include "cmd/report_to.h"
#include "command.h"

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

static void a_table_has_a_column_for_each_name(void **state)
{
    char path[128], said[160];
    (void)state;
    write_run();
    assert_int_equal(report("--to", "csv", NULL, NULL), 0);
    snprintf(path, sizeof(path), "%s/metrics.csv", dir);
    snprintf(said, sizeof(said), "%s\n", path);
    assert_string_equal(out, said);
    char *text = dt_file_read(path, 4096, NULL);
    assert_non_null(text);
    assert_string_equal(text, "split,step,wall,loss,mfu,\"a,\"\"b\"\"\"\n"
                              "train,1,1700000001.500,2.5,,\n"
                              "train,2,1700000002.000,,0.5,\n"
                              "eval,2,,2.25,,1e-05\n");
    free(text);
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
    assert_non_null(memmem(map.data, map.bytes, "optimizer.lr: 0.001", 19));
    dt_map_fini(&map);
}

static void an_offline_run_is_made_of_the_records(void **state)
{
    char wandb[80], path[PATH_MAX], file[PATH_MAX];
    (void)state;
    write_run();
    for (int i = 0; i < 2; i++)
        assert_int_equal(report("--to", "wandb", NULL, NULL), 0);
    snprintf(wandb, sizeof(wandb), "%s/wandb", dir);
    find_name(wandb, "superseded-offline-run-", 0, path);
    assert_true(path[0]);
    find_name(wandb, "offline-run-", 0, path);
    find_name(path, "run-0123abcd.wandb", 0, file);
    struct dt_map map = map_file(file);
    assert_non_null(memmem(map.data, map.bytes, "eval/loss", 9));
    dt_map_fini(&map);
}

/* A run of an older version has neither run.json nor wall. */
static void a_run_without_facts_is_written(void **state)
{
    (void)state;
    write_file("metrics.jsonl",
               "{\"step\": 1, \"split\": \"train\", \"loss\": 2.5}\n");
    assert_int_equal(report("--to", "tensorboard", NULL, NULL), 0);
    assert_int_equal(report("--to", "wandb", NULL, NULL), 0);
    assert_int_equal(report("--to", "csv", NULL, NULL), 0);
}

static void what_cannot_be_written_is_refused(void **state)
{
    char path[128], said[256];
    (void)state;
    assert_int_equal(report("--to", "csv", NULL, NULL), EX_NOINPUT);
    write_run();
    assert_int_equal(report("--to", "mlflow", NULL, NULL), EX_USAGE);
    assert_non_null(strstr(errors, "disttrain report: --to: expected "
                                   "tensorboard, wandb or csv, got mlflow "));
    snprintf(path, sizeof(path), "%s/no/m.csv", dir);
    assert_int_equal(report("--to", "csv", "--output", path), EX_CANTCREAT);
    snprintf(said, sizeof(said),
             "disttrain report: %s: cannot create: No such file or "
             "directory\n",
             path);
    assert_string_equal(errors, said);
    assert_int_equal(report("--to", "csv", "--output", "/dev/full"), EX_IOERR);
    assert_string_equal(errors, "disttrain report: /dev/full: cannot write: No "
                                "space left on device\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter_dir, leave_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_table_has_a_column_for_each_name),
        TEST(event_files_are_made_of_the_records),
        TEST(an_offline_run_is_made_of_the_records),
        TEST(a_run_without_facts_is_written),
        TEST(what_cannot_be_written_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
