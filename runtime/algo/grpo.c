/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpo.c - group relative policy optimization: completions that score better
 * than others of the same prompt become more likely
 *
 * Shao et al., "DeepSeekMath", arXiv 2402.03300. Advantages are in
 * advantages.h, losses in grpo_loss.h. This file has their inputs and the
 * denominator of the sum of losses.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "loss/grpo_loss.h"
#include "run/dir/dir.h"
#include "sampling/sampling.h"

/* Reported metrics, then the counts that they are divided by. */
enum { ROWS = DT_GRPO_METRICS, TOKENS, RATIOS, METRICS };

static const struct dt_metric metrics[METRICS] = {
    [DT_GRPO_KL] = {"kl", DT_METRIC_MEAN, false},
    [DT_GRPO_ENTROPY] = {"entropy", DT_METRIC_MEAN, true},
    [DT_GRPO_CLIP_LOW_MEAN] = {"clip_ratio/low_mean", DT_METRIC_MEAN, false},
    [DT_GRPO_CLIP_LOW_MIN] = {"clip_ratio/low_min", DT_METRIC_MIN, false},
    [DT_GRPO_CLIP_HIGH_MEAN] = {"clip_ratio/high_mean", DT_METRIC_MEAN, false},
    [DT_GRPO_CLIP_HIGH_MAX] = {"clip_ratio/high_max", DT_METRIC_MAX, false},
    [DT_GRPO_CLIP_REGION_MEAN] = {"clip_ratio/region_mean", DT_METRIC_MEAN,
                                  false},
    [DT_GRPO_CISPO_CLIP_RATIO] = {"cispo_clip_ratio", DT_METRIC_MEAN, false},
    [DT_GRPO_RATIO_ERROR_MAX] = {"ratio_error_max", DT_METRIC_MAX, false},
    [DT_GRPO_SAMPLING_DIFF_MEAN] = {"sampling/sampling_logp_difference/mean",
                                    DT_METRIC_MEAN, false},
    [DT_GRPO_SAMPLING_DIFF_MAX] = {"sampling/sampling_logp_difference/max",
                                   DT_METRIC_MAX, false},
    [DT_GRPO_SAMPLING_RATIO_MIN] = {"sampling/importance_sampling_ratio/min",
                                    DT_METRIC_MIN, false},
    [DT_GRPO_SAMPLING_RATIO_MEAN] = {"sampling/importance_sampling_ratio/mean",
                                     DT_METRIC_MEAN, false},
    [DT_GRPO_SAMPLING_RATIO_MAX] = {"sampling/importance_sampling_ratio/max",
                                    DT_METRIC_MAX, false},
    [ROWS] = {NULL, DT_METRIC_MEAN, false},
    [TOKENS] = {NULL, DT_METRIC_MEAN, false},
    [RATIOS] = {NULL, DT_METRIC_MEAN, false},
};

static int begin(struct dt_run *run, struct dt_error *err)
{
    (void)err;
    run->samples.grpo = dt_grpo_options(&run->spec.conf);
    return 0;
}

static bool needs_reference(const struct dt_conf *conf)
{
    return conf->grpo.beta > 0;
}

/* --- a generation --- */

static int advantages(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct dt_advantage_options options =
        dt_advantage_options(&run->spec.conf);
    struct dt_group_rewards r;
    int rc = dt_group_rewards_init(&r, s, &s->experience, err);
    if (rc == 0)
        rc = dt_advantages(&options, &r.table, r.rewards,
                           s->experience.advantages, &s->stats, err);
    dt_group_rewards_fini(&r);
    if (rc == 0 && s->stats.scored < 2 && run->spec.rank == 0)
        dt_run_warn(run,
                    "%zu of the %zu completions of a generation have a "
                    "reward: there is nothing to compare, and it teaches "
                    "nothing",
                    s->stats.scored, s->experience.rows);
    return rc;
}

/* Numbers of dynamic sampling, if it is on. */
static size_t numbers(const struct dt_run *run, const char *const **names,
                      const double **values)
{
    *names = dt_refill_names;
    *values = run->samples.refill;
    return run->spec.conf.grpo.dynamic_sampling.enabled ? DT_REFILL_NUMBERS : 0;
}

/* Whether a completion is left out because it was cut off. */
static bool is_masked(const struct dt_run *run, size_t row)
{
    return run->spec.conf.grpo.mask_truncated &&
           run->samples.experience.end[row] == DT_END_LENGTH;
}

/* Number of tokens of the step in rows that are trained on. Copies their
 * entropies to `entropy`, unless that is NULL.
 */
static size_t step_tokens(const struct dt_run *run, float *entropy)
{
    const struct dt_samples *s = &run->samples;
    const struct dt_experience *e = &s->experience;
    size_t tokens = 0;
    for (size_t i = 0; i < run->spec.sampling.step_rows; i++) {
        size_t row = dt_sample_batches_row(&s->batches, i);
        if (is_masked(run, row))
            continue;
        if (entropy)
            memcpy(entropy + tokens, e->entropy + e->at[row],
                   (size_t)e->count[row] * sizeof(*entropy));
        tokens += (size_t)e->count[row];
    }
    return tokens;
}

/* Finds the least entropy with which a token of the step takes part, and the
 * number of tokens that do.
 */
static int choose_tokens(struct dt_run *run, size_t *tokens,
                         struct dt_error *err)
{
    float *entropy = calloc(*tokens + 1, sizeof(*entropy));
    double least;
    size_t below = 0;
    if (!entropy)
        return dt_error_set(err, EX_OSERR, "entropies: out of memory");
    step_tokens(run, entropy);
    least = dt_grpo_least_entropy(run->spec.conf.grpo.top_entropy_quantile,
                                  entropy, *tokens);
    while (below < *tokens && (double)entropy[below] < least)
        below++;
    *tokens -= below;
    run->samples.least_entropy = least;
    free(entropy);
    return 0;
}

static int denominator(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    size_t tokens = step_tokens(run, NULL);
    s->denominator = dt_grpo_denominator(
        &s->grpo, (double)run->spec.sampling.step_rows, (double)tokens);
    if (s->experience.entropy && choose_tokens(run, &tokens, err) < 0)
        return -1;
    s->entropy_share = s->denominator / fmax((double)tokens, 1);
    return 0;
}

/* --- a micro-batch --- */

/* Adds sums to the metrics of a micro-batch, in the form common to all
 * algorithms.
 */
static void add_sums(const struct dt_run *run, const struct dt_grpo_sums *sums,
                     struct dt_metrics *metrics_of)
{
    struct dt_metrics more = {.loss = sums->loss, .pairs = sums->rows};
    for (int m = 0; m < DT_GRPO_METRICS; m++)
        more.value[m] = sums->value[m];
    more.value[ROWS] = sums->rows;
    more.value[TOKENS] = sums->tokens;
    more.value[RATIOS] = sums->ratios;
    dt_metrics_add(run->spec.algo, metrics_of, &more);
}

static void loss(const struct dt_run *run, const struct dt_picked *p)
{
    const struct dt_samples *s = &run->samples;
    const struct dt_experience *e = &s->experience;
    struct dt_grpo_sums sums;
    size_t at = 0;
    dt_grpo_sums_clear(&sums);
    for (size_t i = 0; i < p->batch->sample_count; i++) {
        const struct dt_batch_sample *sample = &p->batch->samples[i];
        size_t row = sample->number;
        const struct dt_grpo_row one = {
            .count = sample->count,
            .logp = p->value + at,
            .old = run->spec.sampling.stores_old ? e->old + e->at[row] : NULL,
            .sampled = e->logps + e->at[row],
            .ref = p->reference + at,
            .entropy = p->entropy + at,
            .chosen_by = e->entropy ? e->entropy + e->at[row] : NULL,
            .least = s->least_entropy,
            .advantage = e->advantages[row],
            .masked = is_masked(run, row),
        };
        dt_grpo_loss(&s->grpo, &one, s->entropy_share, p->weight + at, &sums);
        for (size_t t = 0; t < sample->count; t++)
            p->entropy_weight[at + t] = (float)dt_grpo_entropy_weight(
                &s->grpo, &one, t, s->entropy_share);
        at += sample->picked;
    }
    add_sums(run, &sums, p->metrics);
}

static void results(const struct dt_metrics *of, double to[DT_METRICS_MAX])
{
    struct dt_grpo_sums sums = {.loss = of->loss,
                                .rows = of->value[ROWS],
                                .tokens = of->value[TOKENS],
                                .ratios = of->value[RATIOS]};
    memcpy(sums.value, of->value, sizeof(sums.value));
    dt_grpo_results(&sums, to);
}

const struct dt_algo dt_algo_grpo = {
    .name = "grpo",
    .needs_reference = needs_reference,
    .metrics = metrics,
    .metric_count = METRICS,
    .kl = "kl",
    .begin = begin,
    .pick = dt_run_pick_completions,
    .advantages = advantages,
    .numbers = numbers,
    .denominator = denominator,
    .loss = loss,
    .results = results,
};
