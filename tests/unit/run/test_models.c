/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.c - the output of a run stands for its newest checkpoint */
#include "config.h"

#include <sys/stat.h>

#include "run/run.h"
#include "base/file.h"
#include "base/log.h"
#include "plan/plan.h"
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

/* The row of the policy, and of the critic beside it. */
static void check_padding_row(const char *key, int32_t row)
{
    char text[512];
    struct dt_model_config model, critic;
    struct dt_error err;
    snprintf(text, sizeof(text),
             "algorithm: ppo\n"
             "model: {config_path: padded, init: random%s}\n"
             "data: {train: train.jsonl, max_length: 16}\n"
             "rollout.max_completion_length: 8\n"
             "training.per_device_batch_size: 2\n"
             "reward.functions: [{type: exact}]\n",
             key);
    struct dt_conf *conf = load_good(text, "");
    assert_int_equal(dt_run_model_config(conf, &model, &err), 0);
    assert_int_equal(model.padding_row, row);
    assert_int_equal(dt_critic_config(conf, &model, &critic, &err), 0);
    assert_int_equal(critic.padding_row, row);
    dt_model_config_fini(&critic);
    dt_model_config_fini(&model);
    dt_conf_destroy(conf);
}

static void train_padding_row_is_of_the_policy_and_of_its_critic(void **state)
{
    (void)state;
    mkdir("padded", 0777);
    write_file("padded/config.json",
               "{\"model_type\": \"llama\", \"vocab_size\": 20,"
               " \"hidden_size\": 8, \"intermediate_size\": 8,"
               " \"num_hidden_layers\": 1, \"num_attention_heads\": 1,"
               " \"max_position_embeddings\": 32, \"pad_token_id\": 2}");
    check_padding_row("", 2);
    check_padding_row(", train_padding_row: false", 2);
    check_padding_row(", train_padding_row: true", -1);
    dt_file_remove_tree("padded", NULL);
}

/* A model of keys is the one that its config.json describes. */
static void a_model_of_keys_is_a_gpt2(void **state)
{
    struct dt_model_config model, read;
    struct dt_error err;
    (void)state;
    struct dt_conf *conf =
        load_good("algorithm: sft\n"
                  "model: {n_positions: 16, n_embd: 8, n_layer: 1, n_head: 2}\n"
                  "data: {train: train.jsonl, max_length: 16}\n"
                  "training.per_device_batch_size: 2\n",
                  "");
    assert_int_equal(dt_run_model_config(conf, &model, &err), 0);
    assert_int_equal(model.gate, DT_GELU_TANH);
    assert_int_equal(
        dt_model_config_parse(&read,
                              "{\"model_type\": \"gpt2\", \"vocab_size\": 257,"
                              " \"n_positions\": 16, \"n_embd\": 8,"
                              " \"n_layer\": 1, \"n_head\": 2}",
                              "config", &err),
        0);
    assert_null(dt_model_config_differ(&model, &read));
    assert_int_equal(model.gate, read.gate);
    dt_model_config_fini(&read);
    dt_model_config_fini(&model);
    dt_conf_destroy(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_of_keys_is_a_gpt2),
        cmocka_unit_test(every_model_may_be_the_output_of_a_run),
        cmocka_unit_test(other_directories_stay),
        cmocka_unit_test(train_padding_row_is_of_the_policy_and_of_its_critic),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
