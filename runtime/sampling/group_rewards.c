/* SPDX-License-Identifier: Apache-2.0 */
/* group_rewards.c - lays out the rewards of a generation to compare them */
#include "config.h"

#include <stdlib.h>

#include "sampling/group_rewards.h"

int dt_group_rewards_init(struct dt_group_rewards *r,
                          const struct dt_samples *s,
                          const struct dt_experience *e, struct dt_error *err)
{
    *r = (struct dt_group_rewards){
        .rewards = calloc(e->rows, sizeof(*r->rewards)),
        .weights = calloc(e->columns + 1, sizeof(*r->weights)),
        .groups = calloc(e->rows, sizeof(*r->groups)),
    };
    if (!r->rewards || !r->weights || !r->groups)
        return dt_error_set(err, EX_OSERR, "advantages: out of memory");
    for (size_t k = 0; k < e->columns; k++)
        r->weights[k] = s->columns[k].weight;
    for (size_t i = 0; i < e->rows; i++)
        r->groups[i] = i / e->copies;
    r->table = (struct dt_advantage_table){e->rows, e->columns, e->rewards,
                                           r->weights, r->groups};
    return 0;
}

void dt_group_rewards_fini(struct dt_group_rewards *r)
{
    free(r->rewards);
    free(r->weights);
    free(r->groups);
}
