/* SPDX-License-Identifier: Apache-2.0 */
/* reward.h - helpers that the tests of rewards share */
#ifndef DT_TESTS_UNIT_REWARD_H
#define DT_TESTS_UNIT_REWARD_H

#include <math.h>

#include "tests/unit/conf.h"

#include "reward/reward.h"

/* A configuration of one function; the caller destroys it. */
static inline struct dt_conf *one_function(const char *keys)
{
    char text[4096];
    snprintf(text, sizeof(text), "reward.functions: [{%s}]\n", keys);
    return load_good(text, "");
}

static inline struct dt_rewards *open_rewards(const struct dt_conf *conf,
                                              struct dt_error *err)
{
    const struct dt_reward_options options = {.where = DT_CONF_RANK0};
    return dt_rewards_open(conf, &options, err);
}

/* A sample with a completion and, if not NULL, columns as JSON. */
static inline struct dt_reward_sample sample_of(const char *completion,
                                                const char *columns)
{
    static const int32_t ids[] = {5, 6, 7};
    return (struct dt_reward_sample){
        .prompt_text = "2+3=",
        .prompt_bytes = 4,
        .completion_text = completion,
        .completion_bytes = strlen(completion),
        .columns = columns ? json_loads(columns, 0, NULL) : NULL,
        .ids = ids,
        .count = 3,
    };
}

static inline void sample_fini(struct dt_reward_sample *sample)
{
    json_decref((json_t *)sample->columns);
}

#endif /* DT_TESTS_UNIT_REWARD_H */
