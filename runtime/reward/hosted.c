/* SPDX-License-Identifier: Apache-2.0 */
/* hosted.c - a reward function that is a library in our own process */
#include "config.h"

#include "reward/library.h"

static int open_hosted(struct dt_reward_lane *lane, struct dt_error *err)
{
    lane->state = dt_library_open(lane->conf->path, lane->conf->config, err);
    return lane->state ? 0 : -1;
}

static int score_hosted(struct dt_reward_lane *lane,
                        const struct dt_reward_part *part, double *values,
                        struct dt_error *err)
{
    return dt_library_score(lane->state, part, values, err);
}

static void close_hosted(struct dt_reward_lane *lane)
{
    dt_library_close(lane->state);
}

const struct dt_reward_kind dt_reward_hosted = {
    .open = open_hosted,
    .score = score_hosted,
    .close = close_hosted,
    .one = true,
};
