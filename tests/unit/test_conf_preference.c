/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_preference.c - keys of algorithms that learn from pairs */
#include "config.h"

#include "conf.h"

#define PAIRS(algorithm)                                                       \
    "algorithm: " algorithm "\n"                                               \
    "data.train: train.jsonl\n"                                                \
    "model.n_embd: 96\n"                                                       \
    "training.per_device_batch_size: 2\n"

static void rm_has_defaults_of_its_own(void **state)
{
    struct dt_conf *conf = load_good(
        PAIRS("rm") "center_rewards_coefficient: 0.01\n"
                    "training.micro_batch_tokens: 4096\n"
                    "data.columns: {chosen: yes_, rejected: no_, margin: m}\n",
        "");
    (void)state;
    assert_int_equal(conf->algorithm, DT_CONF_RM);
    assert_int_equal(conf->data.format, DT_FORMAT_PREFERENCE);
    assert_int_equal(conf->data.truncation, DT_CONF_DROP);
    assert_true(conf->model.disable_dropout);
    assert_true(conf->optimizer.lr == 1e-4);
    assert_true(conf->rm.center_rewards_coefficient == 0.01);
    assert_int_equal(conf->training.micro_batch_tokens, 4096);
    assert_string_equal(conf->data.chosen_column, "yes_");
    assert_string_equal(conf->data.rejected_column, "no_");
    assert_string_equal(conf->data.margin_column, "m");
    dt_conf_destroy(conf);
    conf = load_good(PAIRS("rm") "data.truncation: keep_end\n"
                                 "optimizer.lr: 2.0e-5\n",
                     "");
    assert_int_equal(conf->data.truncation, DT_CONF_KEEP_END);
    assert_true(conf->optimizer.lr == 2e-5);
    dt_conf_destroy(conf);
}

static const struct broken of_pairs[] = {
    {PAIRS("rm") "data.format: messages\n",
     "t.yaml:5:14: data.format: this algorithm trains on pairs: write "
     "preference, or leave it out\n"},
    {PAIRS("rm") "data.packing: bfd\n",
     "t.yaml:5:15: data.packing: E111 is not for preference pairs, which "
     "always follow each other in one row without padding\n"},
    {PAIRS("rm") "data.loss_on: full\n",
     "t.yaml:5:15: data.loss_on: is not for preference pairs, of which the "
     "completions count\n"},
    {PAIRS("rm") "label_smoothing: 0.1\n",
     "t.yaml:5:18: training.label_smoothing: is not for preference pairs\n"},
    {PAIRS("rm") "disable_dropout: false\n",
     "t.yaml:5:18: model.disable_dropout: false: this algorithm compares two "
     "sides, which dropout would change differently\n"},
    {PAIRS("rm") "training.micro_batch_tokens: 2000\n",
     "t.yaml:5:30: training.micro_batch_tokens: 2000 is too few for a pair, "
     "whose sides have up to data.max_length tokens each: at least 2048\n"},
    {PAIRS("rm") "rm.center_rewards_coefficient: -1\n",
     "t.yaml:5:32: rm.center_rewards_coefficient: expected a number >= 0, got "
     "-1\n"},
};

static void keys_that_pairs_have_no_use_for_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(of_pairs);
}

static const struct broken of_rows[] = {
    {LEAST "data.format: preference\n",
     "t.yaml:5:14: data.format: preference is for algorithm rm: sft trains on "
     "text, completions or conversations\n"},
    {LEAST "data.truncation: drop\n",
     "t.yaml:5:18: data.truncation: drop is for preference pairs: write "
     "keep_start or keep_end\n"},
    {LEAST "training.micro_batch_tokens: 4096\n",
     "t.yaml:5:30: training.micro_batch_tokens: is for preference pairs; of "
     "rows, per_device_batch_size and data.max_length set the size\n"},
    {LEAST "rm: {center_rewards_coefficient: 0.01}\n",
     "t.yaml:5:34: rm.center_rewards_coefficient: only algorithm rm uses it\n"},
};

static void keys_of_pairs_are_refused_elsewhere(void **state)
{
    (void)state;
    CHECK_ALL(of_rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rm_has_defaults_of_its_own),
        cmocka_unit_test(keys_that_pairs_have_no_use_for_are_refused),
        cmocka_unit_test(keys_of_pairs_are_refused_elsewhere),
    };
    return cmocka_run_group_tests_name("conf preference", tests,
                                       enter_directory, leave_directory);
}
