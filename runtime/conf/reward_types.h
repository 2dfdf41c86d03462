/* SPDX-License-Identifier: Apache-2.0 */
/* reward_types.h - what a configuration says of reward functions */
#ifndef DT_CONF_REWARD_TYPES_H
#define DT_CONF_REWARD_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/values.h"

enum dt_conf_reward_type {
    DT_CONF_REWARD_EXACT,
    DT_CONF_REWARD_CONTAINS,
    DT_CONF_REWARD_REGEX,
    DT_CONF_REWARD_NUMBER_EQUAL,
    DT_CONF_REWARD_EXPRESSION,
    DT_CONF_REWARD_JSON_VALID,
    DT_CONF_REWARD_FORMAT,
    DT_CONF_REWARD_LENGTH,
    DT_CONF_REWARD_COMMAND,
    DT_CONF_REWARD_MODEL,
    DT_CONF_REWARD_HTTP,
    DT_CONF_REWARD_TYPES, /* their number */
};
enum dt_conf_where {
    DT_CONF_RANK0, /* rank 0 scores the samples of all ranks */
    DT_CONF_ALL,   /* each rank scores its own */
};
enum dt_conf_length {
    DT_CONF_LENGTH_OVERLONG,
    DT_CONF_LENGTH_TARGET,
    DT_CONF_LENGTH_COSINE,
};

/* A function of reward.functions. Fields are named like the keys; those that
 * its type does not use have their defaults.
 */
struct dt_conf_reward {
    struct dt_conf_place place; /* where the section begins */
    int type;                   /* enum dt_conf_reward_type */
    char *name;
    double weight;
    int where; /* enum dt_conf_where */

    /* Rules. */
    char *answer_column, *numbers_column;
    char *extract; /* pattern of the part to compare, NULL: all */
    char *pattern, *after;
    struct dt_conf_list texts, tags, keys;
    bool trim, ignore_case;
    double tolerance;
    int shape; /* enum dt_conf_length */
    long tokens, cache_tokens;

    /* Programs, servers and models. */
    struct dt_conf_list command, url;
    char *path;   /* of a model */
    int openrlhf; /* style: openrlhf (1) | disttrain */
    double timeout_s;
    long retries, processes;
    long batch_size;   /* samples of a request; 0: all of a call */
    int nan_on_error;  /* on_error: nan (1) | abort (0) */
    double max_failed; /* share of the samples */
    long memory_mb;    /* 0: no limit */
    long cpu_s;        /* 0: no limit */
    bool gpu;
    struct dt_conf_list channels; /* weights; none: the only one, of weight 1 */
    char *config;                 /* JSON for the program, or NULL */
    char *secrets_from;           /* file, env:NAME,... or NULL */
    char **secrets; /* its "NAME=value", or "NAME" without such a variable;
                       ends with NULL; NULL: none */
};

/* How many rewards it gives a completion. */
static inline size_t dt_conf_reward_channels(
    const struct dt_conf_reward *reward)
{
    return reward->channels.count > 0 ? reward->channels.count : 1;
}

enum { DT_CONF_REWARDS_MAX = 32 }; /* rewards of all functions together */

struct dt_conf_rewards {
    struct dt_conf_reward *functions;
    size_t count;
};

#endif /* DT_CONF_REWARD_TYPES_H */
