/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the learning rate of a step */
#include "config.h"

#include <math.h>

#include "optim/optim.h"

static double cosine(const struct dt_schedule *s, long k)
{
    long span = s->total - s->warmup;
    double u = (double)(k - s->warmup) / (double)(span > 1 ? span : 1);
    return u >= 1.0 ? 0.0 : 0.5 * (1.0 + cos(M_PI * u));
}

double dt_schedule_lr(const struct dt_schedule *s, long k)
{
    if (k < s->warmup && s->name != DT_SCHEDULE_CONSTANT)
        return s->lr * (double)k / (double)s->warmup;
    switch (s->name) {
    case DT_SCHEDULE_CONSTANT:
    case DT_SCHEDULE_CONSTANT_WITH_WARMUP:
        break;
    case DT_SCHEDULE_LINEAR: {
        long span = s->total - s->warmup;
        double left = (double)(s->total - k) / (double)(span > 1 ? span : 1);
        return left > 0.0 ? s->lr * left : 0.0;
    }
    case DT_SCHEDULE_COSINE:
        return s->lr * cosine(s, k);
    case DT_SCHEDULE_COSINE_WITH_MIN_LR:
        return s->min_lr + (s->lr - s->min_lr) * cosine(s, k);
    }
    return s->lr;
}
