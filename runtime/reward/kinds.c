/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - how each type of function scores, and for how long at most */
#include "config.h"

#include "reward/impl.h"

static const double rule_s = 60;  /* that a call of a rule may take */
static const double ending_s = 2; /* to kill a program */

const struct dt_reward_kind *dt_reward_kind_of(
    const struct dt_conf_reward *conf)
{
    return conf->type == DT_CONF_REWARD_COMMAND ? &dt_reward_command
                                                : &dt_reward_rule;
}

int dt_reward_calls(const struct dt_conf_reward *conf)
{
    return dt_reward_kind_of(conf) == &dt_reward_rule
               ? 1 /* it would say the same again */
               : (int)conf->retries + 1;
}

double dt_reward_call_s(const struct dt_conf_reward *conf)
{
    return dt_reward_kind_of(conf) == &dt_reward_rule
               ? rule_s
               : 2 * conf->timeout_s + ending_s;
}
