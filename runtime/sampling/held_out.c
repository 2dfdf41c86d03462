/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held_out.c - evaluates the model's completions of held-out prompts
 *
 * They are sampled as in training, or by default with temperature 0, and scored
 * with the same rewards. Each evaluation has the same random draws, so only the
 * weights make a difference.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "sampling/sampling_impl.h"

/* Begins an experience of all held-out prompts, in the order of the files. */
static int begin(const struct dt_run *run, struct dt_experience *e,
                 struct dt_error *err)
{
    const size_t count = dt_prompts_stats(run->data.held_out).count;
    uint64_t *number = calloc(count, sizeof(*number));
    if (!number)
        return dt_error_set(err, EX_OSERR, "evaluation: out of memory");
    for (size_t g = 0; g < count; g++)
        number[g] = g;
    int rc = dt_experience_begin(
        e, number, count, (size_t)run->spec.conf.rollout.eval_generations,
        dt_reward_columns(&run->spec.conf), err);
    free(number);
    e->prompts = run->data.held_out;
    return rc;
}

/* Measures rewards. A single completion of a prompt has nothing to be compared
 * with.
 */
static int measure(const struct dt_run *run, const struct dt_experience *e,
                   double *value, struct dt_error *err)
{
    const struct dt_advantage_options options =
        dt_advantage_options(&run->spec.conf);
    struct dt_advantage_stats stats = {.zero_std = NAN};
    struct dt_group_rewards r;
    bool *flat = calloc(e->groups, sizeof(*flat));
    int rc = dt_group_rewards_init(&r, &run->samples, e, err);
    if (rc == 0 && !flat)
        rc = dt_error_set(err, EX_OSERR, "evaluation: out of memory");
    if (rc == 0) {
        const struct dt_advantage_table sums = {
            .rows = e->rows, .columns = 1, .values = r.rewards};
        size_t count =
            dt_advantage_find_flat(&options, &r.table, r.rewards, flat);
        if (e->copies > 1)
            stats.zero_std = (double)count / (double)e->groups;
        dt_advantage_column(&sums, 0, &stats.reward, &stats.reward_std);
        dt_run_measure(run, e, &stats, value);
    }
    dt_group_rewards_fini(&r);
    free(flat);
    return rc;
}

int dt_run_evaluate_prompts(struct dt_run *run, struct dt_report_eval *line,
                            struct dt_error *err)
{
    struct dt_experience e = {0};
    double value[DT_NUMBERS_MAX];
    int rc = dt_run_settle_ahead(run, err);
    if (rc == 0)
        rc = begin(run, &e, err);
    if (rc == 0)
        rc = dt_run_complete(run, run->samples.held_out, &e, run->queued, err);
    if (rc == 0)
        rc = measure(run, &e, value, err);
    if (rc == 0) {
        line->values = dt_run_measured_values(run, value);
        line->count = (double)e.rows;
    }
    dt_experience_fini(&e);
    return rc < 0 ? dt_error_prefix(err, "evaluation") : rc;
}
