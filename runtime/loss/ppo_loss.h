/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ppo_loss.h - proximal policy optimization: the losses of a completion for the
 * policy and for the critic, and their derivatives by the values of the tokens
 *
 * Of each token, with rho = exp(logp - old), advantage A and return R,
 *   policy  the clipped objective (clipped.h), with dual_clip as its limit,
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

#include <stddef.h>

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
extern const char *const dt_ppo_metric_names[DT_PPO_METRICS];

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

#endif /* DT_LOSS_PPO_LOSS_H */
