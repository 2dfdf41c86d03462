/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ppo.c - proximal policy optimization: completions become more likely token by
 * token, where rewards were better than a critic expected
 *
 * Schulman et al., arXiv 1707.06347; Ziegler et al., arXiv 1909.08593. Losses
 * and advantages are in ppo_loss.h. This file has their inputs from a
 * generation, and updates the coefficient of the KL divergence between
 * generations.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "loss/ppo_loss.h"

/* Reported metrics, then the sums that they are computed from. */
enum {
    EARLY_ENDS = DT_PPO_METRICS,
    TOKENS,
    VALUE_TOKENS,
    RATIO_SQUARES,
    RATIO_ERROR,
    METRICS
};

static const struct dt_metric metrics[METRICS] = {
    [DT_PPO_APPROXKL] = {"policy/approxkl_avg", DT_METRIC_MEAN, false},
    [DT_PPO_CLIPFRAC] = {"policy/clipfrac_avg", DT_METRIC_MEAN, false},
    [DT_PPO_POLICY_LOSS] = {"loss/policy_avg", DT_METRIC_MEAN, false},
    [DT_PPO_VALUE_LOSS] = {"loss/value_avg", DT_METRIC_MEAN, false},
    [DT_PPO_VALUE_CLIPFRAC] = {"val/clipfrac_avg", DT_METRIC_MEAN, false},
    [DT_PPO_ENTROPY] = {"policy/entropy_avg", DT_METRIC_MEAN, true},
    [DT_PPO_RATIO] = {"val/ratio", DT_METRIC_MEAN, false},
    [DT_PPO_RATIO_VAR] = {"val/ratio_var", DT_METRIC_MEAN, false},
    [EARLY_ENDS] = {"policy/early_ends", DT_METRIC_MEAN, false},
    [TOKENS] = {NULL, DT_METRIC_MEAN, false},
    [VALUE_TOKENS] = {NULL, DT_METRIC_MEAN, false},
    [RATIO_SQUARES] = {NULL, DT_METRIC_MEAN, false},
    [RATIO_ERROR] = {"ratio_error_max", DT_METRIC_MAX, false},
};

static bool needs_reference(const struct dt_conf *conf)
{
    return conf->ppo.kl_coef > 0;
}

static int begin(struct dt_run *run, struct dt_error *err)
{
    (void)err;
    run->ppo.options = dt_ppo_options(&run->spec.conf);
    run->ppo.kl_coef = run->spec.conf.ppo.kl_coef;
    run->ppo.kl = NAN;
    return 0;
}

/* --- a generation --- */

/* Frees what belongs to one generation. */
static void release(struct dt_run *run)
{
    free(run->ppo.advantages);
    free(run->ppo.returns);
    free(run->ppo.after_returns);
}

static int allocate(struct dt_run *run, const struct dt_experience *e,
                    struct dt_error *err)
{
    struct dt_ppo *ppo = &run->ppo;
    release(run);
    ppo->advantages = calloc(e->tokens + 1, sizeof(*ppo->advantages));
    ppo->returns = calloc(e->tokens + 1, sizeof(*ppo->returns));
    ppo->after_returns = calloc(e->rows + 1, sizeof(*ppo->after_returns));
    return ppo->advantages && ppo->returns && ppo->after_returns
               ? 0
               : dt_error_set(err, EX_OSERR, "advantages: out of memory");
}

/* The weighted sum of a completion's rewards; NaN without any. */
static double score_of(const struct dt_samples *s, size_t row)
{
    const struct dt_experience *e = &s->experience;
    double score = NAN;
    for (size_t k = 0; k < e->columns; k++) {
        double reward = e->rewards[row * e->columns + k];
        if (!isnan(reward))
            score = (isnan(score) ? 0 : score) + s->columns[k].weight * reward;
    }
    return score;
}

/* Updates the coefficient from the KL divergence of the previous generation. */
static void advance(struct dt_run *run)
{
    const struct dt_conf_ppo *conf = &run->spec.conf.ppo;
    const struct dt_samples *s = &run->samples;
    struct dt_ppo *ppo = &run->ppo;
    if (s->use > 0) /* a resumed run is in the middle of it */
        return;
    ppo->kl_coef =
        dt_kl_coef_next((enum dt_kl_control)conf->kl_control, ppo->kl_coef,
                        ppo->kl, conf->kl_control_target,
                        conf->kl_control_horizon, (double)s->experience.rows);
}

static int compute(struct dt_run *run, double *scores, bool *ended,
                   struct dt_error *err)
{
    const struct dt_experience *e = &run->samples.experience;
    struct dt_ppo *ppo = &run->ppo;
    struct dt_ppo_generation g = {
        .rows = e->rows,
        .at = e->at,
        .logp = e->old,
        .ref = run->reference.parallel ? e->reference : NULL,
        .values = e->values,
        .after = e->after,
        .longest = (size_t)run->spec.conf.rollout.max_completion_length,
        .scores = scores,
        .ended = ended,
        .advantages = ppo->advantages,
        .returns = ppo->returns,
        .after_returns = ppo->after_returns,
    };
    for (size_t i = 0; i < e->rows; i++) {
        scores[i] = e->advantages[i] = score_of(&run->samples, i);
        ended[i] = e->end[i] != DT_END_LENGTH;
    }
    if (dt_ppo_compute(&run->spec.conf.ppo, ppo->kl_coef, &g, err) < 0)
        return -1;
    memcpy(ppo->numbers, g.numbers, sizeof(g.numbers));
    ppo->kl = g.numbers[DT_PPO_KL];
    run->samples.stats = (struct dt_advantage_stats){
        .reward = g.numbers[DT_PPO_SCORES], .reward_std = NAN, .zero_std = NAN};
    return 0;
}

static int advantages(struct dt_run *run, struct dt_error *err)
{
    const struct dt_experience *e = &run->samples.experience;
    double *scores = calloc(e->rows, sizeof(*scores));
    bool *ended = calloc(e->rows, sizeof(*ended));
    int result = scores && ended
                     ? allocate(run, e, err)
                     : dt_error_set(err, EX_OSERR, "advantages: out of memory");
    advance(run);
    if (result == 0)
        result = compute(run, scores, ended, err);
    free(ended);
    free(scores);
    return result;
}

static size_t numbers(const struct dt_run *run, const char *const **names,
                      const double **values)
{
    *names = dt_ppo_number_names;
    *values = run->ppo.numbers;
    return DT_PPO_NUMBERS;
}

static int denominator(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const long longest = run->spec.conf.rollout.max_completion_length;
    double after = 0;
    (void)err;
    s->denominator = 0;
    for (size_t i = 0; i < run->spec.sampling.step_rows; i++) {
        size_t row = dt_sample_batches_row(&s->batches, i);
        s->denominator += s->experience.count[row];
        after += s->experience.after && s->experience.count[row] < longest;
    }
    run->ppo.value_share = s->denominator / (s->denominator + after);
    return 0;
}

/* --- a micro-batch --- */

/* Adds sums to the metrics of a micro-batch, in the form common to all
 * algorithms.
 */
static void add_sums(const struct dt_run *run, const struct dt_ppo_sums *sums,
                     double rows, struct dt_metrics *to)
{
    struct dt_metrics more = {.loss = sums->loss + sums->value_loss,
                              .pairs = rows};
    memcpy(more.value, sums->value, sizeof(sums->value));
    more.value[TOKENS] = sums->tokens;
    more.value[VALUE_TOKENS] = sums->value_tokens;
    more.value[RATIO_SQUARES] = sums->ratio_squares;
    more.value[RATIO_ERROR] = sums->ratio_error_max;
    dt_metrics_add(run->spec.algo, to, &more);
}

/* Ratios are relative to the policy that sampled the tokens: the weights before
 * the first update, or with rollout.overlap those one update earlier.
 */
static void loss(const struct dt_run *run, const struct dt_picked *p)
{
    const struct dt_experience *e = &run->samples.experience;
    const float *old = run->spec.conf.rollout.overlap > 0 ? e->logps : e->old;
    const struct dt_ppo *ppo = &run->ppo;
    struct dt_ppo_sums sums = {0};
    size_t at = 0;
    for (size_t i = 0; i < p->batch->sample_count; i++) {
        const struct dt_batch_sample *sample = &p->batch->samples[i];
        size_t first = e->at[sample->number];
        const struct dt_ppo_row row = {
            .count = sample->count,
            .logp = p->value + at,
            .old = old + first,
            .entropy = p->entropy + at,
            .advantages = ppo->advantages + first,
        };
        dt_ppo_policy_loss(&ppo->options, &row, p->weight + at, &sums);
        for (size_t t = 0; t < sample->picked; t++)
            p->entropy_weight[at + t] =
                t < sample->count ? (float)-ppo->options.ent_coef : 0;
        for (size_t t = sample->count; t < sample->picked; t++)
            p->weight[at + t] = 0;
        at += sample->picked;
    }
    add_sums(run, &sums, (double)p->batch->sample_count, p->metrics);
}

/* The critic's loss is a mean over its values; there may be more of these than
 * tokens.
 */
static void critic_loss(const struct dt_run *run, const struct dt_picked *p)
{
    const struct dt_experience *e = &run->samples.experience;
    const struct dt_ppo *ppo = &run->ppo;
    struct dt_ppo_options options = ppo->options;
    struct dt_ppo_sums sums = {0};
    size_t at = 0;
    options.vf_coef *= ppo->value_share;
    for (size_t i = 0; i < p->batch->sample_count; i++) {
        const struct dt_batch_sample *sample = &p->batch->samples[i];
        size_t row = sample->number, n = sample->count;
        dt_ppo_value_loss(&options, n, p->value + at, e->values + e->at[row],
                          ppo->returns + e->at[row], p->weight + at, &sums);
        if (sample->picked > n)
            dt_ppo_value_loss(&options, 1, p->value + at + n, e->after + row,
                              ppo->after_returns + row, p->weight + at + n,
                              &sums);
        at += sample->picked;
    }
    add_sums(run, &sums, 0, p->metrics);
}

/* Skips the remaining steps of the generation. They are also taken off the
 * length of the run, unless training.max_steps gives it.
 */
static void end_generation(struct dt_run *run)
{
    struct dt_samples *s = &run->samples;
    const long planned = run->total_steps - run->queued - 1;
    long left = (long)(run->spec.sampling.uses - s->use);
    s->use = 0;
    if (run->spec.conf.training.max_steps > 0)
        return;
    if (left > planned)
        left = planned;
    run->ppo.left_out += left;
    run->total_steps -= left;
}

/* If the KL divergence from the sampling policy exceeds target_kl in this step,
 * all ranks end the generation here.
 */
static int passed(struct dt_run *run, struct dt_metrics *step,
                  struct dt_error *err)
{
    const double target = run->spec.conf.ppo.target_kl;
    struct dt_metrics all = *step;
    if (target <= 0 || run->samples.use == 0)
        return 0;
    if (dt_metrics_reduce(run->spec.algo, &all, run->comm, err) < 0)
        return -1;
    if (all.value[DT_PPO_APPROXKL] <= target * all.value[TOKENS])
        return 0;
    end_generation(run);
    step->value[EARLY_ENDS] += run->spec.rank == 0; /* ranks add theirs up */
    return 0;
}

static void results(const struct dt_metrics *of, double to[DT_METRICS_MAX])
{
    struct dt_ppo_sums sums = {.tokens = of->value[TOKENS],
                               .value_tokens = of->value[VALUE_TOKENS],
                               .ratio_squares = of->value[RATIO_SQUARES]};
    memcpy(sums.value, of->value, sizeof(sums.value));
    memset(to, 0, DT_METRICS_MAX * sizeof(*to));
    dt_ppo_results(&sums, to);
    to[EARLY_ENDS] = of->value[EARLY_ENDS];
    to[RATIO_ERROR] = of->value[RATIO_ERROR];
}

const struct dt_algo dt_algo_ppo = {
    .name = "ppo",
    .needs_reference = needs_reference,
    .metrics = metrics,
    .metric_count = METRICS,
    .kl = "objective/kl",
    .begin = begin,
    .fini = release,
    .pick = dt_run_pick_completions,
    .advantages = advantages,
    .numbers = numbers,
    .denominator = denominator,
    .loss = loss,
    .critic_loss = critic_loss,
    .passed = passed,
    .results = results,
};
