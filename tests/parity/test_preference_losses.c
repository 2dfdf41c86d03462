/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preference_losses.c - losses of pairs, their derivatives and metrics are
 * what make_preference_reference.py had from TRL
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "loss/pair_loss.h"
#include "run/algo_table.h"
#include "tests/parity/stored.h"

enum { MAX_TOKENS = 16 };

#define NAME(VALUE, word, ...) [VALUE] = #word,
static const char *const LOSSES[] = {DT_DPO_LOSSES(NAME)};
static const char *const DIVERGENCES[] = {DT_F_DIVERGENCES(NAME)};

static double listed(const json_t *object, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

/* --- DPO --- */

static struct dt_dpo_options options_of(const json_t *run)
{
    struct dt_dpo_options o = {
        .beta = stored_number(run, "beta"),
        .label_smoothing = stored_number(run, "label_smoothing"),
        .f_alpha = stored_number(run, "f_alpha"),
        .ld_alpha = 1.0,
        .use_weighting = json_is_true(json_object_get(run, "use_weighting")),
    };
    const char *word = json_string_value(json_object_get(run, "f_divergence")),
               *name;
    json_t *weight;
    struct dt_error err;

    o.f_divergence = (enum dt_f_divergence)stored_index(word, DIVERGENCES, 4);
    if (!json_is_null(json_object_get(run, "ld_alpha")))
        o.ld_alpha = stored_number(run, "ld_alpha");
    json_object_foreach(json_object_get(run, "losses"), name, weight)
    {
        o.loss[o.loss_count] =
            (enum dt_dpo_loss)stored_index(name, LOSSES, DT_DPO_LOSS_COUNT);
        o.loss_weight[o.loss_count++] = json_number_value(weight);
    }
    if (dt_dpo_check(&o, &err) < 0)
        fail_msg("%s", err.text);
    return o;
}

static size_t floats_of(const json_t *side, const char *key,
                        float to[MAX_TOKENS])
{
    const size_t count = json_array_size(json_object_get(side, key));

    assert_true(count > 0 && count <= MAX_TOKENS);
    for (size_t i = 0; i < count; i++)
        to[i] = (float)listed(side, key, i);
    return count;
}

static struct dt_dpo_side side_of(const struct dt_dpo_options *o,
                                  const json_t *side, const json_t *other)
{
    float logp[MAX_TOKENS], ref[MAX_TOKENS], collision[MAX_TOKENS];
    struct dt_dpo_options plain = {.ld_alpha = 1.0};
    const size_t n = floats_of(side, "logp", logp);
    const size_t beyond = json_array_size(json_object_get(other, "logp"));

    floats_of(side, "ref", ref);
    floats_of(side, "collision", collision);
    return (struct dt_dpo_side){
        .length = n,
        .logp = dt_dpo_sum(o, logp, n, beyond),
        .ref = dt_dpo_sum(o, ref, n, beyond),
        .plain = dt_dpo_sum(&plain, logp, n, beyond),
        .aligned = dt_dpo_aligned(logp, collision, n),
    };
}

static size_t chosen_tokens(const json_t *pairs, size_t count)
{
    size_t tokens = 0;

    for (size_t i = 0; i < count; i++)
        tokens += json_array_size(json_object_get(
            json_object_get(json_array_get(pairs, i), "chosen"), "logp"));
    return tokens;
}

static void check_tokens(const json_t *run, const char *key, size_t i,
                         const float *got, size_t length)
{
    const json_t *want = json_array_get(json_object_get(run, key), i);

    assert_int_equal(json_array_size(want), length);
    for (size_t t = 0; t < length; t++)
        stored_check(json_object_get(run, "losses"), key, (double)got[t],
                     json_number_value(json_array_get(want, t)));
}

static void check_run(const json_t *run, const json_t *pairs)
{
    const struct dt_dpo_options o = options_of(run);
    const size_t count = (size_t)stored_number(run, "pairs");
    const double share = (double)count / (double)chosen_tokens(pairs, count);
    const json_t *metrics = json_object_get(run, "metrics");
    double loss = 0.0, sums[DT_DPO_METRICS] = {0};

    for (size_t i = 0; i < count; i++) {
        const json_t *pair = json_array_get(pairs, i);
        const json_t *chosen = json_object_get(pair, "chosen");
        const json_t *rejected = json_object_get(pair, "rejected");
        const struct dt_dpo_pair p = {side_of(&o, chosen, rejected),
                                      side_of(&o, rejected, chosen)};
        const struct dt_dpo_result r = dt_dpo_loss(&o, &p, share);
        float w_chosen[MAX_TOKENS], w_rejected[MAX_TOKENS];
        dt_dpo_token_weights(&o, &p, &r, w_chosen, w_rejected);
        check_tokens(run, "chosen", i, w_chosen, p.chosen.length);
        check_tokens(run, "rejected", i, w_rejected, p.rejected.length);
        loss += r.loss;
        for (size_t m = 0; m < DT_DPO_METRICS; m++)
            sums[m] += r.metrics[m];
    }
    stored_check(run, "loss", loss / (double)count, stored_number(run, "loss"));
    for (size_t m = 0; m < DT_DPO_METRICS && json_object_size(metrics); m++)
        stored_check(run, dt_algo_dpo.metrics[m].name, sums[m] / (double)count,
                     stored_number(metrics, dt_algo_dpo.metrics[m].name));
}

static void dpo_losses_are_those_of_trl(void **state)
{
    json_t *root = stored_load("preferences.json"), *run;
    size_t i;
    (void)state;

    assert_true(json_array_size(json_object_get(root, "dpo")) > 90);
    json_array_foreach(json_object_get(root, "dpo"), i, run)
        check_run(run, json_object_get(root, "pairs"));
    json_decref(root);
}

/* --- reward models --- */

static void check_rewards(const json_t *run)
{
    const size_t count = json_array_size(json_object_get(run, "chosen"));
    const json_t *metrics = json_object_get(run, "metrics");
    const json_t *center = json_object_get(run, "center");
    const double c = json_is_null(center) ? 0.0 : json_number_value(center);
    double loss = 0.0, all[DT_RM_METRICS] = {0};

    all[DT_RM_MIN_REWARD] = INFINITY;
    all[DT_RM_MAX_REWARD] = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        const struct dt_rm_result r =
            dt_rm_loss(listed(run, "chosen", i), listed(run, "rejected", i),
                       listed(run, "margin", i), c);
        loss += r.loss / (double)count;
        stored_check(run, "d_chosen", r.chosen, listed(run, "d_chosen", i));
        stored_check(run, "d_rejected", r.rejected,
                     listed(run, "d_rejected", i));
        for (size_t m = 0; m < DT_RM_METRICS; m++)
            if (m == DT_RM_MIN_REWARD)
                all[m] = fmin(all[m], r.metrics[m]);
            else if (m == DT_RM_MAX_REWARD)
                all[m] = fmax(all[m], r.metrics[m]);
            else
                all[m] += r.metrics[m] / (double)count;
    }
    stored_check(run, "loss", loss, stored_number(run, "loss"));
    for (size_t m = 0; m < DT_RM_METRICS; m++)
        stored_check(run, dt_algo_rm.metrics[m].name, all[m],
                     stored_number(metrics, dt_algo_rm.metrics[m].name));
}

static void reward_losses_are_those_of_trl(void **state)
{
    json_t *root = stored_load("preferences.json"), *run;
    size_t i;
    (void)state;

    assert_int_equal(json_array_size(json_object_get(root, "rm")), 6);
    json_array_foreach(json_object_get(root, "rm"), i, run) check_rewards(run);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dpo_losses_are_those_of_trl),
        cmocka_unit_test(reward_losses_are_those_of_trl),
    };
    return cmocka_run_group_tests_name("preference losses", tests, NULL, NULL);
}
