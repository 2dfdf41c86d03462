/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_score_at.c - with ppo.score_at trl_next, advantages, returns and losses
 * of responses of several lengths are what make_sampled_reference.py had from
 * TRL, whose score is behind the last token of a response that is shorter than
 * the longest
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loss/ppo_loss.h"
#include "tests/parity/stored.h"

enum { ROWS = 4, LONGEST = 6, TOKENS = ROWS * LONGEST };

/* A batch with the tokens of its rows one after another, as runs have them. */
struct batch {
    const json_t *run, *losses;
    size_t at[ROWS + 1];
    float logp[TOKENS], ref[TOKENS], values[TOKENS], after[ROWS];
    double scores[ROWS], advantages[TOKENS], returns[TOKENS];
    double after_returns[ROWS];
    bool ended[ROWS];
};

static double cell(const json_t *object, const char *key, size_t i, size_t t)
{
    const json_t *row = json_array_get(json_object_get(object, key), i);

    return json_number_value(json_array_get(row, t));
}

static double entry(const json_t *object, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

static size_t count_of(const struct batch *b, size_t i)
{
    return b->at[i + 1] - b->at[i];
}

static void read_batch(struct batch *b, const json_t *run)
{
    b->run = run;
    b->losses = json_object_get(run, "losses");
    b->at[0] = 0;
    for (size_t i = 0; i < ROWS; i++) {
        const size_t count = (size_t)entry(b->losses, "lengths", i);
        b->at[i + 1] = b->at[i] + count;
        b->scores[i] = entry(run, "scores", i);
        b->ended[i] = true;
        b->after[i] = (float)cell(run, "values", i, count);
        for (size_t t = 0; t < count; t++) {
            b->logp[b->at[i] + t] = (float)cell(run, "logp", i, t);
            b->ref[b->at[i] + t] = (float)cell(run, "ref", i, t);
            b->values[b->at[i] + t] = (float)cell(run, "values", i, t);
        }
    }
}

static void compute(struct batch *b)
{
    const bool k1 =
        !strcmp(json_string_value(json_object_get(b->run, "estimator")), "k1");
    const struct dt_conf_ppo options = {
        .gamma = stored_number(b->run, "gamma"),
        .lam = 0.95,
        .kl_estimator = k1 ? DT_KL_K1 : DT_KL_K3,
        .whiten_rewards = json_is_true(json_object_get(b->run, "whiten")),
        .advantage_norm = DT_ADVANTAGE_WHITEN,
    };
    struct dt_ppo_generation g = {
        .rows = ROWS,
        .at = b->at,
        .logp = b->logp,
        .ref = b->ref,
        .values = b->values,
        .after = b->after,
        .longest = LONGEST,
        .scores = b->scores,
        .ended = b->ended,
        .advantages = b->advantages,
        .returns = b->returns,
        .after_returns = b->after_returns,
    };

    assert_int_equal(dt_ppo_compute(&options, 0.1, &g, NULL), 0);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t t = 0; t < count_of(b, i); t++) {
            stored_check(b->run, "advantages", b->advantages[b->at[i] + t],
                         cell(b->run, "advantages", i, t));
            stored_check(b->run, "returns", b->returns[b->at[i] + t],
                         cell(b->run, "returns", i, t));
        }
    for (size_t i = 0; i < ROWS; i++)
        if (count_of(b, i) < LONGEST)
            stored_check(b->run, "after", b->after_returns[i],
                         cell(b->run, "returns", i, count_of(b, i)));
}

static void check_weight(const struct batch *b, const char *key, float got,
                         size_t i, size_t t)
{
    stored_check(b->run, key, (double)got, cell(b->losses, key, i, t));
}

static void check_row(const struct batch *b, const struct dt_ppo_options *o,
                      size_t i, struct dt_ppo_sums *sums)
{
    const size_t at = b->at[i], n = count_of(b, i);
    float logp[LONGEST], values[LONGEST], weights[LONGEST];
    const struct dt_ppo_row row = {n, logp, b->logp + at, NULL,
                                   b->advantages + at};

    for (size_t t = 0; t < LONGEST; t++) {
        logp[t] = (float)cell(b->losses, "new", i, t);
        values[t] = (float)cell(b->losses, "vpred", i, t);
    }
    dt_ppo_policy_loss(o, &row, weights, sums);
    for (size_t t = 0; t < n; t++)
        check_weight(b, "weights", weights[t], i, t);
    dt_ppo_value_loss(o, n, values, b->values + at, b->returns + at, weights,
                      sums);
    for (size_t t = 0; t < n; t++)
        check_weight(b, "value_weights", weights[t], i, t);
    if (n == LONGEST)
        return;
    dt_ppo_value_loss(o, 1, values + n, b->after + i, b->after_returns + i,
                      weights, sums);
    check_weight(b, "value_weights", weights[0], i, n);
}

static void scores_behind_the_text_are_those_of_trl(void **state)
{
    json_t *root = stored_load("sampled.json"), *run;
    size_t r;
    (void)state;

    assert_int_equal(json_array_size(json_object_get(root, "ppo_next")), 4);
    json_array_foreach(json_object_get(root, "ppo_next"), r, run)
    {
        struct dt_ppo_sums sums = {0};
        double got[DT_PPO_METRICS];
        struct batch b;
        read_batch(&b, run);
        compute(&b);
        const struct dt_ppo_options o = {
            .cliprange = 0.2,
            .cliprange_value = 0.2,
            .vf_coef = stored_number(b.losses, "vf_coef")};
        for (size_t i = 0; i < ROWS; i++)
            check_row(&b, &o, i, &sums);
        dt_ppo_results(&sums, got);
        stored_check(run, "policy_loss", got[DT_PPO_POLICY_LOSS],
                     stored_number(b.losses, "policy_loss"));
        stored_check(run, "value_loss", got[DT_PPO_VALUE_LOSS],
                     stored_number(b.losses, "value_loss"));
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_behind_the_text_are_those_of_trl),
    };
    return cmocka_run_group_tests_name("score_at", tests, NULL, NULL);
}
