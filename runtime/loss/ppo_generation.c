/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_generation.c - rewards, advantages and returns of a generation */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss/gae.h"
#include "loss/ppo_generation.h"
#include "loss/ppo_loss.h"

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
