/* SPDX-License-Identifier: Apache-2.0 */
/* generation_metrics.c - the metrics of the completions that a run samples */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/dir/dir.h"
#include "sampling/sampling_impl.h"

enum {
    REWARD,
    REWARD_STD,
    ZERO_STD,
    MEAN_LENGTH,
    MIN_LENGTH,
    MAX_LENGTH,
    CLIPPED,
    MEAN_TERMINATED,
    MIN_TERMINATED,
    MAX_TERMINATED,
    FIXED,
    IDLE_STEPS = 5,
};

static_assert(FIXED + 2 * DT_CONF_REWARDS_MAX + DT_PPO_NUMBERS <=
                      DT_NUMBERS_MAX &&
                  FIXED + 2 * DT_CONF_REWARDS_MAX + DT_REFILL_NUMBERS <=
                      DT_NUMBERS_MAX,
              "numbers of all rewards and of an algorithm");
static_assert(DT_METRICS_MAX + 1 + DT_NUMBERS_MAX <= DT_REPORT_VALUES_MAX,
              "metrics, num_tokens and numbers");

static const char *const names[FIXED] = {
    [REWARD] = "reward",
    [REWARD_STD] = "reward_std",
    [ZERO_STD] = "frac_reward_zero_std",
    [MEAN_LENGTH] = "completions/mean_length",
    [MIN_LENGTH] = "completions/min_length",
    [MAX_LENGTH] = "completions/max_length",
    [CLIPPED] = "completions/clipped_ratio",
    [MEAN_TERMINATED] = "completions/mean_terminated_length",
    [MIN_TERMINATED] = "completions/min_terminated_length",
    [MAX_TERMINATED] = "completions/max_terminated_length",
};

/* Copies the lengths of all completions, or of those that ended by themselves.
 */
static size_t measure_lengths(const struct dt_experience *e, bool terminated,
                              double *mean, double *least, double *most)
{
    double sum = 0;
    size_t count = 0;
    *least = *most = *mean = NAN;
    for (size_t i = 0; i < e->rows; i++) {
        if (terminated && e->end[i] == DT_END_LENGTH)
            continue;
        sum += e->count[i];
        *least = fmin(*least, e->count[i]);
        *most = fmax(*most, e->count[i]);
        count++;
    }
    if (count > 0)
        *mean = sum / (double)count;
    return count;
}

struct dt_sample_column *dt_run_reward_columns(const struct dt_conf *conf,
                                               struct dt_error *err)
{
    const struct dt_conf_rewards *rewards = &conf->reward;
    const size_t count = dt_reward_columns(conf);
    struct dt_sample_column *columns = calloc(count + 1, sizeof(*columns)),
                            *to = columns;
    if (!columns)
        dt_error_set(err, EX_OSERR, "rewards: out of memory");
    for (size_t i = 0; columns && i < rewards->count; i++) {
        const struct dt_conf_reward *f = &rewards->functions[i];
        for (size_t c = 0; c < f->channels.count; c++, to++) {
            snprintf(to->name, DT_NUMBER_NAME, "%s/%s", f->name,
                     f->channels.text[c]);
            to->weight = f->weight * f->channels.weight[c];
        }
        if (f->channels.count > 0)
            continue;
        snprintf(to->name, DT_NUMBER_NAME, "%s", f->name);
        to++->weight = f->weight;
    }
    return columns;
}

size_t dt_run_measured_names(const struct dt_conf *conf,
                             const struct dt_sample_column *columns,
                             char (*to)[DT_NUMBER_NAME])
{
    const size_t count = dt_reward_columns(conf);
    for (size_t i = 0; i < FIXED; i++)
        snprintf(*to++, DT_NUMBER_NAME, "%s", names[i]);
    for (size_t k = 0; k < count; k++) {
        snprintf(*to++, DT_NUMBER_NAME, "rewards/%.70s/mean", columns[k].name);
        snprintf(*to++, DT_NUMBER_NAME, "rewards/%.70s/std", columns[k].name);
    }
    return FIXED + 2 * count;
}

/* Names are the same in every generation, so they are set before the first. */
void dt_run_name_numbers(struct dt_run *run)
{
    struct dt_samples *s = &run->samples;
    s->own = dt_run_measured_names(&run->spec.conf, s->columns, s->names);
    s->numbers.count = s->own;
    s->first_reward = NAN;
    if (run->spec.algo->numbers) {
        const char *const *own;
        const double *values;
        size_t count = run->spec.algo->numbers(run, &own, &values);
        for (size_t i = 0; i < count; i++)
            snprintf(s->names[s->numbers.count++], DT_NUMBER_NAME, "%s",
                     own[i]);
    }
}

void dt_run_measure(const struct dt_run *run, const struct dt_experience *e,
                    const struct dt_advantage_stats *stats, double *value)
{
    const struct dt_advantage_table table = {
        .rows = e->rows, .columns = e->columns, .values = e->rewards};
    value[REWARD] = stats->reward;
    value[REWARD_STD] = stats->reward_std;
    value[ZERO_STD] = stats->zero_std;
    measure_lengths(e, false, &value[MEAN_LENGTH], &value[MIN_LENGTH],
                    &value[MAX_LENGTH]);
    size_t ended =
        measure_lengths(e, true, &value[MEAN_TERMINATED],
                        &value[MIN_TERMINATED], &value[MAX_TERMINATED]);
    value[CLIPPED] = 1.0 - (double)ended / (double)e->rows;
    for (size_t i = FIXED; i + 1 < run->samples.own; i += 2)
        dt_advantage_column(&table, (i - FIXED) / 2, &value[i], &value[i + 1]);
}

void dt_run_make_numbers(struct dt_run *run)
{
    struct dt_samples *s = &run->samples;
    double *value = s->numbers.value;
    dt_run_measure(run, &s->experience, &s->stats, value);
    if (isnan(s->first_reward))
        s->first_reward = value[REWARD];
    if (run->spec.algo->numbers) {
        const char *const *own;
        const double *values;
        run->spec.algo->numbers(run, &own, &values);
        memcpy(value + s->own, values,
               (s->numbers.count - s->own) * sizeof(*value));
    }
}

void dt_run_add_numbers(struct dt_samples *s, const struct dt_numbers *numbers)
{
    for (size_t i = 0; i < numbers->count; i++) {
        if (isnan(numbers->value[i]))
            continue;
        s->sums.sum[i] += numbers->value[i];
        s->sums.steps[i]++;
    }
}

void dt_run_report_numbers(struct dt_samples *s,
                           struct dt_report_values *values)
{
    for (size_t i = 0; i < s->numbers.count; i++) {
        values->value[values->count++] = (struct dt_report_value){
            s->names[i], s->sums.sum[i] / s->sums.steps[i],
            i == REWARD || i == MEAN_LENGTH};
    }
    s->sums = (struct dt_number_sums){0};
}

struct dt_report_values dt_run_measured_values(const struct dt_run *run,
                                               const double *value)
{
    const struct dt_samples *s = &run->samples;
    struct dt_report_values values = {0};
    for (size_t i = 0; i < s->own; i++)
        if (!isnan(value[i]))
            values.value[values.count++] = (struct dt_report_value){
                s->names[i], value[i], i == REWARD || i == MEAN_LENGTH};
    return values;
}

/* Whether each reward is equal for all completions. */
static bool are_equal(const struct dt_run *run)
{
    const double *value = run->samples.numbers.value;
    for (size_t i = FIXED; i + 1 < run->samples.own; i += 2)
        if (!(value[i + 1] == 0))
            return false;
    return true;
}

/* An idle run looks alive: its loss is small and its gradient finite. */
void dt_run_warn_idle(struct dt_run *run)
{
    struct dt_samples *s = &run->samples;
    const double *value = s->numbers.value;
    bool cut = value[CLIPPED] > 0.9;
    bool flat = value[ZERO_STD] > 0.95 || are_equal(run);
    s->idle = cut || flat ? s->idle + 1 : 0;
    if (s->idle != IDLE_STEPS || run->spec.rank != 0)
        return;
    if (cut)
        dt_run_warn(
            run,
            "%d generations in a row had more than 90 %% of their "
            "completions cut at rollout.max_completion_length (%ld): they "
            "never say that they end; is the token that ends a text the "
            "one of the model's chat template, as in rollout.stop_ids?",
            IDLE_STEPS, run->spec.conf.rollout.max_completion_length);
    if (flat)
        dt_run_warn(
            run,
            "%d generations in a row had equal rewards for all completions "
            "of more than 95 %% of the prompts: these teach nothing; look "
            "at samples-*.jsonl in %s, and use rewards or prompts that tell "
            "completions apart",
            IDLE_STEPS, run->spec.conf.logging.dir);
}

void dt_run_warn_disagreement(struct dt_run *run,
                              const struct dt_metrics *metrics)
{
    static const struct {
        const char *name;
        double most;
    } limits[] = {{"ratio_error_max", 0.01},
                  {"sampling/sampling_logp_difference/mean", 0.1}};
    const struct dt_algo *algo = run->spec.algo;
    double results[DT_METRICS_MAX];
    if (run->samples.disagrees || run->spec.rank != 0)
        return;
    dt_metrics_results(algo, metrics, results);
    for (size_t i = 0; i < 2 * algo->metric_count; i++) {
        const size_t m = i / 2;
        const char *name = algo->metrics[m].name;
        if (!name || strcmp(name, limits[i % 2].name) != 0 ||
            !(results[m] > limits[i % 2].most))
            continue;
        run->samples.disagrees = true;
        dt_run_warn(
            run,
            "%s is %.3g (expected: at most %g) for tokens that no update "
            "has changed yet: the model gives other probabilities when it "
            "trains than when it samples, and learns from the difference; "
            "is there dropout, or is precision.compute too coarse?",
            name, results[m], limits[i % 2].most);
    }
}

/* --- rewards of groups --- */

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
