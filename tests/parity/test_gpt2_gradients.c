/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpt2_gradients.c - gradients are derivatives; batches can be split */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/parity/subject.h"

enum { B = 4, T = 6, V = 11 };

/* Odd sizes: nothing is a multiple of a vector, I is not 4C. */
static const struct dt_model_config tied = {
    .family = DT_GPT2,
    .vocab_size = V,
    .n_positions = 8,
    .n_embd = 12,
    .n_layer = 2,
    .n_head = 3,
    .n_kv_head = 3,
    .head_size = 4,
    .n_inner = 20,
    .norm_epsilon = 1e-5,
    .initializer_range = 0.02,
    .tie_word_embeddings = true,
    .qkv_bias = true,
    .out_bias = true,
    .mlp_bias = true,
};

static struct dt_model_config untied(void)
{
    struct dt_model_config config = tied;
    config.tie_word_embeddings = false;
    return config;
}

static int32_t inputs[B * T], targets[B * T];

static struct dt_batch make_batch(void)
{
    struct dt_batch batch = {
        .B = B, .T = T, .inputs = inputs, .targets = targets};
    for (uint32_t i = 0; i < B * T; i++) {
        inputs[i] = (int32_t)(i * 7 + i / T) % V;
        targets[i] = i % 5 == 2 ? DT_IGNORE : (int32_t)(i * 3 + 1) % V;
        batch.target_count += targets[i] != DT_IGNORE;
    }
    return batch;
}

/* Derivative of the loss by *w: five points, error O(h^4). */
static double derivative(struct subject *s, const struct dt_batch *batch,
                         float *w)
{
    const float at = *w, h = 0.03125f;
    double f[4];
    for (int i = 0; i < 4; i++) {
        static const float steps[] = {-2, -1, 1, 2};
        *w = at + steps[i] * h;
        f[i] = subject_loss(s, batch);
    }
    *w = at;
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * (double)h);
}

static void check_derivatives(const struct dt_model_config *config)
{
    struct dt_batch batch = make_batch();
    struct subject s;
    double worst = 0;
    subject_init(&s, config, B, T, true);
    subject_randomize(&s, 0.3);
    subject_gradients(&s, &batch, 1.0f, false);
    for (size_t i = 0; i < s.layout->param_count; i++) {
        const struct dt_param *param = &s.layout->params[i];
        float *w = dt_view_f32(dt_layout_param(s.layout, s.weights, i));
        float *g = dt_view_f32(dt_layout_param(s.layout, s.grads, i));
        for (uint64_t n = 0; n < 12; n++) {
            size_t j = dt_rng_permute(3, i, n % param->count, param->count);
            double want = derivative(&s, &batch, &w[j]);
            double off = fabs(g[j] - want) / (1 + fabs(want));
            if (off > 2e-3)
                fail_msg("%s[%zu]: %g, expected %g", param->name, j,
                         (double)g[j], want);
            worst = fmax(worst, off);
        }
    }
    print_message("largest difference of a derivative: %.2g\n", worst);
    subject_fini(&s);
}

static void test_derivatives(void **state)
{
    struct dt_model_config config = untied();
    (void)state;
    check_derivatives(&tied);
    check_derivatives(&config);
}

/* Overwrites gradients with something that must not be seen again. */
static void spoil_gradients(struct subject *s)
{
    for (size_t i = 0; i < s->layout->param_count; i++) {
        float *g = dt_view_f32(dt_layout_param(s->layout, s->grads, i));
        for (size_t j = 0; j < s->layout->params[i].count; j++)
            g[j] = 1e6f;
    }
}

/* A batch of 4 rows is two of 2 rows whose gradients are added. */
static void check_split(const struct dt_model_config *config)
{
    struct dt_batch batch = make_batch(), half = batch;
    struct subject whole, parts;
    subject_init(&whole, config, B, T, true);
    subject_init(&parts, config, B, T, true);
    subject_randomize(&whole, 0.3);
    subject_randomize(&parts, 0.3);
    spoil_gradients(&parts);

    double loss = subject_gradients(&whole, &batch, 0.25f, false);
    half.B = B / 2;
    double sum = subject_gradients(&parts, &half, 0.25f, false);
    half.inputs += B / 2 * T;
    half.targets += B / 2 * T;
    sum += subject_gradients(&parts, &half, 0.25f, true);

    assert_true(fabs(loss - sum) < 1e-6 * loss);
    const float *x = dt_view_f32(whole.grads), *y = dt_view_f32(parts.grads);
    for (size_t i = 0; i < whole.layout->count; i++)
        if (fabsf(x[i] - y[i]) > 1e-5f * (1 + fabsf(x[i])))
            fail_msg("element %zu: %g and %g", i, (double)x[i], (double)y[i]);
    subject_fini(&whole);
    subject_fini(&parts);
}

static void test_split(void **state)
{
    struct dt_model_config config = untied();
    (void)state;
    check_split(&tied);
    check_split(&config);
}

/* A model made for more rows and positions gives the same bits. */
static void test_smaller_batch(void **state)
{
    struct dt_batch batch = make_batch();
    struct subject exact, larger;
    (void)state;
    batch.B = 3;
    batch.T = 5;
    subject_init(&exact, &tied, 3, 5, true);
    subject_init(&larger, &tied, B, T + 2, true);
    subject_randomize(&exact, 0.3);
    subject_randomize(&larger, 0.3);
    double a = subject_gradients(&exact, &batch, 1.0f, false);
    double b = subject_gradients(&larger, &batch, 1.0f, false);
    assert_true(a == b);
    assert_memory_equal(dt_view_f32(exact.grads), dt_view_f32(larger.grads),
                        exact.grads_buf->bytes);
    subject_fini(&exact);
    subject_fini(&larger);
}

/* Without gradients all blocks share their activations: same logits. */
static void test_forward_only(void **state)
{
    struct dt_batch batch = make_batch();
    struct subject train, infer;
    float a[V], b[V];
    (void)state;
    subject_init(&train, &tied, B, T, true);
    subject_init(&infer, &tied, B, T, false);
    subject_randomize(&train, 0.3);
    subject_randomize(&infer, 0.3);
    subject_forward(&train, &batch, false);
    subject_forward(&infer, &batch, false);
    for (size_t row = 0; row < B * T; row++) {
        dt_model_logits(train.model, row / T, row % T, a);
        dt_model_logits(infer.model, row / T, row % T, b);
        assert_memory_equal(a, b, sizeof(a));
    }
    assert_true(subject_loss(&train, &batch) == subject_loss(&infer, &batch));
    subject_fini(&train);
    subject_fini(&infer);
}

static void test_no_targets(void **state)
{
    struct dt_batch batch = make_batch();
    struct subject s;
    (void)state;
    for (size_t i = 0; i < B * T; i++)
        targets[i] = DT_IGNORE;
    subject_init(&s, &tied, B, T, true);
    subject_randomize(&s, 0.3);
    spoil_gradients(&s);
    assert_true(subject_gradients(&s, &batch, 1.0f, false) == 0);
    for (size_t i = 0; i < s.layout->count; i++)
        assert_true(dt_view_f32(s.grads)[i] == 0);
    subject_fini(&s);
}

/* First weights do not depend on the world size, and are what was asked. */
static void test_init(void **state)
{
    struct dt_model_config config = tied;
    struct dt_error err;
    (void)state;
    config.n_embd = 96;
    config.head_size = 32;
    config.vocab_size = 500;
    struct dt_layout *one = dt_model_layout(&config, 1, &err);
    struct dt_layout *six = dt_model_layout(&config, 6, &err);
    struct dt_buffer *a = dt_buffer_create(one->count * 4, "a", &err);
    struct dt_buffer *b = dt_buffer_create(six->count * 4, "b", &err);
    struct dt_view wa = dt_view_of(a, DT_F32), wb = dt_view_of(b, DT_F32);
    dt_model_init_weights(&config, one, wa, 5);
    dt_model_init_weights(&config, six, wb, 5);
    for (size_t i = 0; i < one->param_count; i++) {
        const struct dt_param *param = &one->params[i];
        const float *w = dt_view_f32(dt_layout_param(one, wa, i));
        double squares = 0, want = 0.02;
        assert_memory_equal(w, dt_view_f32(dt_layout_param(six, wb, i)),
                            param->count * sizeof(*w));
        for (size_t j = 0; j < param->count; j++)
            squares += (double)w[j] * w[j];
        if (strstr(param->name, "c_proj.weight"))
            want = 0.02 / 2; /* sqrt(2 n_layer) */
        if (param->ndim == 1)
            want = strstr(param->name, "bias") ? 0 : 1;
        assert_true(fabs(sqrt(squares / (double)param->count) - want) <=
                    0.1 * want);
    }
    dt_buffer_destroy(a);
    dt_buffer_destroy(b);
    dt_layout_destroy(one);
    dt_layout_destroy(six);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_derivatives),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_smaller_batch),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_no_targets),
        cmocka_unit_test(test_init),
    };
    return cmocka_run_group_tests_name("gpt2_gradients", tests, NULL, NULL);
}
