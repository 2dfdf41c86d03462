/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_loss.c - PPO: losses with their derivatives, rewards and advantages */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss/loss.h"
#include "loss/ppo_loss.h"

/* --- losses --- */

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

/* --- rewards and advantages of a completion --- */

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

/* --- a generation --- */

const char *const dt_ppo_number_names[DT_PPO_NUMBERS] = {
    [DT_PPO_KL] = "objective/kl",
    [DT_PPO_SURPRISE] = "objective/entropy",
    [DT_PPO_NON_SCORE] = "objective/non_score_reward",
    [DT_PPO_RLHF] = "objective/rlhf_reward",
    [DT_PPO_SCORES] = "objective/scores",
    [DT_PPO_KL_COEF] = "objective/kl_coef",
    [DT_PPO_EXPLAINED] = "val/explained_variance",
    [DT_PPO_EOS] = "val/num_eos_tokens",
};

static size_t count_of(const struct dt_ppo_generation *g, size_t row)
{
    return g->at[row + 1] - g->at[row];
}

static bool has_score(const struct dt_ppo_generation *g, size_t row)
{
    return isfinite(g->scores[row]);
}

/* Whether the score of a row is behind its last token. */
static bool is_after(const struct dt_ppo_generation *g, size_t row)
{
    return g->after && count_of(g, row) < g->longest;
}

/* Values of the tokens, and of what is behind the last ones; or NULL. */
struct table {
    double *tokens, *after;
};

/* Ranges of row i: 0 its tokens, 1 what is behind them. Returns how many. */
static size_t range_of(const struct dt_ppo_generation *g, struct table x,
                       size_t i, int part, double **values)
{
    *values = part == 0 ? x.tokens + g->at[i] : x.after ? x.after + i : NULL;
    if (!has_score(g, i))
        return 0;
    return part == 0 ? count_of(g, i) : x.after && is_after(g, i);
}

/* Normalizes a table over the rows that have a score. */
static int normalize(const struct dt_ppo_generation *g,
                     enum dt_advantage_norm kind, bool keep_mean,
                     struct table x, struct dt_error *err)
{
    struct dt_norm norm;
    double n = 0, sum = 0, squares = 0, *at;
    for (size_t i = 0; i < 2 * g->rows; i++) {
        size_t count = range_of(g, x, i / 2, i % 2, &at);
        n += (double)count;
        sum += dt_gae_sum(at, count);
    }
    for (size_t i = 0; i < 2 * g->rows; i++) {
        size_t count = range_of(g, x, i / 2, i % 2, &at);
        squares += dt_gae_squares(at, count, sum / n);
    }
    if (dt_norm_make(kind, n, sum / n, squares, &norm, err) < 0)
        return -1;
    for (size_t i = 0; i < 2 * g->rows; i++) {
        size_t count = range_of(g, x, i / 2, i % 2, &at);
        dt_norm_apply(&norm, keep_mean, at, count);
    }
    return 0;
}

/* --- rewards --- */

/* Sums of the rows for the numbers of the log. */
struct sums {
    double scored, kl, score, surprise, ended;
};

static void reward_tokens(const struct dt_conf_ppo *options, double kl_coef,
                          const struct dt_ppo_generation *g,
                          struct table rewards, struct sums *sums)
{
    const struct dt_token_reward how = {
        .kl_coef = kl_coef,
        .estimator = (enum dt_kl_estimator)options->kl_estimator,
        .score_clip = options->score_clip,
        .missing_eos_penalty = options->missing_eos_penalty,
    };
    for (size_t i = 0; i < g->rows; i++) {
        const size_t at = g->at[i];
        const struct dt_scored scored = {
            .count = count_of(g, i),
            .logp = g->logp + at,
            .ref = g->ref ? g->ref + at : NULL,
            .score = has_score(g, i) ? g->scores[i] : 0,
            .after = is_after(g, i) ? rewards.after + i : NULL,
            .ended = g->ended[i],
        };
        sums->kl += dt_token_rewards(&how, &scored, rewards.tokens + at);
        for (size_t t = 0; t < scored.count; t++)
            sums->surprise -= (double)scored.logp[t];
        sums->ended += scored.ended;
        if (!has_score(g, i))
            continue;
        sums->scored++;
        sums->score += g->scores[i];
    }
}

/* --- advantages --- */

/* The return behind the last token is the reward there. */
static void estimate_row(const struct dt_conf_ppo *options,
                         const struct dt_ppo_generation *g,
                         struct table rewards, size_t i)
{
    const size_t at = g->at[i];
    struct dt_gae_after after = {0};
    if (is_after(g, i)) {
        after.value = (double)g->after[i];
        after.advantage = rewards.after[i] - after.value;
        g->after_returns[i] = rewards.after[i];
    }
    dt_gae(options->gamma, options->lam, count_of(g, i), rewards.tokens + at,
           g->values + at, &after, g->advantages + at, g->returns + at);
}

static void estimate(const struct dt_conf_ppo *options,
                     const struct dt_ppo_generation *g, struct table rewards)
{
    for (size_t i = 0; i < g->rows; i++) {
        const size_t at = g->at[i], count = count_of(g, i);
        double *advantages = g->advantages + at, *returns = g->returns + at;
        if (has_score(g, i)) {
            estimate_row(options, g, rewards, i);
            continue;
        }
        if (is_after(g, i))
            g->after_returns[i] = (double)g->after[i];
        for (size_t t = 0; t < count; t++) {
            advantages[t] = 0;
            returns[t] = (double)g->values[at + t];
        }
    }
}

static double explained(const struct dt_ppo_generation *g)
{
    double n = 0, sums[4] = {0};
    for (size_t i = 0; i < g->rows; i++)
        for (size_t t = g->at[i]; t < g->at[i + 1] && has_score(g, i); t++) {
            double error = g->returns[t] - (double)g->values[t];
            sums[0] += g->returns[t];
            sums[1] += g->returns[t] * g->returns[t];
            sums[2] += error;
            sums[3] += error * error;
            n++;
        }
    return dt_ppo_explained(n, sums[0], sums[1], sums[2], sums[3]);
}

static void count_numbers(struct dt_ppo_generation *g, const struct sums *sums,
                          double kl_coef)
{
    const double rows = (double)g->rows;
    double *numbers = g->numbers;
    numbers[DT_PPO_KL] = sums->kl / rows;
    numbers[DT_PPO_SURPRISE] = sums->surprise / rows;
    numbers[DT_PPO_NON_SCORE] = -kl_coef * numbers[DT_PPO_KL];
    numbers[DT_PPO_SCORES] = sums->score / sums->scored;
    numbers[DT_PPO_RLHF] = numbers[DT_PPO_NON_SCORE] + numbers[DT_PPO_SCORES];
    numbers[DT_PPO_KL_COEF] = kl_coef;
    numbers[DT_PPO_EXPLAINED] = explained(g);
    numbers[DT_PPO_EOS] = sums->ended;
}

int dt_ppo_compute(const struct dt_conf_ppo *options, double kl_coef,
                   struct dt_ppo_generation *g, struct dt_error *err)
{
    struct sums sums = {0};
    int result = 0;
    const size_t tokens = g->at[g->rows];
    double *values = calloc(tokens + g->rows + 1, sizeof(*values));
    const struct table rewards = {values, values + tokens};
    const struct table advantages = {g->advantages, NULL};
    if (!values)
        return dt_error_set(err, EX_OSERR, "advantages: out of memory");
    reward_tokens(options, kl_coef, g, rewards, &sums);
    if (options->whiten_rewards)
        result = normalize(g, DT_ADVANTAGE_WHITEN, true, rewards, err);
    if (result == 0) {
        estimate(options, g, rewards);
        count_numbers(g, &sums, kl_coef);
        result = normalize(g, (enum dt_advantage_norm)options->advantage_norm,
                           false, advantages, err);
    }
    free(values);
    return result;
}
