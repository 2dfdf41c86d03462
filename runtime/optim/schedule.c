/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the learning rate of a step */
#include "config.h"

#include <math.h>

#include "optim/optim.h"

static double between(double from, double to, double share)
{
    return from + (to - from) * share;
}

static long at_least_1(long steps)
{
    return steps > 1 ? steps : 1;
}

/* From 1 at u = 0 to 0 at u = 1 with one half of a cycle. */
static double cosine(double u, double cycles)
{
    double factor = 0.5 * (1.0 + cos(2.0 * M_PI * cycles * u));
    return factor > 0.0 ? factor : 0.0;
}

/* Share of the decay that is behind before step k. */
static double decayed(const struct dt_schedule *s, long k)
{
    double u =
        (double)(k - s->warmup) / (double)at_least_1(s->total - s->warmup);
    return u < 1.0 ? u : 1.0;
}

/* Of warm-up and decay in warmup_stable_decay; u from 0 to 1. */
static double rise(enum dt_curve curve, double u)
{
    if (curve == DT_CURVE_COSINE)
        return 0.5 * (1.0 - cos(M_PI * u));
    return curve == DT_CURVE_SQRT ? 1.0 - sqrt(1.0 - u) : u;
}

static double fall(const struct dt_schedule *s, double u)
{
    if (s->decay_curve == DT_CURVE_COSINE)
        return cosine(u, s->num_cycles);
    return s->decay_curve == DT_CURVE_SQRT ? 1.0 - sqrt(u) : 1.0 - u;
}

static double warmup_stable_decay(const struct dt_schedule *s, long k)
{
    long stable = s->stable > 0 ? s->stable : s->total - s->warmup - s->decay;
    double u = (double)(k - s->warmup - stable) / (double)at_least_1(s->decay);
    if (u >= 1.0)
        return s->min_lr;
    return between(s->min_lr, s->lr, u > 0.0 ? fall(s, u) : 1.0);
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
    double u = decayed(s, k);
    switch (s->name) {
    case DT_SCHEDULE_LINEAR:
        return s->lr * (1.0 - u);
    case DT_SCHEDULE_COSINE_WITH_RESTARTS:
        return u < 1.0 ? s->lr * cosine(fmod(s->num_cycles * u, 1.0), 0.5)
                       : 0.0;
    case DT_SCHEDULE_COSINE:
        return s->lr * cosine(u, s->num_cycles);
    case DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR:
        u = decayed(s, k + 1);
        /* fall through */
    case DT_SCHEDULE_COSINE_WITH_MIN_LR:
        return between(s->min_lr, s->lr, cosine(u, s->num_cycles));
    case DT_SCHEDULE_POLYNOMIAL:
        return between(s->min_lr, s->lr, pow(1.0 - u, s->power));
    case DT_SCHEDULE_INVERSE_SQRT:
        return inverse_sqrt(s, k);
    case DT_SCHEDULE_WARMUP_STABLE_DECAY:
        return warmup_stable_decay(s, k);
    case DT_SCHEDULE_NANOGPT:
        return between(s->min_lr, s->lr, cosine(u, 0.5));
    default:
        return s->lr;
    }
}

static double warming(const struct dt_schedule *s, long k)
{
    double u = (double)k / (double)s->warmup;
    switch (s->name) {
    case DT_SCHEDULE_COSINE_WARMUP_WITH_MIN_LR:
        return between(s->warmup_lr, s->lr,
                       (double)k / (double)at_least_1(s->warmup - 1));
    case DT_SCHEDULE_WARMUP_STABLE_DECAY:
        return between(s->min_lr, s->lr, rise(s->warmup_curve, u));
    case DT_SCHEDULE_NANOGPT:
        return s->lr * (double)(k + 1) / (double)(s->warmup + 1);
    default:
        return s->lr * u;
    }
}

/* DeepSpeed steps its schedule after the optimizer, so that step k of the
 * optimizer has the rate of step k - 1 of the schedule.
 */
static double deepspeed(const struct dt_schedule *s, long k)
{
    long i = k - 1, w = s->warmup > 2 ? s->warmup : 2;
    bool is_cosine = s->name == DT_SCHEDULE_DS_WARMUP_COSINE;
    if (i < 0)
        return is_cosine ? 0.0 : s->warmup_lr;
    if (i < w)
        return between(s->warmup_lr, s->lr,
                       s->warmup_curve == DT_CURVE_LOG
                           ? log((double)i + 1.0) / log((double)w)
                           : (double)i / (double)w);
    if (is_cosine) {
        double u = (double)(i - w + 1) / (double)at_least_1(s->total - w);
        return between(s->min_lr, s->lr, cosine(u < 1.0 ? u : 1.0, 0.5));
    }
    double left = 1.0;
    if (s->name == DT_SCHEDULE_DS_WARMUP_DECAY)
        left = (double)(s->total - i) / (double)at_least_1(s->total - w);
    return between(s->warmup_lr, s->lr, left > 0.0 ? left : 0.0);
}

double dt_schedule_lr(const struct dt_schedule *s, long k)
{
    if (s->name >= DT_SCHEDULE_DS_WARMUP)
        return deepspeed(s, k);
    if (k < s->warmup && s->name != DT_SCHEDULE_CONSTANT)
        return warming(s, k);
    return after_warmup(s, k);
}
