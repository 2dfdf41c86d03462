/* SPDX-License-Identifier: Apache-2.0 */
/* algo.c - the table of algorithms, and the one of a configuration */
#include "config.h"

#include "run/algo_table.h"

const struct dt_algo *dt_algo_of(const struct dt_conf *conf)
{
    static const struct dt_algo *const algos[] = {
        [DT_CONF_SFT] = &dt_algo_sft,   [DT_CONF_RM] = &dt_algo_rm,
        [DT_CONF_DPO] = &dt_algo_dpo,   [DT_CONF_PPO] = &dt_algo_ppo,
        [DT_CONF_GRPO] = &dt_algo_grpo,
    };
    return algos[conf->algorithm];
}

bool dt_algo_reports(const struct dt_algo *algo, const struct dt_conf *conf,
                     size_t metric)
{
    return algo->metrics[metric].name &&
           (!algo->reports || algo->reports(conf, metric));
}

size_t dt_algo_positions(const struct dt_algo *algo,
                         const struct dt_model_config *config)
{
    return algo->advantages ? dt_model_room(config) : config->n_positions;
}

int dt_algo_adapt(const struct dt_algo *algo, struct dt_model_config *config,
                  const char *dir, struct dt_error *err)
{
    if (config->scores && !algo->scores)
        return dt_error_set(err, EX_CONFIG,
                            "%s: a reward model, but algorithm %s trains a "
                            "language model",
                            dir, algo->name);
    if (algo->scores && dt_model_check_scores(config, err) < 0)
        return dt_error_prefix(err, "%s", dir);
    config->scores = algo->scores;
    return 0;
}
