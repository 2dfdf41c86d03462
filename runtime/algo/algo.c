/* SPDX-License-Identifier: Apache-2.0 */
/* algo.c - the algorithms, and which one a configuration names */
#include "config.h"

#include "algo/algo.h"

/* Supervised fine-tuning: the mean loss of the next token, which the model
 * computes itself.
 */
static const struct dt_algo sft = {.name = "sft"};

const struct dt_algo *dt_algo_of(const struct dt_conf *conf)
{
    static const struct dt_algo *const algos[] = {
        [DT_CONF_SFT] = &sft,           [DT_CONF_RM] = &dt_algo_rm,
        [DT_CONF_DPO] = &dt_algo_dpo,   [DT_CONF_PPO] = &dt_algo_ppo,
        [DT_CONF_GRPO] = &dt_algo_grpo,
    };
    return algos[conf->algorithm];
}

int dt_algo_check(const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_algo *algo = dt_algo_of(conf);
    if (algo->check && algo->check(conf, err) < 0)
        return -1;
    return dt_best_check(algo, conf, err);
}
