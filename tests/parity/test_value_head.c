/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_value_head.c - a language model that also gives a number to each
 * position: the gradients of both heads, through one trunk
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

#include "base/rng.h"
#include "tests/parity/rows.h"
#include "tests/parity/subject.h"
#include "tests/families.h"

enum { T = 8, V = 11, PICKED = 4 };

/* Uneven sizes; one of the two has a head of its own. */
static const struct dt_model_config models[] = {
    {.family = &dt_family_gpt2,
     .padding_row = -1,
     .vocab_size = V,
     .n_positions = T,
     .n_embd = 18,
     .n_layer = 2,
     .n_head = 3,
     .n_kv_head = 3,
     .head_size = 6,
     .n_inner = 21,
     .norm_epsilon = 1e-5,
     .tie_word_embeddings = true,
     .qkv_bias = true,
     .out_bias = true,
     .mlp_bias = true,
     .value_head = true},
    {.family = &dt_family_qwen3,
     .padding_row = -1,
     .vocab_size = V,
     .n_positions = T,
     .n_embd = 14,
     .n_layer = 2,
     .n_head = 4,
     .n_kv_head = 2,
     .head_size = 4,
     .n_inner = 9,
     .norm_epsilon = 1e-5,
     .rope_theta = 100,
     .value_head = true},
};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

static const struct dt_model_options options = {
    .B = 1, .T = T, .train = true, .values = true, .temperature = 1};

/* What a position's log-probability and its score weigh in the loss. */
static const float weights[PICKED] = {0.5f, -1.25f, 2.0f, 1.0f};
static const float score_weights[PICKED] = {1.5f, 0.75f, -1.0f, 0.25f};
static const float nothing[PICKED];

static const struct dt_batch *make_batch(void)
{
    static const int32_t picked[PICKED] = {1, 2, 5, 6};
    static struct rows rows;
    rows_init(&rows, 1, T);
    struct document first = {.count = 3}, second = {.count = 5};
    for (size_t t = 0; t < 5; t++) {
        first.ids[t] = (int32_t)(t * 3 + 1) % V;
        second.ids[t] = (int32_t)(t * 5 + 2) % V;
        first.target[t] = second.target[t] = true;
    }
    rows_add(&rows, 0, &first);
    rows_add(&rows, 0, &second);
    rows.batch.picked = picked;
    rows.batch.picked_count = PICKED;
    return &rows.batch;
}

static void move(const struct subject *s, void *to, const void *from,
                 size_t bytes)
{
    struct dt_error err = {0};
    if (s->exec->device->copy(s->exec->stream, to, from, bytes, &err) < 0 ||
        s->exec->device->stream_wait(s->exec->stream, &err) < 0)
        fail_msg("%s", err.text);
}

/* The loss of both heads; its gradients, times `scale`, go to s->grads_here. */
static double pass(struct subject *s, const float *by_score, float scale)
{
    const struct dt_step_params params = {.loss_scale = (double)scale};
    float logp[PICKED], score[PICKED] = {0}, scaled[PICKED];
    const size_t bytes = sizeof(logp);
    double loss = 0;
    subject_begin(s, &params);
    subject_forward(s, make_batch(), true);
    dt_model_values_forward(s->model);
    const struct dt_values values = dt_model_values(s->model);
    assert_int_equal(values.value.count, PICKED);
    move(s, logp, dt_view_data(values.value), bytes);
    move(s, dt_view_data(values.weight), weights, bytes);
    if (s->config->value_head) {
        move(s, score, dt_view_data(values.score), bytes);
        for (size_t i = 0; i < PICKED; i++)
            scaled[i] = scale * by_score[i];
        move(s, dt_view_data(values.score_weight), scaled, bytes);
    }
    for (size_t i = 0; i < PICKED; i++)
        loss += (double)weights[i] * (double)logp[i] +
                (double)by_score[i] * (double)score[i];
    dt_model_values_backward(s->model, s->step, false);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, false);
    move(s, s->grads_here, s->grads_buf->data, s->grads_buf->bytes);
    return loss;
}

/* Derivative of the loss by *w: five points, error O(h^4). */
static double derivative(struct subject *s, float *w)
{
    static const float steps[] = {-2, -1, 1, 2};
    const float at = *w, h = 0.015625f;
    double f[4];
    for (int i = 0; i < 4; i++) {
        *w = at + steps[i] * h;
        subject_publish(s);
        f[i] = pass(s, score_weights, 1);
    }
    *w = at;
    subject_publish(s);
    return (8 * (f[2] - f[1]) - (f[3] - f[0])) / (12 * (double)h);
}

static void gradients_are_derivatives_of_both_heads(void **state)
{
    (void)state;
    for (size_t n = 0; n < MODELS; n++) {
        struct subject s;
        subject_init(&s, &models[n], &options);
        subject_randomize(&s, 0.2);
        pass(&s, score_weights, 2);
        float *grads = malloc(s.grads_buf->bytes);
        memcpy(grads, s.grads_here, s.grads_buf->bytes);
        for (size_t i = 0; i < s.layout->param_count; i++) {
            const struct dt_param *param = &s.layout->params[i];
            for (uint64_t k = 0; k < 6 && k < param->count; k++) {
                size_t j = dt_rng_permute(3, i, k, param->count);
                double got = (double)grads[param->offset + j] / 2;
                double want = derivative(&s, &subject_weights(&s, i)[j]);
                if (fabs(got - want) > 2e-3 * (1 + fabs(want)))
                    fail_msg("%s[%zu]: %g, expected %g", param->name, j, got,
                             want);
            }
        }
        free(grads);
        subject_fini(&s);
    }
}

/* One whose scores weigh nothing leaves every other bit as it is. */
static void a_value_head_is_beside_the_model(void **state)
{
    (void)state;
    for (size_t n = 0; n < MODELS; n++) {
        struct dt_model_config without = models[n];
        struct subject a, b;
        without.value_head = false;
        subject_init(&a, &models[n], &options);
        subject_init(&b, &without, &options);
        subject_randomize(&a, 0.3);
        subject_randomize(&b, 0.3);
        assert_int_equal(a.layout->param_count, b.layout->param_count + 1);
        assert_true(pass(&a, nothing, 1) == pass(&b, nothing, 1));
        for (size_t i = 0; i < b.layout->param_count; i++) {
            assert_string_equal(a.layout->params[i].name,
                                b.layout->params[i].name);
            for (size_t j = 0; j < b.layout->params[i].count; j++)
                assert_true(subject_grads(&a, i)[j] == subject_grads(&b, i)[j]);
        }
        subject_fini(&a);
        subject_fini(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives_of_both_heads),
        cmocka_unit_test(a_value_head_is_beside_the_model),
    };
    return cmocka_run_group_tests_name("value_head", tests, NULL, NULL);
}
