/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.c - the output of a run stands for its newest checkpoint */
#include "config.h"

#include <sys/stat.h>

#include "algo/models.h"
#include "base/file.h"
#include "base/log.h"
#include "tests/unit/conf.h"

#define RUN "sft/checkpoints/checkpoint-7"

static int enter(void **state)
{
    dt_log_init(0, DT_LOG_ERROR);
    if (enter_directory(state) < 0)
        return -1;
    mkdir("sft", 0777);
    mkdir("sft/checkpoints", 0777);
    mkdir(RUN, 0777);
    mkdir("plain", 0777);
    mkdir("empty", 0777);
    write_file(RUN "/config.json", "{}");
    write_file("plain/config.json", "{}");
    return symlink("checkpoint-7", "sft/checkpoints/latest");
}

static int leave(void **state)
{
    dt_file_remove_tree("sft", NULL);
    dt_file_remove_tree("plain", NULL);
    dt_file_remove_tree("empty", NULL);
    return leave_directory(state);
}

/* Asserts that `path` is `name` in this directory. */
static void expect(const char *path, const char *name)
{
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "%s/%s", test_directory, name);
    assert_string_equal(path, wanted);
}

static void every_model_may_be_the_output_of_a_run(void **state)
{
    struct dt_conf *conf = load_good(
        "algorithm: ppo\n"
        "model: {path: sft, reference_path: sft, value_path: sft}\n"
        "data: {train: train.jsonl, max_length: 64}\n"
        "training.per_device_batch_size: 2\n"
        "reward.functions: [{type: exact}, {type: model, path: sft}]\n",
        "");
    (void)state;
    dt_models_find(conf, true);
    expect(conf->model.path, RUN);
    expect(conf->model.reference_path, RUN);
    expect(conf->model.value_path, RUN);
    expect(conf->reward.functions[1].path, RUN);
    dt_conf_destroy(conf);
}

/* A name that may soon be that of another checkpoint; a model; and what is
 * none, which the one who reads it reports.
 */
static void other_directories_stay(void **state)
{
    static const char *const cases[][2] = {
        {"sft/checkpoints/latest", RUN},
        {RUN, RUN},
        {"plain", "plain"},
        {"empty", "empty"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "algorithm: sft\nmodel.path: %s\n"
                 "data: {train: train.txt, max_length: 64}\n"
                 "training.per_device_batch_size: 2\n",
                 cases[i][0]);
        struct dt_conf *conf = load_good(text, "");
        dt_models_find(conf, true);
        expect(conf->model.path, cases[i][1]);
        dt_conf_destroy(conf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_may_be_the_output_of_a_run),
        cmocka_unit_test(other_directories_stay),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
