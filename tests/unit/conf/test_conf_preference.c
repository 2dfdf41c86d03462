/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_preference.c - keys of algorithms that learn from pairs */
#include "config.h"

#include "tests/unit/conf.h"

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
    conf = load_good(PAIRS("rm") "data.format: auto\n", "");
    assert_int_equal(conf->data.format, DT_FORMAT_PREFERENCE);
    dt_conf_destroy(conf);
}

static void dpo_has_defaults_of_its_own(void **state)
{
    struct dt_conf *conf = load_good(PAIRS("dpo"), "");
    (void)state;
    assert_int_equal(conf->algorithm, DT_CONF_DPO);
    assert_int_equal(conf->data.format, DT_FORMAT_PREFERENCE);
    assert_int_equal(conf->data.truncation, DT_CONF_KEEP_START);
    assert_true(conf->model.disable_dropout);
    assert_true(conf->optimizer.lr == 1e-6);
    assert_int_equal(conf->dpo.loss.count, 1);
    assert_string_equal(conf->dpo.loss.text[0], "sigmoid");
    assert_int_equal(conf->dpo.loss_weights.count, 0);
    assert_true(conf->dpo.beta == 0.1 && conf->dpo.label_smoothing == 0);
    assert_true(conf->dpo.ld_alpha == 1 && conf->dpo.f_alpha == 0.5);
    assert_int_equal(conf->dpo.f_divergence, DT_DIVERGENCE_REVERSE_KL);
    assert_int_equal(conf->dpo.reference.mode, DT_CONF_REFERENCE_LIVE);
    assert_false(conf->dpo.use_weighting || conf->dpo.sync_ref.enabled);
    assert_true(conf->dpo.sync_ref.alpha == 0.6);
    assert_int_equal(conf->dpo.sync_ref.steps, 512);
    dt_conf_destroy(conf);
}

static void names_of_trl_are_understood(void **state)
{
    struct dt_conf *conf =
        load_good(PAIRS("dpo") "loss_type: [SIGMOID, sft]\n"
                               "loss_weights: [0.8, 0.2]\n"
                               "beta: 0.3\n"
                               "f_divergence_type: alpha_divergence\n"
                               "f_alpha_divergence_coef: 0.7\n"
                               "ld_alpha: 0.5\n"
                               "use_weighting: true\n"
                               "sync_ref_model: true\n"
                               "ref_model_mixup_alpha: 0.9\n"
                               "ref_model_sync_steps: 64\n"
                               "ref_model: .\n"
                               "truncation_mode: keep_end\n",
                  "");
    (void)state;
    assert_int_equal(conf->dpo.loss.count, 2);
    assert_string_equal(conf->dpo.loss.text[0], "sigmoid");
    assert_string_equal(conf->dpo.loss.text[1], "sft");
    assert_string_equal(conf->dpo.loss_weights.text[1], "0.2");
    assert_true(conf->dpo.beta == 0.3 && conf->dpo.f_alpha == 0.7);
    assert_int_equal(conf->dpo.f_divergence, DT_DIVERGENCE_ALPHA);
    assert_true(conf->dpo.ld_alpha == 0.5 && conf->dpo.use_weighting);
    assert_true(conf->dpo.sync_ref.enabled && conf->dpo.sync_ref.steps == 64);
    assert_true(conf->dpo.sync_ref.alpha == 0.9);
    assert_non_null(conf->model.reference_path);
    assert_int_equal(conf->data.truncation, DT_CONF_KEEP_END);
    dt_conf_destroy(conf);
    conf = load_good(PAIRS("dpo") "precompute_ref_log_probs: true\n", "");
    assert_int_equal(conf->dpo.reference.mode, DT_CONF_REFERENCE_PRECOMPUTE);
    dt_conf_destroy(conf);
    conf = load_good(PAIRS("dpo") "precompute_ref_log_probs: false\n", "");
    assert_int_equal(conf->dpo.reference.mode, DT_CONF_REFERENCE_LIVE);
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
     "t.yaml:5:15: data.loss_on: does not apply: with preference "
     "pairs only the completions are trained on\n"},
    {PAIRS("rm") "label_smoothing: 0.1\n",
     "t.yaml:5:18: training.label_smoothing: is not for preference pairs\n"},
    {PAIRS("dpo") "label_smoothing: 0.1\n",
     "t.yaml:5:18: training.label_smoothing: is not for preference pairs: "
     "remove it; labels that may be swapped are dpo.label_smoothing, with "
     "dpo.loss: cdpo\n"},
    {PAIRS("dpo") "label_smoothing_factor: 0.1\n",
     "t.yaml:5:25: training.label_smoothing: is not for preference pairs: "
     "remove it; labels that may be swapped are dpo.label_smoothing, with "
     "dpo.loss: cdpo\n"},
    {PAIRS("dpo") "f_alpha_divergence_coef: 0.3\n",
     "t.yaml:5:26: dpo.f_alpha: only dpo.f_divergence: alpha_divergence uses "
     "it\n"},
    {PAIRS("rm") "disable_dropout: false\n",
     "t.yaml:5:18: model.disable_dropout: false: this algorithm compares two "
     "sides, which dropout would change differently\n"},
    {PAIRS("rm") "training.micro_batch_tokens: 2000\n",
     "t.yaml:5:30: training.micro_batch_tokens: 2000 is too few for a pair, "
     "whose sides have up to data.max_length tokens each: at least 2048\n"},
    {PAIRS("rm") "rm.center_rewards_coefficient: -1\n",
     "t.yaml:5:32: rm.center_rewards_coefficient: expected a number >= 0, got "
     "-1\n"},
    {PAIRS("dpo") "dpo: {loss: simpo}\n",
     "t.yaml:5:13: dpo.loss: expected a list of sigmoid, cdpo, robust, hinge, "
     "exo_pair, ipo, sigmoid_norm, nca_pair, bco_pair, sppo_hard, apo_zero, "
     "apo_down, sft, got \"simpo\"\n"},
    {PAIRS("dpo") "dpo: {beta: 0, ld_alpha: 2}\n",
     "t.yaml:5:13: dpo.beta: expected a number > 0, got 0\n"
     "t.yaml:5:26: dpo.ld_alpha: expected a number in [0, 1], got 2\n"},
    {PAIRS("dpo") "dpo: {loss: cdpo, label_smoothing: 0.5}\n",
     "t.yaml:5:36: dpo.label_smoothing: expected a number in [0, 0.5), got "
     "0.5\n"},
    {PAIRS("dpo") "dpo: {reference: {mode: none}}\nref_model: .\n",
     "t.yaml:6:12: model.reference_path: cannot be used with "
     "dpo.reference.mode: none\n"},
    {PAIRS("dpo") "dpo: {sync_ref: {enabled: true}, "
                  "reference: {mode: precompute}}\n",
     "t.yaml:5:27: dpo.sync_ref.enabled: E114 only a reference that computes "
     "beside the model can follow it: leave out dpo.reference.mode, or write "
     "live\n"},
    {PAIRS("dpo") "dpo: {sync_ref: {alpha: 0, steps: 0}}\n",
     "t.yaml:5:25: dpo.sync_ref.alpha: expected a number in (0, 1], got 0\n"
     "t.yaml:5:35: dpo.sync_ref.steps: expected an integer >= 1, got 0\n"},
    {PAIRS("dpo") "dpo: {sync_ref: {alpha: 0.9}}\nref_model_sync_steps: 9\n",
     "t.yaml:5:25: dpo.sync_ref.alpha: only dpo.sync_ref.enabled: true uses "
     "it\n"
     "t.yaml:6:23: dpo.sync_ref.steps: only dpo.sync_ref.enabled: true uses "
     "it\n"},
    {PAIRS("rm") "rm.last_token: first\n",
     "t.yaml:5:16: rm.last_token: expected one of auto, end, got \"first\"\n"},
};

static void keys_that_pairs_have_no_use_for_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(of_pairs);
}

static const struct broken of_rows[] = {
    {LEAST "data.format: preference\n",
     "t.yaml:5:14: data.format: preference is for algorithms rm and dpo: sft "
     "trains on text, completions or conversations\n"},
    {LEAST "data.truncation: drop\n",
     "t.yaml:5:18: data.truncation: drop is for preference pairs: write "
     "keep_start or keep_end\n"},
    {LEAST "training.micro_batch_tokens: 4096\n",
     "t.yaml:5:30: training.micro_batch_tokens: is for preference pairs "
     "and sampled completions; of rows, per_device_batch_size and "
     "data.max_length set the size\n"},
    {LEAST "rm: {center_rewards_coefficient: 0.01}\n",
     "t.yaml:5:34: rm.center_rewards_coefficient: only algorithm rm uses it\n"},
    {LEAST "logging.logits: true\n",
     "t.yaml:5:17: logging.logits: only algorithm dpo uses it\n"},
    {LEAST "dpo.beta: 0.3\n",
     "t.yaml:5:11: dpo.beta: only algorithm dpo uses it\n"},
    {LEAST "ref_model: .\n",
     "t.yaml:5:12: model.reference_path: only algorithms dpo, ppo and grpo use "
     "it\n"},
    {PAIRS("rm") "dpo: {loss: hinge}\n",
     "t.yaml:5:13: dpo.loss: only algorithm dpo uses it\n"},
    {PAIRS("dpo") "rm: {center_rewards_coefficient: 0.01}\n",
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
        cmocka_unit_test(dpo_has_defaults_of_its_own),
        cmocka_unit_test(names_of_trl_are_understood),
        cmocka_unit_test(keys_that_pairs_have_no_use_for_are_refused),
        cmocka_unit_test(keys_of_pairs_are_refused_elsewhere),
    };
    return cmocka_run_group_tests_name("conf preference", tests,
                                       enter_directory, leave_directory);
}
