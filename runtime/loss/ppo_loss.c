/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_loss.c - the losses of policy and critic, with their derivatives */
#include "config.h"

#include <math.h>

#include "loss/clipped.h"
#include "loss/ppo_loss.h"

const char *const dt_ppo_metric_names[DT_PPO_METRICS] = {
    [DT_PPO_APPROXKL] = "policy/approxkl_avg",
    [DT_PPO_CLIPFRAC] = "policy/clipfrac_avg",
    [DT_PPO_POLICY_LOSS] = "loss/policy_avg",
    [DT_PPO_VALUE_LOSS] = "loss/value_avg",
    [DT_PPO_VALUE_CLIPFRAC] = "val/clipfrac_avg",
    [DT_PPO_ENTROPY] = "policy/entropy_avg",
    [DT_PPO_RATIO] = "val/ratio",
    [DT_PPO_RATIO_VAR] = "val/ratio_var",
};

struct dt_ppo_options dt_ppo_options(const struct dt_conf *conf)
{
    return (struct dt_ppo_options){
        .cliprange = conf->ppo.cliprange,
        .cliprange_value = conf->ppo.cliprange_value,
        .dual_clip = conf->ppo.dual_clip,
        .vf_coef = conf->ppo.vf_coef,
        .ent_coef = conf->ppo.ent_coef,
    };
}

/* Ratios are added as rho - 1, so that little is lost where all are near 1. */
void dt_ppo_results(const struct dt_ppo_sums *sums,
                    double results[DT_PPO_METRICS])
{
    const double n = sums->tokens;
    const double off = sums->value[DT_PPO_RATIO] / n;

    for (int m = 0; m < DT_PPO_METRICS; m++)
        results[m] = sums->value[m] / n;
    results[DT_PPO_VALUE_LOSS] =
        sums->value[DT_PPO_VALUE_LOSS] / sums->value_tokens;
    results[DT_PPO_VALUE_CLIPFRAC] =
        sums->value[DT_PPO_VALUE_CLIPFRAC] / sums->value_tokens;
    results[DT_PPO_RATIO] = 1.0 + off;
    results[DT_PPO_RATIO_VAR] =
        n > 1.0 ? fmax(sums->ratio_squares - n * off * off, 0.0) / (n - 1.0)
                : NAN;
}

void dt_ppo_policy_loss(const struct dt_ppo_options *options,
                        const struct dt_ppo_row *row, float *weights,
                        struct dt_ppo_sums *sums)
{
    const double eps = options->cliprange;

    for (size_t t = 0; t < row->count; t++) {
        const double logp = (double)row->logp[t];
        const double moved = row->old ? logp - (double)row->old[t] : 0.0;
        const double rho = dt_exp_clamped(moved), A = row->advantages[t];
        const struct dt_clipped loss =
            dt_clipped(rho, A, eps, eps, options->dual_clip);

        weights[t] = (float)loss.slope;
        sums->loss += loss.loss;
        sums->tokens += 1.0;
        sums->value[DT_PPO_POLICY_LOSS] += loss.loss;
        sums->value[DT_PPO_APPROXKL] += 0.5 * moved * moved;
        sums->value[DT_PPO_CLIPFRAC] +=
            (A > 0.0 && rho > 1.0 + eps) || (A < 0.0 && rho < 1.0 - eps);
        sums->value[DT_PPO_RATIO] += rho - 1.0;
        sums->ratio_squares += (rho - 1.0) * (rho - 1.0);
        sums->ratio_error_max = fmax(sums->ratio_error_max, fabs(rho - 1.0));
        if (row->entropy) {
            sums->loss -= options->ent_coef * (double)row->entropy[t];
            sums->value[DT_PPO_ENTROPY] += (double)row->entropy[t];
        }
    }
}

void dt_ppo_value_loss(const struct dt_ppo_options *options, size_t count,
                       const float *values, const float *old_values,
                       const double *returns, float *weights,
                       struct dt_ppo_sums *sums)
{
    const double eps = options->cliprange_value;

    for (size_t t = 0; t < count; t++) {
        const double v = (double)values[t], old = (double)old_values[t];
        const double off = v - returns[t];
        const double clipped = fmin(fmax(v, old - eps), old + eps);
        const double clipped_off = clipped - returns[t];
        const bool flat = clipped_off * clipped_off > off * off;
        const double square = flat ? clipped_off * clipped_off : off * off;

        weights[t] = (float)(flat ? 0.0 : options->vf_coef * off);
        sums->value_loss += 0.5 * options->vf_coef * square;
        sums->value_tokens += 1.0;
        sums->value[DT_PPO_VALUE_LOSS] += 0.5 * square;
        sums->value[DT_PPO_VALUE_CLIPFRAC] += flat;
    }
}

double dt_ppo_explained(double n, double returns, double return_squares,
                        double errors, double error_squares)
{
    const double all = return_squares - returns * returns / n;
    const double left = error_squares - errors * errors / n;

    return all > 0.0 ? 1.0 - left / all : NAN;
}
