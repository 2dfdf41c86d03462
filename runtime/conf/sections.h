/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sections.h - the sections rollout, grpo and ppo of a configuration:
 * algorithms that learn from completions which the model itself has sampled
 *
 * Fields are named like the keys, as in struct dt_conf.
 */
#ifndef DT_CONF_SECTIONS_H
#define DT_CONF_SECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/values.h"

struct dt_conf_rollout {
    long max_completion_length; /* tokens, with the one that ends it */
    double temperature;         /* > 0; of log-probabilities, too */
    double top_p, min_p;
    long top_k;                   /* 0: all */
    double repetition_penalty;    /* 1 */
    struct dt_conf_list stop;     /* strings */
    struct dt_conf_list stop_ids; /* whole numbers >= 0, beside the model's */
    long slots;                   /* 0: auto */
    int exact;                    /* enum dt_conf_choice */
    int correction;               /* enum dt_correction, never auto */
    double cap;                   /* of the correction */
    long overlap;                 /* generations sampled ahead: 0 or 1 */
    double eval_temperature;      /* of held-out prompts; 0: greedy */
    long eval_generations;        /* completions of each of them */
    long log_every, log_samples;  /* optimizer steps, 0: never; prompts */
};

/* A reference that follows the model, of algorithms dpo and grpo. */
struct dt_conf_sync_ref {
    bool enabled;
    double alpha; /* share of the model, in (0, 1] */
    long steps;   /* from one move to the next, >= 1 */
};

struct dt_conf_grpo {
    long num_generations; /* G, completions of a prompt; at least 2 */
    /* Micro-batches of a rank in a generation, and its completions on all
     * ranks: both are known after dt_conf_resolve_batch.
     */
    long steps_per_generation, generation_batch_size;
    long num_iterations; /* times that a generation is used */
    int loss_type;       /* enum dt_grpo_type */
    int level;           /* importance_sampling: enum dt_grpo_level */
    double epsilon;
    double epsilon_high; /* never 0; of cispo, a limit of the ratio itself */
    double delta;        /* 0: none, else > 1 */
    double beta;         /* of the KL divergence; 0: no reference */
    bool kl_unbiased;
    double entropy_coef;
    double top_entropy_quantile; /* 1: all tokens */
    double sapo_temperature_pos, sapo_temperature_neg;
    double off_policy_mask; /* 0: none */
    bool mask_truncated;
    int scale_rewards;     /* enum dt_scale_rewards */
    int baseline;          /* enum dt_baseline */
    int std;               /* enum dt_std */
    int aggregation;       /* enum dt_aggregation */
    double advantage_clip; /* 0: none */
    struct {
        bool enabled;
        long max_refills;
    } dynamic_sampling;
    struct dt_conf_sync_ref sync_ref;
};

struct dt_conf_ppo {
    long total_episodes; /* prompts; 0: epochs or max_steps decide */
    long epochs, num_mini_batches;
    double missing_eos_penalty; /* 0: none */
    double score_clip;          /* 0: none */
    double kl_coef;             /* at the start; 0: no reference */
    int score_at;               /* enum dt_score_at */
    int kl_estimator;           /* enum dt_kl_estimator */
    int kl_control;             /* enum dt_kl_control */
    double kl_control_target, kl_control_horizon; /* nats, sequences */
    bool whiten_rewards;
    double gamma, lam;
    double cliprange, cliprange_value;
    double vf_coef, ent_coef;
    double dual_clip;        /* 0: none, else > 1 */
    double target_kl;        /* 0: none */
    int advantage_norm;      /* enum dt_advantage_norm */
    int scheduler_by_update; /* scheduler_unit: update (1) | optimizer_step */
    double critic_lr;        /* of the optimizer, unless given */
    long critic_warmup;      /* generations; 0: none */
    bool critic_shares;      /* critic.share_backbone: it is a head of the
                                policy */
};

#endif /* DT_CONF_SECTIONS_H */
