/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loss.h - the clipped objective of PPO (Schulman et al., arXiv 1707.06347)
 *
 * Of a token with advantage A, whose probability has changed by the ratio rho
 * since it was sampled:
 *   loss = -min(min(rho, limit) A, clip(rho, 1 - low, 1 + high) A)
 * With limit, a large ratio no longer counts where A < 0 either (dual clip, Ye
 * et al., arXiv 1912.09729).
 */
#ifndef DT_LOSS_LOSS_H
#define DT_LOSS_LOSS_H

#include <math.h>
#include <stdbool.h>

enum { DT_EXPONENT_MAX = 20 };

/* exp(x) with the exponent kept within +-20, beyond which a run is lost anyway.
 * NaN stays NaN.
 */
static inline double dt_exp_clamped(double x)
{
    const double most = DT_EXPONENT_MAX;

    return exp(x > most ? most : x < -most ? -most : x);
}

struct dt_clipped {
    double loss;
    double slope; /* its derivative by the logarithm of the ratio */
};

/* limit 0: none. NaN in is NaN out. */
static inline struct dt_clipped dt_clipped(double rho, double advantage,
                                           double low, double high,
                                           double limit)
{
    const double inside = fmin(fmax(rho, 1.0 - low), 1.0 + high);
    const double limited = limit > 0.0 ? fmin(rho, limit) : rho;
    const double first = limited * advantage, second = inside * advantage;
    const bool moves = first < second ? limited == rho : inside == rho;

    if (isnan(rho) || isnan(advantage))
        return (struct dt_clipped){NAN, NAN};
    return (struct dt_clipped){.loss = -fmin(first, second),
                               .slope = moves ? -rho * advantage : 0.0};
}

#endif /* DT_LOSS_LOSS_H */
