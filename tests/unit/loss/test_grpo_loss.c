/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_grpo_loss.c - losses of sampled completions against finite differences
 * and known values, what is clipped, masked and corrected, and the metrics
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

#include "loss/loss.h"
#include "loss/grpo_loss.h"

enum { N = 4 };

/* All are exact in float, and so are differences by STEP. */
static const double STEP = 1.0 / 512;
static const float LOGP[N] = {-1.0f, -0.75f, -2.5f, -0.25f};
static const float OLD[N] = {-1.25f, -0.625f, -2.0f, -0.25f};
static const float REF[N] = {-1.5f, -0.5f, -2.25f, -0.375f};
static const float SAMPLED[N] = {-1.125f, -0.75f, -2.625f, -0.25f};
static const float ENTROPY[N] = {0.5f, 1.0f, 1.5f, 0.25f};

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.15g, expected %.15g", got, want);
}

static struct dt_grpo_options options_of(enum dt_grpo_type type)
{
    return (struct dt_grpo_options){
        .type = type,
        .epsilon = 0.2,
        .epsilon_high = type == DT_GRPO_CISPO ? 1.1 : 0.28,
        .sapo_temperature_pos = 1.0,
        .sapo_temperature_neg = 1.05,
        .correction = DT_CORRECTION_NONE,
        .cap = 2.0,
        .max_completion_length = 16,
    };
}

static struct dt_grpo_row row_of(double advantage)
{
    return (struct dt_grpo_row){.count = N,
                                .logp = LOGP,
                                .old = OLD,
                                .ref = REF,
                                .entropy = ENTROPY,
                                .advantage = advantage};
}

static struct dt_grpo_sums sums_of(const struct dt_grpo_options *o,
                                   const struct dt_grpo_row *row,
                                   float weights[N])
{
    struct dt_grpo_sums sums;

    dt_grpo_sums_clear(&sums);
    dt_grpo_loss(o, row, 1.0, weights, &sums);
    return sums;
}

/* Each weight is the slope of the loss by its log-probability. */
static void check_slopes(const struct dt_grpo_options *o,
                         struct dt_grpo_row row)
{
    float weights[N], ignored[N], moved[N];

    sums_of(o, &row, weights);
    for (size_t t = 0; t < N; t++) {
        double loss[2];
        for (int side = 0; side < 2; side++) {
            memcpy(moved, LOGP, sizeof(moved));
            moved[t] += (float)(side ? STEP : -STEP);
            row.logp = moved;
            loss[side] = sums_of(o, &row, ignored).loss;
        }
        assert_near((double)weights[t], (loss[1] - loss[0]) / (2.0 * STEP),
                    2e-5);
    }
}

static void check_all_slopes(struct dt_grpo_options o)
{
    struct dt_grpo_row row = row_of(1.5);

    check_slopes(&o, row);
    row.advantage = -0.5;
    check_slopes(&o, row);
    o.beta = 0.125;
    check_slopes(&o, row);
    o.kl_unbiased = true;
    check_slopes(&o, row);
    o.correction = DT_CORRECTION_TOKEN_TRUNCATE;
    o.cap = 1.25;
    row.sampled = SAMPLED;
    check_slopes(&o, row);
    row.chosen_by = ENTROPY;
    row.least = 0.75;
    check_slopes(&o, row);
}

static void weights_are_derivatives_of_the_loss(void **state)
{
    (void)state;
    for (int type = 0; type < DT_GRPO_TYPE_COUNT; type++) {
        struct dt_grpo_options o = options_of(type);
        if (type == DT_GRPO_CISPO)
            continue; /* its factor is held constant */
        check_all_slopes(o);
        o.level = DT_GRPO_SEQUENCE;
        check_all_slopes(o);
        o.delta = 1.2;
        check_all_slopes(o);
    }
}

static void cispo_weighs_by_the_ratio_up_to_its_limit(void **state)
{
    const struct dt_grpo_options o = options_of(DT_GRPO_CISPO);
    const struct dt_grpo_row row = row_of(-2.0);
    float weights[N];
    double loss = 0.0;

    (void)state;
    const struct dt_grpo_sums sums = sums_of(&o, &row, weights);
    for (size_t t = 0; t < N; t++) {
        const double rho = fmin(exp((double)(LOGP[t] - OLD[t])), 1.1);
        assert_near((double)weights[t], rho * 2.0, 1e-6);
        loss += 2.0 * rho * (double)LOGP[t];
    }
    assert_near(sums.loss, loss, 1e-12);
}

static void without_old_values_the_ratio_is_1(void **state)
{
    for (int type = 0; type < DT_GRPO_TYPE_COUNT; type++) {
        const struct dt_grpo_options o = options_of(type);
        struct dt_grpo_row row = row_of(0.75);
        float aligned[N], given[N];
        (void)state;
        row.old = NULL;
        struct dt_grpo_sums sums = sums_of(&o, &row, aligned);
        assert_true(sums.value[DT_GRPO_RATIO_ERROR_MAX] == 0.0);
        row.old = LOGP;
        sums_of(&o, &row, given);
        assert_memory_equal(aligned, given, sizeof(given));
        /* On policy every type is REINFORCE, but for the share of a token. */
        bool mean = type == DT_GRPO_GRPO || type == DT_GRPO_SAPO;
        for (size_t t = 0; t < N; t++)
            assert_true(aligned[t] == (mean ? -0.75f / N : -0.75f));
    }
}

static void ratios_far_from_1_no_longer_count(void **state)
{
    /* rho, advantage, limit: loss, slope */
    static const double cases[][5] = {
        {1.5, 1.0, 0.0, -1.28, 0.0},    {1.5, -1.0, 0.0, 1.5, 1.5},
        {0.5, 1.0, 0.0, -0.5, -0.5},    {0.5, -1.0, 0.0, 0.8, 0.0},
        {4.0, -1.0, 3.0, 3.0, 0.0},     {4.0, 1.0, 3.0, -1.28, 0.0},
        {2.0, -1.0, 3.0, 2.0, 2.0},     {1.0, 1.0, 0.0, -1.0, -1.0},
        {1.28, 1.0, 0.0, -1.28, -1.28}, {3.0, 0.0, 0.0, 0.0, 0.0},
        {1.2, -1.0, 1.1, 1.2, 1.2},     {1.5, -1.0, 1.1, 1.28, 0.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const double *c = cases[i];
        struct dt_clipped got = dt_clipped(c[0], c[1], 0.2, 0.28, c[2]);
        assert_near(got.loss, c[3], 1e-15);
        assert_near(got.slope, c[4], 1e-15);
    }
    assert_true(isnan(dt_clipped(NAN, 1.0, 0.2, 0.2, 0.0).slope));
    assert_true(isnan(dt_clipped(1.0, NAN, 0.2, 0.2, 0.0).loss));
    assert_near(dt_exp_clamped(1000.0), exp(20.0), 0.0);
    assert_near(dt_exp_clamped(-1000.0), exp(-20.0), 0.0);
    assert_true(isnan(dt_exp_clamped(NAN)));
}

static void no_advantage_moves_nothing(void **state)
{
    (void)state;
    for (int type = 0; type < DT_GRPO_TYPE_COUNT; type++) {
        const struct dt_grpo_options o = options_of(type);
        const struct dt_grpo_row row = row_of(0.0);
        float weights[N];
        sums_of(&o, &row, weights);
        for (size_t t = 0; t < N; t++)
            assert_true(weights[t] == 0.0f);
    }
}

static void a_masked_completion_counts_as_a_row_alone(void **state)
{
    struct dt_grpo_options o = options_of(DT_GRPO_DAPO);
    struct dt_grpo_row row = row_of(1.0);
    float weights[N];

    (void)state;
    o.beta = 0.1;
    o.entropy_coef = 0.5;
    row.masked = true;
    const struct dt_grpo_sums sums = sums_of(&o, &row, weights);
    for (size_t t = 0; t < N; t++)
        assert_true(weights[t] == 0.0f);
    assert_true(sums.rows == 1.0 && sums.tokens == 0.0 && sums.loss == 0.0);
    assert_true(dt_grpo_entropy_weight(&o, &row, 0, 1.0) == 0.0);
    double results[DT_GRPO_METRICS];
    dt_grpo_results(&sums, results);
    for (int m = 0; m < DT_GRPO_METRICS; m++)
        assert_true(isnan(results[m]));
}

static void entropy_is_made_larger(void **state)
{
    struct dt_grpo_options o = options_of(DT_GRPO_DAPO);
    const struct dt_grpo_row row = row_of(0.0);
    struct dt_grpo_sums sums;
    float weights[N];

    (void)state;
    o.entropy_coef = 0.5;
    dt_grpo_sums_clear(&sums);
    dt_grpo_loss(&o, &row, 0.25, weights, &sums);
    assert_near(sums.loss, -0.5 * 0.25 * 3.25, 1e-15);
    assert_near(dt_grpo_entropy_weight(&o, &row, 0, 0.25), -0.125, 0.0);
}

/* Of entropies 0.5, 1, 1.5 and 0.25. */
static void tokens_of_little_entropy_have_the_part_of_the_kl_alone(void **state)
{
    struct dt_grpo_options o = options_of(DT_GRPO_DAPO);
    struct dt_grpo_row row = row_of(1.0);
    float weights[N], kl[N];

    (void)state;
    o.entropy_coef = 0.5;
    o.beta = 0.125;
    row.advantage = 0.0;
    sums_of(&o, &row, kl);
    row.advantage = 1.0;
    row.chosen_by = ENTROPY;
    row.least = 1.0;
    sums_of(&o, &row, weights);
    for (size_t t = 0; t < N; t++) {
        const bool part = ENTROPY[t] >= 1.0f;
        assert_true(dt_grpo_takes_part(&row, t) == part);
        assert_true((weights[t] == kl[t]) == !part);
        assert_true((dt_grpo_entropy_weight(&o, &row, t, 1.0) < 0.0) == part);
    }
}

static void the_least_entropy_is_a_quantile(void **state)
{
    float entropy[] = {0.5f, 4.0f, 1.0f, 0.25f, 2.0f};

    (void)state;
    assert_near(dt_grpo_least_entropy(0.25, entropy, 5), 2.0, 0.0);
    assert_near(dt_grpo_least_entropy(0.5, entropy, 5), 1.0, 0.0);
    assert_near(dt_grpo_least_entropy(0.125, entropy, 5), 3.0, 0.0);
    assert_near(dt_grpo_least_entropy(1.0, entropy, 5), 0.25, 0.0);
    assert_near(dt_grpo_least_entropy(1e-9, entropy, 5), 4.0, 1e-6);
    assert_near(dt_grpo_least_entropy(0.5, entropy, 1), 0.25, 0.0);
    assert_true(isinf(dt_grpo_least_entropy(0.5, entropy, 0)));
}

/* On policy the policy's part is the factor times -A. */
static void check_factors(enum dt_correction correction, double cap,
                          const double factors[N])
{
    struct dt_grpo_options o = options_of(DT_GRPO_DAPO);
    struct dt_grpo_row row = row_of(-1.0);
    float weights[N];

    o.correction = correction;
    o.cap = cap;
    row.old = NULL;
    row.sampled = SAMPLED; /* logp - sampled: 1/8, 0, 1/8, 0 */
    sums_of(&o, &row, weights);
    for (size_t t = 0; t < N; t++)
        assert_near((double)weights[t], factors[t], 1e-7);
}

static void the_sampler_is_corrected(void **state)
{
    const double up = exp(0.125), all = exp(0.25);

    (void)state;
    check_factors(DT_CORRECTION_NONE, 2.0, (double[N]){1, 1, 1, 1});
    check_factors(DT_CORRECTION_TOKEN_TRUNCATE, 2.0, (double[N]){up, 1, up, 1});
    check_factors(DT_CORRECTION_TOKEN_TRUNCATE, 1.1,
                  (double[N]){1.1, 1, 1.1, 1});
    check_factors(DT_CORRECTION_TOKEN_MASK, 1.1, (double[N]){0, 1, 0, 1});
    check_factors(DT_CORRECTION_SEQUENCE_MASK, 2.0,
                  (double[N]){all, all, all, all});
    check_factors(DT_CORRECTION_SEQUENCE_MASK, 1.2, (double[N]){0});
}

static void what_the_model_has_left_behind_is_dropped(void **state)
{
    struct dt_grpo_options o = options_of(DT_GRPO_DAPO);
    struct dt_grpo_row row = row_of(-1.0);
    float weights[N];

    (void)state;
    row.sampled = REF; /* mean of sampled - logp: -0.03125 */
    o.off_policy_mask = 0.001;
    sums_of(&o, &row, weights);
    assert_true(weights[3] != 0.0f);
    row.sampled = (const float[N]){-0.5f, -0.25f, -2.0f, -0.25f}; /* 0.375 */
    o.off_policy_mask = 0.37;
    sums_of(&o, &row, weights);
    assert_true(weights[0] == 0.0f && weights[3] == 0.0f);
    o.off_policy_mask = 0.38;
    sums_of(&o, &row, weights);
    assert_true(weights[3] == 1.0f);
    o.off_policy_mask = 0.37;
    row.advantage = 1.0;
    sums_of(&o, &row, weights);
    assert_true(weights[3] == -1.0f);
}

static void metrics_are_of_tokens_and_rows(void **state)
{
    struct dt_grpo_options o = options_of(DT_GRPO_GRPO);
    struct dt_grpo_row row = row_of(1.0);
    double got[DT_GRPO_METRICS];
    float weights[N];

    (void)state;
    o.beta = 0.1;
    row.sampled = SAMPLED;
    struct dt_grpo_sums sums = sums_of(&o, &row, weights);
    row.advantage = -1.0;
    dt_grpo_loss(&o, &row, 1.0, weights, &sums);
    dt_grpo_results(&sums, got);
    /* rho: 1.284, 0.882, 0.607, 1; above 1.28 once, below 0.8 once */
    assert_near(got[DT_GRPO_CLIP_HIGH_MEAN], 0.125, 1e-15);
    assert_near(got[DT_GRPO_CLIP_HIGH_MAX], 0.25, 1e-15);
    assert_near(got[DT_GRPO_CLIP_LOW_MEAN], 0.125, 1e-15);
    assert_near(got[DT_GRPO_CLIP_LOW_MIN], 0.0, 1e-15);
    assert_near(got[DT_GRPO_CLIP_REGION_MEAN], 0.25, 1e-15);
    assert_near(got[DT_GRPO_ENTROPY], 0.8125, 1e-15);
    assert_near(got[DT_GRPO_SAMPLING_DIFF_MAX], 0.625, 1e-15);
    assert_near(got[DT_GRPO_RATIO_ERROR_MAX], 1.0 - exp(-0.5), 1e-15);
    assert_near(got[DT_GRPO_SAMPLING_RATIO_MEAN], 1.0, 1e-15);
    assert_true(sums.rows == 2.0 && sums.tokens == 8.0 && sums.ratios == 8.0);
    o.level = DT_GRPO_SEQUENCE;
    assert_true(sums_of(&o, &row, weights).ratios == 1.0);
}

static void the_kl_term_has_known_values(void **state)
{
    const float logp = -1.2f, ref = -1.0f;
    struct dt_grpo_options o = options_of(DT_GRPO_GRPO);
    const struct dt_grpo_row row = {.count = 1, .logp = &logp, .ref = &ref};
    struct dt_grpo_sums sums;
    float weight;

    (void)state;
    o.beta = 1.0;
    dt_grpo_sums_clear(&sums);
    dt_grpo_loss(&o, &row, 0.0, &weight, &sums);
    assert_near(sums.loss, 0.0214027581601699, 1e-7);
    assert_near((double)weight, 1.0 - exp(0.2), 1e-6);
}

static void denominators_are_of_the_step(void **state)
{
    static const double wanted[DT_GRPO_TYPE_COUNT] = {
        [DT_GRPO_DAPO] = 20, [DT_GRPO_GRPO] = 6,   [DT_GRPO_DR_GRPO] = 96,
        [DT_GRPO_BNPO] = 20, [DT_GRPO_CISPO] = 20, [DT_GRPO_SAPO] = 6,
        [DT_GRPO_LUSPO] = 6,
    };

    (void)state;
    for (int type = 0; type < DT_GRPO_TYPE_COUNT; type++) {
        const struct dt_grpo_options o = options_of(type);
        assert_near(dt_grpo_denominator(&o, 6, 20), wanted[type], 0.0);
        assert_true(dt_grpo_denominator(&o, 0, 0) == 1.0);
    }
}

static void nan_is_not_hidden(void **state)
{
    (void)state;
    for (int type = 0; type < DT_GRPO_TYPE_COUNT; type++) {
        const struct dt_grpo_options o = options_of(type);
        const float logp[N] = {-1.0f, NAN, -1.0f, -1.0f};
        struct dt_grpo_row row = row_of(1.0);
        float weights[N];
        row.logp = logp;
        assert_true(isnan(sums_of(&o, &row, weights).loss));
        row = row_of(NAN);
        assert_true(isnan(sums_of(&o, &row, weights).loss));
        assert_true(isnan(weights[0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_derivatives_of_the_loss),
        cmocka_unit_test(cispo_weighs_by_the_ratio_up_to_its_limit),
        cmocka_unit_test(without_old_values_the_ratio_is_1),
        cmocka_unit_test(ratios_far_from_1_no_longer_count),
        cmocka_unit_test(no_advantage_moves_nothing),
        cmocka_unit_test(a_masked_completion_counts_as_a_row_alone),
        cmocka_unit_test(entropy_is_made_larger),
        cmocka_unit_test(
            tokens_of_little_entropy_have_the_part_of_the_kl_alone),
        cmocka_unit_test(the_least_entropy_is_a_quantile),
        cmocka_unit_test(the_sampler_is_corrected),
        cmocka_unit_test(what_the_model_has_left_behind_is_dropped),
        cmocka_unit_test(metrics_are_of_tokens_and_rows),
        cmocka_unit_test(the_kl_term_has_known_values),
        cmocka_unit_test(denominators_are_of_the_step),
        cmocka_unit_test(nan_is_not_hidden),
    };
    return cmocka_run_group_tests_name("grpo loss", tests, NULL, NULL);
}
