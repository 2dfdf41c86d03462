/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ppo_loss.c - rewards of tokens, advantages, whitening and the losses of
 * PPO against known values and finite differences
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

#include "loss/ppo_loss.h"

enum { N = 3 };

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.15g, expected %.15g", got, want);
}

static void assert_all_near(const double *got, const double *want, size_t n,
                            double tolerance)
{
    for (size_t i = 0; i < n; i++)
        assert_near(got[i], want[i], tolerance);
}

static void divergences_have_known_values(void **state)
{
    (void)state;
    assert_near(dt_kl_estimate(DT_KL_K1, -0.2), -0.2, 0.0);
    assert_near(dt_kl_estimate(DT_KL_K2, -0.2), 0.02, 1e-16);
    assert_near(dt_kl_estimate(DT_KL_K3, -0.2), 0.0214027581601699, 1e-15);
    assert_near(dt_kl_estimate(DT_KL_K3, -100.0), exp(20.0) - 101.0, 1e-6);
    assert_true(isnan(dt_kl_estimate(DT_KL_K3, NAN)));
}

static void the_score_is_at_the_last_token(void **state)
{
    const float logp[N] = {-1.0f, -2.0f, -0.5f}, ref[N] = {-1.5f, -1.0f, -0.5f};
    struct dt_token_reward o = {.kl_coef = 0.1};
    struct dt_scored s = {
        .count = N, .logp = logp, .ref = ref, .score = 7, .ended = true};
    double rewards[N];

    (void)state;
    assert_near(dt_token_rewards(&o, &s, rewards), -0.5, 1e-15);
    assert_all_near(rewards, (double[]){-0.05, 0.1, 7.0}, N, 1e-15);
    o.score_clip = 5;
    o.missing_eos_penalty = 1;
    dt_token_rewards(&o, &s, rewards);
    assert_near(rewards[2], 5.0, 1e-15);
    s.ended = false;
    s.score = -9;
    dt_token_rewards(&o, &s, rewards);
    assert_near(rewards[2], -6.0, 1e-15);
    s.ref = NULL;
    s.count = 1;
    assert_near(dt_token_rewards(&o, &s, rewards), 0.0, 0.0);
    assert_near(rewards[0], -6.0, 0.0);
}

static void advantages_have_known_values(void **state)
{
    const double rewards[N] = {0, 0, 1};
    const float values[N] = {0.5f, 0.4f, 0.3f};
    double advantages[N], returns[N];

    (void)state;
    dt_gae(1.0, 0.95, N, rewards, values, NULL, advantages, returns);
    assert_all_near(advantages, (double[]){0.43675, 0.565, 0.7}, N, 1e-7);
    assert_all_near(returns, (double[]){0.93675, 0.965, 1.0}, N, 1e-7);
    /* Without lambda a token looks one step ahead, without gamma none. */
    dt_gae(1.0, 0.0, N, rewards, values, NULL, advantages, returns);
    assert_all_near(advantages, (double[]){-0.1, -0.1, 0.7}, N, 1e-7);
    dt_gae(0.0, 0.95, N, rewards, values, NULL, advantages, returns);
    assert_all_near(returns, rewards, N, 1e-7);
    dt_gae(1.0, 0.95, 1, rewards + 2, values, NULL, advantages, returns);
    assert_near(advantages[0], 0.5, 0.0);
}

/* The norm of x(n), whose completions have `first` and n - first tokens. */
static struct dt_norm norm_of(enum dt_advantage_norm kind, const double *x,
                              size_t first, size_t n)
{
    struct dt_norm norm;
    const double sum = dt_gae_sum(x, first) + dt_gae_sum(x + first, n - first);
    const double mean = sum / (double)n;
    const double squares = dt_gae_squares(x, first, mean) +
                           dt_gae_squares(x + first, n - first, mean);

    assert_int_equal(dt_norm_make(kind, (double)n, mean, squares, &norm, NULL),
                     0);
    return norm;
}

static void whitening_has_known_values(void **state)
{
    const double x[N] = {1, 2, 4};
    const double white[N] = {-0.8728715590735, -0.2182178897684,
                             1.0910894488419};
    const double std = sqrt(14.0 / 9.0);
    double got[N];
    struct dt_norm norm = norm_of(DT_ADVANTAGE_WHITEN, x, 1, N);

    (void)state;
    memcpy(got, x, sizeof(x));
    dt_norm_apply(&norm, false, got, N);
    assert_all_near(got, white, N, 1e-12);
    memcpy(got, x, sizeof(x));
    dt_norm_apply(&norm, true, got, N);
    assert_near(got[0] - white[0], 7.0 / 3.0, 1e-12);
    norm = norm_of(DT_ADVANTAGE_OPENRLHF, x, 2, N);
    memcpy(got, x, sizeof(x));
    dt_norm_apply(&norm, false, got, N);
    assert_near(got[2], (4.0 - 7.0 / 3.0) / std, 1e-12);
    norm = norm_of(DT_ADVANTAGE_GLOBAL_CLAMP, x, 2, N);
    assert_near(norm.scale, 1.0 / std, 1e-12);
    norm = norm_of(DT_ADVANTAGE_NONE, x, 2, N);
    memcpy(got, x, sizeof(x));
    dt_norm_apply(&norm, false, got, N);
    assert_all_near(got, x, N, 0.0);
}

static void equal_advantages_do_not_explode(void **state)
{
    const double x[N] = {0.5, 0.5, 0.5};

    (void)state;
    assert_near(norm_of(DT_ADVANTAGE_WHITEN, x, 1, N).scale, 1e4, 1e-8);
    assert_near(norm_of(DT_ADVANTAGE_OPENRLHF, x, 1, N).scale, 1e4, 1e-8);
    assert_near(norm_of(DT_ADVANTAGE_GLOBAL_CLAMP, x, 1, N).scale, 1e4, 1e-8);
}

static void one_token_cannot_be_normalized(void **state)
{
    struct dt_error err;
    struct dt_norm norm;

    (void)state;
    assert_int_equal(dt_norm_make(DT_ADVANTAGE_WHITEN, 1, 3, 0, &norm, &err),
                     -1);
    assert_string_equal(err.text, "E135 1 tokens: at least 2 are needed to "
                                  "normalize them");
    assert_int_equal(dt_norm_make(DT_ADVANTAGE_NONE, 1, 3, 0, &norm, NULL), 0);
}

static void the_coefficient_follows_its_target(void **state)
{
    (void)state;
    assert_near(dt_kl_coef_next(DT_KL_FIXED, 0.2, 99, 6, 1e4, 512), 0.2, 0.0);
    assert_near(dt_kl_coef_next(DT_KL_ADAPTIVE, 0.2, 6.6, 6, 1e4, 500),
                0.2 * 1.005, 1e-15);
    assert_near(dt_kl_coef_next(DT_KL_ADAPTIVE, 0.2, 60, 6, 1e4, 500),
                0.2 * 1.01, 1e-15);
    assert_near(dt_kl_coef_next(DT_KL_ADAPTIVE, 0.2, 0, 6, 1e4, 500),
                0.2 * 0.99, 1e-15);
    assert_near(dt_kl_coef_next(DT_KL_ADAPTIVE, 0.2, NAN, 6, 1e4, 500), 0.2,
                0.0);
}

/* --- losses --- */

static const double STEP = 1.0 / 512;
static const float LOGP[N] = {-1.0f, -0.75f, -2.5f};
static const float OLD[N] = {-1.25f, -0.625f, -2.0f};
static const double ADVANTAGES[N] = {1.5, -0.5, -1.0};

static const struct dt_ppo_options OPTIONS = {
    .cliprange = 0.2, .cliprange_value = 0.2, .vf_coef = 0.5, .ent_coef = 0.25};

static struct dt_ppo_sums policy_sums(const struct dt_ppo_options *o,
                                      const struct dt_ppo_row *row,
                                      float weights[N])
{
    struct dt_ppo_sums sums = {0};

    dt_ppo_policy_loss(o, row, weights, &sums);
    return sums;
}

static void policy_weights_are_derivatives(void **state)
{
    struct dt_ppo_options o = OPTIONS;
    float weights[N], ignored[N], moved[N];

    (void)state;
    for (int dual = 0; dual < 2; dual++) {
        struct dt_ppo_row row = {N, LOGP, OLD, NULL, ADVANTAGES};
        o.dual_clip = dual ? 1.1 : 0.0;
        policy_sums(&o, &row, weights);
        for (size_t t = 0; t < N; t++) {
            double loss[2];
            for (int side = 0; side < 2; side++) {
                memcpy(moved, LOGP, sizeof(moved));
                moved[t] += (float)(side ? STEP : -STEP);
                row.logp = moved;
                loss[side] = policy_sums(&o, &row, ignored).loss;
            }
            assert_near((double)weights[t], (loss[1] - loss[0]) / (2 * STEP),
                        1e-5);
        }
    }
}

static void value_weights_are_derivatives(void **state)
{
    /* inside the clip; outside, farther; outside, but worse than clipped */
    const float values[N] = {0.375f, 1.0f, -0.5f};
    const float old[N] = {0.25f, 0.5f, 0.25f};
    const double returns[N] = {1.0, 2.0, 1.0};
    float weights[N], ignored[N], moved[N];
    struct dt_ppo_sums sums = {0};

    (void)state;
    dt_ppo_value_loss(&OPTIONS, N, values, old, returns, weights, &sums);
    for (size_t t = 0; t < N; t++) {
        double loss[2];
        for (int side = 0; side < 2; side++) {
            struct dt_ppo_sums one = {0};
            memcpy(moved, values, sizeof(moved));
            moved[t] += (float)(side ? STEP : -STEP);
            dt_ppo_value_loss(&OPTIONS, N, moved, old, returns, ignored, &one);
            loss[side] = one.value_loss;
        }
        assert_near((double)weights[t], (loss[1] - loss[0]) / (2 * STEP), 1e-5);
    }
    assert_true(weights[1] == 0.0f && weights[2] == -0.75f);
    double got[DT_PPO_METRICS];
    dt_ppo_results(&sums, got);
    assert_near(got[DT_PPO_VALUE_CLIPFRAC], 1.0 / 3.0, 1e-15);
    assert_near(got[DT_PPO_VALUE_LOSS],
                (0.625 * 0.625 + 1.3 * 1.3 + 1.5 * 1.5) / 6.0, 1e-7);
    assert_near(sums.value_loss, 3.0 * 0.5 * got[DT_PPO_VALUE_LOSS], 1e-12);
}

static void metrics_are_means_of_tokens(void **state)
{
    const float entropy[N] = {1.0f, 2.0f, 3.0f};
    struct dt_ppo_row row = {N, LOGP, OLD, entropy, ADVANTAGES};
    const double rho[N] = {exp(0.25), exp(-0.125), exp(-0.5)};
    const double mean = (rho[0] + rho[1] + rho[2]) / 3.0;
    double got[DT_PPO_METRICS], var = 0.0;
    float weights[N];
    struct dt_ppo_sums sums = {0};
    const struct dt_ppo_sums all = policy_sums(&OPTIONS, &row, weights);

    (void)state;
    for (size_t t = 0; t < N; t++) { /* the same, added token by token */
        struct dt_ppo_row one = {1, LOGP + t, OLD + t, entropy + t,
                                 ADVANTAGES + t};
        dt_ppo_policy_loss(&OPTIONS, &one, weights, &sums);
        var += (rho[t] - mean) * (rho[t] - mean) / 2.0;
    }
    assert_near(sums.loss, all.loss, 1e-15);
    dt_ppo_results(&sums, got);
    assert_near(got[DT_PPO_RATIO], mean, 1e-15);
    assert_near(got[DT_PPO_RATIO_VAR], var, 1e-15);
    assert_near(got[DT_PPO_CLIPFRAC], 2.0 / 3.0, 1e-15);
    assert_near(got[DT_PPO_ENTROPY], 2.0, 1e-15);
    assert_near(got[DT_PPO_APPROXKL], 0.5 * (0.0625 + 0.015625 + 0.25) / 3.0,
                1e-15);
    assert_near(sums.loss, 3.0 * got[DT_PPO_POLICY_LOSS] - 0.25 * 6.0, 1e-12);
    row.old = NULL;
    assert_true(policy_sums(&OPTIONS, &row, weights).ratio_error_max == 0.0);
    dt_ppo_results(&(struct dt_ppo_sums){0}, got);
    assert_true(isnan(got[DT_PPO_RATIO]) && isnan(got[DT_PPO_RATIO_VAR]));
}

static void explained_variance_is_of_what_is_left(void **state)
{
    /* returns 1, 2, 3; values 1.5, 2, 2.5 */
    (void)state;
    assert_near(dt_ppo_explained(3, 6, 14, 0, 0.5), 0.75, 1e-15);
    assert_near(dt_ppo_explained(3, 6, 14, 3, 3), 1.0, 1e-15);
    assert_true(isnan(dt_ppo_explained(3, 6, 12, 0, 0.5)));
}

static void nan_is_not_hidden(void **state)
{
    const float bad[1] = {NAN}, good[1] = {0.5f};
    const double advantage[1] = {1.0};
    const struct dt_ppo_row row = {1, bad, good, NULL, advantage};
    struct dt_ppo_sums sums = {0};
    float weight;

    (void)state;
    dt_ppo_policy_loss(&OPTIONS, &row, &weight, &sums);
    assert_true(isnan(sums.loss) && isnan(weight));
    dt_ppo_value_loss(&OPTIONS, 1, bad, good, advantage, &weight, &sums);
    assert_true(isnan(sums.value_loss) && isnan(weight));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(divergences_have_known_values),
        cmocka_unit_test(the_score_is_at_the_last_token),
        cmocka_unit_test(advantages_have_known_values),
        cmocka_unit_test(whitening_has_known_values),
        cmocka_unit_test(equal_advantages_do_not_explode),
        cmocka_unit_test(one_token_cannot_be_normalized),
        cmocka_unit_test(the_coefficient_follows_its_target),
        cmocka_unit_test(policy_weights_are_derivatives),
        cmocka_unit_test(value_weights_are_derivatives),
        cmocka_unit_test(metrics_are_means_of_tokens),
        cmocka_unit_test(explained_variance_is_of_what_is_left),
        cmocka_unit_test(nan_is_not_hidden),
    };
    return cmocka_run_group_tests_name("ppo loss", tests, NULL, NULL);
}
