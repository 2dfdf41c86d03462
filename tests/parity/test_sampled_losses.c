/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_sampled_losses.c - losses of sampled completions, their derivatives and
 * metrics, and advantages, are what make_sampled_reference.py had from TRL
 *
 * Where we differ on purpose there is no case: denominators are of an optimizer
 * step (grpo_loss.h), masked completions count in no ratio of completions, and
 * PPO's score is at the last token of a response, not after it.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/algo.h"
#include "loss/advantages.h"
#include "loss/grpo_loss.h"
#include "loss/ppo_loss.h"
#include "run/algo_table.h"
#include "tests/parity/stored.h"

enum { MAX_TOKENS = 8, MAX_ROWS = 16, MAX_COLUMNS = 2, GROUP = 4 };

#define NAME(VALUE, word, ...) [VALUE] = #word,
static const char *const TYPES[] = {DT_GRPO_TYPES(NAME)};
static const char *const CORRECTIONS[] = {DT_CORRECTIONS(NAME)};
static const char *const SCALES[] = {DT_SCALES(NAME)};

/* A number of an object; null is 0. */
static double number(const json_t *object, const char *key)
{
    return json_is_null(json_object_get(object, key))
               ? 0
               : stored_number(object, key);
}

static const char *word(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

/* Of a list, or of the row `i` of a list of rows; null is NaN. */
static size_t doubles_of(const json_t *list, double *to, size_t most)
{
    const size_t count = json_array_size(list);

    assert_true(count > 0 && count <= most);
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        to[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
    return count;
}

static size_t floats_of(const json_t *list, float to[MAX_TOKENS])
{
    double values[MAX_TOKENS];
    const size_t count = doubles_of(list, values, MAX_TOKENS);

    for (size_t i = 0; i < count; i++)
        to[i] = (float)values[i];
    return count;
}

static const json_t *row_of(const json_t *object, const char *key, size_t i)
{
    return json_array_get(json_object_get(object, key), i);
}

static void check_floats(const json_t *label, const char *what,
                         const float *got, const json_t *want, size_t count)
{
    for (size_t t = 0; t < count; t++)
        stored_check(label, what, (double)got[t],
                     json_number_value(json_array_get(want, t)));
}

static void check_doubles(const json_t *label, const char *what,
                          const double *got, const json_t *want, size_t count)
{
    assert_true(json_array_size(want) >= count);
    for (size_t t = 0; t < count; t++)
        stored_check(label, what, got[t],
                     json_number_value(json_array_get(want, t)));
}

/* --- GRPO --- */

static struct dt_grpo_options options_of(const json_t *run)
{
    return (struct dt_grpo_options){
        .type = (enum dt_grpo_type)stored_index(word(run, "type"), TYPES,
                                                DT_GRPO_TYPE_COUNT),
        .level = strcmp(word(run, "level"), "sequence") == 0 ? DT_GRPO_SEQUENCE
                                                             : DT_GRPO_TOKEN,
        .epsilon = number(run, "epsilon"),
        .epsilon_high = number(run, "epsilon_high"),
        .delta = number(run, "delta"),
        .beta = number(run, "beta"),
        .kl_unbiased = flag(run, "kl_unbiased"),
        .entropy_coef = number(run, "entropy_coef"),
        .sapo_temperature_pos = 1.0,
        .sapo_temperature_neg = 1.05,
        .off_policy_mask = number(run, "off_policy_mask"),
        .correction = (enum dt_correction)stored_index(word(run, "correction"),
                                                       CORRECTIONS, 5),
        .cap = number(run, "cap"),
        .max_completion_length = 16,
    };
}

static bool is_masked(const json_t *run, size_t i)
{
    const json_t *masked = json_object_get(run, "masked");

    for (size_t k = 0; k < json_array_size(masked); k++)
        if ((size_t)json_integer_value(json_array_get(masked, k)) == i)
            return true;
    return false;
}

static double tokens_of(const json_t *run, const json_t *rows)
{
    size_t tokens = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!is_masked(run, i))
            tokens += json_array_size(
                json_object_get(json_array_get(rows, i), "logp"));
    return (double)tokens;
}

/* What decides which tokens take part: the least entropy of one that does, and
 * how many of the tokens that is.
 */
struct choice {
    bool is_made;
    double least, tokens;
};

static struct choice choice_of(const json_t *run, const json_t *rows)
{
    const double share = number(run, "top_entropy_quantile");
    struct choice choice = {share < 1, 0, tokens_of(run, rows)};
    float entropy[MAX_ROWS * MAX_TOKENS];
    size_t count = 0;

    if (!choice.is_made)
        return choice;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (!is_masked(run, i))
            count +=
                floats_of(json_object_get(json_array_get(rows, i), "entropy"),
                          entropy + count);
    choice.least = dt_grpo_least_entropy(share, entropy, count);
    for (size_t t = 0; t < count && (double)entropy[t] < choice.least; t++)
        choice.tokens--;
    return choice;
}

static void check_entropy_weights(const json_t *run,
                                  const struct dt_grpo_row *row, size_t i,
                                  double share)
{
    const struct dt_grpo_options o = options_of(run);
    float weights[MAX_TOKENS];

    if (json_is_null(json_object_get(run, "entropy_weights")))
        return;
    for (size_t t = 0; t < row->count; t++)
        weights[t] = (float)dt_grpo_entropy_weight(&o, row, t, share);
    check_floats(run, "entropy_weights", weights,
                 row_of(run, "entropy_weights", i), row->count);
}

static void add_row(const json_t *run, const json_t *row, size_t i,
                    const struct choice *choice, double share,
                    struct dt_grpo_sums *sums)
{
    const struct dt_grpo_options o = options_of(run);
    const bool corrected = o.correction != DT_CORRECTION_NONE;
    float logp[MAX_TOKENS], old[MAX_TOKENS], sampled[MAX_TOKENS];
    float ref[MAX_TOKENS], entropy[MAX_TOKENS], weights[MAX_TOKENS];
    const struct dt_grpo_row r = {
        .count = floats_of(json_object_get(row, "logp"), logp),
        .logp = logp,
        .old = flag(run, "aligned") ? NULL : old,
        .sampled = corrected ? sampled : NULL,
        .ref = ref,
        .entropy = entropy,
        .chosen_by = choice->is_made ? entropy : NULL,
        .least = choice->least,
        .advantage = number(row, "advantage"),
        .masked = is_masked(run, i),
    };

    floats_of(json_object_get(row, "old"), old);
    floats_of(json_object_get(row, "sampled"), sampled);
    floats_of(json_object_get(row, "ref"), ref);
    floats_of(json_object_get(row, "entropy"), entropy);
    dt_grpo_loss(&o, &r, share, weights, sums);
    check_floats(run, "weights", weights, row_of(run, "weights", i), r.count);
    check_entropy_weights(run, &r, i, share);
}

static void check_metrics(const json_t *run, const struct dt_grpo_sums *sums)
{
    const json_t *metrics = json_object_get(run, "metrics");
    double results[DT_GRPO_METRICS];
    size_t found = 0;

    dt_grpo_results(sums, results);
    for (size_t m = 0; m < DT_GRPO_METRICS; m++) {
        const char *name = dt_algo_grpo.metrics[m].name;
        if (!json_object_get(metrics, name))
            continue;
        stored_check(run, name, results[m], stored_number(metrics, name));
        found++;
    }
    assert_int_equal(found, json_object_size(metrics));
}

static void check_run(const json_t *run, const json_t *rows)
{
    const struct dt_grpo_options o = options_of(run);
    const struct choice choice = choice_of(run, rows);
    const double whole = dt_grpo_denominator(&o, (double)json_array_size(rows),
                                             tokens_of(run, rows));
    struct dt_grpo_sums sums;

    stored_check(run, "denominator", whole, number(run, "denominator"));
    dt_grpo_sums_clear(&sums);
    for (size_t i = 0; i < json_array_size(rows); i++)
        add_row(run, json_array_get(rows, i), i, &choice, whole / choice.tokens,
                &sums);
    stored_check(run, "loss", sums.loss / whole, number(run, "loss"));
    check_metrics(run, &sums);
}

static void grpo_losses_are_those_of_trl(void **state)
{
    json_t *root = stored_load("sampled.json"), *run;
    size_t i;
    (void)state;

    assert_true(json_array_size(json_object_get(root, "grpo")) > 170);
    json_array_foreach(json_object_get(root, "grpo"), i, run)
        check_run(run, json_object_get(root, "rows"));
    json_decref(root);
}

/* --- advantages --- */

static void check_advantages(const json_t *run)
{
    const json_t *values = json_object_get(run, "values");
    double table[MAX_ROWS * MAX_COLUMNS], weights[MAX_COLUMNS];
    double rewards[MAX_ROWS], advantages[MAX_ROWS];
    uint64_t groups[MAX_ROWS];
    struct dt_advantage_stats stats;
    const struct dt_advantage_options o = {
        .scale =
            (enum dt_scale_rewards)stored_index(word(run, "scale"), SCALES, 3),
        .aggregation =
            strcmp(word(run, "aggregation"), "sum_then_normalize") == 0
                ? DT_SUM_THEN_NORMALIZE
                : DT_NORMALIZE_THEN_SUM,
        .baseline = strcmp(word(run, "baseline"), "loo") == 0
                        ? DT_BASELINE_LOO
                        : DT_BASELINE_GROUP,
    };
    struct dt_advantage_table t = {.rows = json_array_size(values),
                                   .values = table,
                                   .weights = weights,
                                   .groups = groups};

    assert_true(t.rows <= MAX_ROWS);
    t.columns =
        doubles_of(json_object_get(run, "weights"), weights, MAX_COLUMNS);
    for (size_t i = 0; i < t.rows; i++) {
        groups[i] = i / GROUP;
        doubles_of(json_array_get(values, i), table + i * t.columns,
                   MAX_COLUMNS);
    }
    assert_int_equal(dt_advantages(&o, &t, rewards, advantages, &stats, NULL),
                     0);
    check_doubles(run, "advantages", advantages,
                  json_object_get(run, "advantages"), t.rows);
}

static void advantages_are_those_of_trl(void **state)
{
    json_t *root = stored_load("sampled.json"), *run;
    size_t i;
    (void)state;

    assert_true(json_array_size(json_object_get(root, "advantages")) > 20);
    json_array_foreach(json_object_get(root, "advantages"), i, run)
        check_advantages(run);
    json_decref(root);
}

/* --- PPO --- */

/* A batch of responses of equal length: rewards, returns and advantages. */
struct batch {
    size_t rows, tokens;
    double rewards[GROUP][MAX_TOKENS], advantages[GROUP][MAX_TOKENS];
    double returns[GROUP][MAX_TOKENS];
};

static void reward_tokens(const json_t *run, struct batch *b)
{
    const struct dt_token_reward o = {
        .kl_coef = 0.1,
        .estimator =
            strcmp(word(run, "estimator"), "k1") == 0 ? DT_KL_K1 : DT_KL_K3,
    };

    for (size_t i = 0; i < b->rows; i++) {
        float logp[MAX_TOKENS], ref[MAX_TOKENS];
        const struct dt_scored s = {
            .count = floats_of(row_of(run, "logp", i), logp),
            .logp = logp,
            .ref = ref,
            .score = json_number_value(row_of(run, "scores", i)),
            .ended = true,
        };
        floats_of(row_of(run, "ref", i), ref);
        b->tokens = s.count;
        stored_check(run, "kl", dt_token_rewards(&o, &s, b->rewards[i]),
                     json_number_value(row_of(run, "kl", i)));
    }
}

/* Whitens a table in place, from sums of each of its rows. */
static void whiten(const struct batch *b, bool keep_mean,
                   double x[GROUP][MAX_TOKENS])
{
    const double n = (double)(b->rows * b->tokens);
    double sum = 0.0, squares = 0.0;
    struct dt_norm norm;

    for (size_t i = 0; i < b->rows; i++)
        sum += dt_gae_sum(x[i], b->tokens);
    for (size_t i = 0; i < b->rows; i++)
        squares += dt_gae_squares(x[i], b->tokens, sum / n);
    assert_int_equal(
        dt_norm_make(DT_ADVANTAGE_WHITEN, n, sum / n, squares, &norm, NULL), 0);
    for (size_t i = 0; i < b->rows; i++)
        dt_norm_apply(&norm, keep_mean, x[i], b->tokens);
}

static void check_batch(const json_t *run, struct batch *b)
{
    float values[MAX_TOKENS];

    b->rows = json_array_size(json_object_get(run, "logp"));
    assert_int_equal(b->rows, GROUP);
    reward_tokens(run, b);
    if (flag(run, "whiten"))
        whiten(b, true, b->rewards);
    for (size_t i = 0; i < b->rows; i++) {
        floats_of(row_of(run, "values", i), values);
        dt_gae(number(run, "gamma"), 0.95, b->tokens, b->rewards[i], values,
               NULL, b->advantages[i], b->returns[i]);
    }
    whiten(b, false, b->advantages);
    for (size_t i = 0; i < b->rows; i++) {
        check_doubles(run, "rewards", b->rewards[i], row_of(run, "rewards", i),
                      b->tokens);
        check_doubles(run, "returns", b->returns[i], row_of(run, "returns", i),
                      b->tokens);
        check_doubles(run, "advantages", b->advantages[i],
                      row_of(run, "advantages", i), b->tokens);
    }
}

static void check_ppo_losses(const json_t *run, const struct batch *b)
{
    const json_t *losses = json_object_get(run, "losses");
    const struct dt_ppo_options o = {.cliprange = 0.2,
                                     .cliprange_value = 0.2,
                                     .vf_coef = number(losses, "vf_coef")};
    struct dt_ppo_sums sums = {0};
    double got[DT_PPO_METRICS];

    for (size_t i = 0; i < b->rows; i++) {
        float old[MAX_TOKENS], logp[MAX_TOKENS], weights[MAX_TOKENS];
        float old_values[MAX_TOKENS], values[MAX_TOKENS];
        const size_t n =
            (size_t)json_integer_value(row_of(losses, "lengths", i));
        const struct dt_ppo_row row = {n, logp, old, NULL, b->advantages[i]};
        floats_of(row_of(run, "logp", i), old);
        floats_of(row_of(losses, "new", i), logp);
        floats_of(row_of(run, "values", i), old_values);
        floats_of(row_of(losses, "vpred", i), values);
        dt_ppo_policy_loss(&o, &row, weights, &sums);
        check_floats(run, "weights", weights, row_of(losses, "weights", i), n);
        dt_ppo_value_loss(&o, n, values, old_values, b->returns[i], weights,
                          &sums);
        check_floats(run, "value_weights", weights,
                     row_of(losses, "value_weights", i), n);
    }
    dt_ppo_results(&sums, got);
    stored_check(run, "policy_loss", sums.loss / sums.tokens,
                 number(losses, "policy_loss"));
    stored_check(run, "value_loss", got[DT_PPO_VALUE_LOSS],
                 number(losses, "value_loss"));
    stored_check(run, "clipfrac", got[DT_PPO_CLIPFRAC],
                 number(losses, "clipfrac"));
    stored_check(run, "value_clipfrac", got[DT_PPO_VALUE_CLIPFRAC],
                 number(losses, "value_clipfrac"));
}

static void ppo_is_that_of_trl(void **state)
{
    json_t *root = stored_load("sampled.json"), *run;
    size_t i;
    (void)state;

    assert_int_equal(json_array_size(json_object_get(root, "ppo")), 4);
    json_array_foreach(json_object_get(root, "ppo"), i, run)
    {
        struct batch b = {0};
        check_batch(run, &b);
        check_ppo_losses(run, &b);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpo_losses_are_those_of_trl),
        cmocka_unit_test(advantages_are_those_of_trl),
        cmocka_unit_test(ppo_is_that_of_trl),
    };
    return cmocka_run_group_tests_name("sampled losses", tests, NULL, NULL);
}
