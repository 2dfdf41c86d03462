/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - how each type of function scores, and for how long at most */
#include "config.h"

#include <math.h>

#include "reward/impl.h"

static const double own_s = 60; /* that a rule or a model may take */
static const double pause_max_s = 60;
static const double ending_s = 2; /* to kill a program */

const struct dt_reward_kind *dt_reward_kind_of(
    const struct dt_conf_reward *conf)
{
    switch (conf->type) {
    case DT_CONF_REWARD_COMMAND:
        return &dt_reward_command;
    case DT_CONF_REWARD_MODEL:
        return &dt_reward_model;
    case DT_CONF_REWARD_HTTP:
        return &dt_reward_http;
    default:
        return &dt_reward_rule;
    }
}

/* Whether a call may succeed when it is repeated: a program or server answers.
 */
static bool is_asked(const struct dt_conf_reward *conf)
{
    const struct dt_reward_kind *kind = dt_reward_kind_of(conf);
    return kind != &dt_reward_rule && kind != &dt_reward_model;
}

int dt_reward_calls(const struct dt_conf_reward *conf)
{
    return is_asked(conf) ? (int)conf->retries + 1 : 1;
}

double dt_reward_pause_s(const struct dt_conf_reward *conf, int call)
{
    double pause = ldexp(dt_reward_kind_of(conf)->pause_s, call);
    return fmin(pause, pause_max_s);
}

double dt_reward_call_s(const struct dt_conf_reward *conf)
{
    double pause = dt_reward_kind_of(conf)->pause_s;
    if (pause > 0)
        return conf->timeout_s + ending_s +
               dt_reward_pause_s(conf, (int)conf->retries);
    return is_asked(conf) ? 2 * conf->timeout_s + ending_s : own_s;
}
