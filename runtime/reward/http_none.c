/* SPDX-License-Identifier: Apache-2.0 */
/* http_none.c - says that servers cannot be asked, in a build without libcurl
 */
#include "config.h"

#include "reward/reward_impl.h"

static int open_http(struct dt_reward_lane *lane, struct dt_error *err)
{
    (void)lane;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "this build has no libcurl, which type http needs: "
                        "install it and configure --with-curl");
}

static int score_http(struct dt_reward_lane *lane,
                      const struct dt_reward_part *part, double *values,
                      struct dt_error *err)
{
    (void)part;
    (void)values;
    return open_http(lane, err);
}

static void close_http(struct dt_reward_lane *lane)
{
    (void)lane;
}

const struct dt_reward_kind dt_reward_http = {
    .open = open_http,
    .score = score_http,
    .close = close_http,
};
