/* SPDX-License-Identifier: Apache-2.0 */
/* test_ppo_generation.c - advantages and returns of a generation's tokens */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "loss/ppo_loss.h"

enum { ROWS = 3, TOKENS = 6 };

static const size_t at[ROWS + 1] = {0, 3, 4, TOKENS};
static const float logp[TOKENS] = {-1, -2, -0.5f, -3, -1, -1.5f};
static const float ref[TOKENS] = {-1.5f, -1, -0.5f, -2, -2, -1};
static const float values[TOKENS] = {0.5f, 0.25f, 1, -1, 0, 2};
static const bool ended[ROWS] = {true, false, true};

/* Returns are then sums of the rewards that follow. */
static const struct dt_conf_ppo plain = {.gamma = 1,
                                         .lam = 1,
                                         .kl_estimator = DT_KL_K1,
                                         .advantage_norm = DT_ADVANTAGE_NONE};

struct result {
    double advantages[TOKENS], returns[TOKENS], numbers[DT_PPO_NUMBERS];
};

static struct result compute(const struct dt_conf_ppo *options, double kl_coef,
                             const double scores[ROWS])
{
    struct result result;
    struct dt_error err = {0};
    struct dt_ppo_generation g = {
        .rows = ROWS,
        .at = at,
        .logp = logp,
        .ref = kl_coef > 0 ? ref : NULL,
        .values = values,
        .scores = scores,
        .ended = ended,
        .advantages = result.advantages,
        .returns = result.returns,
    };
    if (dt_ppo_compute(options, kl_coef, &g, &err) < 0)
        fail_msg("%s", err.text);
    memcpy(result.numbers, g.numbers, sizeof(g.numbers));
    return result;
}

static void expect(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * (1 + fabs(b))))
        fail_msg("%.17g, expected %.17g", a, b);
}

static void returns_are_the_rewards_that_follow(void **state)
{
    static const double scores[ROWS] = {2, -1, 3};
    /* of the score and -0.1 (logp - ref) of the token and those behind it */
    static const double expected[TOKENS] = {2.05, 2.1, 2, -0.9, 2.95, 3.05};
    struct result r = compute(&plain, 0.1, scores);
    (void)state;
    for (size_t t = 0; t < TOKENS; t++) {
        expect(r.returns[t], expected[t]);
        expect(r.advantages[t], expected[t] - (double)values[t]);
    }
}

static void numbers_are_means_of_completions(void **state)
{
    static const double scores[ROWS] = {2, -1, 3};
    struct result r = compute(&plain, 0.1, scores);
    (void)state;
    expect(r.numbers[DT_PPO_KL], (-0.5 - 1 + 0.5) / ROWS);
    expect(r.numbers[DT_PPO_SURPRISE], (3.5 + 3 + 2.5) / ROWS);
    expect(r.numbers[DT_PPO_SCORES], 4.0 / ROWS);
    expect(r.numbers[DT_PPO_NON_SCORE], 0.1 / ROWS);
    expect(r.numbers[DT_PPO_RLHF], 4.1 / ROWS);
    expect(r.numbers[DT_PPO_EOS], 2);
    expect(r.numbers[DT_PPO_KL_COEF], 0.1);
}

static void without_a_reference_only_scores_count(void **state)
{
    static const double scores[ROWS] = {2, -1, 3};
    static const double expected[TOKENS] = {2, 2, 2, -1, 3, 3};
    struct result r = compute(&plain, 0, scores);
    (void)state;
    for (size_t t = 0; t < TOKENS; t++)
        expect(r.returns[t], expected[t]);
    expect(r.numbers[DT_PPO_KL], 0);
}

static void scores_are_limited_and_unfinished_texts_pay(void **state)
{
    static const double scores[ROWS] = {2, -1, 3};
    struct dt_conf_ppo options = plain;
    options.score_clip = 1.5;
    options.missing_eos_penalty = 0.25;
    struct result r = compute(&options, 0, scores);
    (void)state;
    expect(r.returns[0], 1.5);
    expect(r.returns[3], -1.25); /* the one that did not end */
    expect(r.returns[5], 1.5);
}

static void advantages_are_whitened_over_all_tokens(void **state)
{
    static const double scores[ROWS] = {2, -1, 3};
    struct dt_conf_ppo options = plain;
    double sum = 0, squares = 0;
    options.advantage_norm = DT_ADVANTAGE_WHITEN;
    options.lam = 0.9;
    struct result r = compute(&options, 0.1, scores);
    (void)state;
    for (size_t t = 0; t < TOKENS; t++) {
        sum += r.advantages[t];
        squares += r.advantages[t] * r.advantages[t];
    }
    assert_true(fabs(sum) < 1e-9);
    assert_true(fabs(squares / (TOKENS - 1) - 1) < 1e-6);
}

/* A completion that no reward has scored teaches neither model. */
static void a_completion_without_a_score_teaches_nothing(void **state)
{
    static const double with[ROWS] = {2, NAN, 3};
    static const double other[ROWS] = {2, INFINITY, 3};
    struct dt_conf_ppo options = plain;
    options.advantage_norm = DT_ADVANTAGE_WHITEN;
    options.whiten_rewards = true;
    struct result r = compute(&options, 0.1, with);
    struct result same = compute(&options, 0.1, other);
    double sum = 0;
    (void)state;
    expect(r.advantages[3], 0);
    expect(r.returns[3], (double)values[3]);
    expect(r.numbers[DT_PPO_SCORES], 2.5);
    for (size_t t = 0; t < TOKENS; t++)
        sum += r.advantages[t];
    assert_true(fabs(sum) < 1e-9);
    assert_memory_equal(r.advantages, same.advantages, sizeof(r.advantages));
}

static void one_token_cannot_be_whitened(void **state)
{
    static const double scores[ROWS] = {NAN, 1, NAN};
    struct dt_error err = {0};
    double advantages[TOKENS], returns[TOKENS];
    struct dt_conf_ppo options = plain;
    struct dt_ppo_generation g = {.rows = ROWS,
                                  .at = at,
                                  .logp = logp,
                                  .values = values,
                                  .scores = scores,
                                  .ended = ended,
                                  .advantages = advantages,
                                  .returns = returns};
    (void)state;
    options.advantage_norm = DT_ADVANTAGE_WHITEN;
    assert_int_equal(dt_ppo_compute(&options, 0, &g, &err), -1);
    assert_non_null(strstr(err.text, "E135 1 tokens"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_are_the_rewards_that_follow),
        cmocka_unit_test(numbers_are_means_of_completions),
        cmocka_unit_test(without_a_reference_only_scores_count),
        cmocka_unit_test(scores_are_limited_and_unfinished_texts_pay),
        cmocka_unit_test(advantages_are_whitened_over_all_tokens),
        cmocka_unit_test(a_completion_without_a_score_teaches_nothing),
        cmocka_unit_test(one_token_cannot_be_whitened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
