/* SPDX-License-Identifier: Apache-2.0 */
/* rm_loss.c - the loss of a pair of scores, with its derivatives */
#include "config.h"

#include <math.h>

#include "loss/rm_loss.h"

const char *const dt_rm_metric_names[DT_RM_METRICS] = {
    [DT_RM_ACCURACY] = "accuracy",     [DT_RM_MARGIN] = "margin",
    [DT_RM_MIN_REWARD] = "min_reward", [DT_RM_MEAN_REWARD] = "mean_reward",
    [DT_RM_MAX_REWARD] = "max_reward",
};

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
