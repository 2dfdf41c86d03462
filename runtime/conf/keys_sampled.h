/* SPDX-License-Identifier: Apache-2.0 */
/* keys_sampled.h - rows of the schema, for schema.c: rollout, grpo, ppo */
/* clang-format off */

    /* rollout */
    {"rollout.max_completion_length", DT_CONF_INT,
     AT(rollout.max_completion_length), .fallback = "512", .min = 1,
     .max = 1 << 24, .result = true, .unit = "tokens",
     .aliases = ALSO("max_completion_length", "grpo.max_completion_length",
                     "response_length", "ppo.response_length",
                     "max_new_tokens", "ppo.max_new_tokens",
                     "grpo.max_new_tokens"),
     .help = "most tokens of a completion that is sampled; the default of "
             "algorithm ppo is 53"},
    {"rollout.temperature", DT_CONF_FLOAT, AT(rollout.temperature),
     .fallback = "1", .min = 0, .max = 100, .above_min = true, .result = true,
     .aliases = ALSO("temperature", "grpo.temperature", "ppo.temperature"),
     .help = "logits are divided by this to sample and to train; the default "
             "of algorithm ppo is 0.7"},
    {"rollout.top_p", DT_CONF_FLOAT, AT(rollout.top_p), .fallback = "1",
     .min = 0, .max = 1, .above_min = true, .result = true,
     .aliases = ALSO("top_p", "grpo.top_p", "ppo.top_p"),
     .help = "sample among the likeliest tokens that have this probability "
             "together; 1 is best for training"},
    {"rollout.top_k", DT_CONF_INT, AT(rollout.top_k), .fallback = "0",
     .min = 0, .max = 1 << 24, .result = true, .unit = "tokens",
     .aliases = ALSO("top_k", "grpo.top_k", "ppo.top_k"),
     .help = "sample among this many of the likeliest tokens; 0 means all and "
             "is best for training"},
    {"rollout.min_p", DT_CONF_FLOAT, AT(rollout.min_p), .fallback = "0",
     .min = 0, .max = 1, .below_max = true, .result = true,
     .aliases = ALSO("min_p", "grpo.min_p", "ppo.min_p"),
     .help = "leave out tokens with less than this share of the likeliest "
             "one's probability; 0 is best for training"},
    {"rollout.repetition_penalty", DT_CONF_FLOAT,
     AT(rollout.repetition_penalty), .fallback = "1", .min = 0, .max = 100,
     .above_min = true, .result = true,
     .aliases = ALSO("repetition_penalty", "grpo.repetition_penalty",
                     "ppo.repetition_penalty"),
     .help = "must be 1: the model that is trained knows no penalty"},
    {"rollout.stop", DT_CONF_STRINGS, AT(rollout.stop), .result = true,
     .help = "strings that end a completion, beside the model's tokens for "
             "the end of a text; the token that completes one is the last"},
    {"rollout.stop_ids", DT_CONF_STRINGS, AT(rollout.stop_ids),
     .result = true, .aliases = ALSO("stop_token_ids"),
     .help = "numbers of more tokens that end a completion"},
    {"rollout.slots", DT_CONF_INT_OR_WORD, AT(rollout.slots),
     .fallback = "auto", .min = 1, .max = 1 << 16, .unit = "completions",
     .words = WORDS({"auto", 0, NULL}),
     .help = "completions of a rank that are sampled side by side; auto is as "
             "many as memory allows"},
    {"rollout.exact", DT_CONF_BOOL_OR_WORD, AT(rollout.exact),
     .fallback = "auto", .words = WORDS({"auto", DT_CONF_AUTO_CHOICE, NULL}),
     .help = "the tokens of a completion do not depend on what is sampled "
             "beside it, at some cost in speed; auto is true on cpu and with "
             "run.deterministic"},
    {"rollout.correction", DT_CONF_ENUM, AT(rollout.correction),
     .fallback = "auto", .result = true,
     .words = WORDS({"auto", DT_CORRECTION_AUTO, NULL},
                    {"none", DT_CORRECTION_NONE, NULL},
                    {"token_truncate", DT_CORRECTION_TOKEN_TRUNCATE, NULL},
                    {"token_mask", DT_CORRECTION_TOKEN_MASK, NULL},
                    {"sequence_mask", DT_CORRECTION_SEQUENCE_MASK, NULL}),
     .aliases = ALSO("vllm_importance_sampling_mode"),
     .help = "what becomes of tokens that the trainer finds more or less "
             "likely than the sampler did: token_truncate weighs them by the "
             "ratio, at most rollout.cap; token_mask and sequence_mask leave "
             "out tokens, or completions, above it; auto is token_truncate "
             "with rollout.overlap, else none"},
    {"rollout.cap", DT_CONF_FLOAT, AT(rollout.cap), .fallback = "2",
     .min = 1, .max = INFINITY, .result = true,
     .aliases = ALSO("vllm_importance_sampling_clip_max",
                     "vllm_importance_sampling_cap"),
     .help = "limit of the ratio in rollout.correction"},
    {"rollout.overlap", DT_CONF_INT, AT(rollout.overlap), .fallback = "0",
     .min = 0, .max = 1, .result = true, .unit = "generations",
     .help = "generations that are sampled ahead: with 1 the completions of "
             "step k + 1 are sampled before step k trains, so that slow "
             "rewards have the time of a whole step; their weights are one "
             "step old, which rollout.correction accounts for, and in ppo the "
             "ratios"},
    {"rollout.eval_temperature", DT_CONF_FLOAT, AT(rollout.eval_temperature),
     .fallback = "0", .min = 0, .max = 100,
     .help = "temperature of completions of held-out prompts; 0 takes the "
             "likeliest token"},
    {"rollout.eval_generations", DT_CONF_INT, AT(rollout.eval_generations),
     .fallback = "1", .min = 1, .max = 65536, .unit = "completions",
     .aliases = ALSO("num_generations_eval", "grpo.num_generations_eval"),
     .help = "completions of each held-out prompt in an evaluation"},
    {"rollout.log_every", DT_CONF_INT, AT(rollout.log_every),
     .fallback = "10", .min = 0, .max = 1e12, .unit = "optimizer steps",
     .help = "interval between files with samples in logging.dir; 0 writes "
             "none"},
    {"rollout.log_samples", DT_CONF_INT, AT(rollout.log_samples),
     .fallback = "1", .min = 1, .max = 1e6, .unit = "prompts",
     .aliases = ALSO("num_completions_to_print"),
     .help = "prompts in such a file, each with all of its completions"},

    /* grpo */
    {"grpo.num_generations", DT_CONF_INT, AT(grpo.num_generations),
     .fallback = "8", .min = 2, .max = 1 << 16, .result = true,
     .unit = "completions", .aliases = ALSO("num_generations"),
     .help = "completions of each prompt, which are compared with each other"},
    {"grpo.steps_per_generation", DT_CONF_INT, AT(grpo.steps_per_generation),
     .min = 1, .max = 1e6, .result = true, .unit = "forward passes",
     .aliases = ALSO("steps_per_generation"),
     .help = "forward passes for which completions are sampled at once; the "
             "default, and every value must be a multiple of it, is "
             "training.gradient_accumulation_steps"},
    {"grpo.generation_batch_size", DT_CONF_INT, AT(grpo.generation_batch_size),
     .min = 2, .max = 1e9, .result = true, .unit = "completions",
     .aliases = ALSO("generation_batch_size"),
     .help = "completions of all ranks that are sampled at once, instead of "
             "grpo.steps_per_generation"},
    {"grpo.num_iterations", DT_CONF_INT, AT(grpo.num_iterations),
     .fallback = "1", .min = 1, .max = 1e6, .result = true,
     .aliases = ALSO("num_iterations"),
     .help = "times that the completions of a generation are trained on"},
    {"grpo.loss_type", DT_CONF_ENUM, AT(grpo.loss_type), .fallback = "dapo",
     .result = true,
     .words = WORDS({"dapo", DT_GRPO_DAPO, NULL},
                    {"grpo", DT_GRPO_GRPO, NULL},
                    {"dr_grpo", DT_GRPO_DR_GRPO, NULL},
                    {"bnpo", DT_GRPO_BNPO, NULL},
                    {"cispo", DT_GRPO_CISPO, NULL},
                    {"sapo", DT_GRPO_SAPO, NULL},
                    {"luspo", DT_GRPO_LUSPO, NULL},
                    {"vespo", 0, "the loss of VESPO"}),
     .aliases = ALSO("loss_type"),
     .help = "loss of a completion: dapo and bnpo are means over the tokens "
             "of a step, grpo over completions of the mean of each, dr_grpo "
             "divides by the longest length; cispo limits the ratio of "
             "probabilities and drops no token, sapo limits it smoothly, "
             "luspo weighs completions by their length"},
    {"grpo.importance_sampling", DT_CONF_ENUM, AT(grpo.level),
     .fallback = "token", .result = true,
     .words = WORDS({"token", DT_GRPO_TOKEN, NULL},
                    {"sequence", DT_GRPO_SEQUENCE, NULL}),
     .aliases = ALSO("importance_sampling_level"),
     .help = "what ratios of probabilities are of: a token, or a completion "
             "(GSPO), which is the default of luspo"},
    {"grpo.epsilon", DT_CONF_FLOAT, AT(grpo.epsilon), .fallback = "0.2",
     .min = 0, .max = 1, .above_min = true, .result = true,
     .aliases = ALSO("epsilon"),
     .help = "a ratio below 1 minus this no longer counts"},
    {"grpo.epsilon_high", DT_CONF_FLOAT, AT(grpo.epsilon_high), .min = 0,
     .max = INFINITY, .above_min = true, .result = true,
     .aliases = ALSO("epsilon_high"),
     .help = "a ratio above 1 plus this no longer counts; the default is "
             "grpo.epsilon; cispo needs it as the limit of the ratio itself, "
             "such as 5"},
    {"grpo.delta", DT_CONF_FLOAT, AT(grpo.delta), .min = 1, .max = INFINITY,
     .above_min = true, .result = true, .aliases = ALSO("delta"),
     .help = "a ratio above this no longer counts either where the advantage "
             "is negative (dual clip); the default is no such limit"},
    {"grpo.beta", DT_CONF_FLOAT, AT(grpo.beta), .fallback = "0", .min = 0,
     .max = INFINITY, .result = true, .aliases = ALSO("beta"),
     .help = "weight of the KL divergence from the reference; with 0 there is "
             "no reference model"},
    {"grpo.kl_unbiased", DT_CONF_BOOL, AT(grpo.kl_unbiased),
     .fallback = "false", .result = true,
     .aliases = ALSO("use_bias_correction_kl"),
     .help = "weigh the KL divergence by the ratio, so that its gradient has "
             "no bias where completions are used several times"},
    {"grpo.entropy_coef", DT_CONF_FLOAT, AT(grpo.entropy_coef),
     .fallback = "0", .min = 0, .max = INFINITY, .result = true,
     .aliases = ALSO("entropy_coef"),
     .help = "weight of the entropy, which is made larger"},
    {"grpo.top_entropy_quantile", DT_CONF_FLOAT,
     AT(grpo.top_entropy_quantile), .fallback = "1", .min = 0, .max = 1,
     .above_min = true, .result = true,
     .aliases = ALSO("top_entropy_quantile"),
     .help = "share of the tokens of a step that take part in the loss, but "
             "for the KL divergence: those with the most entropy, such as "
             "0.2; 1 is all; less costs a forward pass of each generation, "
             "which computes entropies"},
    {"grpo.sapo_temperature_pos", DT_CONF_FLOAT, AT(grpo.sapo_temperature_pos),
     .fallback = "1", .min = 0, .max = INFINITY, .above_min = true,
     .result = true, .aliases = ALSO("sapo_temperature_pos"),
     .help = "how sharply sapo limits the ratio where the advantage is "
             "positive"},
    {"grpo.sapo_temperature_neg", DT_CONF_FLOAT, AT(grpo.sapo_temperature_neg),
     .fallback = "1.05", .min = 0, .max = INFINITY, .above_min = true,
     .result = true, .aliases = ALSO("sapo_temperature_neg"),
     .help = "the same where it is negative"},
    {"grpo.off_policy_mask", DT_CONF_FLOAT, AT(grpo.off_policy_mask),
     .min = 0, .max = INFINITY, .above_min = true, .result = true,
     .aliases = ALSO("off_policy_mask_threshold"),
     .help = "completions with a negative advantage are left out if the model "
             "has moved away from them by more than this, in nats a token; "
             "the default is to keep all"},
    {"grpo.mask_truncated", DT_CONF_BOOL, AT(grpo.mask_truncated),
     .fallback = "false", .result = true,
     .aliases = ALSO("mask_truncated_completions"),
     .help = "do not train on completions that were cut at "
             "rollout.max_completion_length"},
    {"grpo.scale_rewards", DT_CONF_ENUM, AT(grpo.scale_rewards),
     .fallback = "group", .result = true,
     .words = WORDS({"group", DT_SCALE_GROUP, NULL},
                    {"true", DT_SCALE_GROUP, NULL},
                    {"batch", DT_SCALE_BATCH, NULL},
                    {"none", DT_SCALE_NONE, NULL},
                    {"false", DT_SCALE_NONE, NULL},
                    {"global_clamp", DT_SCALE_GLOBAL_CLAMP, NULL}),
     .aliases = ALSO("scale_rewards"),
     .help = "standard deviation that advantages are divided by: of the "
             "completions of the prompt, of all completions, or none; "
             "global_clamp also subtracts the mean of all instead of the "
             "prompt's"},
    {"grpo.baseline", DT_CONF_ENUM, AT(grpo.baseline), .fallback = "group",
     .result = true,
     .words = WORDS({"group", DT_BASELINE_GROUP, NULL},
                    {"loo", DT_BASELINE_LOO, NULL}),
     .help = "mean that is subtracted from a reward: of all completions of "
             "the prompt, or of the others (RLOO)"},
    {"grpo.std", DT_CONF_ENUM, AT(grpo.std), .fallback = "sample",
     .result = true,
     .words = WORDS({"sample", DT_STD_SAMPLE, NULL},
                    {"population", DT_STD_POPULATION, NULL}),
     .help = "standard deviation with n - 1, or with n, in the denominator; "
             "that of global_clamp is always population"},
    {"grpo.aggregation", DT_CONF_ENUM, AT(grpo.aggregation),
     .fallback = "sum_then_normalize", .result = true,
     .words = WORDS({"sum_then_normalize", DT_SUM_THEN_NORMALIZE, NULL},
                    {"normalize_then_sum", DT_NORMALIZE_THEN_SUM, NULL}),
     .aliases = ALSO("multi_objective_aggregation"),
     .help = "whether several rewards are added before advantages are made of "
             "them, or each is first made comparable with the others (GDPO)"},
    {"grpo.advantage_clip", DT_CONF_FLOAT, AT(grpo.advantage_clip), .min = 0,
     .max = INFINITY, .above_min = true, .result = true,
     .help = "largest absolute advantage; the default is no limit"},
    {"grpo.dynamic_sampling.enabled", DT_CONF_BOOL,
     AT(grpo.dynamic_sampling.enabled), .fallback = "false", .result = true,
     .help = "sample completions of the next prompts in place of those whose "
             "rewards are all equal, which teach nothing (DAPO); where "
             "max_refills are not enough, the first of these stay"},
    {"grpo.dynamic_sampling.max_refills", DT_CONF_INT,
     AT(grpo.dynamic_sampling.max_refills), .fallback = "4", .min = 1,
     .max = 1e6, .result = true,
     .help = "times that this is tried for a generation, each for as many "
             "prompts as are missing"},
    {"grpo.sync_ref.enabled", DT_CONF_BOOL, AT(grpo.sync_ref.enabled),
     .fallback = "false", .result = true, .aliases = ALSO("sync_ref_model"),
     .help = "move the reference towards the model every few steps; it is then "
             "saved in checkpoints"},
    {"grpo.sync_ref.alpha", DT_CONF_FLOAT, AT(grpo.sync_ref.alpha),
     .fallback = "0.6", .min = 0, .max = 1, .above_min = true, .result = true,
     .aliases = ALSO("ref_model_mixup_alpha"),
     .help = "share of the model in the reference after such a move; 1 makes "
             "them equal"},
    {"grpo.sync_ref.steps", DT_CONF_INT, AT(grpo.sync_ref.steps),
     .fallback = "512", .min = 1, .max = 1e12, .result = true,
     .aliases = ALSO("ref_model_sync_steps"),
     .help = "steps from one move to the next"},

    /* ppo */
    {"ppo.total_episodes", DT_CONF_INT, AT(ppo.total_episodes), .min = 1,
     .max = 1e12, .result = true, .unit = "prompts",
     .aliases = ALSO("total_episodes"),
     .help = "length of the run; the default is that training.epochs or "
             "max_steps decides"},
    {"ppo.epochs", DT_CONF_INT, AT(ppo.epochs), .fallback = "4", .min = 1,
     .max = 1e6, .result = true, .aliases = ALSO("num_ppo_epochs",
                                                 "ppo_epochs"),
     .help = "times that sampled completions are trained on"},
    {"ppo.num_mini_batches", DT_CONF_INT, AT(ppo.num_mini_batches),
     .fallback = "1", .min = 1, .max = 1e6, .result = true,
     .unit = "optimizer steps", .aliases = ALSO("num_mini_batches"),
     .help = "optimizer steps in which completions are trained on once"},
    {"ppo.missing_eos_penalty", DT_CONF_FLOAT, AT(ppo.missing_eos_penalty),
     .fallback = "0", .min = 0, .max = INFINITY, .result = true,
     .aliases = ALSO("missing_eos_penalty"),
     .help = "is subtracted from the score of a completion that did not end"},
    {"ppo.score_clip", DT_CONF_FLOAT, AT(ppo.score_clip), .min = 0,
     .max = INFINITY, .above_min = true, .result = true,
     .help = "largest absolute score of a completion; the default is no "
             "limit"},
    {"ppo.score_at", DT_CONF_ENUM, AT(ppo.score_at), .fallback = "last",
     .result = true,
     .words = WORDS({"last", DT_SCORE_AT_LAST, NULL},
                    {"trl_next", DT_SCORE_AT_TRL_NEXT, NULL}),
     .help = "token whose reward has the score of a completion: the last one, "
             "or trl_next, as old TRL had it, what follows it in completions "
             "shorter than rollout.max_completion_length, where the critic "
             "then learns a value, too"},
    {"ppo.kl_coef", DT_CONF_FLOAT, AT(ppo.kl_coef), .fallback = "0.05",
     .min = 0, .max = INFINITY, .result = true, .aliases = ALSO("kl_coef"),
     .help = "weight of the KL divergence from the reference, which is part "
             "of the reward; with 0 there is no reference model"},
    {"ppo.kl_estimator", DT_CONF_ENUM, AT(ppo.kl_estimator), .fallback = "k1",
     .result = true,
     .words = WORDS({"k1", DT_KL_K1, NULL}, {"k2", DT_KL_K2, NULL},
                    {"k3", DT_KL_K3, NULL}),
     .aliases = ALSO("kl_estimator"),
     .help = "estimate of the KL divergence from a token's log-ratio x: k1 is "
             "x, k2 half its square, k3 exp(-x) - 1 + x"},
    {"ppo.kl_control", DT_CONF_ENUM, AT(ppo.kl_control), .fallback = "fixed",
     .result = true,
     .words = WORDS({"fixed", DT_KL_FIXED, NULL},
                    {"adaptive", DT_KL_ADAPTIVE, NULL}),
     .help = "whether ppo.kl_coef stays as it is, or follows "
             "ppo.kl_control_target"},
    {"ppo.kl_control_target", DT_CONF_FLOAT, AT(ppo.kl_control_target),
     .fallback = "6", .min = 0, .max = INFINITY, .above_min = true,
     .result = true, .unit = "nats a completion",
     .help = "KL divergence at which adaptive leaves ppo.kl_coef as it is"},
    {"ppo.kl_control_horizon", DT_CONF_FLOAT, AT(ppo.kl_control_horizon),
     .fallback = "10000", .min = 0, .max = INFINITY, .above_min = true,
     .result = true, .unit = "completions",
     .help = "how slowly adaptive changes it"},
    {"ppo.whiten_rewards", DT_CONF_BOOL, AT(ppo.whiten_rewards),
     .fallback = "false", .result = true, .aliases = ALSO("whiten_rewards"),
     .help = "divide the rewards of tokens by their standard deviation"},
    {"ppo.gamma", DT_CONF_FLOAT, AT(ppo.gamma), .fallback = "1", .min = 0,
     .max = 1, .result = true, .aliases = ALSO("gamma"),
     .help = "discount of rewards, a token"},
    {"ppo.lam", DT_CONF_FLOAT, AT(ppo.lam), .fallback = "0.95", .min = 0,
     .max = 1, .result = true, .aliases = ALSO("lam"),
     .help = "lambda of generalized advantage estimation: less of it trusts "
             "the critic more"},
    {"ppo.cliprange", DT_CONF_FLOAT, AT(ppo.cliprange), .fallback = "0.2",
     .min = 0, .max = 1, .above_min = true, .result = true,
     .aliases = ALSO("cliprange"),
     .help = "a ratio further than this from 1 no longer counts"},
    {"ppo.cliprange_value", DT_CONF_FLOAT, AT(ppo.cliprange_value),
     .fallback = "0.2", .min = 0, .max = INFINITY, .above_min = true,
     .result = true, .aliases = ALSO("cliprange_value"),
     .help = "a value that has moved further than this no longer counts"},
    {"ppo.vf_coef", DT_CONF_FLOAT, AT(ppo.vf_coef), .fallback = "0.1",
     .min = 0, .max = INFINITY, .result = true, .aliases = ALSO("vf_coef"),
     .help = "weight of the critic's loss"},
    {"ppo.ent_coef", DT_CONF_FLOAT, AT(ppo.ent_coef), .fallback = "0",
     .min = 0, .max = INFINITY, .result = true, .aliases = ALSO("ent_coef"),
     .help = "weight of the entropy, which is made larger"},
    {"ppo.dual_clip", DT_CONF_FLOAT, AT(ppo.dual_clip), .min = 1,
     .max = INFINITY, .above_min = true, .result = true,
     .aliases = ALSO("dual_clip"),
     .help = "a ratio above this no longer counts where the advantage is "
             "negative, such as 3; the default is no such limit"},
    {"ppo.target_kl", DT_CONF_FLOAT, AT(ppo.target_kl), .min = 0,
     .max = INFINITY, .above_min = true, .result = true,
     .aliases = ALSO("target_kl"),
     .help = "the epochs over completions end early if the model has moved "
             "further than this, in nats a token; the default is never"},
    {"ppo.advantage_norm", DT_CONF_ENUM, AT(ppo.advantage_norm),
     .fallback = "whiten", .result = true,
     .words = WORDS({"whiten", DT_ADVANTAGE_WHITEN, NULL},
                    {"global_clamp", DT_ADVANTAGE_GLOBAL_CLAMP, NULL},
                    {"openrlhf", DT_ADVANTAGE_OPENRLHF, NULL},
                    {"none", DT_ADVANTAGE_NONE, NULL}),
     .help = "how the advantages of all tokens get mean 0 and variance 1: "
             "whiten and openrlhf limit the variance from below by 1e-8, "
             "global_clamp the standard deviation by 1e-4"},
    {"ppo.scheduler_unit", DT_CONF_ENUM, AT(ppo.scheduler_by_update),
     .fallback = "update", .result = true,
     .words = WORDS({"update", 1, NULL}, {"optimizer_step", 0, NULL}),
     .help = "whether the learning rate changes with each sampling of "
             "completions or with each optimizer step"},
    {"ppo.critic.lr", DT_CONF_FLOAT, AT(ppo.critic_lr), .min = 0, .max = 10,
     .result = true,
     .help = "learning rate of the critic; the default is optimizer.lr"},
    {"ppo.critic.warmup", DT_CONF_INT, AT(ppo.critic_warmup),
     .fallback = "0", .min = 0, .max = 1e9, .result = true,
     .unit = "generations", .aliases = ALSO("critic_warmup"),
     .help = "first generations that train the critic alone, so that the "
             "policy does not follow values that mean nothing yet"},
    {"ppo.critic.share_backbone", DT_CONF_BOOL, AT(ppo.critic_shares),
     .fallback = "false", .result = true,
     .help = "make the critic a head of the model, in place of a model of its "
             "own: half the memory and one pass for both, but they train the "
             "same weights, at optimizer.lr"},
