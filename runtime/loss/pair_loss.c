/* SPDX-License-Identifier: Apache-2.0 */
/* pair_loss.c - the losses of preference pairs, with their derivatives */
#include "config.h"

#include <math.h>
#include <string.h>

#include "loss/pair_loss.h"

/* Log-ratios of a pair, their scores and the derivatives of these. */
struct point {
    double a, d, fa, fd, dfa, dfd;
    double length_c, length_r;
    double plain, pairs_per_token;
    double beta, eps;
};

/* A loss and its derivatives: by a, by d, by each chosen token's logp. */
struct slope {
    double loss, a, d, token;
};

static double sig(double x)
{
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

static double log_sig(double x)
{
    return x >= 0.0 ? -log1p(exp(-x)) : x - log1p(exp(x));
}

/* --- losses of the difference of scores --- */

/* A loss of x = beta delta with derivative dx */
static struct slope of_delta(const struct point *p, double loss, double dx)
{
    const double slope = p->beta * dx;

    return (struct slope){
        .loss = loss, .a = slope * p->dfa, .d = -slope * p->dfd};
}

static double beta_delta(const struct point *p)
{
    return p->beta * (p->fa - p->fd);
}

/* -ls(beta delta) */
static struct slope sigmoid(const struct point *p)
{
    const double x = beta_delta(p);

    return of_delta(p, -log_sig(x), -sig(-x));
}

/* -(1 - eps) ls(beta delta) - eps ls(-beta delta) (Mitchell, "A note on DPO
 * with noisy preferences")
 */
static struct slope cdpo(const struct point *p)
{
    const double x = beta_delta(p), eps = p->eps;

    return of_delta(p, -(1.0 - eps) * log_sig(x) - eps * log_sig(-x),
                    sig(x) - (1.0 - eps));
}

/* (-(1 - eps) ls(beta delta) + eps ls(-beta delta)) / (1 - 2 eps) */
static struct slope robust(const struct point *p)
{
    const double x = beta_delta(p), eps = p->eps, all = 1.0 - 2.0 * eps;

    return of_delta(p, (-(1.0 - eps) * log_sig(x) + eps * log_sig(-x)) / all,
                    -((1.0 - eps) * sig(-x) + eps * sig(x)) / all);
}

/* max(0, 1 - beta delta) */
static struct slope hinge(const struct point *p)
{
    const double left = 1.0 - beta_delta(p);

    if (left <= 0.0)
        return (struct slope){0};
    return of_delta(p, left, -1.0);
}

/* q (log q - log(1 - eps)) + (1 - q) (log(1 - q) - log eps),
 * q = sig(beta delta)
 */
static struct slope exo_pair(const struct point *p)
{
    const double x = beta_delta(p), q = sig(x), rest = sig(-x);
    const double log_w = log1p(-p->eps), log_l = log(p->eps);

    return of_delta(p, q * (log_sig(x) - log_w) + rest * (log_sig(-x) - log_l),
                    q * rest * (x - log_w + log_l));
}

/* --- losses of the difference of mean scores --- */

/* A loss of n with derivative dn */
static struct slope of_means(const struct point *p, double loss, double dn)
{
    return (struct slope){.loss = loss,
                          .a = dn * p->dfa / p->length_c,
                          .d = -dn * p->dfd / p->length_r};
}

static double mean_delta(const struct point *p)
{
    return p->fa / p->length_c - p->fd / p->length_r;
}

/* (n - 1 / (2 beta))^2 */
static struct slope ipo(const struct point *p)
{
    const double off = mean_delta(p) - 0.5 / p->beta;

    return of_means(p, off * off, 2.0 * off);
}

/* -ls(beta n) */
static struct slope sigmoid_norm(const struct point *p)
{
    const double x = p->beta * mean_delta(p);

    return of_means(p, -log_sig(x), -p->beta * sig(-x));
}

/* --- losses of each side's log-ratio --- */

/* -ls(beta a) - ls(-beta a) / 2 - ls(-beta d) / 2 */
static struct slope nca_pair(const struct point *p)
{
    const double c = p->beta * p->a, r = p->beta * p->d;

    return (struct slope){.loss = -log_sig(c) - 0.5 * log_sig(-c) -
                                  0.5 * log_sig(-r),
                          .a = p->beta * (0.5 * sig(c) - sig(-c)),
                          .d = p->beta * 0.5 * sig(r)};
}

/* -ls(beta a) - ls(-beta d) */
static struct slope bco_pair(const struct point *p)
{
    const double c = p->beta * p->a, r = p->beta * p->d;

    return (struct slope){.loss = -log_sig(c) - log_sig(-r),
                          .a = -p->beta * sig(-c),
                          .d = p->beta * sig(r)};
}

/* (a - 1 / (2 beta))^2 + (d + 1 / (2 beta))^2 */
static struct slope sppo_hard(const struct point *p)
{
    const double won = p->a - 0.5 / p->beta, lost = p->d + 0.5 / p->beta;

    return (struct slope){
        .loss = won * won + lost * lost, .a = 2.0 * won, .d = 2.0 * lost};
}

/* 1 - sig(beta a) + sig(beta d) */
static struct slope apo_zero(const struct point *p)
{
    const double c = p->beta * p->a, r = p->beta * p->d;

    return (struct slope){.loss = sig(-c) + sig(r),
                          .a = -p->beta * sig(c) * sig(-c),
                          .d = p->beta * sig(r) * sig(-r)};
}

/* sig(beta a) + 1 - sig(beta (a - d)) */
static struct slope apo_down(const struct point *p)
{
    const double c = p->beta * p->a, x = p->beta * (p->a - p->d);
    const double down = p->beta * sig(c) * sig(-c);
    const double apart = p->beta * sig(x) * sig(-x);

    return (struct slope){
        .loss = sig(c) + sig(-x), .a = down - apart, .d = apart};
}

/* -(sum of logp of the chosen side) * pairs / tokens, which makes it the mean
 * over the chosen tokens of the step
 */
static struct slope sft(const struct point *p)
{
    return (struct slope){.loss = -p->plain * p->pairs_per_token,
                          .token = -p->pairs_per_token};
}

/* --- options --- */

/* Traits of a loss. SCORED: it compares f(a) with f(d), and so exists for each
 * f-divergence; without it the partition function of other divergences than
 * reverse_kl would not cancel. SMOOTHED: it uses label_smoothing.
 */
enum { SCORED = 1, SMOOTHED = 2 };

#define LOSS(VALUE, word, traits, help) [VALUE] = {#word, word, (traits)},

static const struct {
    const char *name;
    struct slope (*loss)(const struct point *p);
    int traits;
} LOSSES[] = {DT_DPO_LOSSES(LOSS)};

int dt_dpo_loss_find(const char *name)
{
    for (int i = 0; i < DT_DPO_LOSS_COUNT; i++)
        if (strcmp(LOSSES[i].name, name) == 0)
            return i;
    return -1;
}

static int check_loss(const struct dt_dpo_options *o, size_t i,
                      struct dt_error *err)
{
    const enum dt_dpo_loss loss = o->loss[i];
    const double eps = o->label_smoothing;

    for (size_t j = 0; j < i; j++)
        if (o->loss[j] == loss)
            return dt_error_set(err, EX_CONFIG, "dpo.loss: %s is there twice",
                                LOSSES[loss].name);
    if (!(o->loss_weight[i] >= 0.0) || isinf(o->loss_weight[i]))
        return dt_error_set(err, EX_CONFIG,
                            "dpo.loss_weights: expected a number >= 0 for %s, "
                            "got %g",
                            LOSSES[loss].name, o->loss_weight[i]);
    if (o->f_divergence != DT_DIVERGENCE_REVERSE_KL &&
        !(LOSSES[loss].traits & SCORED))
        return dt_error_set(err, EX_CONFIG,
                            "dpo.f_divergence: %s has no form other than "
                            "reverse_kl",
                            LOSSES[loss].name);
    if (loss == DT_DPO_EXO_PAIR && eps == 0.0)
        return dt_error_set(err, EX_CONFIG,
                            "dpo.label_smoothing: exo_pair needs more than 0, "
                            "such as 1e-3");
    return 0;
}

int dt_dpo_check(const struct dt_dpo_options *o, struct dt_error *err)
{
    bool smooth = false;

    if (o->loss_count == 0)
        return dt_error_set(err, EX_CONFIG, "dpo.loss: no loss");
    for (size_t i = 0; i < o->loss_count; i++) {
        if (check_loss(o, i, err) < 0)
            return -1;
        smooth |= LOSSES[o->loss[i]].traits & SMOOTHED;
    }
    if (o->label_smoothing > 0.0 && !smooth)
        return dt_error_set(err, EX_CONFIG,
                            "dpo.label_smoothing: %s does not use it: "
                            "cdpo, robust and exo_pair do",
                            LOSSES[o->loss[0]].name);
    return 0;
}

/* --- a pair --- */

double dt_dpo_sum(const struct dt_dpo_options *options, const float *logp,
                  size_t length, size_t other_length)
{
    double shared = 0.0, tail = 0.0;

    for (size_t t = 0; t < length; t++)
        *(t < other_length ? &shared : &tail) += (double)logp[t];
    return shared + options->ld_alpha * tail;
}

double dt_dpo_aligned(const float *logp, const float *collision, size_t length)
{
    double sum = 0.0;

    for (size_t t = 0; t < length; t++)
        sum += (double)logp[t] - (double)collision[t];
    return sum / (double)length;
}

/* The score f of a log-ratio x, and its derivative:
 *   reverse_kl        x
 *   forward_kl        1 - exp(-x)
 *   js_divergence     log 2 + log sig(x)
 *   alpha_divergence  (exp((alpha - 1) x) - 1) / (alpha - 1)
 * Exponents end at 80, as in TRL: beyond it the score is constant.
 */
static double score(const struct dt_dpo_options *o, double x, double *slope)
{
    const double MOST = 80.0, a = o->f_alpha - 1.0;
    double exponent;

    *slope = 1.0;
    switch (o->f_divergence) {
    case DT_DIVERGENCE_FORWARD_KL:
        exponent = -x > MOST ? MOST : -x;
        *slope = -x > MOST ? 0.0 : exp(exponent);
        return 1.0 - exp(exponent);
    case DT_DIVERGENCE_JS:
        *slope = sig(-x);
        return log(2.0) + log_sig(x);
    case DT_DIVERGENCE_ALPHA:
        if (fabs(a) < 1e-6)
            return x;
        exponent = a * x > MOST ? MOST : a * x;
        *slope = a * x > MOST ? 0.0 : exp(exponent);
        return expm1(exponent) / a;
    case DT_DIVERGENCE_REVERSE_KL:
        break;
    }
    return x;
}

static struct point point_of(const struct dt_dpo_options *o,
                             const struct dt_dpo_pair *pair,
                             double pairs_per_token)
{
    struct point p = {
        .a = pair->chosen.logp - pair->chosen.ref,
        .d = pair->rejected.logp - pair->rejected.ref,
        .length_c = (double)pair->chosen.length,
        .length_r = (double)pair->rejected.length,
        .plain = pair->chosen.plain,
        .pairs_per_token = pairs_per_token,
        .beta = o->beta,
        .eps = o->label_smoothing,
    };

    p.fa = score(o, p.a, &p.dfa);
    p.fd = score(o, p.d, &p.dfd);
    return p;
}

/* Rewards are those of log-ratios, whatever the divergence, as in TRL. */
static void fill_metrics(const struct dt_dpo_pair *pair, const struct point *p,
                         double metrics[DT_DPO_METRICS])
{
    const double chosen = p->beta * p->a, rejected = p->beta * p->d;

    metrics[DT_DPO_REWARDS_CHOSEN] = chosen;
    metrics[DT_DPO_REWARDS_REJECTED] = rejected;
    metrics[DT_DPO_REWARDS_ACCURACIES] = chosen > rejected;
    metrics[DT_DPO_REWARDS_MARGINS] = chosen - rejected;
    metrics[DT_DPO_LOGPS_CHOSEN] = pair->chosen.logp;
    metrics[DT_DPO_LOGPS_REJECTED] = pair->rejected.logp;
}

struct dt_dpo_result dt_dpo_loss(const struct dt_dpo_options *options,
                                 const struct dt_dpo_pair *pair,
                                 double pairs_per_token)
{
    const struct point p = point_of(options, pair, pairs_per_token);
    struct dt_dpo_result result = {0};
    double factor = 1.0;

    if (options->use_weighting)
        factor = exp(pair->chosen.aligned + pair->rejected.aligned);
    for (size_t i = 0; i < options->loss_count; i++) {
        const struct slope s = LOSSES[options->loss[i]].loss(&p);
        const double weight = factor * options->loss_weight[i];
        result.loss += weight * s.loss;
        result.chosen += weight * s.a;
        result.rejected += weight * s.d;
        result.token += weight * s.token;
    }
    fill_metrics(pair, &p, result.metrics);
    return result;
}

void dt_dpo_token_weights(const struct dt_dpo_options *options,
                          const struct dt_dpo_pair *pair,
                          const struct dt_dpo_result *result, float *chosen,
                          float *rejected)
{
    const size_t length_c = pair->chosen.length;
    const size_t length_r = pair->rejected.length;
    const double ld_alpha = options->ld_alpha;

    for (size_t t = 0; t < length_c; t++)
        chosen[t] = (float)(result->chosen * (t < length_r ? 1.0 : ld_alpha) +
                            result->token);
    for (size_t t = 0; t < length_r; t++)
        rejected[t] =
            (float)(result->rejected * (t < length_c ? 1.0 : ld_alpha));
}

/* --- reward models --- */

struct dt_rm_result dt_rm_loss(double chosen, double rejected, double margin,
                               double center_rewards_coefficient)
{
    const double x = chosen - rejected - margin, sum = chosen + rejected;
    const double small = exp(-fabs(x)); /* no overflow on either side */
    const double wrong = x >= 0.0 ? small / (1.0 + small) : 1.0 / (1.0 + small);
    const double center = center_rewards_coefficient * sum;
    struct dt_rm_result r = {
        .loss = log1p(small) - fmin(x, 0.0) + center * sum,
        .chosen = 2.0 * center - wrong,
        .rejected = 2.0 * center + wrong,
    };

    r.metrics[DT_RM_ACCURACY] = chosen > rejected;
    r.metrics[DT_RM_MARGIN] = chosen - rejected;
    r.metrics[DT_RM_MIN_REWARD] = fmin(chosen, rejected);
    r.metrics[DT_RM_MEAN_REWARD] = 0.5 * sum;
    r.metrics[DT_RM_MAX_REWARD] = fmax(chosen, rejected);
    return r;
}
