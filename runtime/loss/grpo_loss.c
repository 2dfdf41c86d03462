/* SPDX-License-Identifier: Apache-2.0 */
/* grpo_loss.c - the losses of sampled completions, with their derivatives */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loss/loss.h"
#include "loss/grpo_loss.h"

struct dt_grpo_options dt_grpo_options(const struct dt_conf *conf)
{
    const struct dt_conf_grpo *grpo = &conf->grpo;

    return (struct dt_grpo_options){
        .type = grpo->loss_type,
        .level = grpo->level,
        .epsilon = grpo->epsilon,
        .epsilon_high = grpo->epsilon_high,
        .delta = grpo->delta,
        .beta = grpo->beta,
        .kl_unbiased = grpo->kl_unbiased,
        .entropy_coef = grpo->entropy_coef,
        .sapo_temperature_pos = grpo->sapo_temperature_pos,
        .sapo_temperature_neg = grpo->sapo_temperature_neg,
        .off_policy_mask = grpo->off_policy_mask,
        .correction = conf->rollout.correction,
        .cap = conf->rollout.cap,
        .max_completion_length = (size_t)conf->rollout.max_completion_length,
    };
}

/* --- sums --- */

enum kind { MEAN_OF_TOKENS, MEAN_OF_RATIOS, MINIMUM, MAXIMUM };

static enum kind kind_of(enum dt_grpo_metric metric)
{
    switch (metric) {
    case DT_GRPO_CLIP_LOW_MEAN:
    case DT_GRPO_CLIP_HIGH_MEAN:
    case DT_GRPO_CLIP_REGION_MEAN:
    case DT_GRPO_CISPO_CLIP_RATIO:
        return MEAN_OF_RATIOS;
    case DT_GRPO_CLIP_LOW_MIN:
    case DT_GRPO_SAMPLING_RATIO_MIN:
        return MINIMUM;
    case DT_GRPO_CLIP_HIGH_MAX:
    case DT_GRPO_RATIO_ERROR_MAX:
    case DT_GRPO_SAMPLING_DIFF_MAX:
    case DT_GRPO_SAMPLING_RATIO_MAX:
        return MAXIMUM;
    default:
        return MEAN_OF_TOKENS;
    }
}

static void grpo_add_value(struct dt_grpo_sums *sums,
                           enum dt_grpo_metric metric, double value)
{
    double *to = &sums->value[metric];

    switch (kind_of(metric)) {
    case MINIMUM:
        *to = fmin(*to, value);
        break;
    case MAXIMUM:
        *to = fmax(*to, value);
        break;
    default:
        *to += value;
    }
}

void dt_grpo_sums_clear(struct dt_grpo_sums *sums)
{
    *sums = (struct dt_grpo_sums){0};
    for (int m = 0; m < DT_GRPO_METRICS; m++)
        if (kind_of(m) == MINIMUM)
            sums->value[m] = INFINITY;
        else if (kind_of(m) == MAXIMUM)
            sums->value[m] = -INFINITY;
}

void dt_grpo_results(const struct dt_grpo_sums *sums,
                     double results[DT_GRPO_METRICS])
{
    for (int m = 0; m < DT_GRPO_METRICS; m++) {
        const enum kind kind = kind_of(m);
        const double all = kind == MEAN_OF_RATIOS ? sums->ratios : sums->tokens;

        results[m] = sums->value[m];
        if (kind == MEAN_OF_TOKENS || kind == MEAN_OF_RATIOS)
            results[m] /= all;
        else if (isinf(results[m]))
            results[m] = NAN;
    }
}

double dt_grpo_denominator(const struct dt_grpo_options *options, double rows,
                           double tokens)
{
    double all = rows;

    switch (options->type) {
    case DT_GRPO_DAPO:
    case DT_GRPO_BNPO:
    case DT_GRPO_CISPO:
        all = tokens;
        break;
    case DT_GRPO_DR_GRPO:
        all = rows * (double)options->max_completion_length;
        break;
    default:
        break;
    }
    return fmax(all, 1.0);
}

/* --- a completion --- */

/* Whether the loss of a completion is the mean over its tokens. */
static bool grpo_is_mean(const struct dt_grpo_options *options)
{
    return options->type == DT_GRPO_GRPO || options->type == DT_GRPO_SAPO;
}

/* Values that all tokens of a completion share. */
struct point {
    const struct dt_grpo_options *o;
    const struct dt_grpo_row *row;
    double share;    /* of a token in the loss */
    double mean;     /* of the log-ratios */
    double k3_mean;  /* of the estimates of the KL divergence */
    double sampling; /* sum of old - sampled */
    double factor;   /* mean of the corrections of tokens that take part */
    bool dropped;    /* by off_policy_mask */
};

static int grpo_compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

double dt_grpo_least_entropy(double share, float *entropy, size_t count)
{
    if (count == 0)
        return INFINITY;
    qsort(entropy, count, sizeof(entropy[0]), grpo_compare);
    const double at = (1.0 - share) * (double)(count - 1);
    const size_t below = (size_t)at, above = below + (below + 1 < count);
    const double low = (double)entropy[below], high = (double)entropy[above];

    return low + (at - (double)below) * (high - low);
}

bool dt_grpo_takes_part(const struct dt_grpo_row *row, size_t t)
{
    return !row->masked &&
           (!row->chosen_by || (double)row->chosen_by[t] >= row->least);
}

static double grpo_old(const struct dt_grpo_row *row, size_t t)
{
    return (double)(row->old ? row->old : row->logp)[t];
}

static double grpo_log_ratio(const struct dt_grpo_row *row, size_t t)
{
    return (double)row->logp[t] - grpo_old(row, t);
}

static double grpo_k3(const struct dt_grpo_row *row, size_t t)
{
    const double x = (double)row->ref[t] - (double)row->logp[t];

    return dt_exp_clamped(x) - x - 1.0;
}

/* Completions that the model has left behind no longer teach what to avoid. */
static bool grpo_is_dropped(const struct dt_grpo_options *o,
                            const struct dt_grpo_row *row)
{
    double moved = 0.0;

    if (o->off_policy_mask <= 0.0 || row->advantage >= 0.0)
        return false;
    for (size_t t = 0; t < row->count; t++)
        moved += (row->sampled ? (double)row->sampled[t] : grpo_old(row, t)) -
                 (double)row->logp[t];
    return moved / (double)row->count > o->off_policy_mask;
}

/* Factor of the policy's part that corrects for sampler and trainer
 * disagreeing.
 */
static double grpo_factor(const struct point *p, size_t t)
{
    const double cap = p->o->cap;
    double ratio;

    if (!p->row->sampled)
        return 1.0;
    ratio =
        dt_exp_clamped(p->o->correction == DT_CORRECTION_SEQUENCE_MASK
                           ? p->sampling
                           : grpo_old(p->row, t) - (double)p->row->sampled[t]);
    switch (p->o->correction) {
    case DT_CORRECTION_TOKEN_TRUNCATE:
        return ratio > cap ? cap : ratio;
    case DT_CORRECTION_TOKEN_MASK:
    case DT_CORRECTION_SEQUENCE_MASK:
        return ratio > cap ? 0.0 : ratio;
    default:
        return 1.0;
    }
}

static double grpo_part(const struct point *p, size_t t)
{
    return dt_grpo_takes_part(p->row, t) ? grpo_factor(p, t) : 0.0;
}

static struct point grpo_point(const struct dt_grpo_options *o,
                               const struct dt_grpo_row *row)
{
    struct point p = {.o = o, .row = row, .share = 1.0};

    for (size_t t = 0; t < row->count; t++) {
        p.mean += grpo_log_ratio(row, t);
        if (o->beta > 0.0)
            p.k3_mean += grpo_k3(row, t);
        if (row->sampled)
            p.sampling += grpo_old(row, t) - (double)row->sampled[t];
    }
    p.mean /= (double)row->count;
    p.k3_mean /= (double)row->count;
    if (grpo_is_mean(o))
        p.share /= (double)row->count;
    p.dropped = grpo_is_dropped(o, row);
    for (size_t t = 0; t < row->count; t++)
        p.factor += grpo_part(&p, t) / (double)row->count;
    return p;
}

static double grpo_ratio(const struct point *p, size_t t)
{
    return dt_exp_clamped(
        p->o->level == DT_GRPO_SEQUENCE ? p->mean : grpo_log_ratio(p->row, t));
}

/* -4 g A / tau, g = sig(tau (rho - 1)), tau = sapo_temperature_pos if A > 0,
 * else sapo_temperature_neg
 */
static struct dt_clipped grpo_sapo(const struct dt_grpo_options *o, double rho,
                                   double advantage)
{
    const double tau =
        advantage > 0.0 ? o->sapo_temperature_pos : o->sapo_temperature_neg;
    const double g = 1.0 / (1.0 + exp(-tau * (rho - 1.0)));

    return (struct dt_clipped){.loss = -4.0 * g * advantage / tau,
                               .slope = -4.0 * g * (1.0 - g) * rho * advantage};
}

/* The part of a token's loss that the advantage weighs, with its derivative by
 * the logarithm of the ratio; of cispo by the log-probability:
 *   cispo   -min(rho, epsilon_high) A logp, whose first factor is a constant
 *   sapo    see above
 *   others  the clipped objective (loss.h)
 * Of grpo and sapo it is divided by n (grpo_is_mean).
 */
static struct dt_clipped grpo_policy(const struct point *p, size_t t,
                                     double rho)
{
    const struct dt_grpo_options *o = p->o;
    const double A = p->row->advantage;
    const double capped = rho > o->epsilon_high ? o->epsilon_high : rho;

    switch (o->type) {
    case DT_GRPO_CISPO:
        return (struct dt_clipped){.loss =
                                       -capped * A * (double)p->row->logp[t],
                                   .slope = -capped * A};
    case DT_GRPO_SAPO:
        return grpo_sapo(o, rho, A);
    default:
        return dt_clipped(rho, A, o->epsilon, o->epsilon_high, o->delta);
    }
}

/* The KL divergence of a token; its slope has what the ratio of the completion
 * passes on to every token.
 */
static struct dt_clipped grpo_kl(const struct point *p, size_t t, double rho)
{
    const double x = (double)p->row->ref[t] - (double)p->row->logp[t];
    const double k3 = grpo_k3(p->row, t), slope = 1.0 - dt_exp_clamped(x);
    const bool sequence = p->o->level == DT_GRPO_SEQUENCE;

    if (!p->o->kl_unbiased)
        return (struct dt_clipped){.loss = k3, .slope = slope};
    return (struct dt_clipped){.loss = rho * k3,
                               .slope = rho *
                                        (slope + (sequence ? p->k3_mean : k3))};
}

/* --- metrics --- */

static void grpo_add_sampling(const struct point *p, size_t t, double factor,
                              struct dt_grpo_sums *sums)
{
    const double off = fabs(grpo_old(p->row, t) - (double)p->row->sampled[t]);

    grpo_add_value(sums, DT_GRPO_SAMPLING_DIFF_MEAN, off);
    grpo_add_value(sums, DT_GRPO_SAMPLING_DIFF_MAX, off);
    grpo_add_value(sums, DT_GRPO_SAMPLING_RATIO_MIN, factor);
    grpo_add_value(sums, DT_GRPO_SAMPLING_RATIO_MEAN, factor);
    grpo_add_value(sums, DT_GRPO_SAMPLING_RATIO_MAX, factor);
}

/* The shares of ratios that the loss does not follow. */
static void grpo_add_clips(const struct point *p, struct dt_grpo_sums *sums)
{
    const struct dt_grpo_options *o = p->o;
    const double A = p->row->advantage;
    const bool cispo = o->type == DT_GRPO_CISPO;
    const size_t ratios = o->level == DT_GRPO_SEQUENCE ? 1 : p->row->count;
    double low = 0.0, high = 0.0;

    for (size_t t = 0; t < ratios; t++) {
        const double rho = grpo_ratio(p, t);
        low += !cispo && A < 0.0 && rho < 1.0 - o->epsilon;
        high += A > 0.0 && rho > (cispo ? 0.0 : 1.0) + o->epsilon_high;
    }
    sums->ratios += (double)ratios;
    if (cispo) {
        grpo_add_value(sums, DT_GRPO_CISPO_CLIP_RATIO, high);
    } else if (o->type != DT_GRPO_SAPO) {
        grpo_add_value(sums, DT_GRPO_CLIP_LOW_MEAN, low);
        grpo_add_value(sums, DT_GRPO_CLIP_HIGH_MEAN, high);
        grpo_add_value(sums, DT_GRPO_CLIP_REGION_MEAN, low + high);
        grpo_add_value(sums, DT_GRPO_CLIP_LOW_MIN, low / (double)ratios);
        grpo_add_value(sums, DT_GRPO_CLIP_HIGH_MAX, high / (double)ratios);
    }
}

/* --- the loss --- */

double dt_grpo_entropy_weight(const struct dt_grpo_options *options,
                              const struct dt_grpo_row *row, size_t t,
                              double entropy_share)
{
    return dt_grpo_takes_part(row, t) ? -options->entropy_coef * entropy_share
                                      : 0.0;
}

static double grpo_token(const struct point *p, size_t t,
                         struct dt_grpo_sums *sums)
{
    const double rho = grpo_ratio(p, t), part = grpo_part(p, t);
    const double kept = p->dropped ? 0.0 : p->share;
    const struct dt_clipped policy = grpo_policy(p, t, rho);
    /* The ratio of a completion is in the loss of every token of it. */
    const bool shared =
        p->o->level == DT_GRPO_SEQUENCE && p->o->type != DT_GRPO_CISPO;
    double weight = kept * (shared ? p->factor : part) * policy.slope;

    sums->loss += kept * part * policy.loss;
    if (p->o->beta > 0.0) {
        const struct dt_clipped kl = grpo_kl(p, t, rho);
        sums->loss += p->share * p->o->beta * kl.loss;
        weight += p->share * p->o->beta * kl.slope;
        grpo_add_value(sums, DT_GRPO_KL, kl.loss);
    }
    if (p->row->sampled)
        grpo_add_sampling(p, t, grpo_factor(p, t), sums);
    grpo_add_value(sums, DT_GRPO_RATIO_ERROR_MAX,
                   fabs(dt_exp_clamped(grpo_log_ratio(p->row, t)) - 1.0));
    return weight;
}

void dt_grpo_loss(const struct dt_grpo_options *options,
                  const struct dt_grpo_row *row, double entropy_share,
                  float *weights, struct dt_grpo_sums *sums)
{
    const struct point p = grpo_point(options, row);

    sums->rows += 1.0;
    memset(weights, 0, row->count * sizeof(weights[0]));
    if (row->masked)
        return;
    sums->tokens += (double)row->count;
    for (size_t t = 0; t < row->count; t++) {
        weights[t] = (float)grpo_token(&p, t, sums);
        if (row->entropy) {
            sums->loss +=
                dt_grpo_entropy_weight(options, row, t, entropy_share) *
                (double)row->entropy[t];
            grpo_add_value(sums, DT_GRPO_ENTROPY, (double)row->entropy[t]);
        }
    }
    grpo_add_clips(&p, sums);
}
