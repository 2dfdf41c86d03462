/* SPDX-License-Identifier: Apache-2.0 */
/* case_sample.c - tokens are drawn as their logits and the limits say */
#include "config.h"

#include <math.h>
#include <string.h>

#include "bridge.h"
#include "harness.h"

enum { MOST = 600 };

static const struct dt_sampling plain = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1};

/* Which tokens the limits keep: p(V) are probabilities at the temperature. */
static void keep(bool *kept, const double *p, size_t V,
                 const struct dt_sampling *s)
{
    double all = 0, most = 0;

    for (size_t v = 0; v < V; v++) {
        size_t larger = 0;
        for (size_t i = 0; i < V; i++)
            larger += p[i] > p[v];
        kept[v] = s->top_k == 0 || larger < s->top_k;
        all += kept[v] ? p[v] : 0;
        most = fmax(most, p[v]);
    }
    for (size_t v = 0; v < V; v++) {
        double larger = 0;
        for (size_t i = 0; i < V; i++)
            larger += p[i] > p[v] ? p[i] : 0;
        kept[v] &= larger < s->top_p * all && p[v] >= s->min_p * most;
    }
}

/* Sets the probabilities that a row of logits has at a temperature. */
static void softmax(double *p, const double *z, size_t V, double temperature)
{
    double max = -INFINITY, sum = 0;

    for (size_t v = 0; v < V; v++)
        max = fmax(max, z[v]);
    for (size_t v = 0; v < V; v++)
        sum += p[v] = exp((z[v] - max) / temperature);
    for (size_t v = 0; v < V; v++)
        p[v] /= sum;
}

/* Logits of B rows, all of them different, and in each its tokens. */
static struct dt_view logits_of(size_t B, size_t V, double spread)
{
    struct dt_view logits = tensor(B * V);

    for (size_t i = 0; i < B * V; i++)
        dt_view_f32(logits)[i] =
            (float)(spread * ((double)(i * 7919 % 10007) / 10007 - 0.5));
    return logits;
}

/* Every row draws the token that inversion in the order of ids gives, within
 * the rounding of sums, and its log-probability without limits.
 */
static void sample_case(size_t V, double spread, struct dt_sampling sampling)
{
    enum { B = 12 };
    struct dt_view logits = logits_of(B, V, spread);
    struct dt_view ids = tensor_ids(B, 1), logps = tensor(B);
    struct dt_view draws = tensor_draws(B), none = {0};
    double *z = doubles(logits), want[B], p[MOST];
    bool kept[MOST];

    ops->sample(NULL, ids, logps, logits, draws, none, &sampling, B, V);
    for (size_t b = 0; b < B; b++) {
        size_t id = (size_t)dt_view_i32(ids)[b];
        double before = 0, all = 0, share = dt_view_f64(draws)[b];
        assert_true(id < V);
        softmax(p, z + b * V, V, sampling.temperature);
        keep(kept, p, V, &sampling);
        for (size_t v = 0; v < V; v++) {
            all += kept[v] ? p[v] : 0;
            before += kept[v] && v < id ? p[v] : 0;
        }
        assert_true(kept[id]);
        assert_true(before / all <= share + 1e-5);
        assert_true((before + p[id]) / all >= share - 1e-5);
        want[b] = log(p[id]);
    }
    check_close("logp", logps, want, 2e-6);
}

static void greedy_case(void)
{
    enum { V = 300 };
    struct dt_sampling sampling = plain;
    struct dt_view logits = logits_of(3, V, 4.0), ids = tensor_ids(3, 1);
    struct dt_view logps = tensor(3), draws = tensor_draws(3), none = {0};
    double want[3], p[V];

    sampling.temperature = 0;
    dt_view_f32(logits)[17] = dt_view_f32(logits)[200] = 9.0f;
    dt_view_f32(logits)[2 * V + V - 1] = 9.0f;
    dt_view_f64(draws)[1] = -1; /* nothing is drawn */
    dt_view_f32(logits)[V] = NAN;
    double *z = doubles(logits);
    ops->sample(NULL, ids, logps, logits, draws, none, &sampling, 3, V);
    assert_int_equal(dt_view_i32(ids)[0], 17); /* the first of the likeliest */
    assert_int_equal(dt_view_i32(ids)[1], -1);
    assert_int_equal(dt_view_i32(ids)[2], V - 1);
    softmax(p, z, V, 1.0);
    want[0] = log(p[17]);
    want[1] = 0;
    softmax(p, z + 2 * V, V, 1.0);
    want[2] = log(p[V - 1]);
    check_close("logp", logps, want, 2e-6);
}

/* Tokens that were there lose, whether their logits are positive or not. */
static void penalty_case(void)
{
    enum { V = 70, WORDS = 3 };
    struct dt_sampling sampling = plain;
    struct dt_view logits = tensor(2 * V), ids = tensor_ids(2, 1);
    struct dt_view logps = tensor(2), draws = tensor_draws(2);
    struct dt_view seen = tensor_ids(2 * WORDS, 1);

    sampling.temperature = 0;
    sampling.repetition_penalty = 2;
    for (size_t v = 0; v < V; v++) {
        dt_view_f32(logits)[v] = v == 69 ? 3.0f : v == 40 ? 2.0f : -5.0f;
        dt_view_f32(logits)[V + v] = v == 69 ? -3.0f : v == 40 ? -4.0f : -9.0f;
    }
    for (size_t b = 0; b < 2; b++)
        dt_view_i32(seen)[b * WORDS + 2] = 1 << 5; /* token 69 */
    ops->sample(NULL, ids, logps, logits, draws, seen, &sampling, 2, V);
    assert_int_equal(dt_view_i32(ids)[0], 40); /* 2 against 3 / 2 */
    assert_int_equal(dt_view_i32(ids)[1], 40); /* -4 against -3 * 2 */
}

/* Tokens that are never drawn are not, even the likeliest ones; but their
 * probabilities count in those of others.
 */
static void never_case(size_t V, struct dt_sampling sampling)
{
    enum { B = 12 };
    const size_t first = V / 3, last = V - 1;
    struct dt_view logits = logits_of(B, V, 8.0), without = tensor(B * V);
    struct dt_view ids = tensor_ids(B, 1), expected = tensor_ids(B, 1);
    struct dt_view logps = tensor(B), others = tensor(B);
    struct dt_view draws = tensor_draws(B), none = {0};
    double want[B], p[MOST];

    for (size_t b = 0; b < B; b++) {
        dt_view_f32(logits)[b * V + first] = b % 2 ? 6.0f : -3.0f;
        dt_view_f32(logits)[b * V + last] = b % 3 ? 5.0f : -40.0f;
    }
    double *z = doubles(logits);
    for (size_t i = 0; i < B * V; i++)
        dt_view_f32(without)[i] = i % V == first || i % V == last
                                      ? -INFINITY
                                      : dt_view_f32(logits)[i];
    ops->sample(NULL, expected, others, without, draws, none, &sampling, B, V);
    sampling.never_count = 2;
    sampling.never[0] = (int32_t)last;
    sampling.never[1] = (int32_t)first;
    ops->sample(NULL, ids, logps, logits, draws, none, &sampling, B, V);
    for (size_t b = 0; b < B; b++) {
        const size_t id = (size_t)dt_view_i32(ids)[b];
        assert_int_equal(id, dt_view_i32(expected)[b]);
        softmax(p, z + b * V, V,
                sampling.temperature > 0 ? sampling.temperature : 1.0);
        want[b] = log(p[id]);
    }
    check_close("logp", logps, want, 2e-6);
}

/* A row alone has the bits that it has among others, for which a GPU takes
 * blocks of another size.
 */
static void rows_case(size_t B, size_t V, struct dt_sampling sampling)
{
    struct dt_view row = logits_of(1, V, 12.0), one = tensor(V);
    struct dt_view rows = tensor(B * V), none = {0};
    struct dt_view id = tensor_ids(1, 1), ids = tensor_ids(B, 1);
    struct dt_view logp = tensor(1), logps = tensor(B);
    struct dt_view draw = tensor_draws(1), draws = tensor_draws(B);

    for (size_t b = 0; b < B; b++) {
        memcpy(dt_view_f32(rows) + b * V, dt_view_f32(row), V * sizeof(float));
        dt_view_f64(draws)[b] = dt_view_f64(draw)[0];
    }
    memcpy(dt_view_f32(one), dt_view_f32(row), V * sizeof(float));
    ops->sample(NULL, id, logp, one, draw, none, &sampling, 1, V);
    ops->sample(NULL, ids, logps, rows, draws, none, &sampling, B, V);
    for (size_t b = 0; b < B; b++) {
        assert_int_equal(dt_view_i32(ids)[b], dt_view_i32(id)[0]);
        assert_memory_equal(dt_view_f32(logps) + b, dt_view_f32(logp),
                            sizeof(float));
    }
}

/* Logits that are no numbers give a token all the same, and say so. */
static void nan_case(void)
{
    enum { V = 50 };
    struct dt_view logits = tensor(V), ids = tensor_ids(1, 1);
    struct dt_view logp = tensor(1), draw = tensor_draws(1), none = {0};

    for (size_t v = 0; v < V; v++)
        dt_view_f32(logits)[v] = NAN;
    ops->sample(NULL, ids, logp, logits, draw, none, &plain, 1, V);
    assert_in_range(dt_view_i32(ids)[0], 0, V - 1);
    assert_true(isnan(dt_view_f32(logp)[0]));
}

void test_sample(void **state)
{
    static const struct dt_sampling cases[] = {
        {.temperature = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 0.3, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 3, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1, .top_k = 1, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1, .top_k = 13, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1, .top_k = 9999, .top_p = 1, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 0.6, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1e-6, .repetition_penalty = 1},
        {.temperature = 2, .top_k = 20, .top_p = 0.8, .repetition_penalty = 1},
        {.temperature = 1, .top_p = 1, .min_p = 0.3, .repetition_penalty = 1},
        {.temperature = 1,
         .top_k = 50,
         .top_p = 0.9,
         .min_p = 0.1,
         .repetition_penalty = 1},
    };
    const bool on_gpu = ops == &bridge_table && bridge_is_real();
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sample_case(1, 1.0, cases[i]);
        sample_case(37, 6.0, cases[i]);
        sample_case(MOST, 8.0, cases[i]);
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        never_case(5, cases[i]);
        never_case(MOST, cases[i]);
    }
    never_case(MOST, (struct dt_sampling){.top_p = 1, .repetition_penalty = 1});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i += 4)
        rows_case(on_gpu ? 300 : 5, 5000, cases[i]);
    rows_case(1, 70000, cases[10]);
    greedy_case();
    penalty_case();
    nan_case();
}
