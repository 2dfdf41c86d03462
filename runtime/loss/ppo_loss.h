/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ppo_loss.h - PPO: losses of policy and critic, rewards and advantages
 *
 * Of each token, with rho = exp(logp - old), advantage A and return R,
 *   policy  the clipped objective (loss.h), with dual_clip as its limit,
 *           minus ent_coef times the entropy
 *   critic  vf_coef max((v - R)^2, (clip(v, v_old - cliprange_value,
 *           v_old + cliprange_value) - R)^2) / 2
 * (Schulman et al., arXiv 1707.06347; the critic as in OpenAI's baselines and
 * TRL's PPOTrainer). Both are sums over tokens, to be divided once by the
 * tokens of the optimizer step on all ranks; TRL divides by those of a
 * micro-batch. All is computed in double. Nothing here fails; NaN in is NaN
 * out.
 */
#ifndef DT_LOSS_PPO_LOSS_H
#define DT_LOSS_PPO_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"
#include "conf/conf.h"

struct dt_ppo_options {
    double cliprange, cliprange_value;
    double dual_clip; /* 0: none */
    double vf_coef, ent_coef;
};

/* The options in a configuration of algorithm ppo. */
struct dt_ppo_options dt_ppo_options(const struct dt_conf *conf);

/* Logged metrics, with TRL's names; means over tokens. */
enum dt_ppo_metric {
    DT_PPO_APPROXKL,    /* half the square of logp - old */
    DT_PPO_CLIPFRAC,    /* tokens whose ratio is clipped */
    DT_PPO_POLICY_LOSS, /* without the entropy */
    DT_PPO_VALUE_LOSS,  /* without vf_coef */
    DT_PPO_VALUE_CLIPFRAC,
    DT_PPO_ENTROPY,
    DT_PPO_RATIO,
    DT_PPO_RATIO_VAR, /* with n - 1 */
    DT_PPO_METRICS
};

/* Sums over tokens, which ranks add in the order of their numbers. The policy
 * and the critic may see the same tokens at different times.
 */
struct dt_ppo_sums {
    double loss, tokens;             /* of the policy */
    double value_loss, value_tokens; /* of the critic */
    double value[DT_PPO_METRICS];
    double ratio_squares;   /* of rho - 1 */
    double ratio_error_max; /* largest |rho - 1| */
};

/* The numbers to report; NaN without a token. */
void dt_ppo_results(const struct dt_ppo_sums *sums,
                    double results[DT_PPO_METRICS]);

/* A completion; arrays have `count` values. */
struct dt_ppo_row {
    size_t count;
    const float *logp;
    const float *old;     /* NULL: logp, whose ratio is 1 */
    const float *entropy; /* nats, or NULL; needed by ent_coef */
    const double *advantages;
};

/* Fills weights(count) with the derivatives of the policy's loss by each logp;
 * that by each entropy is -ent_coef.
 */
void dt_ppo_policy_loss(const struct dt_ppo_options *options,
                        const struct dt_ppo_row *row, float *weights,
                        struct dt_ppo_sums *sums);

/* Fills weights(count) with the derivatives of the critic's loss by each of
 * values(count); old_values are those when the completions were sampled.
 */
void dt_ppo_value_loss(const struct dt_ppo_options *options, size_t count,
                       const float *values, const float *old_values,
                       const double *returns, float *weights,
                       struct dt_ppo_sums *sums);

/* The share of the variance of returns that values explain, from sums over n
 * tokens: of returns, their squares, returns - values, and those squared. NaN
 * if returns are all equal.
 */
double dt_ppo_explained(double n, double returns, double return_squares,
                        double errors, double error_squares);

/* --- rewards and advantages of the tokens of a completion --- */

/*
 * With x = logp - ref of a token, the KL divergence from the reference is
 * estimated as
 *   k1 x    k2 x^2 / 2    k3 exp(-x) - 1 + x
 * (Schulman, "Approximating KL divergence", 2020), the reward of a token is
 * -kl_coef times that, and the last one also has the score of the completion.
 * With V the critic's value before each token, and 0 after the last one,
 *   delta_t = r_t + gamma V_{t+1} - V_t
 *   A_t = delta_t + gamma lam A_{t+1},    R_t = A_t + V_t
 * are the advantages and returns (Schulman et al., arXiv 1506.02438). The score
 * may also come after the last token, as in TRL 1.10 for completions shorter
 * than the longest. Then there is a V there, too, whose return is the score.
 *
 * Statistics cover the tokens of all ranks: each completion has its own sums,
 * which every rank adds up in the order of prompts, so the number of ranks
 * changes no bit. Everything is computed in double. NaN in is NaN out.
 */

/* The estimate of the KL divergence from x = logp - ref. The exponent of k3
 * ends at 20.
 */
double dt_kl_estimate(enum dt_kl_estimator estimator, double x);

struct dt_token_reward {
    double kl_coef;
    enum dt_kl_estimator estimator;
    double score_clip;          /* largest absolute score; 0: any */
    double missing_eos_penalty; /* subtracted after that */
};

/* A completion that has been scored; arrays have `count` values. */
struct dt_scored {
    size_t count; /* tokens, with the one that ends it; at least 1 */
    const float *logp;
    const float *ref; /* of the reference; NULL: no KL divergence */
    double score;
    double *after; /* gets the score; NULL: the last token does */
    bool ended;    /* by a token or a string, and not by its length */
};

/* Fills rewards(count); returns the sum of the estimates of the KL divergence,
 * without the coefficient.
 */
double dt_token_rewards(const struct dt_token_reward *options,
                        const struct dt_scored *scored, double *rewards);

/* The value and the advantage after the last token. */
struct dt_gae_after {
    double value, advantage;
};

/* Fills advantages(count) and returns(count) from rewards(count) and the
 * critic's values(count) before each token. Arrays do not overlap. `after`
 * NULL: there is no value after the last token.
 */
void dt_gae(double gamma, double lam, size_t count, const double *rewards,
            const float *values, const struct dt_gae_after *after,
            double *advantages, double *returns);

/* --- statistics --- */

/* The sum of x(count), and of the squares of x - mean. */
double dt_gae_sum(const double *x, size_t count);
double dt_gae_squares(const double *x, size_t count, double mean);

/* A normalization of values to (x - mean) * scale. */
struct dt_norm {
    double mean, scale;
};

/* Makes a norm of n values from their mean and the sum of squares around it:
 *   whiten        1 / sqrt(var + 1e-8), var with n - 1
 *   openrlhf      1 / sqrt(max(var, 1e-8)), var with n
 *   global_clamp  1 / max(std, 1e-4), std with n
 *   none          mean 0, scale 1
 * -1: E135, fewer than two values.
 */
int dt_norm_make(enum dt_advantage_norm kind, double n, double mean,
                 double squares, struct dt_norm *norm, struct dt_error *err);

/* Normalizes x(count) in place; with keep_mean the mean is added again, as
 * rewards need it.
 */
void dt_norm_apply(const struct dt_norm *norm, bool keep_mean, double *x,
                   size_t count);

/* The coefficient after an update of n completions whose KL divergence was `kl`
 * nats each in the mean: a fixed one stays, an adaptive one is multiplied by
 * 1 + clip(kl / target - 1, -0.2, 0.2) n / horizon (Ziegler et al., arXiv
 * 1909.08593). NaN changes nothing.
 */
double dt_kl_coef_next(enum dt_kl_control control, double coef, double kl,
                       double target, double horizon, double n);

/* --- a generation, before it is trained on --- */

/* Logged numbers, with TRL's names. */
enum dt_ppo_number {
    DT_PPO_KL,        /* estimate of a completion, in the mean; nats */
    DT_PPO_SURPRISE,  /* -logp of a completion, in the mean: its entropy */
    DT_PPO_NON_SCORE, /* reward of the KL divergence alone */
    DT_PPO_RLHF,      /* with the score */
    DT_PPO_SCORES,
    DT_PPO_KL_COEF,
    DT_PPO_EXPLAINED, /* share of the variance of returns */
    DT_PPO_EOS,       /* completions that ended by themselves */
    DT_PPO_NUMBERS
};
extern const char *const dt_ppo_number_names[DT_PPO_NUMBERS];

/* Row i has the tokens [at[i], at[i + 1]) of the arrays of tokens. */
struct dt_ppo_generation {
    size_t rows;
    const size_t *at; /* (rows + 1) */
    const float *logp;
    const float *ref;    /* NULL: no reference */
    const float *values; /* of the critic before each token */
    const float *after; /* (rows) and after the last token, where completions of
                           fewer than `longest` tokens have their score; NULL:
                           all have it at the last token */
    size_t longest;
    const double *scores; /* (rows); NaN: the row has none, and teaches nothing
                           */
    const bool *ended;    /* (rows) by itself, and not by its length */
    /* computed, (tokens): */
    double *advantages;    /* normalized; 0 without a score */
    double *returns;       /* values without a score */
    double *after_returns; /* (rows) if there is `after` */
    double numbers[DT_PPO_NUMBERS];
};

/* Fills advantages, returns and numbers, with this coefficient of the KL
 * divergence. -1: EX_OSERR; E135, too few tokens to normalize.
 */
int dt_ppo_compute(const struct dt_conf_ppo *options, double kl_coef,
                   struct dt_ppo_generation *g, struct dt_error *err);

#endif /* DT_LOSS_PPO_LOSS_H */
