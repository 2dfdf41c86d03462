/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advantages.h - advantages of completions, computed from their rewards
 *
 * R = sum of weight r over the K rewards r of a completion. NaN is no reward:
 * it counts for nothing, and a completion with none has no R, is in no
 * statistic and gets advantage 0. With mean and std over the completions of a
 * prompt (its group), or over all,
 *   group         (R - mean of the group) / (std of the group + 1e-4)
 *   batch         (R - mean of the group) / (std of all + 1e-4)
 *   none          R - mean of the group
 *   global_clamp  (R - mean of all) / max(population std of all, 1e-4)
 * as in TRL 1.16 (trl/trainer/grpo_trainer.py), except for the last, which it
 * does not have. baseline: loo takes the mean of the others in the group (RLOO,
 * arXiv 2402.14740). With normalize_then_sum (GDPO, arXiv 2601.05242) each r
 * becomes (r - mean) / (std + 1e-4) of its group before they are added, and
 * their sums the same of all.
 *
 * Everything is added up in double, in the order of rows: ranks that have the
 * same rows have the same bits, however many there are.
 */
#ifndef DT_LOSS_ADVANTAGES_H
#define DT_LOSS_ADVANTAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/choices.h"
#include "base/error.h"
#include "conf/conf.h"

struct dt_advantage_options {
    enum dt_scale_rewards scale;
    enum dt_baseline baseline;
    enum dt_std std;
    enum dt_aggregation aggregation;
    double clip; /* largest absolute advantage; 0: any */
};

/* The options in a configuration of algorithm grpo. */
struct dt_advantage_options dt_advantage_options(const struct dt_conf *conf);

/* Rewards in the order of prompts. */
struct dt_advantage_table {
    size_t rows, columns;
    const double *values;   /* (rows, columns), NaN: none */
    const double *weights;  /* (columns) */
    const uint64_t *groups; /* (rows); rows of a group follow each other */
};

struct dt_advantage_stats {
    double reward, reward_std; /* of all R, with n - 1; NaN without */
    double zero_std; /* share of the groups whose R are flat, see below */
    size_t scored;   /* rows with a reward */
};

/* Fills rewards(rows) with R, NaN where there is none, and advantages(rows).
 * The rewards of normalize_then_sum are those before they are made comparable.
 * Where fewer than two completions of all have a reward, all advantages are 0.
 * -1: EX_DATAERR, a reward is infinite.
 */
int dt_advantages(const struct dt_advantage_options *options,
                  const struct dt_advantage_table *table, double *rewards,
                  double *advantages, struct dt_advantage_stats *stats,
                  struct dt_error *err);

/* Mean and standard deviation, with n - 1, of one column without NaN; NaN if
 * there are too few values.
 */
void dt_advantage_column(const struct dt_advantage_table *table, size_t column,
                         double *mean, double *std);

/* Whether rewards(count) of a group teach nothing: there are fewer than two, or
 * all are equal but for rounding. NaN is no reward.
 */
bool dt_advantage_is_flat(const double *rewards, size_t count);

/* Fills rewards(rows) as dt_advantages, and flat(groups): whether all
 * advantages of a group are 0 with scale group, batch or none. Returns the
 * number of such groups.
 */
size_t dt_advantage_find_flat(const struct dt_advantage_options *options,
                              const struct dt_advantage_table *table,
                              double *rewards, bool *flat);

#endif /* DT_LOSS_ADVANTAGES_H */
