/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the learning rate of a step */
#include "config.h"

#include <math.h>

#include "optim/optim.h"

static double interpolate(double from, double to, double share)
{
    return from + (to - from) * share;
}

static long at_least_1(long steps)
{
    return steps > 1 ? steps : 1;
}

/* From 1 at u = 0 to 0 at u = 1 if cycles is 1/2. */
static double cosine_decay(double u, double cycles)
{
    double factor = 0.5 * (1.0 + cos(2.0 * M_PI * cycles * u));
    return factor > 0.0 ? factor : 0.0;
}

/* Fraction of the decay that is done before step k. */
static double decay_fraction(const struct dt_schedule *s, long k)
{
    double u =
        (double)(k - s->warmup) / (double)at_least_1(s->total - s->warmup);
    return u < 1.0 ? u : 1.0;
}

/* Warm-up and decay of warmup_stable_decay; u from 0 to 1. */
static double warmup_curve(enum dt_curve curve, double u)
{
    if (curve == DT_CURVE_COSINE)
        return 0.5 * (1.0 - cos(M_PI * u));
    return curve == DT_CURVE_SQRT ? 1.0 - sqrt(1.0 - u) : u;
}

static double decay_curve(const struct dt_schedule *s, double u)
{
    if (s->decay_curve == DT_CURVE_COSINE)
        return cosine_decay(u, s->num_cycles);
    return s->decay_curve == DT_CURVE_SQRT ? 1.0 - sqrt(u) : 1.0 - u;
}

static double warmup_stable_decay(const struct dt_schedule *s, long k)
{
    long stable = s->stable > 0 ? s->stable : s->total - s->warmup - s->decay;
    double u = (double)(k - s->warmup - stable) / (double)at_least_1(s->decay);
    if (u >= 1.0)
        return s->min_lr;
    return interpolate(s->min_lr, s->lr, u > 0.0 ? decay_curve(s, u) : 1.0);
}

static double inverse_sqrt(const struct dt_schedule *s, long k)
{
    long scale = s->timescale;
    if (scale == 0)
        scale = s->warmup > 0 ? s->warmup : 10000;
    return s->lr / sqrt((double)(k + scale - s->warmup) / (double)scale);
}

/* After warm-up, the names of Hugging Face and nanoGPT. */
static double after_warmup(const struct dt_schedule *s, long k)
{
    double u = decay_fraction(s, k);
    switch (s->name) {
    case DT_SCHEDULE_LINEAR:
        return s->lr * (1.0 - u);
    case DT_SCHEDULE_COSINE_WITH_RESTARTS:
        return u < 1.0 ? s->lr * cosine_decay(fmod(s->num_cycles * u, 1.0), 0.5)
                       : 0.0;
    case DT_SCHEDULE_COSINE:
        return s->lr * cosine_decay(u, s->num_cycles);
    case DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR:
        u = decay_fraction(s, k + 1);
        /* fall through */
    case DT_SCHEDULE_COSINE_WITH_MIN_LR:
        return interpolate(s->min_lr, s->lr, cosine_decay(u, s->num_cycles));
    case DT_SCHEDULE_POLYNOMIAL:
        return interpolate(s->min_lr, s->lr, pow(1.0 - u, s->power));
    case DT_SCHEDULE_INVERSE_SQRT:
        return inverse_sqrt(s, k);
    case DT_SCHEDULE_WARMUP_STABLE_DECAY:
        return warmup_stable_decay(s, k);
    case DT_SCHEDULE_NANOGPT:
        return interpolate(s->min_lr, s->lr, cosine_decay(u, 0.5));
    default:
        return s->lr;
    }
}

static double during_warmup(const struct dt_schedule *s, long k)
{
    double u = (double)k / (double)s->warmup;
    switch (s->name) {
    case DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR:
        return interpolate(s->warmup_lr, s->lr,
                           (double)k / (double)at_least_1(s->warmup - 1));
    case DT_SCHEDULE_WARMUP_STABLE_DECAY:
        return interpolate(s->min_lr, s->lr, warmup_curve(s->warmup_curve, u));
    case DT_SCHEDULE_NANOGPT:
        return s->lr * (double)(k + 1) / (double)(s->warmup + 1);
    default:
        return s->lr * u;
    }
}

/* DeepSpeed steps its schedule after the optimizer: optimizer step k has the
 * rate of schedule step k - 1.
 */
static double deepspeed_lr(const struct dt_schedule *s, long k)
{
    long i = k - 1, w = s->warmup > 2 ? s->warmup : 2;
    bool is_cosine = s->name == DT_SCHEDULE_DS_WARMUP_COSINE;
    if (i < 0)
        return is_cosine ? 0.0 : s->warmup_lr;
    if (i < w)
        return interpolate(s->warmup_lr, s->lr,
                           s->warmup_curve == DT_CURVE_LOG
                               ? log((double)i + 1.0) / log((double)w)
                               : (double)i / (double)w);
    if (is_cosine) {
        double u = (double)(i - w + 1) / (double)at_least_1(s->total - w);
        return interpolate(s->min_lr, s->lr,
                           cosine_decay(u < 1.0 ? u : 1.0, 0.5));
    }
    double left = 1.0;
    if (s->name == DT_SCHEDULE_DS_WARMUP_DECAY)
        left = (double)(s->total - i) / (double)at_least_1(s->total - w);
    return interpolate(s->warmup_lr, s->lr, left > 0.0 ? left : 0.0);
}

double dt_schedule_lr(const struct dt_schedule *s, long k)
{
    if (s->name >= DT_SCHEDULE_DS_WARMUP)
        return deepspeed_lr(s, k);
    if (k < s->warmup && s->name != DT_SCHEDULE_CONSTANT)
        return during_warmup(s, k);
    return after_warmup(s, k);
}
