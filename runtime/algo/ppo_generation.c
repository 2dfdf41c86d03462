/* SPDX-License-Identifier: Apache-2.0 */
/* ppo_generation.c - rewards, advantages and returns of a generation */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/gae.h"
#include "algo/ppo_generation.h"
#include "algo/ppo_loss.h"

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

/* Tokens of the rows that have a score. */
static double count_tokens(const struct dt_ppo_generation *g)
{
    double n = 0;
    for (size_t i = 0; i < g->rows; i++)
        if (has_score(g, i))
            n += (double)count_of(g, i);
    return n;
}

/* Normalizes x(tokens) over the rows that have a score. */
static int normalize(const struct dt_ppo_generation *g,
                     enum dt_advantage_norm kind, bool keep_mean, double *x,
                     struct dt_error *err)
{
    struct dt_norm norm;
    double n = count_tokens(g), sum = 0, squares = 0;
    for (size_t i = 0; i < g->rows; i++)
        if (has_score(g, i))
            sum += dt_gae_sum(x + g->at[i], count_of(g, i));
    for (size_t i = 0; i < g->rows; i++)
        if (has_score(g, i))
            squares += dt_gae_squares(x + g->at[i], count_of(g, i), sum / n);
    if (dt_norm_make(kind, n, sum / n, squares, &norm, err) < 0)
        return -1;
    for (size_t i = 0; i < g->rows; i++)
        if (has_score(g, i))
            dt_norm_apply(&norm, keep_mean, x + g->at[i], count_of(g, i));
    return 0;
}

/* --- rewards --- */

/* Sums of the rows for the numbers of the log. */
struct sums {
    double scored, kl, score, surprise, ended;
};

static void reward_tokens(const struct dt_conf_ppo *options, double kl_coef,
                          const struct dt_ppo_generation *g, double *rewards,
                          struct sums *sums)
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
            .ended = g->ended[i],
        };
        sums->kl += dt_token_rewards(&how, &scored, rewards + at);
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

static void estimate(const struct dt_conf_ppo *options,
                     const struct dt_ppo_generation *g, const double *rewards)
{
    for (size_t i = 0; i < g->rows; i++) {
        const size_t at = g->at[i], count = count_of(g, i);
        double *advantages = g->advantages + at, *returns = g->returns + at;
        if (has_score(g, i)) {
            dt_gae(options->gamma, options->lam, count, rewards + at,
                   g->values + at, advantages, returns);
            continue;
        }
        for (size_t t = 0; t < count; t++) {
            advantages[t] = 0;
            returns[t] = (double)g->values[at + t];
        }
    }
}

static double explained(const struct dt_ppo_generation *g)
{
    double n = count_tokens(g), sums[4] = {0};
    for (size_t i = 0; i < g->rows; i++)
        for (size_t t = g->at[i]; t < g->at[i + 1] && has_score(g, i); t++) {
            double error = g->returns[t] - (double)g->values[t];
            sums[0] += g->returns[t];
            sums[1] += g->returns[t] * g->returns[t];
            sums[2] += error;
            sums[3] += error * error;
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
    double *rewards = calloc(g->at[g->rows] + 1, sizeof(*rewards));
    if (!rewards)
        return dt_error_set(err, EX_OSERR, "advantages: out of memory");
    reward_tokens(options, kl_coef, g, rewards, &sums);
    if (options->whiten_rewards)
        result = normalize(g, DT_ADVANTAGE_WHITEN, true, rewards, err);
    if (result == 0) {
        estimate(options, g, rewards);
        count_numbers(g, &sums, kl_coef);
        result = normalize(g, (enum dt_advantage_norm)options->advantage_norm,
                           false, g->advantages, err);
    }
    free(rewards);
    return result;
}
