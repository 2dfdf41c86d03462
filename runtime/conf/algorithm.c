/* SPDX-License-Identifier: Apache-2.0 */
/* algorithm.c - which algorithm a file has, and which keys it looks at */
#include "config.h"

#include <string.h>

#include "conf/read.h"

bool dt_conf_knows_algorithm(const struct dt_conf_reader *reader)
{
    return dt_conf_given(reader->conf, "algorithm") &&
           !reader->failed[dt_conf_key_find("algorithm")];
}

bool dt_conf_is_left(struct dt_conf_reader *reader, const char *path)
{
    if (dt_conf_given(reader->conf, path))
        return false;
    reader->conf->place[dt_conf_key_find(path)].line = -1;
    return true;
}

bool dt_conf_is_used(const struct dt_conf *conf, const struct dt_conf_key *key,
                     const char **users)
{
    enum {
        RM = 1 << DT_CONF_RM,
        DPO = 1 << DT_CONF_DPO,
        PPO = 1 << DT_CONF_PPO,
        GRPO = 1 << DT_CONF_GRPO,
    };
    static const struct {
        const char *prefix, *users;
        unsigned algorithms;
    } keys[] = {
        {"rm.", "algorithm rm uses", RM},
        {"dpo.", "algorithm dpo uses", DPO},
        {"ppo.", "algorithm ppo uses", PPO},
        {"grpo.", "algorithm grpo uses", GRPO},
        {"rollout.", "algorithms ppo and grpo use", PPO | GRPO},
        {"data.max_prompt_length", "algorithms ppo and grpo use", PPO | GRPO},
        {"data.prompt_overflow", "algorithms ppo and grpo use", PPO | GRPO},
        {"model.reward_path", "algorithms ppo and grpo use", PPO | GRPO},
        {"logging.logits", "algorithm dpo uses", DPO},
        {"model.value_path", "algorithm ppo uses", PPO},
        {"model.reference_path", "algorithms dpo, ppo and grpo use",
         DPO | PPO | GRPO},
    };
    if (strncmp(key->path, "adapter.", 8) == 0 &&
        strcmp(key->path, "adapter.type") != 0 &&
        strcmp(key->path, "adapter.path") != 0) {
        if (users)
            *users = "adapter.type: lora uses";
        return conf->adapter.type != DT_CONF_ADAPTER_NONE;
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strncmp(key->path, keys[i].prefix, strlen(keys[i].prefix)) != 0)
            continue;
        if (users)
            *users = keys[i].users;
        return keys[i].algorithms & (1u << conf->algorithm);
    }
    return true;
}
