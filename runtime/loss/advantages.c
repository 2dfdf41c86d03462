/* SPDX-License-Identifier: Apache-2.0 */
/* advantages.c - compares the rewards of completions with each other */
#include "config.h"

#include <float.h>
#include <math.h>

#include "loss/advantages.h"

static const double LEAST_STD = 1e-4;

struct dt_advantage_options dt_advantage_options(const struct dt_conf *conf)
{
    return (struct dt_advantage_options){
        .scale = conf->grpo.scale_rewards,
        .baseline = conf->grpo.baseline,
        .std = conf->grpo.std,
        .aggregation = conf->grpo.aggregation,
        .clip = conf->grpo.advantage_clip,
    };
}

/* --- statistics --- */

/* Values that are `stride` apart. */
struct column {
    const double *values;
    size_t count, stride;
};

struct spread {
    double n, mean, squares; /* the last: sum of (x - mean)^2 */
};

/* Skips NaN. Values are added as differences from the first one, so that equal
 * ones have exactly their own mean.
 */
static struct spread spread_of(struct column column)
{
    struct spread s = {0};
    double first = NAN, sum = 0.0;

    for (size_t i = 0; i < column.count; i++) {
        const double x = column.values[i * column.stride];
        if (isnan(x))
            continue;
        if (isnan(first))
            first = x;
        sum += x - first;
        s.n += 1.0;
    }
    s.mean = first + sum / s.n;
    for (size_t i = 0; i < column.count; i++) {
        const double off = column.values[i * column.stride] - s.mean;
        s.squares += isnan(off) ? 0.0 : off * off;
    }
    return s;
}

static double spread_std(const struct spread *s, enum dt_std std)
{
    const double n = std == DT_STD_SAMPLE ? s->n - 1.0 : s->n;

    return n > 0.0 ? sqrt(s->squares / n) : NAN;
}

void dt_advantage_column(const struct dt_advantage_table *table, size_t column,
                         double *mean, double *std)
{
    const struct spread s = spread_of(
        (struct column){table->values + column, table->rows, table->columns});

    *mean = s.mean;
    *std = spread_std(&s, DT_STD_SAMPLE);
}

/* Sums that are equal but for the order of their rounding are equal, and so is
 * what TRL calls so, a deviation of 1e-8.
 */
static bool are_equal(double least, double most)
{
    const double size = fmax(fabs(least), fabs(most));

    return most - least <= fmax(1e-8, 4.0 * DBL_EPSILON * size);
}

static bool column_is_flat(struct column column)
{
    size_t n = 0;
    double least = INFINITY, most = -INFINITY;

    for (size_t i = 0; i < column.count; i++) {
        const double x = column.values[i * column.stride];
        n += isnan(x) ? 0 : 1;
        least = fmin(least, x);
        most = fmax(most, x);
    }
    return n < 2 || are_equal(least, most);
}

bool dt_advantage_is_flat(const double *rewards, size_t count)
{
    return column_is_flat((struct column){rewards, count, 1});
}

/* --- groups --- */

/* The end of the group that begins at `row`. */
static size_t group_end(const struct dt_advantage_table *table, size_t row)
{
    size_t end = row + 1;

    while (end < table->rows && table->groups[end] == table->groups[row])
        end++;
    return end;
}

static double share_of_flat(const struct dt_advantage_table *table,
                            const double *rewards)
{
    double flat = 0.0, groups = 0.0;

    for (size_t row = 0, end; row < table->rows; row = end) {
        end = group_end(table, row);
        flat += dt_advantage_is_flat(rewards + row, end - row);
        groups += 1.0;
    }
    return flat / groups;
}

/* --- R --- */

static int check_values(const struct dt_advantage_table *table,
                        struct dt_error *err)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        if (isinf(table->values[i]))
            return dt_error_set(err, EX_DATAERR,
                                "the reward %zu of completion %zu is %g: "
                                "expected a number, or NaN for none",
                                i % table->columns, i / table->columns,
                                table->values[i]);
    return 0;
}

/* The weighted sum of the values of a row that are not NaN, or NaN. */
static double sum_row(const struct dt_advantage_table *table, size_t row)
{
    const double *values = table->values + row * table->columns;
    double sum = 0.0;
    bool any = false;

    for (size_t k = 0; k < table->columns; k++) {
        if (isnan(values[k]))
            continue;
        sum += table->weights[k] * values[k];
        any = true;
    }
    return any ? sum : NAN;
}

/* --- advantages --- */

/* R - baseline, over the standard deviation if it is the group's. */
static void compare_group(const struct dt_advantage_options *o,
                          const double *rewards, size_t count,
                          double *advantages)
{
    const struct spread s = spread_of((struct column){rewards, count, 1});
    const double scale =
        o->scale == DT_SCALE_GROUP ? spread_std(&s, o->std) + LEAST_STD : 1.0;
    const double others =
        o->baseline == DT_BASELINE_LOO && s.n > 1.0 ? s.n / (s.n - 1.0) : 1.0;

    for (size_t i = 0; i < count; i++)
        advantages[i] = (rewards[i] - s.mean) * others / scale;
}

static void compare_groups(const struct dt_advantage_options *o,
                           const struct dt_advantage_table *table,
                           const double *rewards, double *advantages)
{
    const struct spread all =
        spread_of((struct column){rewards, table->rows, 1});
    const double std = spread_std(&all, o->std) + LEAST_STD;

    for (size_t row = 0, end; row < table->rows; row = end) {
        end = group_end(table, row);
        compare_group(o, rewards + row, end - row, advantages + row);
    }
    for (size_t i = 0; i < table->rows && o->scale == DT_SCALE_BATCH; i++)
        advantages[i] /= std;
}

static void compare_all(const double *rewards, size_t rows, double *advantages)
{
    const struct spread all = spread_of((struct column){rewards, rows, 1});
    const double std = fmax(spread_std(&all, DT_STD_POPULATION), LEAST_STD);

    for (size_t i = 0; i < rows; i++)
        advantages[i] = (rewards[i] - all.mean) / std;
}

/* Adds what a column of a group says, each value compared with the others. */
static void add_column(const struct dt_advantage_options *o,
                       const struct dt_advantage_table *table, size_t row,
                       size_t end, size_t k, double *sums)
{
    const struct column column = {table->values + row * table->columns + k,
                                  end - row, table->columns};
    const struct spread s = spread_of(column);
    const double std = spread_std(&s, o->std) + LEAST_STD;

    for (size_t i = 0; i < column.count; i++) {
        const double x = (column.values[i * column.stride] - s.mean) / std;
        sums[i] += isnan(x) ? 0.0 : table->weights[k] * x;
    }
}

static void compare_columns(const struct dt_advantage_options *o,
                            const struct dt_advantage_table *table,
                            const double *rewards, double *advantages)
{
    for (size_t i = 0; i < table->rows; i++)
        advantages[i] = isnan(rewards[i]) ? NAN : 0.0;
    for (size_t row = 0, end; row < table->rows; row = end) {
        end = group_end(table, row);
        for (size_t k = 0; k < table->columns; k++)
            add_column(o, table, row, end, k, advantages + row);
    }
    const struct spread all =
        spread_of((struct column){advantages, table->rows, 1});
    const double std = spread_std(&all, o->std) + LEAST_STD;
    for (size_t i = 0; i < table->rows; i++)
        advantages[i] = (advantages[i] - all.mean) / std;
}

/* What has no reward, or nothing to be compared with, moves nothing. */
static void finish(const struct dt_advantage_options *o, size_t rows,
                   double *advantages)
{
    for (size_t i = 0; i < rows; i++) {
        if (isnan(advantages[i]))
            advantages[i] = 0.0;
        if (o->clip > 0.0)
            advantages[i] = fmin(fmax(advantages[i], -o->clip), o->clip);
    }
}

/* Whether each reward of a group that counts is flat by itself. */
static bool columns_are_flat(const struct dt_advantage_table *table, size_t row,
                             size_t end)
{
    bool flat = true;

    for (size_t k = 0; k < table->columns; k++)
        flat = flat && (table->weights[k] == 0.0 ||
                        column_is_flat((struct column){
                            table->values + row * table->columns + k, end - row,
                            table->columns}));
    return flat;
}

size_t dt_advantage_find_flat(const struct dt_advantage_options *options,
                              const struct dt_advantage_table *table,
                              double *rewards, bool *flat)
{
    size_t group = 0, count = 0;

    for (size_t row = 0, end; row < table->rows; row = end, group++) {
        end = group_end(table, row);
        for (size_t i = row; i < end; i++)
            rewards[i] = sum_row(table, i);
        flat[group] = options->aggregation == DT_NORMALIZE_THEN_SUM
                          ? columns_are_flat(table, row, end)
                          : dt_advantage_is_flat(rewards + row, end - row);
        count += flat[group];
    }
    return count;
}

int dt_advantages(const struct dt_advantage_options *options,
                  const struct dt_advantage_table *table, double *rewards,
                  double *advantages, struct dt_advantage_stats *stats,
                  struct dt_error *err)
{
    struct spread all;

    if (check_values(table, err) < 0)
        return -1;
    for (size_t row = 0; row < table->rows; row++)
        rewards[row] = sum_row(table, row);
    all = spread_of((struct column){rewards, table->rows, 1});
    *stats = (struct dt_advantage_stats){
        .reward = all.mean,
        .reward_std = spread_std(&all, DT_STD_SAMPLE),
        .zero_std = share_of_flat(table, rewards),
        .scored = (size_t)all.n,
    };
    if (options->aggregation == DT_NORMALIZE_THEN_SUM)
        compare_columns(options, table, rewards, advantages);
    else if (options->scale == DT_SCALE_GLOBAL_CLAMP)
        compare_all(rewards, table->rows, advantages);
    else
        compare_groups(options, table, rewards, advantages);
    finish(options, table->rows, advantages);
    return 0;
}
