/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gae.h - PPO: rewards and advantages of the tokens of a completion
 *
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
#ifndef DT_LOSS_GAE_H
#define DT_LOSS_GAE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/choices.h"
#include "base/error.h"

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

#endif /* DT_LOSS_GAE_H */
