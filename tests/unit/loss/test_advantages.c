/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_advantages.c - advantages against known values, and what rewards that
 * are missing, equal or wrong become
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loss/advantages.h"

enum { ROWS_MAX = 8 };

static const double ONE = 1.0;
static const uint64_t PAIRS[ROWS_MAX] = {7, 7, 7, 7, 8, 8, 8, 8};

static struct dt_advantage_stats stats;
static double rewards[ROWS_MAX], advantages[ROWS_MAX];

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.15g, expected %.15g", got, want);
}

static int compare(struct dt_advantage_options o, size_t rows,
                   const double *values, struct dt_error *err)
{
    const struct dt_advantage_table table = {.rows = rows,
                                             .columns = 1,
                                             .values = values,
                                             .weights = &ONE,
                                             .groups = PAIRS};

    return dt_advantages(&o, &table, rewards, advantages, &stats, err);
}

/* Advantages of `values`, compared with `wanted`. */
static void check(struct dt_advantage_options o, size_t rows,
                  const double *values, const double *wanted)
{
    assert_int_equal(compare(o, rows, values, NULL), 0);
    for (size_t i = 0; i < rows; i++)
        assert_near(advantages[i], wanted[i], 1e-12);
}

static void scales_have_known_values(void **state)
{
    const double r[] = {1, 0, 0, 1}, one = 0.8658754297607;
    const double pairs[] = {1, 0, 0, 1, 4, 2, 2, 4};
    const double std = sqrt(17.5 / 7.0);
    (void)state;
    check((struct dt_advantage_options){0}, 4, r,
          (double[]){one, -one, -one, one});
    check((struct dt_advantage_options){.scale = DT_SCALE_GLOBAL_CLAMP}, 4, r,
          (double[]){1, -1, -1, 1});
    check((struct dt_advantage_options){.scale = DT_SCALE_NONE}, 4, r,
          (double[]){0.5, -0.5, -0.5, 0.5});
    assert_near(stats.reward, 0.5, 0.0);
    assert_near(stats.reward_std, sqrt(1.0 / 3.0), 1e-15);
    const double h = 0.5 / (std + 1e-4), d = 1.0 / (std + 1e-4);
    check((struct dt_advantage_options){.scale = DT_SCALE_BATCH}, 8, pairs,
          (double[]){h, -h, -h, h, d, -d, -d, d});
    check((struct dt_advantage_options){.scale = DT_SCALE_NONE,
                                        .baseline = DT_BASELINE_LOO},
          4, r, (double[]){2.0 / 3.0, -2.0 / 3.0, -2.0 / 3.0, 2.0 / 3.0});
    check((struct dt_advantage_options){.std = DT_STD_POPULATION}, 4, r,
          (double[]){0.5 / 0.5001, -0.5 / 0.5001, -0.5 / 0.5001, 0.5 / 0.5001});
    check((struct dt_advantage_options){.clip = 0.7}, 4, r,
          (double[]){0.7, -0.7, -0.7, 0.7});
}

static void equal_rewards_teach_nothing(void **state)
{
    const double odd = 0.1; /* seven of which do not sum to 0.7 exactly */
    const double all[] = {odd, odd, odd, odd, odd, odd, odd, odd};
    const double half[] = {1, 1, 1, 1, 0, 1, 0, 1};

    (void)state;
    for (int scale = 0; scale <= DT_SCALE_GLOBAL_CLAMP; scale++) {
        assert_int_equal(compare((struct dt_advantage_options){.scale = scale},
                                 8, all, NULL),
                         0);
        for (size_t i = 0; i < 8; i++)
            assert_true(advantages[i] == 0.0);
        assert_true(stats.zero_std == 1.0);
    }
    assert_int_equal(compare((struct dt_advantage_options){0}, 8, half, NULL),
                     0);
    assert_true(stats.zero_std == 0.5);
    assert_true(dt_advantage_is_flat(half, 4));
    assert_false(dt_advantage_is_flat(half + 4, 4));
    assert_true(dt_advantage_is_flat(half, 1));
    assert_true(dt_advantage_is_flat((double[]){0.1 + 0.2, 0.3}, 2));
    assert_true(
        dt_advantage_is_flat((double[]){1e9 + 0.1, 1e9 + 0.3 - 0.2}, 2));
    assert_true(dt_advantage_is_flat((double[]){0, 1e-9}, 2));
    assert_false(dt_advantage_is_flat((double[]){0, 1e-7}, 2));
    assert_true(dt_advantage_is_flat(NULL, 0));
}

static void what_has_no_reward_counts_for_nothing(void **state)
{
    const double r[] = {1, NAN, 3, NAN, NAN, NAN, 5, NAN};
    const double one = 1.0 / (sqrt(2.0) + 1e-4);

    (void)state;
    check((struct dt_advantage_options){0}, 8, r,
          (double[]){-one, 0, one, 0, 0, 0, 0, 0});
    assert_true(isnan(rewards[1]) && rewards[6] == 5.0);
    assert_int_equal(stats.scored, 3);
    assert_near(stats.reward, 3.0, 1e-15);
    assert_true(stats.zero_std == 0.5);
    check((struct dt_advantage_options){.scale = DT_SCALE_NONE,
                                        .baseline = DT_BASELINE_LOO},
          8, r, (double[]){-2, 0, 2, 0, 0, 0, 0, 0});
    const double wide = 2.0 / sqrt(8.0 / 3.0);
    check((struct dt_advantage_options){.scale = DT_SCALE_GLOBAL_CLAMP}, 8, r,
          (double[]){-wide, 0, 0, 0, 0, 0, wide, 0});
}

/* Of whatever kind the comparison is. */
static void what_cannot_be_compared_teaches_nothing(void **state)
{
    const double one[] = {NAN, 2, NAN, NAN}, none[] = {NAN, NAN, NAN, NAN};
    const double zero[] = {0, 0, 0, 0};

    (void)state;
    for (int scale = 0; scale <= DT_SCALE_GLOBAL_CLAMP; scale++) {
        const struct dt_advantage_options o = {.scale =
                                                   (enum dt_scale_rewards)scale,
                                               .baseline = DT_BASELINE_GROUP};
        check(o, 4, one, zero);
        assert_true(stats.scored == 1 && stats.reward == 2.0);
        check(o, 4, none, zero);
        assert_true(stats.scored == 0 && isnan(stats.reward));
        assert_true(isnan(stats.reward_std) && stats.zero_std == 1.0);
    }
    check((struct dt_advantage_options){.aggregation = DT_NORMALIZE_THEN_SUM},
          4, one, zero);
    check((struct dt_advantage_options){.baseline = DT_BASELINE_LOO}, 4, none,
          zero);
}

static void infinite_rewards_are_refused(void **state)
{
    const double wrong[] = {1, INFINITY, 0, 0};
    struct dt_error err;

    (void)state;
    assert_int_equal(compare((struct dt_advantage_options){0}, 4, wrong, &err),
                     -1);
    assert_string_equal(err.text, "the reward 0 of completion 1 is inf: "
                                  "expected a number, or NaN for none");
    assert_int_equal(err.status, EX_DATAERR);
}

static void several_rewards_are_added_or_compared_first(void **state)
{
    /* The second reward is large, and missing twice. */
    const double values[] = {1, 100, 0, 300, 0,   NAN, 1, 500,
                             0, 100, 1, 300, NAN, NAN, 1, 200};
    const double weights[] = {1.0, 0.5};
    const struct dt_advantage_table table = {.rows = 8,
                                             .columns = 2,
                                             .values = values,
                                             .weights = weights,
                                             .groups = PAIRS};
    struct dt_advantage_options o = {0};
    double mean, std;

    (void)state;
    assert_int_equal(
        dt_advantages(&o, &table, rewards, advantages, &stats, NULL), 0);
    assert_true(rewards[0] == 51.0 && rewards[2] == 0.0);
    assert_true(isnan(rewards[6]) && advantages[6] == 0.0);
    dt_advantage_column(&table, 1, &mean, &std);
    assert_near(mean, 250.0, 1e-12);
    assert_near(std, sqrt(115000.0 / 5.0), 1e-9);
    o.aggregation = DT_NORMALIZE_THEN_SUM;
    assert_int_equal(
        dt_advantages(&o, &table, rewards, advantages, &stats, NULL), 0);
    /* Both rewards now decide alike: row 3 is best in both of its group. */
    assert_true(advantages[3] > advantages[0] && advantages[3] > advantages[1]);
    assert_true(rewards[0] == 51.0);
    double sum = 0.0;
    for (size_t i = 0; i < 8; i++)
        sum += advantages[i];
    assert_near(sum, 0.0, 1e-12);
}

static void groups_may_have_any_size(void **state)
{
    const uint64_t groups[] = {3, 1, 1, 9, 9, 9};
    const double values[] = {5, 1, 3, 2, 4, 6};
    const struct dt_advantage_table table = {.rows = 6,
                                             .columns = 1,
                                             .values = values,
                                             .weights = &ONE,
                                             .groups = groups};
    const struct dt_advantage_options o = {.scale = DT_SCALE_NONE};
    const double wanted[] = {0, -1, 1, -2, 0, 2};

    (void)state;
    assert_int_equal(
        dt_advantages(&o, &table, rewards, advantages, &stats, NULL), 0);
    for (size_t i = 0; i < 6; i++)
        assert_near(advantages[i], wanted[i], 1e-15);
    assert_near(stats.zero_std, 1.0 / 3.0, 1e-15);
}

/* Groups of one reward are flat by it, and of two by their sum, or by each if
 * each is compared by itself.
 */
static void groups_that_teach_nothing_are_found(void **state)
{
    static const double weights[] = {1, 1};
    const double values[] = {1, 0, 0, 1, 1, 0, 0, 1, /* sums are equal */
                             3, 3, 3, 3, 3, 3, 3, NAN};
    struct dt_advantage_options o = {.scale = DT_SCALE_GROUP};
    struct dt_advantage_table table = {.rows = 8,
                                       .columns = 2,
                                       .values = values,
                                       .weights = weights,
                                       .groups = PAIRS};
    bool flat[2];
    (void)state;
    assert_int_equal(dt_advantage_find_flat(&o, &table, rewards, flat), 1);
    assert_true(flat[0] && !flat[1]);
    assert_true(rewards[0] == 1 && rewards[4] == 6 && rewards[7] == 3);
    o.aggregation = DT_NORMALIZE_THEN_SUM;
    assert_int_equal(dt_advantage_find_flat(&o, &table, rewards, flat), 1);
    assert_true(!flat[0] && flat[1]);
    table.weights = (const double[]){0, 1};
    assert_int_equal(dt_advantage_find_flat(&o, &table, rewards, flat), 1);
    table.weights = (const double[]){0, 0};
    assert_int_equal(dt_advantage_find_flat(&o, &table, rewards, flat), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_have_known_values),
        cmocka_unit_test(equal_rewards_teach_nothing),
        cmocka_unit_test(what_has_no_reward_counts_for_nothing),
        cmocka_unit_test(what_cannot_be_compared_teaches_nothing),
        cmocka_unit_test(infinite_rewards_are_refused),
        cmocka_unit_test(several_rewards_are_added_or_compared_first),
        cmocka_unit_test(groups_may_have_any_size),
        cmocka_unit_test(groups_that_teach_nothing_are_found),
    };
    return cmocka_run_group_tests_name("advantages", tests, NULL, NULL);
}
