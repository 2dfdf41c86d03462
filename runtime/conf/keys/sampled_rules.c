/* SPDX-License-Identifier: Apache-2.0 */
/* sampled_rules.c - rules of algorithms that learn from sampled completions:
 * sections ppo, grpo, rollout and reward
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/keys/draft.h"

enum { WHITEN_LEAST = 8 }; /* completions whose variance tells something */

static bool samples(const struct dt_conf *conf)
{
    return conf->algorithm == DT_CONF_PPO || conf->algorithm == DT_CONF_GRPO;
}

/* --- defaults --- */

/* Prompts get what completions leave of a row, or a row is made for both. */
static void derive_lengths(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    long completion = conf->rollout.max_completion_length;
    bool prompt = dt_conf_given(conf, "data.max_prompt_length");
    if (prompt && dt_conf_is_left(draft->conf, "data.max_length"))
        conf->data.max_length = conf->data.max_prompt_length + completion;
    else if (!prompt && dt_conf_is_left(draft->conf, "data.max_prompt_length"))
        conf->data.max_prompt_length = conf->data.max_length - completion;
}

static void derive_ppo(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    if (dt_conf_is_left(draft->conf, "rollout.max_completion_length"))
        conf->rollout.max_completion_length = 53;
    if (dt_conf_is_left(draft->conf, "rollout.temperature"))
        conf->rollout.temperature = 0.7;
    if (dt_conf_is_left(draft->conf, "optimizer.lr"))
        conf->optimizer.lr = 3e-6;
    if (dt_conf_is_left(draft->conf, "ppo.critic.lr"))
        conf->ppo.critic_lr = conf->optimizer.lr;
    if (conf->model.reward_path && !conf->ppo.critic_shares &&
        dt_conf_is_left(draft->conf, "model.value_path")) {
        conf->model.value_path = strdup(conf->model.reward_path);
        draft->problems.out_of_memory |= !conf->model.value_path;
    }
}

static void derive_grpo(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    if (dt_conf_is_left(draft->conf, "optimizer.lr"))
        conf->optimizer.lr = 1e-6;
    if (conf->grpo.loss_type == DT_GRPO_LUSPO &&
        dt_conf_is_left(draft->conf, "grpo.importance_sampling"))
        conf->grpo.level = DT_GRPO_SEQUENCE;
    if (conf->grpo.loss_type != DT_GRPO_CISPO &&
        dt_conf_is_left(draft->conf, "grpo.epsilon_high"))
        conf->grpo.epsilon_high = conf->grpo.epsilon;
}

void dt_conf_derive_sampled(struct dt_conf_draft *draft)
{
    struct dt_conf *conf = draft->conf;
    if (!samples(conf))
        return;
    if (dt_conf_is_left(draft->conf, "data.format"))
        conf->data.format = DT_FORMAT_PROMPT;
    if (dt_conf_is_left(draft->conf, "model.disable_dropout"))
        conf->model.disable_dropout = true;
    if (conf->algorithm == DT_CONF_PPO)
        derive_ppo(draft);
    else
        derive_grpo(draft);
    derive_lengths(draft);
    if (conf->rollout.correction == DT_CORRECTION_AUTO) {
        dt_conf_is_left(draft->conf, "rollout.correction");
        conf->rollout.correction = conf->rollout.overlap > 0
                                       ? DT_CORRECTION_TOKEN_TRUNCATE
                                       : DT_CORRECTION_NONE;
    }
}

/* --- rules --- */

static void check_prompts(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->data.format != DT_FORMAT_PROMPT)
        PROBLEM(draft, "data.format",
                "this algorithm samples completions of prompts: write prompt, "
                "or leave it out");
    if (conf->data.packing != DT_PACK_NONE)
        PROBLEM(draft, "data.packing",
                "E111 is not for sampled completions, which always follow "
                "each other in one row without padding");
    if (conf->data.loss_on != DT_LOSS_AUTO)
        PROBLEM(draft, "data.loss_on",
                "is not for sampled completions, all tokens of which count");
    if (conf->data.truncation == DT_CONF_DROP)
        PROBLEM(draft, "data.truncation",
                "drop is for preference pairs: data.prompt_overflow says what "
                "becomes of long prompts");
    if (conf->training.label_smoothing > 0)
        PROBLEM(draft, "training.label_smoothing",
                "is not for sampled completions");
}

static void check_lengths(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    long completion = conf->rollout.max_completion_length;
    long both = conf->data.max_prompt_length + completion;
    long most = conf->training.micro_batch_tokens;
    if (conf->data.max_prompt_length < 1)
        PROBLEM(draft, "rollout.max_completion_length",
                "E119 %ld tokens leave none of data.max_length %ld to prompts",
                completion, conf->data.max_length);
    else if (both > conf->data.max_length)
        PROBLEM(draft, "data.max_prompt_length",
                "E119 %ld tokens and completions of %ld do not fit into "
                "data.max_length %ld",
                conf->data.max_prompt_length, completion,
                conf->data.max_length);
    else if (most > 0 && most < both)
        PROBLEM(draft, "training.micro_batch_tokens",
                "%ld is too few for a prompt of %ld tokens and a completion "
                "of %ld",
                most, conf->data.max_prompt_length, completion);
}

/* Whether a text is the number of a token in decimal digits, as strtol reads
 * it: it would take 1e3 for 1.
 */
static bool is_token(const char *text)
{
    return *text && !text[strspn(text, "0123456789")] &&
           strtoul(text, NULL, 10) <= INT32_MAX;
}

static void check_sampling(struct dt_conf_draft *draft)
{
    static const char all[] = "changes what is sampled, but log-probabilities "
                              "are of all tokens: training is biased";
    const struct dt_conf_rollout *rollout = &draft->conf->rollout;
    if (rollout->repetition_penalty != 1)
        PROBLEM(draft, "rollout.repetition_penalty",
                "E134 %g: the model that is trained knows no penalty: write 1",
                rollout->repetition_penalty);
    if (rollout->top_p < 1)
        WARNING(draft, "rollout.top_p", "%g %s", rollout->top_p, all);
    if (rollout->top_k > 0)
        WARNING(draft, "rollout.top_k", "%ld %s", rollout->top_k, all);
    if (rollout->min_p > 0)
        WARNING(draft, "rollout.min_p", "%g %s", rollout->min_p, all);
    for (size_t i = 0; i < rollout->stop.count; i++)
        if (rollout->stop.text[i][0] == '\0')
            PROBLEM(draft, "rollout.stop", "an empty string ends everything");
    for (size_t i = 0; i < rollout->stop_ids.count; i++)
        if (!is_token(rollout->stop_ids.text[i]))
            PROBLEM(draft, "rollout.stop_ids",
                    "expected numbers of tokens, got \"%.60s\"",
                    rollout->stop_ids.text[i]);
}

static void check_reference(struct dt_conf_draft *draft, double weight,
                            const char *key)
{
    if (weight <= 0 && draft->conf->model.reference_path)
        PROBLEM(draft, "model.reference_path",
                "E117 %s is 0, so that no reference is used", key);
}

static void check_loss_type(struct dt_conf_draft *draft)
{
    const struct dt_conf_grpo *grpo = &draft->conf->grpo;
    bool clips =
        grpo->loss_type != DT_GRPO_CISPO && grpo->loss_type != DT_GRPO_SAPO;
    if (grpo->loss_type == DT_GRPO_CISPO && grpo->epsilon_high < 1)
        PROBLEM(draft, "grpo.epsilon_high",
                "E132 cispo needs the limit of the ratio itself here, at "
                "least 1, such as 5");
    if (grpo->delta > 0 && !clips)
        PROBLEM(draft, "grpo.delta",
                "has no effect with this loss_type, which does not clip");
    if (grpo->loss_type == DT_GRPO_LUSPO && grpo->level != DT_GRPO_SEQUENCE)
        PROBLEM(draft, "grpo.importance_sampling",
                "luspo has ratios of completions: write sequence, or leave it "
                "out");
    if (grpo->level == DT_GRPO_SEQUENCE && clips && grpo->epsilon > 0.01)
        WARNING(draft, "grpo.epsilon",
                "%g: ratios of completions are hardly ever that far from 1, "
                "so that none is clipped; 3e-4 is usual (GSPO)",
                grpo->epsilon);
}

static void check_advantages(struct dt_conf_draft *draft)
{
    const struct dt_conf_grpo *grpo = &draft->conf->grpo;
    bool clamp = grpo->scale_rewards == DT_SCALE_GLOBAL_CLAMP;
    bool single = grpo->aggregation == DT_NORMALIZE_THEN_SUM;
    if (grpo->baseline == DT_BASELINE_LOO && (clamp || single))
        PROBLEM(draft, "grpo.baseline", "loo cannot be used with %s",
                clamp ? "grpo.scale_rewards: global_clamp"
                      : "grpo.aggregation: normalize_then_sum");
    if (single && grpo->scale_rewards != DT_SCALE_GROUP)
        PROBLEM(draft, "grpo.aggregation",
                "normalize_then_sum scales each reward by its group: write "
                "grpo.scale_rewards: group");
}

static void check_dynamic_sampling(struct dt_conf_draft *draft)
{
    static const char key[] = "grpo.dynamic_sampling.enabled";
    static const char tries[] = "grpo.dynamic_sampling.max_refills";
    const struct dt_conf *conf = draft->conf;
    if (!conf->grpo.dynamic_sampling.enabled) {
        if (dt_conf_differs(draft, tries))
            PROBLEM(draft, tries, "only %s: true uses it", key);
        return;
    }
    if (conf->grpo.scale_rewards == DT_SCALE_GLOBAL_CLAMP)
        PROBLEM(draft, key,
                "grpo.scale_rewards: global_clamp compares completions of all "
                "prompts, so that equal rewards of one teach something, too");
    if (conf->rollout.overlap > 0)
        PROBLEM(draft, key,
                "cannot be used with rollout.overlap: which prompts are "
                "replaced is known when all rewards are there, so that nothing "
                "would overlap");
}

static void check_sync(struct dt_conf_draft *draft)
{
    static const char key[] = "grpo.sync_ref.enabled";
    static const char *const how[] = {"grpo.sync_ref.alpha",
                                      "grpo.sync_ref.steps"};
    const struct dt_conf *conf = draft->conf;
    for (int i = 0; i < 2 && !conf->grpo.sync_ref.enabled; i++)
        if (dt_conf_differs(draft, how[i]))
            PROBLEM(draft, how[i], "only %s: true uses it", key);
    if (conf->grpo.sync_ref.enabled && conf->grpo.beta <= 0)
        PROBLEM(draft, key,
                "E117 grpo.beta is 0, so that no reference is used");
}

static void check_grpo(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    check_loss_type(draft);
    check_advantages(draft);
    check_dynamic_sampling(draft);
    check_sync(draft);
    check_reference(draft, conf->grpo.beta, "grpo.beta");
    if (conf->grpo.steps_per_generation > 0 &&
        conf->grpo.generation_batch_size > 0)
        PROBLEM(draft, "grpo.generation_batch_size",
                "E115 cannot be used with grpo.steps_per_generation: each "
                "gives the other");
    if (conf->rollout.overlap > 0 && conf->grpo.num_iterations > 1)
        PROBLEM(draft, "rollout.overlap",
                "cannot be used with grpo.num_iterations %ld: only with 1",
                conf->grpo.num_iterations);
}

/* A critic that is a head of the model has neither. */
static void check_shared_critic(struct dt_conf_draft *draft)
{
    static const char *const keys[] = {"ppo.critic.lr", "ppo.critic.warmup",
                                       "model.value_path"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (draft->conf->ppo.critic_shares &&
            dt_conf_given(draft->conf, keys[i]))
            PROBLEM(draft, keys[i],
                    "has no effect with ppo.critic.share_backbone, which "
                    "makes the critic a new head of the model, trained with "
                    "it");
}

static void check_ppo(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const struct dt_conf_ppo *ppo = &conf->ppo;
    check_reference(draft, ppo->kl_coef, "ppo.kl_coef");
    check_shared_critic(draft);
    if (!conf->model.disable_dropout)
        PROBLEM(draft, "model.disable_dropout",
                "false: with dropout, the model would differ from itself when "
                "it sampled");
    if (ppo->kl_control == DT_KL_ADAPTIVE && ppo->kl_coef <= 0)
        PROBLEM(draft, "ppo.kl_control",
                "adaptive multiplies ppo.kl_coef, which is 0");
    if (ppo->total_episodes > 0 && conf->training.max_steps > 0)
        PROBLEM(draft, "ppo.total_episodes",
                "cannot be used with training.max_steps: each says how long "
                "the run is");
    if (conf->rollout.overlap > 0 &&
        (ppo->epochs > 1 || ppo->num_mini_batches > 1))
        PROBLEM(draft, "rollout.overlap",
                "cannot be used with ppo.epochs %ld and ppo.num_mini_batches "
                "%ld: only with 1 and 1",
                ppo->epochs, ppo->num_mini_batches);
}

/* With overlap, completions are of weights before the ones that are trained;
 * ppo compares with these anyway.
 */
static void check_correction(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (conf->rollout.overlap > 0 && conf->algorithm == DT_CONF_GRPO &&
        conf->rollout.correction == DT_CORRECTION_NONE)
        WARNING(draft, "rollout.correction",
                "none: with rollout.overlap completions are of older weights, "
                "and nothing corrects for that");
}

void dt_conf_check_sampled(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    if (!dt_conf_knows_algorithm(draft) || !samples(conf))
        return;
    check_prompts(draft);
    check_lengths(draft);
    check_sampling(draft);
    check_correction(draft);
    if (conf->algorithm == DT_CONF_GRPO)
        check_grpo(draft);
    else
        check_ppo(draft);
}

/* --- rewards --- */

/* Metrics have a mean and a deviation of each. */
static void check_number(struct dt_conf_draft *draft)
{
    const struct dt_conf_rewards *rewards = &draft->conf->reward;
    size_t count = 0;
    for (size_t i = 0; i < rewards->count; i++)
        count += dt_conf_reward_channels(&rewards->functions[i]);
    if (count > DT_CONF_REWARDS_MAX)
        PROBLEM(draft, "reward.functions",
                "%zu rewards of a completion, channels counted: at most %d",
                count, DT_CONF_REWARDS_MAX);
}

void dt_conf_check_rewards(struct dt_conf_draft *draft)
{
    const struct dt_conf *conf = draft->conf;
    const bool used =
        conf->algorithm == DT_CONF_PPO || conf->algorithm == DT_CONF_GRPO;
    if (!conf->trains || !dt_conf_knows_algorithm(draft))
        return;
    if (!used && conf->reward.count > 0)
        PROBLEM(draft, "reward.functions",
                "only algorithms ppo and grpo use it");
    if (used && conf->reward.count == 0 &&
        !dt_conf_has_failed(draft, "reward.functions") &&
        !dt_conf_has_failed(draft, "model.reward_path"))
        PROBLEM(draft, "reward.functions",
                "E118 required: what is a good completion? A list such as "
                "[{type: exact}], or model.reward_path");
    check_number(draft);
}

/* --- sizes --- */

/* Whole optimizer steps use a generation, which has whole groups. */
static int resolve_grpo(struct dt_conf *conf, struct dt_error *err)
{
    static const char steps_key[] = "grpo.steps_per_generation";
    static const char size_key[] = "grpo.generation_batch_size";
    struct dt_conf_grpo *grpo = &conf->grpo;
    long A = conf->training.gradient_accumulation_steps;
    long each = conf->training.global_micro_batch_size;
    long G = grpo->num_generations, steps = A;
    bool sized = dt_conf_given(conf, size_key);
    if (dt_conf_given(conf, steps_key))
        steps = grpo->steps_per_generation;
    if (sized && grpo->generation_batch_size % (each * A) != 0)
        return dt_conf_error_set(conf, size_key, err,
                                 "E115 %ld is not a multiple of %ld, the "
                                 "completions of an optimizer step",
                                 grpo->generation_batch_size, each * A);
    if (sized)
        steps = grpo->generation_batch_size / each;
    if (steps % A != 0)
        return dt_conf_error_set(conf, steps_key, err,
                                 "E115 %ld is not a multiple of "
                                 "gradient_accumulation_steps %ld",
                                 steps, A);
    if (steps * each % G != 0)
        return dt_conf_error_set(conf, "grpo.num_generations", err,
                                 "E115 %ld completions (%ld of all ranks at "
                                 "once, %ld times) are no whole groups of %ld",
                                 steps * each, each, steps, G);
    if (conf->rollout.overlap > 0 && steps != A)
        return dt_conf_error_set(conf, "rollout.overlap", err,
                                 "needs a generation for each optimizer step, "
                                 "but grpo.steps_per_generation is %ld and "
                                 "gradient_accumulation_steps %ld",
                                 steps, A);
    grpo->steps_per_generation = steps;
    grpo->generation_batch_size = steps * each;
    dt_conf_is_left(conf, steps_key);
    dt_conf_is_left(conf, size_key);
    return 0;
}

static int resolve_ppo(struct dt_conf *conf, struct dt_error *err)
{
    long each = conf->training.per_device_batch_size *
                conf->training.gradient_accumulation_steps;
    long mini = conf->ppo.num_mini_batches;
    if (each % mini != 0)
        return dt_conf_error_set(conf, "ppo.num_mini_batches", err,
                                 "E116 the %ld completions of a rank cannot "
                                 "be divided into %ld mini-batches",
                                 each, mini);
    if (conf->ppo.whiten_rewards &&
        conf->training.train_batch_size / mini < WHITEN_LEAST)
        return dt_conf_error_set(conf, "ppo.whiten_rewards", err,
                                 "needs at least %d completions in a "
                                 "mini-batch, which has %ld",
                                 (int)WHITEN_LEAST,
                                 conf->training.train_batch_size / mini);
    return 0;
}

int dt_conf_resolve_sampled(struct dt_conf *conf, struct dt_error *err)
{
    if (conf->algorithm == DT_CONF_GRPO)
        return resolve_grpo(conf, err);
    if (conf->algorithm == DT_CONF_PPO)
        return resolve_ppo(conf, err);
    return 0;
}
