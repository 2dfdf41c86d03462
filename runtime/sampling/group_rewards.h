/* SPDX-License-Identifier: Apache-2.0 */
/* group_rewards.h - the rewards of a generation, as advantages.h reads them */
#ifndef DT_SAMPLING_GROUP_REWARDS_H
#define DT_SAMPLING_GROUP_REWARDS_H

#include "loss/advantages.h"
#include "run/samples.h"

struct dt_group_rewards {
    struct dt_advantage_table table; /* of the experience, not owned by it */
    double *rewards;                 /* (rows), to be filled */
    double *weights;
    uint64_t *groups;
};

/* Lays out the rewards of an experience with the weights of `samples`. The
 * experience must not move. -1: EX_OSERR. dt_group_rewards_fini in any case.
 */
int dt_group_rewards_init(struct dt_group_rewards *rewards,
                          const struct dt_samples *samples,
                          const struct dt_experience *experience,
                          struct dt_error *err);
void dt_group_rewards_fini(struct dt_group_rewards *rewards);

#endif /* DT_SAMPLING_GROUP_REWARDS_H */
