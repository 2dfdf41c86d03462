/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dpo_loss.c - losses of preference pairs against known values and finite
 * differences, where numbers end, and what options are refused
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "loss/pair_loss.h"

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("got %.15g, expected %.15g", got, want);
}

static struct dt_dpo_options options_of(enum dt_dpo_loss loss)
{
    return (struct dt_dpo_options){
        .loss_count = 1,
        .loss = {loss},
        .loss_weight = {1.0},
        .beta = 0.1,
        .label_smoothing = loss == DT_DPO_CDPO || loss == DT_DPO_ROBUST ||
                                   loss == DT_DPO_EXO_PAIR
                               ? 0.1
                               : 0.0,
        .f_alpha = 0.5,
        .ld_alpha = 1.0,
    };
}

/* logp and ref of the chosen side, then of the rejected one */
static struct dt_dpo_pair pair_of(double logp_c, double ref_c, double logp_r,
                                  double ref_r)
{
    return (struct dt_dpo_pair){
        .chosen = {.length = 5, .logp = logp_c, .ref = ref_c, .plain = logp_c},
        .rejected = {
            .length = 4, .logp = logp_r, .ref = ref_r, .plain = logp_r}};
}

static double loss_of(enum dt_dpo_loss loss, const struct dt_dpo_pair *pair)
{
    const struct dt_dpo_options o = options_of(loss);

    return dt_dpo_loss(&o, pair, 1.0).loss;
}

static void losses_have_known_values(void **state)
{
    const struct dt_dpo_pair pair = pair_of(-10, -11, -12, -11.5);
    (void)state;

    assert_near(loss_of(DT_DPO_SIGMOID, &pair), 0.6209570477895321, 1e-15);
    assert_near(loss_of(DT_DPO_CDPO, &pair), 0.6359570477895321, 1e-15);
    assert_near(loss_of(DT_DPO_ROBUST, &pair), 0.602207047789532, 1e-15);
    assert_near(loss_of(DT_DPO_HINGE, &pair), 0.85, 1e-15);
    assert_near(loss_of(DT_DPO_IPO, &pair), 21.855625, 1e-13);
    assert_near(loss_of(DT_DPO_SFT, &pair), 10.0, 0.0);
}

/* Derivatives by logp of a side, or by one chosen token. */
static void check_slopes(const struct dt_dpo_options *o,
                         const struct dt_dpo_pair *pair)
{
    const double step = 1e-5;
    const struct dt_dpo_result r = dt_dpo_loss(o, pair, 0.3);
    const double slopes[] = {r.chosen, r.rejected, r.token};

    for (int i = 0; i < 3; i++) {
        double value[2];
        for (int k = 0; k < 2; k++) {
            struct dt_dpo_pair moved = *pair;
            double by = k ? step : -step;
            if (i == 2)
                moved.chosen.plain += by;
            else
                *(i ? &moved.rejected.logp : &moved.chosen.logp) += by;
            value[k] = dt_dpo_loss(o, &moved, 0.3).loss;
        }
        double rounded = 1e-10 * fabs(r.loss); /* in the difference */
        assert_near(slopes[i], (value[1] - value[0]) / (2.0 * step),
                    1e-6 * (1.0 + fabs(slopes[i])) + rounded);
    }
}

static void derivatives_are_finite_differences(void **state)
{
    const struct dt_dpo_pair pairs[] = {
        pair_of(-10, -11, -12, -11.5), pair_of(-30, -21, -12, -17.5),
        pair_of(-3, -9, -40, -11.5),   pair_of(-7, -7, -2, -2),
        pair_of(-20, -2, -2, -20),
    };
    (void)state;

    for (int loss = 0; loss < DT_DPO_LOSS_COUNT; loss++) {
        for (int f = 0; f <= DT_DIVERGENCE_ALPHA; f++) {
            struct dt_dpo_options o = options_of((enum dt_dpo_loss)loss);
            o.loss_weight[0] = 0.7;
            o.f_divergence = (enum dt_f_divergence)f;
            for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
                if (dt_dpo_check(&o, NULL) == 0)
                    check_slopes(&o, &pairs[i]);
        }
    }
}

/* Weights of tokens make derivatives by each of them. */
static void tokens_beyond_the_other_side_weigh_ld_alpha(void **state)
{
    struct dt_dpo_options o = options_of(DT_DPO_SIGMOID);
    const float logp[] = {-1.0f, -2.0f, -4.0f, -8.0f, -16.0f};
    struct dt_dpo_pair pair = pair_of(-10, -11, -12, -11.5);
    struct dt_dpo_result r;
    float chosen[5], rejected[4];
    (void)state;

    o.ld_alpha = 0.25;
    assert_near(dt_dpo_sum(&o, logp, 5, 3), -7.0 - 0.25 * 24.0, 0.0);
    assert_near(dt_dpo_sum(&o, logp, 5, 9), -31.0, 0.0);
    r = dt_dpo_loss(&o, &pair, 1.0);
    dt_dpo_token_weights(&o, &pair, &r, chosen, rejected);
    for (size_t t = 0; t < 4; t++) {
        assert_near((double)chosen[t], r.chosen, 1e-8);
        assert_near((double)rejected[t], r.rejected, 1e-8);
    }
    assert_near((double)chosen[4], 0.25 * r.chosen, 1e-8);
}

/* A reward is far from 0 where a policy has gone astray: no loss overflows that
 * grows at most as a square.
 */
static void far_pairs_have_finite_losses(void **state)
{
    (void)state;
    for (int loss = 0; loss < DT_DPO_LOSS_COUNT; loss++) {
        for (int f = 0; f <= DT_DIVERGENCE_ALPHA; f++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                struct dt_dpo_options o = options_of((enum dt_dpo_loss)loss);
                struct dt_dpo_pair pair =
                    pair_of(-1e5 * sign, 0.0, 1e5 * sign, 0.0);
                struct dt_dpo_result r;
                o.f_divergence = (enum dt_f_divergence)f;
                if (dt_dpo_check(&o, NULL) < 0)
                    continue;
                r = dt_dpo_loss(&o, &pair, 1.0);
                assert_true(isfinite(r.loss) && isfinite(r.chosen) &&
                            isfinite(r.rejected));
            }
        }
    }
}

static void nan_is_not_hidden(void **state)
{
    struct dt_rm_result r = dt_rm_loss(NAN, 1.0, 0.0, 0.01);
    (void)state;

    for (int loss = 0; loss < DT_DPO_LOSS_COUNT; loss++) {
        const struct dt_dpo_pair pair = pair_of(NAN, -1, -2, -3);
        assert_true(isnan(loss_of((enum dt_dpo_loss)loss, &pair)));
    }
    assert_true(isnan(r.loss) && isnan(r.chosen) && isnan(r.rejected));
}

static void metrics_are_rewards_and_sums(void **state)
{
    const struct dt_dpo_options o = options_of(DT_DPO_SIGMOID);
    struct dt_dpo_pair pair = pair_of(-10, -11, -12, -11.5);
    struct dt_dpo_result r = dt_dpo_loss(&o, &pair, 1.0);
    (void)state;

    assert_near(r.metrics[DT_DPO_REWARDS_CHOSEN], 0.1, 1e-15);
    assert_near(r.metrics[DT_DPO_REWARDS_REJECTED], -0.05, 1e-15);
    assert_near(r.metrics[DT_DPO_REWARDS_MARGINS], 0.15, 1e-15);
    assert_near(r.metrics[DT_DPO_REWARDS_ACCURACIES], 1.0, 0.0);
    assert_near(r.metrics[DT_DPO_LOGPS_CHOSEN], -10.0, 0.0);
    assert_near(r.metrics[DT_DPO_LOGPS_REJECTED], -12.0, 0.0);
    pair = pair_of(-1, -1, -1, -1); /* equal is not right */
    r = dt_dpo_loss(&o, &pair, 1.0);
    assert_near(r.metrics[DT_DPO_REWARDS_ACCURACIES], 0.0, 0.0);
}

static void expect_refusal(struct dt_dpo_options o, const char *text)
{
    struct dt_error err = {0};

    assert_int_equal(dt_dpo_check(&o, &err), -1);
    assert_string_equal(err.text, text);
    assert_int_equal(err.status, EX_CONFIG);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    const struct dt_dpo_options good = options_of(DT_DPO_SIGMOID);
    struct dt_dpo_options o = good;
    (void)state;

    assert_int_equal(dt_dpo_check(&good, NULL), 0);
    o.loss_count = 0;
    expect_refusal(o, "dpo.loss: no loss");
    o = good;
    o.loss_count = 2;
    o.loss_weight[1] = 1.0;
    expect_refusal(o, "dpo.loss: sigmoid is there twice");
    o.loss[1] = DT_DPO_SFT;
    o.loss_weight[1] = -1.0;
    expect_refusal(o, "dpo.loss_weights: expected a number >= 0 for sft, got "
                      "-1");
    o = good;
    o.label_smoothing = 0.1;
    expect_refusal(o, "dpo.label_smoothing: sigmoid does not use it: "
                      "cdpo, robust and exo_pair do");
    o = options_of(DT_DPO_EXO_PAIR);
    o.label_smoothing = 0.0;
    expect_refusal(o, "dpo.label_smoothing: exo_pair needs more than 0, such "
                      "as 1e-3");
    o = options_of(DT_DPO_NCA_PAIR);
    o.f_divergence = DT_DIVERGENCE_JS;
    expect_refusal(o, "dpo.f_divergence: nca_pair has no form other than "
                      "reverse_kl");
}

static void reward_losses_have_known_values(void **state)
{
    (void)state;
    assert_near(dt_rm_loss(1.0, 0.4, 0.0, 0.0).loss, 0.4374879504858856, 1e-15);
    assert_near(dt_rm_loss(1.0, 0.4, 0.2, 0.0).loss, 0.5130152523999526, 1e-15);
    assert_near(dt_rm_loss(1.0, 0.4, 0.0, 0.01).loss, 0.4570879504858856,
                1e-15);
    assert_near(dt_rm_loss(-1e6, 1e6, 0.0, 0.0).loss, 2e6, 0.0);
    assert_near(dt_rm_loss(1e6, -1e6, 0.0, 0.0).loss, 0.0, 0.0);
}

static void reward_derivatives_are_finite_differences(void **state)
{
    const double step = 1e-5, scores[] = {-3.0, -0.5, 0.0, 0.7, 4.0};
    (void)state;

    for (int i = 0; i < 25; i++) {
        const double c = scores[i / 5], r = scores[i % 5];
        const struct dt_rm_result at = dt_rm_loss(c, r, 0.3, 0.1);
        assert_near(at.chosen,
                    (dt_rm_loss(c + step, r, 0.3, 0.1).loss -
                     dt_rm_loss(c - step, r, 0.3, 0.1).loss) /
                        (2.0 * step),
                    1e-8);
        assert_near(at.rejected,
                    (dt_rm_loss(c, r + step, 0.3, 0.1).loss -
                     dt_rm_loss(c, r - step, 0.3, 0.1).loss) /
                        (2.0 * step),
                    1e-8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_have_known_values),
        cmocka_unit_test(derivatives_are_finite_differences),
        cmocka_unit_test(tokens_beyond_the_other_side_weigh_ld_alpha),
        cmocka_unit_test(far_pairs_have_finite_losses),
        cmocka_unit_test(nan_is_not_hidden),
        cmocka_unit_test(metrics_are_rewards_and_sums),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
        cmocka_unit_test(reward_losses_have_known_values),
        cmocka_unit_test(reward_derivatives_are_finite_differences),
    };
    return cmocka_run_group_tests_name("dpo_loss", tests, NULL, NULL);
}
