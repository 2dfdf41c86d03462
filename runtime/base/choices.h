/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choices.h - the choices of a configuration, for conf, which reads the words,
 * and for the modules that act on them
 */
#ifndef DT_BASE_CHOICES_H
#define DT_BASE_CHOICES_H

/* data.format: the content of a file of training data. */
enum dt_format {
    DT_FORMAT_AUTO, /* by the file's first bytes, by the keys of its lines */
    DT_FORMAT_TEXT, /* UTF-8, or lines of JSON: {"text": ..} */
    /* These five are lines of JSON. */
    DT_FORMAT_PROMPT_COMPLETION,
    DT_FORMAT_MESSAGES,   /* also {"conversations": [{"from", "value"}]} */
    DT_FORMAT_TOKENIZED,  /* {"input_ids": [..], and perhaps "labels": [..]} */
    DT_FORMAT_PREFERENCE, /* pairs for rm and dpo; never found by AUTO */
    DT_FORMAT_PROMPT,     /* prompts for ppo and grpo; never found by AUTO */
    DT_FORMAT_TOKENS_BIN, /* shards of nanoGPT and llm.c */
};

/* data.loss_on: the tokens that are trained on. */
enum dt_loss_on {
    DT_LOSS_AUTO, /* completion for prompt/completion, else full */
    DT_LOSS_FULL,
    DT_LOSS_COMPLETION,
    DT_LOSS_ASSISTANT,
};

/* data.packing: how examples become rows of T tokens. */
enum dt_packing {
    DT_PACK_NONE,      /* a row is an example */
    DT_PACK_BFD,       /* best fit, longest first: the end of an example
                          longer than T is cut off */
    DT_PACK_BFD_SPLIT, /* the same after cutting examples into pieces of T */
    DT_PACK_WRAPPED,   /* one stream of all examples, in which tokens see those
                          of the examples before */
};

/* distributed.strategy, once it is chosen: how ranks share (parallel.h). */
enum dt_strategy {
    DT_DDP,
    DT_ZERO1,
    DT_ZERO2,
    DT_ZERO3,
};

/* model.attention */
enum dt_attention_kind {
    DT_ATTENTION_AUTO,  /* the fastest there is */
    DT_ATTENTION_FLASH, /* the library's, or none at all */
    DT_ATTENTION_MATH,  /* our own plain kernel */
};

/* optimizer.decay_filter: the tensors that decay. */
enum dt_decay_filter {
    DT_DECAY_HF,    /* as the layout says: no biases, no norms */
    DT_DECAY_NDIM2, /* tensors of two or more dimensions */
    DT_DECAY_ALL,
    DT_DECAY_NONE,
};

/* scheduler.name */
enum dt_schedule_name {
    DT_SCHEDULE_CONSTANT, /* warm-up ignored, as in Hugging Face */
    DT_SCHEDULE_CONSTANT_WITH_WARMUP,
    DT_SCHEDULE_LINEAR,
    DT_SCHEDULE_COSINE,
    DT_SCHEDULE_COSINE_WITH_RESTARTS,
    DT_SCHEDULE_COSINE_WITH_MIN_LR,
    DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR,
    DT_SCHEDULE_POLYNOMIAL,
    DT_SCHEDULE_INVERSE_SQRT,
    DT_SCHEDULE_WARMUP_STABLE_DECAY,
    DT_SCHEDULE_NANOGPT,
    DT_SCHEDULE_DS_WARMUP, /* DeepSpeed's are the last ones */
    DT_SCHEDULE_DS_WARMUP_DECAY,
    DT_SCHEDULE_DS_WARMUP_COSINE,
};

/* scheduler.warmup_type and decay_type */
enum dt_curve {
    DT_CURVE_LINEAR,
    DT_CURVE_LOG,    /* DeepSpeed's warm-up */
    DT_CURVE_COSINE, /* these two: warmup_stable_decay */
    DT_CURVE_SQRT,   /* 1 - sqrt(..) */
};

/* The lists below make an enumeration each, the words of its key and their help
 * (conf/schema.c): X(VALUE, word, help).
 */
#define DT_CHOICE(VALUE, ...) VALUE,

/* dpo.loss: names of TRL's DPOConfig.loss_type, as X(VALUE, word, traits,
 * help). The word is also the name of the function in loss/pair_loss.c, which
 * explains the traits.
 */
#define DT_DPO_LOSSES(X)                                                       \
    X(DT_DPO_SIGMOID, sigmoid, SCORED, "DPO's logistic loss")                  \
    X(DT_DPO_CDPO, cdpo, SCORED | SMOOTHED,                                    \
      "sigmoid with label_smoothing, as TRL's until version 0.9")              \
    X(DT_DPO_ROBUST, robust, SCORED | SMOOTHED,                                \
      "sigmoid, unbiased if label_smoothing of the pairs are swapped")         \
    X(DT_DPO_HINGE, hinge, SCORED, "SLiC's hinge loss")                        \
    X(DT_DPO_EXO_PAIR, exo_pair, SCORED | SMOOTHED,                            \
      "EXO's reverse KL divergence from the smoothed label")                   \
    X(DT_DPO_IPO, ipo, SCORED,                                                 \
      "squared distance of the margin per token from 1 / (2 beta)")            \
    X(DT_DPO_SIGMOID_NORM, sigmoid_norm, SCORED,                               \
      "sigmoid of the margin per token")                                       \
    X(DT_DPO_NCA_PAIR, nca_pair, 0, "NCA, each completion by itself")          \
    X(DT_DPO_BCO_PAIR, bco_pair, 0,                                            \
      "BCO, a binary classifier of each completion")                           \
    X(DT_DPO_SPPO_HARD, sppo_hard, 0, "SPPO with win rates of 1 and 0")        \
    X(DT_DPO_APO_ZERO, apo_zero, 0,                                            \
      "APO for preferred completions better than the model's")                 \
    X(DT_DPO_APO_DOWN, apo_down, 0,                                            \
      "APO for preferred completions worse than the model's")                  \
    X(DT_DPO_SFT, sft, SCORED,                                                 \
      "mean loss of the tokens of the preferred completion")

enum dt_dpo_loss { DT_DPO_LOSSES(DT_CHOICE) DT_DPO_LOSS_COUNT };

/* dpo.f_divergence: how a log-ratio becomes a reward (loss/pair_loss.c). */
#define DT_F_DIVERGENCES(X)                                                    \
    X(DT_DIVERGENCE_REVERSE_KL, reverse_kl, "the log-ratio itself")            \
    X(DT_DIVERGENCE_FORWARD_KL, forward_kl, "1 - 1 / ratio")                   \
    X(DT_DIVERGENCE_JS, js_divergence, "log(2 ratio / (1 + ratio))")           \
    X(DT_DIVERGENCE_ALPHA, alpha_divergence,                                   \
      "(ratio^(f_alpha - 1) - 1) / (f_alpha - 1)")

enum dt_f_divergence { DT_F_DIVERGENCES(DT_CHOICE) };

/* grpo.loss_type: names of TRL's GRPOConfig; loss/grpo_loss.c has formulas. */
#define DT_GRPO_TYPES(X)                                                       \
    X(DT_GRPO_DAPO, dapo, "mean over the tokens of a step")                    \
    X(DT_GRPO_GRPO, grpo, "mean over completions of the mean of each")         \
    X(DT_GRPO_DR_GRPO, dr_grpo, "sum divided by the longest length")           \
    X(DT_GRPO_BNPO, bnpo, "as dapo")                                           \
    X(DT_GRPO_CISPO, cispo, "limits the ratio and drops no token")             \
    X(DT_GRPO_SAPO, sapo, "limits the ratio smoothly")                         \
    X(DT_GRPO_LUSPO, luspo, "weighs completions by their length")

enum dt_grpo_type { DT_GRPO_TYPES(DT_CHOICE) DT_GRPO_TYPE_COUNT };

/* grpo.importance_sampling: the level of importance ratios. */
#define DT_GRPO_LEVELS(X)                                                      \
    X(DT_GRPO_TOKEN, token, "one for each token")                              \
    X(DT_GRPO_SEQUENCE, sequence,                                              \
      "one for each completion (GSPO; the default of luspo)")

enum dt_grpo_level { DT_GRPO_LEVELS(DT_CHOICE) };

/* grpo.scale_rewards, grpo.baseline, grpo.std, grpo.aggregation: how rewards
 * become advantages (loss/advantages.h).
 */
#define DT_SCALES(X)                                                           \
    X(DT_SCALE_GROUP, group, "that of the completions of the prompt")          \
    X(DT_SCALE_BATCH, batch, "that of all completions")                        \
    X(DT_SCALE_NONE, none, "no division")                                      \
    X(DT_SCALE_GLOBAL_CLAMP, global_clamp,                                     \
      "that of all completions, whose mean replaces the prompt's")
#define DT_BASELINES(X)                                                        \
    X(DT_BASELINE_GROUP, group, "of all completions of the prompt")            \
    X(DT_BASELINE_LOO, loo, "of the others (RLOO)")
#define DT_STDS(X)                                                             \
    X(DT_STD_SAMPLE, sample, "n - 1")                                          \
    X(DT_STD_POPULATION, population, "n, which global_clamp always takes")
#define DT_AGGREGATIONS(X)                                                     \
    X(DT_SUM_THEN_NORMALIZE, sum_then_normalize, "added, then normalized")     \
    X(DT_NORMALIZE_THEN_SUM, normalize_then_sum,                               \
      "each normalized by itself, then added (GDPO)")

enum dt_scale_rewards { DT_SCALES(DT_CHOICE) };
enum dt_baseline { DT_BASELINES(DT_CHOICE) };
enum dt_std { DT_STDS(DT_CHOICE) };
enum dt_aggregation { DT_AGGREGATIONS(DT_CHOICE) };

/* ppo.score_at: the token that receives the score of a completion. */
#define DT_SCORES_AT(X)                                                        \
    X(DT_SCORE_AT_LAST, last, "the last one")                                  \
    X(DT_SCORE_AT_TRL_NEXT, trl_next,                                          \
      "the one after it, as in TRL 1.10, if the completion is shorter than "   \
      "rollout.max_completion_length; the critic learns a value there too")

enum dt_score_at { DT_SCORES_AT(DT_CHOICE) };

/* ppo.kl_estimator: of the KL divergence, from one sampled token (loss/ppo_loss.h).
 */
#define DT_KL_ESTIMATORS(X)                                                    \
    X(DT_KL_K1, k1, "x")                                                       \
    X(DT_KL_K2, k2, "x^2 / 2")                                                 \
    X(DT_KL_K3, k3, "exp(-x) - 1 + x")

enum dt_kl_estimator { DT_KL_ESTIMATORS(DT_CHOICE) };

/* ppo.kl_control: how the coefficient of the KL divergence changes. */
#define DT_KL_CONTROLS(X)                                                      \
    X(DT_KL_FIXED, fixed, "not at all")                                        \
    X(DT_KL_ADAPTIVE, adaptive, "towards ppo.kl_control_target")

enum dt_kl_control { DT_KL_CONTROLS(DT_CHOICE) };

/* ppo.advantage_norm: how advantages of tokens are normalized (loss/ppo_loss.h). */
#define DT_ADVANTAGE_NORMS(X)                                                  \
    X(DT_ADVANTAGE_WHITEN, whiten, "divided by sqrt(variance + 1e-8)")         \
    X(DT_ADVANTAGE_GLOBAL_CLAMP, global_clamp,                                 \
      "divided by the standard deviation, at least 1e-4")                      \
    X(DT_ADVANTAGE_OPENRLHF, openrlhf,                                         \
      "divided by the root of the variance, at least 1e-8")                    \
    X(DT_ADVANTAGE_NONE, none, "advantages as they are")

enum dt_advantage_norm { DT_ADVANTAGE_NORMS(DT_CHOICE) };

/* rollout.correction: the treatment of tokens whose sampler disagrees with the
 * trainer (loss/grpo_loss.h).
 */
#define DT_CORRECTIONS(X)                                                      \
    X(DT_CORRECTION_AUTO, auto,                                                \
      "token_truncate with rollout.overlap, else none")                        \
    X(DT_CORRECTION_NONE, none, "no correction")                               \
    X(DT_CORRECTION_TOKEN_TRUNCATE, token_truncate,                            \
      "weighs each token by the ratio, at most rollout.cap")                   \
    X(DT_CORRECTION_TOKEN_MASK, token_mask, "leaves out tokens above it")      \
    X(DT_CORRECTION_SEQUENCE_MASK, sequence_mask,                              \
      "leaves out completions above it")

enum dt_correction { DT_CORRECTIONS(DT_CHOICE) };

/* precision.loss_scaler */
enum dt_scaler_kind { DT_SCALER_STATIC, DT_SCALER_DEEPSPEED, DT_SCALER_TORCH };

#endif /* DT_BASE_CHOICES_H */
