/* SPDX-License-Identifier: Apache-2.0 */
/* gae.c - rewards of tokens, generalized advantage estimation, whitening */
#include "config.h"

#include <math.h>

#include "loss/clipped.h"
#include "loss/gae.h"

double dt_kl_estimate(enum dt_kl_estimator estimator, double x)
{
    switch (estimator) {
    case DT_KL_K2:
        return 0.5 * x * x;
    case DT_KL_K3:
        return dt_exp_clamped(-x) - 1.0 + x;
    case DT_KL_K1:
        break;
    }
    return x;
}

double dt_token_rewards(const struct dt_token_reward *options,
                        const struct dt_scored *scored, double *rewards)
{
    const double clip = options->score_clip;
    double sum = 0.0, score = scored->score;

    for (size_t t = 0; t < scored->count; t++) {
        const double kl =
            scored->ref
                ? dt_kl_estimate(options->estimator, (double)scored->logp[t] -
                                                         (double)scored->ref[t])
                : 0.0;
        rewards[t] = -options->kl_coef * kl;
        sum += kl;
    }
    if (clip > 0.0)
        score = score > clip ? clip : score < -clip ? -clip : score;
    if (!scored->ended)
        score -= options->missing_eos_penalty;
    if (scored->after)
        *scored->after = score;
    else
        rewards[scored->count - 1] += score;
    return sum;
}

void dt_gae(double gamma, double lam, size_t count, const double *rewards,
            const float *values, const struct dt_gae_after *after,
            double *advantages, double *returns)
{
    double advantage = after ? after->advantage : 0.0;
    double next = after ? after->value : 0.0;

    for (size_t t = count; t-- > 0;) {
        const double value = (double)values[t];
        advantage = rewards[t] + gamma * next - value + gamma * lam * advantage;
        advantages[t] = advantage;
        returns[t] = advantage + value;
        next = value;
    }
}

double dt_gae_sum(const double *x, size_t count)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

double dt_gae_squares(const double *x, size_t count, double mean)
{
    double sum = 0.0;

    for (size_t i = 0; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

int dt_norm_make(enum dt_advantage_norm kind, double n, double mean,
                 double squares, struct dt_norm *norm, struct dt_error *err)
{
    const double LEAST_VAR = 1e-8, LEAST_STD = 1e-4;

    *norm = (struct dt_norm){.mean = 0.0, .scale = 1.0};
    if (kind == DT_ADVANTAGE_NONE)
        return 0;
    if (n < 2.0)
        return dt_error_set(err, EX_DATAERR,
                            "E135 %g tokens: at least 2 are needed to "
                            "normalize them",
                            n);
    norm->mean = mean;
    if (kind == DT_ADVANTAGE_WHITEN)
        norm->scale = 1.0 / sqrt(squares / (n - 1.0) + LEAST_VAR);
    else if (kind == DT_ADVANTAGE_OPENRLHF)
        norm->scale = 1.0 / sqrt(fmax(squares / n, LEAST_VAR));
    else
        norm->scale = 1.0 / fmax(sqrt(squares / n), LEAST_STD);
    return 0;
}

void dt_norm_apply(const struct dt_norm *norm, bool keep_mean, double *x,
                   size_t count)
{
    const double shift = keep_mean ? norm->mean : 0.0;

    for (size_t i = 0; i < count; i++)
        x[i] = (x[i] - norm->mean) * norm->scale + shift;
}

double dt_kl_coef_next(enum dt_kl_control control, double coef, double kl,
                       double target, double horizon, double n)
{
    const double MOST = 0.2;

    if (control == DT_KL_FIXED || isnan(kl))
        return coef;
    return coef *
           (1.0 + fmin(fmax(kl / target - 1.0, -MOST), MOST) * n / horizon);
}
