/* SPDX-License-Identifier: Apache-2.0 */
/* test_sample.c - tokens are drawn as their logits say */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rollout/sample.h"

enum { V = 5, DRAWS = 20000 };

static float scratch[2 * V];
static const float logits[V] = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f};

/* Draws DRAWS times and compares with p(V); tokens with p 0 must not come. */
static void check_frequencies(const struct dt_sampling *sampling,
                              const double *p)
{
    double count[V] = {0};
    for (uint64_t i = 0; i < DRAWS; i++)
        count[dt_sample(sampling, logits, V, scratch, i)]++;
    for (size_t v = 0; v < V; v++) {
        double sigma = sqrt(DRAWS * p[v] * (1 - p[v]));
        assert_true(fabs(count[v] - DRAWS * p[v]) <= 4 * sigma);
    }
}

static void softmax(double *p, const float *z, double temperature)
{
    double sum = 0;
    for (size_t v = 0; v < V; v++)
        sum += p[v] = exp((double)z[v] / temperature);
    for (size_t v = 0; v < V; v++)
        p[v] /= sum;
}

static void temperature_zero_picks_the_likeliest_token(void **state)
{
    const struct dt_sampling sampling = {.temperature = 0};
    (void)state;
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(dt_sample(&sampling, logits, V, scratch, i), 2);
}

static void tokens_come_as_often_as_the_softmax_says(void **state)
{
    double p[V];
    (void)state;
    softmax(p, logits, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, 0, 1.0, 7}, p);
    softmax(p, logits, 0.5);
    check_frequencies(&(struct dt_sampling){0.5, 0, 1.0, 8}, p);
    check_frequencies(&(struct dt_sampling){0.5, V + 3, 1.0, 9}, p);
}

static void top_k_renormalizes_the_likeliest_tokens(void **state)
{
    const float kept[V] = {-INFINITY, -INFINITY, 2.0f, -INFINITY, 1.0f};
    const float most[V] = {0.5f, -INFINITY, 2.0f, 0.0f, 1.0f};
    double p[V];
    (void)state;
    softmax(p, kept, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, 2, 1.0, 7}, p);
    softmax(p, most, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, V - 1, 1.0, 7}, p);
}

static void exactly_the_k_likeliest_of_many_tokens_come(void **state)
{
    enum { MANY = 97 };
    static float many[MANY], space[2 * MANY];
    (void)state;
    for (size_t v = 0; v < MANY; v++) /* a permutation, nearly flat */
        many[v] = (float)(v * 31 % MANY) * 1e-4f;
    for (unsigned k = 1; k < MANY; k += 6) {
        const struct dt_sampling sampling = {1.0, k, 1.0, 5};
        size_t seen[MANY] = {0}, kinds = 0;
        for (uint64_t i = 0; i < 40 * k; i++)
            seen[dt_sample(&sampling, many, MANY, space, i)]++;
        for (size_t v = 0; v < MANY; v++) {
            kinds += seen[v] > 0;
            assert_true(seen[v] == 0 || v * 31 % MANY >= MANY - k);
        }
        assert_int_equal(kinds, k);
    }
}

static void equal_logits_stay_in_together(void **state)
{
    const float flat[V] = {1, 1, 1, 1, 1};
    const struct dt_sampling sampling = {1.0, 2, 1.0, 3};
    unsigned seen = 0;
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        seen |= 1U << dt_sample(&sampling, flat, V, scratch, i);
    assert_int_equal(seen, (1U << V) - 1);
}

/* Probabilities are 0.57, 0.21, 0.13, 0.08, 0.03: the first two have 0.78. */
static void top_p_keeps_the_fewest_tokens_that_suffice(void **state)
{
    const float two[V] = {-INFINITY, -INFINITY, 2.0f, -INFINITY, 1.0f};
    const float one[V] = {-INFINITY, -INFINITY, 2.0f, -INFINITY, -INFINITY};
    const float all[V] = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f};
    double p[V];
    (void)state;
    softmax(p, two, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, 0, 0.7, 7}, p);
    check_frequencies(&(struct dt_sampling){1.0, 3, 0.8, 7}, p);
    softmax(p, one, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, 0, 0.5, 7}, p);
    check_frequencies(&(struct dt_sampling){1.0, 1, 0.99, 7}, p);
    softmax(p, all, 1.0);
    check_frequencies(&(struct dt_sampling){1.0, 0, 0.999, 7}, p);
}

static void the_same_seed_draws_the_same_tokens(void **state)
{
    const struct dt_sampling a = {1.0, 0, 1.0, 1}, b = {1.0, 0, 1.0, 2};
    size_t same = 0;
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(dt_sample(&a, logits, V, scratch, i),
                         dt_sample(&a, logits, V, scratch, i));
        same += dt_sample(&a, logits, V, scratch, i) ==
                dt_sample(&b, logits, V, scratch, i);
    }
    assert_true(same < 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_zero_picks_the_likeliest_token),
        cmocka_unit_test(tokens_come_as_often_as_the_softmax_says),
        cmocka_unit_test(top_k_renormalizes_the_likeliest_tokens),
        cmocka_unit_test(equal_logits_stay_in_together),
        cmocka_unit_test(the_same_seed_draws_the_same_tokens),
        cmocka_unit_test(top_p_keeps_the_fewest_tokens_that_suffice),
        cmocka_unit_test(exactly_the_k_likeliest_of_many_tokens_come),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
