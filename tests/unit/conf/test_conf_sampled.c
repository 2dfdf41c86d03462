/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf_sampled.c - keys of algorithms that learn from completions */
#include "config.h"

#include "tests/unit/conf.h"

/* Five lines; tests add lines from 6 on. */
#define SAMPLED(algorithm)                                                     \
    "algorithm: " algorithm "\n"                                               \
    "data.train: train.jsonl\n"                                                \
    "model.n_embd: 96\n"                                                       \
    "reward.functions: [{type: json_valid}]\n"                                 \
    "training.per_device_batch_size: 8\n"

static void grpo_has_defaults_of_its_own(void **state)
{
    struct dt_conf *conf = load_good(SAMPLED("grpo"), "");
    (void)state;
    assert_int_equal(conf->algorithm, DT_CONF_GRPO);
    assert_int_equal(conf->data.format, DT_FORMAT_PROMPT);
    assert_true(conf->model.disable_dropout);
    assert_true(conf->optimizer.lr == 1e-6);
    assert_int_equal(conf->grpo.num_generations, 8);
    assert_int_equal(conf->grpo.loss_type, DT_GRPO_DAPO);
    assert_int_equal(conf->grpo.level, DT_GRPO_TOKEN);
    assert_int_equal(conf->grpo.scale_rewards, DT_SCALE_GROUP);
    assert_true(conf->grpo.epsilon == 0.2 && conf->grpo.epsilon_high == 0.2);
    assert_true(conf->grpo.beta == 0 && conf->grpo.delta == 0);
    assert_true(conf->grpo.advantage_clip == 0);
    assert_true(conf->rollout.temperature == 1 && conf->rollout.top_p == 1);
    assert_int_equal(conf->rollout.max_completion_length, 512);
    assert_int_equal(conf->data.max_length, 1024);
    assert_int_equal(conf->data.max_prompt_length, 512);
    assert_int_equal(conf->rollout.correction, DT_CORRECTION_NONE);
    assert_int_equal(conf->rollout.exact, DT_CONF_AUTO_CHOICE);
    dt_conf_destroy(conf);
    conf = load_good(SAMPLED("grpo") "data.format: auto\n", "");
    assert_int_equal(conf->data.format, DT_FORMAT_PROMPT);
    dt_conf_destroy(conf);
}

static void ppo_has_defaults_of_its_own(void **state)
{
    struct dt_conf *conf =
        load_good(SAMPLED("ppo") "data.max_prompt_length: 100\n"
                                 "reward_model_path: .\n",
                  "");
    (void)state;
    assert_int_equal(conf->algorithm, DT_CONF_PPO);
    assert_true(conf->optimizer.lr == 3e-6 && conf->ppo.critic_lr == 3e-6);
    assert_int_equal(conf->rollout.max_completion_length, 53);
    assert_true(conf->rollout.temperature == 0.7);
    assert_int_equal(conf->data.max_length, 153);
    assert_string_equal(conf->model.value_path, conf->model.reward_path);
    assert_int_equal(conf->ppo.epochs, 4);
    assert_int_equal(conf->ppo.num_mini_batches, 1);
    assert_true(conf->ppo.kl_coef == 0.05 && conf->ppo.lam == 0.95);
    assert_true(conf->ppo.gamma == 1 && conf->ppo.vf_coef == 0.1);
    assert_int_equal(conf->ppo.advantage_norm, DT_ADVANTAGE_WHITEN);
    assert_true(conf->ppo.scheduler_by_update);
    assert_true(conf->ppo.dual_clip == 0 && conf->ppo.target_kl == 0);
    dt_conf_destroy(conf);
}

static void a_reward_path_is_a_function(void **state)
{
    struct dt_conf *conf =
        load_good(SAMPLED("ppo") "model.reward_path: .\n", "");
    (void)state;
    assert_int_equal(conf->reward.count, 2);
    assert_int_equal(conf->reward.functions[1].type, DT_CONF_REWARD_MODEL);
    assert_int_equal(conf->reward.functions[1].where, DT_CONF_ALL);
    assert_true(conf->reward.functions[1].weight == 1);
    assert_string_equal(conf->reward.functions[1].name, "model");
    assert_string_equal(conf->reward.functions[1].path,
                        conf->model.reward_path);
    dt_conf_destroy(conf);
    conf = load_good("algorithm: ppo\n"
                     "data.train: train.jsonl\n"
                     "model: {n_embd: 96, reward_path: .}\n"
                     "reward.functions: [{type: model, path: ., weight: 2}]\n"
                     "training.per_device_batch_size: 8\n",
                     "");
    assert_int_equal(conf->reward.count, 1);
    dt_conf_destroy(conf);
}

static void flat_names_of_grpo_are_understood(void **state)
{
    struct dt_conf *conf =
        load_good(SAMPLED("grpo") "beta: 0.04\n"
                                  "loss_type: dr_grpo\n"
                                  "num_generations: 4\n"
                                  "epsilon_high: 0.28\n"
                                  "scale_rewards: false\n"
                                  "max_prompt_length: 64\n"
                                  "max_completion_length: 128\n"
                                  "mask_truncated_completions: true\n"
                                  "use_bias_correction_kl: true\n"
                                  "repetition_penalty: 1.0\n"
                                  "min_p: null\n"
                                  "ref_model: .\n",
                  "");
    (void)state;
    assert_true(conf->grpo.beta == 0.04 && conf->dpo.beta == 0.1);
    assert_int_equal(conf->grpo.loss_type, DT_GRPO_DR_GRPO);
    assert_string_equal(conf->dpo.loss.text[0], "sigmoid");
    assert_int_equal(conf->grpo.num_generations, 4);
    assert_true(conf->grpo.epsilon == 0.2 && conf->grpo.epsilon_high == 0.28);
    assert_int_equal(conf->grpo.scale_rewards, DT_SCALE_NONE);
    assert_int_equal(conf->data.max_length, 192);
    assert_true(conf->grpo.mask_truncated && conf->grpo.kl_unbiased);
    dt_conf_destroy(conf);
}

static void keys_of_sampling_are_also_those_of_the_algorithm(void **state)
{
    struct dt_conf *conf =
        load_good(SAMPLED("ppo") "ppo: {temperature: 1.1, response_length: 9,\n"
                                 "      num_ppo_epochs: 2, critic: {lr: 1.0e-5,"
                                 " path: .}}\n"
                                 "rollout: {stop: [\"\\n\"], stop_ids: [7]}\n",
                  "");
    (void)state;
    assert_true(conf->rollout.temperature == 1.1);
    assert_int_equal(conf->rollout.max_completion_length, 9);
    assert_int_equal(conf->ppo.epochs, 2);
    assert_true(conf->ppo.critic_lr == 1e-5);
    assert_non_null(conf->model.value_path);
    assert_string_equal(conf->rollout.stop.text[0], "\n");
    assert_string_equal(conf->rollout.stop_ids.text[0], "7");
    dt_conf_destroy(conf);
}

static void luspo_and_overlap_choose_what_they_need(void **state)
{
    struct dt_conf *conf =
        load_good(SAMPLED("grpo") "grpo: {loss_type: luspo, epsilon: 3.0e-4}\n"
                                  "rollout.overlap: 1\n",
                  "");
    (void)state;
    assert_int_equal(conf->grpo.level, DT_GRPO_SEQUENCE);
    assert_int_equal(conf->rollout.correction, DT_CORRECTION_TOKEN_TRUNCATE);
    dt_conf_destroy(conf);
}

static void doubtful_choices_are_warned_of(void **state)
{
    (void)state;
    dt_conf_destroy(load_good(
        SAMPLED("grpo") "top_p: 0.9\ntop_k: 50\n"
                        "grpo.importance_sampling: sequence\n"
                        "grpo.epsilon: 0.1\n",
        "t.yaml:6:8: rollout.top_p: 0.9 changes what is sampled, but "
        "log-probabilities are of all tokens: training is biased\n"
        "t.yaml:7:8: rollout.top_k: 50 changes what is sampled, but "
        "log-probabilities are of all tokens: training is biased\n"
        "t.yaml:9:15: grpo.epsilon: 0.1: ratios of completions are hardly "
        "ever that far from 1, so that none is clipped; 3e-4 is usual "
        "(GSPO)\n"));
    dt_conf_destroy(load_good(
        SAMPLED("grpo") "rollout: {overlap: 1, correction: none}\n",
        "t.yaml:6:35: rollout.correction: none: with rollout.overlap "
        "completions are of older weights, and nothing corrects for that\n"));
}

static const struct broken of_both[] = {
    {SAMPLED("grpo") "data.format: messages\n",
     "t.yaml:6:14: data.format: this algorithm samples completions of "
     "prompts: write prompt, or leave it out\n"},
    {SAMPLED("ppo") "data.packing: bfd\n",
     "t.yaml:6:15: data.packing: E111 is not for sampled completions, which "
     "always follow each other in one row without padding\n"},
    {SAMPLED("ppo") "data.loss_on: full\n",
     "t.yaml:6:15: data.loss_on: is not for sampled completions, all tokens "
     "of which count\n"},
    {SAMPLED("grpo") "data.truncation: drop\n",
     "t.yaml:6:18: data.truncation: drop is for preference pairs: "
     "data.prompt_overflow says what becomes of long prompts\n"},
    {SAMPLED("grpo") "label_smoothing: 0.1\n",
     "t.yaml:6:18: training.label_smoothing: is not for sampled "
     "completions\n"},
    {SAMPLED("grpo") "max_completion_length: 1024\n",
     "t.yaml:6:24: rollout.max_completion_length: E119 1024 tokens leave none "
     "of data.max_length 1024 to prompts\n"},
    {SAMPLED("grpo") "data: {max_length: 600, max_prompt_length: 100}\n",
     "t.yaml:6:44: data.max_prompt_length: E119 100 tokens and completions of "
     "512 do not fit into data.max_length 600\n"},
    {SAMPLED("grpo") "training.micro_batch_tokens: 1000\n",
     "t.yaml:6:30: training.micro_batch_tokens: 1000 is too few for a prompt "
     "of 512 tokens and a completion of 512\n"},
    {SAMPLED("grpo") "repetition_penalty: 1.1\n",
     "t.yaml:6:21: rollout.repetition_penalty: E134 1.1: the model that is "
     "trained knows no penalty: write 1\n"},
    {SAMPLED("grpo") "temperature: 0\ntop_p: 0\ntop_k: -1\n",
     "t.yaml:6:14: rollout.temperature: expected a number in (0, 100], got 0\n"
     "t.yaml:7:8: rollout.top_p: expected a number in (0, 1], got 0\n"
     "t.yaml:8:8: rollout.top_k: expected an integer from 0 to 16777216 "
     "(tokens), got -1\n"},
    {SAMPLED("ppo") "rollout: {stop: [\"\"], stop_ids: [x, -1, 1e3]}\n",
     "t.yaml:6:17: rollout.stop: an empty string ends everything\n"
     "t.yaml:6:33: rollout.stop_ids: expected numbers of tokens, got \"x\"\n"
     "t.yaml:6:33: rollout.stop_ids: expected numbers of tokens, got "
     "\"-1\"\n"
     "t.yaml:6:33: rollout.stop_ids: expected numbers of tokens, got "
     "\"1e3\"\n"},
};

static const struct broken of_grpo[] = {
    {SAMPLED("grpo") "num_generations: 1\n",
     "t.yaml:6:18: grpo.num_generations: expected an integer from 2 to 65536 "
     "(completions), got 1\n"},
    {SAMPLED("grpo") "grpo: {steps_per_generation: 2,\n"
                     "       generation_batch_size: 64}\n",
     "t.yaml:7:31: grpo.generation_batch_size: E115 cannot be used with "
     "grpo.steps_per_generation: each gives the other\n"},
    {SAMPLED("grpo") "grpo: {loss_type: vespo}\n",
     "t.yaml:6:19: grpo.loss_type: vespo is not supported yet: it needs the "
     "loss of VESPO\n"},
    {SAMPLED("grpo") "grpo: {loss_type: cispo}\n",
     "t.yaml:1:1: grpo.epsilon_high: E132 cispo needs the limit of the ratio "
     "itself here, at least 1, such as 5\n"},
    {SAMPLED("grpo") "grpo: {loss_type: cispo, epsilon_high: 0.28}\n",
     "t.yaml:6:40: grpo.epsilon_high: E132 cispo needs the limit of the ratio "
     "itself here, at least 1, such as 5\n"},
    {SAMPLED("grpo") "grpo: {loss_type: sapo, delta: 2}\n",
     "t.yaml:6:32: grpo.delta: has no effect with this loss_type, which does "
     "not clip\n"},
    {SAMPLED("grpo") "grpo: {loss_type: luspo, importance_sampling: token}\n",
     "t.yaml:6:47: grpo.importance_sampling: luspo has ratios of completions: "
     "write sequence, or leave it out\n"},
    {SAMPLED("grpo") "grpo: {baseline: loo, scale_rewards: global_clamp}\n",
     "t.yaml:6:18: grpo.baseline: loo cannot be used with "
     "grpo.scale_rewards: global_clamp\n"},
    {SAMPLED("grpo") "grpo: {aggregation: normalize_then_sum,\n"
                     "       scale_rewards: batch}\n",
     "t.yaml:6:21: grpo.aggregation: normalize_then_sum scales each reward by "
     "its group: write grpo.scale_rewards: group\n"},
    {SAMPLED("grpo") "ref_model: .\n",
     "t.yaml:6:12: model.reference_path: E117 grpo.beta is 0, so that no "
     "reference is used\n"},
    {SAMPLED("grpo") "rollout.overlap: 1\nnum_iterations: 2\n",
     "t.yaml:6:18: rollout.overlap: cannot be used with grpo.num_iterations "
     "2: only with 1\n"},
    {SAMPLED("grpo") "grpo: {dynamic_sampling: {max_refills: 9}}\n",
     "t.yaml:6:40: grpo.dynamic_sampling.max_refills: only "
     "grpo.dynamic_sampling.enabled: true uses it\n"},
    {SAMPLED("grpo") "grpo: {dynamic_sampling: {enabled: true},\n"
                     "       scale_rewards: global_clamp}\n"
                     "rollout.overlap: 1\n",
     "t.yaml:6:36: grpo.dynamic_sampling.enabled: grpo.scale_rewards: "
     "global_clamp compares completions of all prompts, so that equal rewards "
     "of one teach something, too\n"
     "t.yaml:6:36: grpo.dynamic_sampling.enabled: cannot be used with "
     "rollout.overlap: which prompts are replaced is known when all rewards "
     "are there, so that nothing would overlap\n"},
    {SAMPLED("grpo") "grpo: {sync_ref: {enabled: true}}\n",
     "t.yaml:6:28: grpo.sync_ref.enabled: E117 grpo.beta is 0, so that no "
     "reference is used\n"},
    {SAMPLED("grpo") "grpo: {beta: 0.1, sync_ref: {alpha: 0.5, steps: 512}}\n",
     "t.yaml:6:37: grpo.sync_ref.alpha: only grpo.sync_ref.enabled: true uses "
     "it\n"},
};

static const struct broken of_ppo[] = {
    {SAMPLED("ppo") "ppo: {kl_coef: 0, kl_control: adaptive}\nref_model: .\n",
     "t.yaml:6:31: ppo.kl_control: adaptive multiplies ppo.kl_coef, which is "
     "0\n"
     "t.yaml:7:12: model.reference_path: E117 ppo.kl_coef is 0, so that no "
     "reference is used\n"},
    {SAMPLED("ppo") "disable_dropout: false\n",
     "t.yaml:6:18: model.disable_dropout: false: with dropout, the model "
     "would differ from itself when it sampled\n"},
    {SAMPLED("ppo") "total_episodes: 100\nmax_steps: 9\n",
     "t.yaml:6:17: ppo.total_episodes: cannot be used with "
     "training.max_steps: each says how long the run is\n"},
    {SAMPLED("ppo") "rollout.overlap: 1\n",
     "t.yaml:6:18: rollout.overlap: cannot be used with ppo.epochs 4 and "
     "ppo.num_mini_batches 1: only with 1 and 1\n"},
    {SAMPLED("ppo") "ppo.critic: {share_backbone: true, lr: 1.0e-5}\n"
                    "model.value_path: .\n",
     "t.yaml:6:40: ppo.critic.lr: has no effect with "
     "ppo.critic.share_backbone, which makes the critic a new head of the "
     "model, trained with it\n"
     "t.yaml:7:19: model.value_path: has no effect with "
     "ppo.critic.share_backbone, which makes the critic a new head of the "
     "model, trained with it\n"},
    {"algorithm: grpo\ndata.train: train.jsonl\nmodel.n_embd: 96\n"
     "training.per_device_batch_size: 8\n",
     "t.yaml:1:1: reward.functions: E118 required: what is a good completion? "
     "A list such as [{type: exact}], or model.reward_path\n"},
    {SAMPLED("ppo") "grpo.beta: 0.1\n",
     "t.yaml:6:12: grpo.beta: only algorithm grpo uses it\n"},
    {LEAST "rollout.temperature: 0.5\n",
     "t.yaml:5:22: rollout.temperature: only algorithms ppo and grpo use it\n"},
    {LEAST "data.format: prompt\n",
     "t.yaml:5:14: data.format: prompt is for algorithms ppo and grpo: sft "
     "trains on text, completions or conversations\n"},
};

static void keys_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    CHECK_ALL(of_both);
    CHECK_ALL(of_grpo);
    CHECK_ALL(of_ppo);
}

/* The error of resolving the sizes for `world` ranks, or "". */
static const char *resolved(const char *text, int world, struct dt_conf **conf)
{
    static struct dt_error err;
    err.text[0] = '\0';
    *conf = load_good(text, "");
    dt_conf_resolve_batch(*conf, world, &err);
    const char *key = strstr(err.text, "t.yaml");
    return key ? key : err.text;
}

static void generations_are_whole_steps_of_whole_groups(void **state)
{
    struct dt_conf *conf;
    (void)state;
    assert_string_equal(resolved(SAMPLED("grpo") "grad_accum: 2\n", 4, &conf),
                        "");
    assert_int_equal(conf->grpo.steps_per_generation, 2);
    assert_int_equal(conf->grpo.generation_batch_size, 64);
    /* Another world may follow. */
    assert_int_equal(dt_conf_resolve_batch(conf, 4, NULL), 0);
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("grpo") "generation_batch_size: 64\n", 2, &conf), "");
    assert_int_equal(conf->grpo.steps_per_generation, 4);
    dt_conf_destroy(conf);
    assert_string_equal(resolved(SAMPLED("grpo") "generation_batch_size: 64\n"
                                                 "grad_accum: 2\n",
                                 2, &conf),
                        ""); /* two optimizer steps of two micro-batches */
    assert_int_equal(conf->grpo.steps_per_generation, 4);
    assert_int_equal(conf->grpo.generation_batch_size, 64);
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("grpo") "grad_accum: 2\nsteps_per_generation: 3\n", 1,
                 &conf),
        "t.yaml:7:23: grpo.steps_per_generation: E115 3 is not a multiple of "
        "gradient_accumulation_steps 2");
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("grpo") "generation_batch_size: 40\n", 2, &conf),
        "t.yaml:6:24: grpo.generation_batch_size: E115 40 is not a multiple "
        "of 16, the completions of an optimizer step");
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("grpo") "num_generations: 6\n", 2, &conf),
        "t.yaml:6:18: grpo.num_generations: E115 16 completions (16 of all "
        "ranks at once, 1 times) are no whole groups of 6");
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("grpo") "rollout.overlap: 1\n"
                                 "steps_per_generation: 2\n",
                 1, &conf),
        "t.yaml:6:18: rollout.overlap: needs a generation for each optimizer "
        "step, but grpo.steps_per_generation is 2 and "
        "gradient_accumulation_steps 1");
    dt_conf_destroy(conf);
}

static void mini_batches_are_whole(void **state)
{
    struct dt_conf *conf;
    (void)state;
    assert_string_equal(
        resolved(SAMPLED("ppo") "num_mini_batches: 4\n", 1, &conf), "");
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("ppo") "num_mini_batches: 3\n", 2, &conf),
        "t.yaml:6:19: ppo.num_mini_batches: E116 the 8 completions of a rank "
        "cannot be divided into 3 mini-batches");
    dt_conf_destroy(conf);
    assert_string_equal(
        resolved(SAMPLED("ppo") "ppo: {num_mini_batches: 4,\n"
                                "      whiten_rewards: true}\n",
                 2, &conf),
        "t.yaml:7:23: ppo.whiten_rewards: needs at least 8 completions in a "
        "mini-batch, which has 4");
    dt_conf_destroy(conf);
}

/* The dump of a configuration, malloc'ed. */
static char *dumped(const char *text)
{
    struct dt_conf *conf = load_good(text, "");
    char *result = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&result, &bytes);
    dt_conf_dump(conf, out);
    fclose(out);
    dt_conf_destroy(conf);
    return result;
}

static void a_dump_has_the_keys_of_its_algorithm_alone(void **state)
{
    char *text = dumped(SAMPLED("grpo"));
    (void)state;
    assert_non_null(strstr(text, "grpo:\n  num_generations: 8  # default\n"));
    assert_non_null(strstr(text, "\n  correction: none  # worked out\n"));
    assert_null(strstr(text, "ppo:\n  total"));
    assert_null(strstr(text, "dpo:\n"));
    char *again = dumped(text);
    assert_non_null(strstr(again, "\n  epsilon_high: 0.2  # line "));
    free(again);
    free(text);
    text = dumped(LEAST);
    assert_null(strstr(text, "rollout:\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpo_has_defaults_of_its_own),
        cmocka_unit_test(ppo_has_defaults_of_its_own),
        cmocka_unit_test(a_reward_path_is_a_function),
        cmocka_unit_test(flat_names_of_grpo_are_understood),
        cmocka_unit_test(keys_of_sampling_are_also_those_of_the_algorithm),
        cmocka_unit_test(luspo_and_overlap_choose_what_they_need),
        cmocka_unit_test(doubtful_choices_are_warned_of),
        cmocka_unit_test(keys_that_do_not_fit_are_refused),
        cmocka_unit_test(generations_are_whole_steps_of_whole_groups),
        cmocka_unit_test(mini_batches_are_whole),
        cmocka_unit_test(a_dump_has_the_keys_of_its_algorithm_alone),
    };
    return cmocka_run_group_tests_name("conf sampled", tests, enter_directory,
                                       leave_directory);
}
