/* SPDX-License-Identifier: Apache-2.0 */
/*
 * choices.h - what a configuration may choose between, for conf, which reads
 * the words, and for the modules that act on them
 */
#ifndef DT_BASE_CHOICES_H
#define DT_BASE_CHOICES_H

/* data.format: what a file of training data holds. */
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
    DT_PACK_BFD,       /* best fit, longest first: what is longer than T is
                          cut off */
    DT_PACK_BFD_SPLIT, /* the same after cutting examples into pieces of T */
    DT_PACK_WRAPPED,   /* one stream of all examples, in which tokens see those
                          of the examples before */
};

/* distributed.strategy, once it is chosen: what ranks share (parallel.h). */
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
    DT_DECAY_HF,    /* what the layout says: no biases, no norms */
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

/* dpo.loss: names of TRL's DPOConfig.loss_type; loss/dpo_loss.h has formulas.
 */
enum dt_dpo_loss {
    DT_DPO_SIGMOID,
    DT_DPO_CDPO, /* TRL's sigmoid with label smoothing, until its version 0.9 */
    DT_DPO_ROBUST,
    DT_DPO_HINGE,
    DT_DPO_EXO_PAIR,
    DT_DPO_IPO,
    DT_DPO_SIGMOID_NORM,
    DT_DPO_NCA_PAIR,
    DT_DPO_BCO_PAIR,
    DT_DPO_SPPO_HARD,
    DT_DPO_APO_ZERO,
    DT_DPO_APO_DOWN,
    DT_DPO_SFT,
    DT_DPO_LOSSES
};

/* dpo.f_divergence: what the reward of a log-ratio is. */
enum dt_f_divergence {
    DT_DIVERGENCE_REVERSE_KL,
    DT_DIVERGENCE_FORWARD_KL,
    DT_DIVERGENCE_JS,
    DT_DIVERGENCE_ALPHA,
};

/* grpo.loss_type: names of TRL's GRPOConfig; loss/grpo_loss.h has formulas. */
enum dt_grpo_type {
    DT_GRPO_DAPO,
    DT_GRPO_GRPO,
    DT_GRPO_DR_GRPO,
    DT_GRPO_BNPO,
    DT_GRPO_CISPO,
    DT_GRPO_SAPO,
    DT_GRPO_LUSPO,
    DT_GRPO_TYPES
};

/* grpo.importance_sampling: what a ratio of probabilities is of. */
enum dt_grpo_level { DT_GRPO_TOKEN, DT_GRPO_SEQUENCE };

/* grpo.scale_rewards, grpo.baseline, grpo.std, grpo.aggregation: how rewards
 * become advantages (loss/advantages.h).
 */
enum dt_scale_rewards {
    DT_SCALE_GROUP,
    DT_SCALE_BATCH,
    DT_SCALE_NONE,
    DT_SCALE_GLOBAL_CLAMP,
};
enum dt_baseline { DT_BASELINE_GROUP, DT_BASELINE_LOO };
enum dt_std { DT_STD_SAMPLE, DT_STD_POPULATION };
enum dt_aggregation {
    DT_SUM_THEN_NORMALIZE,
    DT_NORMALIZE_THEN_SUM,
};

/* ppo.score_at: the last token, or the padding behind it, if any. */
enum dt_score_at { DT_SCORE_AT_LAST, DT_SCORE_AT_TRL_NEXT };

/* ppo.kl_estimator: of the KL divergence, from one sampled token. */
enum dt_kl_estimator { DT_KL_K1, DT_KL_K2, DT_KL_K3 };

/* ppo.kl_control: how the coefficient of the KL divergence changes. */
enum dt_kl_control { DT_KL_FIXED, DT_KL_ADAPTIVE };

/* ppo.advantage_norm: how advantages of tokens are normalized (loss/gae.h). */
enum dt_advantage_norm {
    DT_ADVANTAGE_WHITEN,
    DT_ADVANTAGE_GLOBAL_CLAMP,
    DT_ADVANTAGE_OPENRLHF,
    DT_ADVANTAGE_NONE,
};

/* rollout.correction: what becomes of tokens whose sampler disagrees with the
 * trainer (loss/grpo_loss.h).
 */
enum dt_correction {
    DT_CORRECTION_AUTO, /* token_truncate with overlap, else none */
    DT_CORRECTION_NONE,
    DT_CORRECTION_TOKEN_TRUNCATE,
    DT_CORRECTION_TOKEN_MASK,
    DT_CORRECTION_SEQUENCE_MASK,
};

/* precision.loss_scaler */
enum dt_scaler_kind { DT_SCALER_STATIC, DT_SCALER_DEEPSPEED, DT_SCALER_TORCH };

#endif /* DT_BASE_CHOICES_H */
