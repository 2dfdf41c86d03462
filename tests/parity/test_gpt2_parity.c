/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpt2_parity.c - a tiny GPT-2 computes and learns what PyTorch's does */
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
#include <jansson.h>

#include "ckpt/ckpt.h"
#include "optim/optim.h"
#include "tests/parity/subject.h"

/* What make_gpt2_reference.py wrote. */
struct reference {
    json_t *root; /* gpt2_tiny.json */
    struct dt_safetensors *tensors;
    struct dt_batch batch;
    struct subject subject;
};

static void fixture_path(char path[4096], const char *name)
{
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, 4096, "%s/tests/parity/%s", srcdir ? srcdir : ".", name);
}

static double number(const struct reference *r, const char *key)
{
    const json_t *value = json_object_get(r->root, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* The table of ids `key`, row after row; free() it. */
static int32_t *ids(const struct reference *r, const char *key)
{
    const json_t *table = json_object_get(r->root, key);
    size_t B = json_array_size(table);
    size_t T = json_array_size(json_array_get(table, 0));
    int32_t *out = calloc(B * T, sizeof(*out));
    for (size_t i = 0; i < B * T; i++)
        out[i] = (int32_t)json_integer_value(
            json_array_get(json_array_get(table, i / T), i % T));
    return out;
}

static void read_tensor(const struct reference *r, const char *name,
                        const struct dt_param *param, struct dt_view out)
{
    struct dt_error err = {0};
    if (dt_safetensors_read(r->tensors, name, param->ndim, param->shape, out,
                            &err))
        fail_msg("%s", err.text);
}

static int setup(void **state)
{
    static struct reference r;
    struct dt_model_config config;
    struct dt_error err = {0};
    char path[4096];
    fixture_path(path, "gpt2_tiny.json");
    r.root = json_load_file(path, 0, NULL);
    assert_non_null(r.root);
    fixture_path(path, "gpt2_tiny.safetensors");
    r.tensors = dt_safetensors_open(path, &err);
    if (!r.tensors)
        fail_msg("%s", err.text);

    char *json = json_dumps(json_object_get(r.root, "config"), 0);
    assert_int_equal(dt_model_config_parse(&config, json, path, &err), 0);
    free(json);
    const json_t *inputs = json_object_get(r.root, "inputs");
    r.batch.B = json_array_size(inputs);
    r.batch.T = json_array_size(json_array_get(inputs, 0));
    r.batch.inputs = ids(&r, "inputs");
    r.batch.targets = ids(&r, "targets");
    for (size_t i = 0; i < r.batch.B * r.batch.T; i++)
        r.batch.target_count += r.batch.targets[i] != DT_IGNORE;

    subject_init(&r.subject, &config, r.batch.B, r.batch.T, true);
    for (size_t i = 0; i < r.subject.layout->param_count; i++) {
        const struct dt_param *param = &r.subject.layout->params[i];
        read_tensor(&r, param->name, param,
                    dt_layout_param(r.subject.layout, r.subject.weights, i));
    }
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    struct reference *r = *state;
    dt_model_config_fini(&r->subject.config);
    subject_fini(&r->subject);
    free((void *)r->batch.inputs);
    free((void *)r->batch.targets);
    dt_safetensors_close(r->tensors);
    json_decref(r->root);
    return 0;
}

static void test_logits(void **state)
{
    struct reference *r = *state;
    size_t B = r->batch.B, T = r->batch.T, V = r->subject.config.vocab_size;
    struct dt_param shape = {.ndim = 3, .shape = {B, T, V}};
    struct dt_buffer *buf =
        dt_buffer_create(B * T * V * sizeof(float), "logits", NULL);
    float *want = buf->data, *got = calloc(V, sizeof(*got));
    double worst = 0;
    read_tensor(r, "logits", &shape, dt_view_of(buf, DT_F32));
    subject_forward(&r->subject, &r->batch, false);
    for (size_t row = 0; row < B * T; row++) {
        dt_model_logits(r->subject.model, row / T, row % T, got);
        for (size_t v = 0; v < V; v++)
            worst = fmax(worst, fabs(got[v] - want[row * V + v]));
    }
    print_message("largest difference of a logit: %.2g\n", worst);
    assert_true(worst < 1e-4);
    free(got);
    dt_buffer_destroy(buf);
}

/* Largest difference of a gradient of parameter i, relative to the largest
 * gradient of that parameter.
 */
static double gradient_difference(const struct reference *r, size_t i)
{
    const struct dt_param *param = &r->subject.layout->params[i];
    const float *got =
        dt_view_f32(dt_layout_param(r->subject.layout, r->subject.grads, i));
    struct dt_buffer *buf =
        dt_buffer_create(param->count * sizeof(float), "gradient", NULL);
    const float *want = buf->data;
    double worst = 0, largest = 0;
    char name[128];
    snprintf(name, sizeof(name), "grad.%s", param->name);
    read_tensor(r, name, param, dt_view_of(buf, DT_F32));
    for (size_t j = 0; j < param->count; j++) {
        worst = fmax(worst, fabs(got[j] - want[j]));
        largest = fmax(largest, fabs(want[j]));
    }
    dt_buffer_destroy(buf);
    assert_true(largest > 0);
    return worst / largest;
}

static void test_gradients(void **state)
{
    struct reference *r = *state;
    double worst = 0;
    subject_gradients(&r->subject, &r->batch,
                      1.0f / (float)r->batch.target_count, false);
    for (size_t i = 0; i < r->subject.layout->param_count; i++) {
        double difference = gradient_difference(r, i);
        if (difference > 1e-4)
            fail_msg("%s: %.2g", r->subject.layout->params[i].name, difference);
        worst = fmax(worst, difference);
    }
    print_message("largest relative difference: %.2g\n", worst);
}

/* Runs last: it changes the weights. */
static void test_training(void **state)
{
    struct reference *r = *state;
    const json_t *losses = json_object_get(r->root, "losses");
    const json_t *norms = json_object_get(r->root, "grad_norms");
    const json_t *betas = json_object_get(r->root, "betas");
    const struct dt_optim_options options = {
        .beta1 = json_real_value(json_array_get(betas, 0)),
        .beta2 = json_real_value(json_array_get(betas, 1)),
        .eps = number(r, "eps"),
        .weight_decay = number(r, "weight_decay"),
    };
    double count = (double)r->batch.target_count, worst = 0;
    struct dt_optim *optim =
        dt_optim_create(r->subject.layout, dt_ops_cpu(), &options, NULL);
    assert_int_equal(json_array_size(losses), 20);
    for (size_t i = 0; i < 20; i++) {
        double loss = subject_gradients(&r->subject, &r->batch, 1.0f, false);
        double norm = dt_optim_grad_norm(optim, r->subject.grads, 1 / count);
        double clip = dt_optim_clip(norm, number(r, "max_norm"));
        dt_optim_step(optim, r->subject.weights, (struct dt_view){0},
                      r->subject.grads, number(r, "lr"), clip / count);
        double want = json_real_value(json_array_get(losses, i));
        double want_norm = json_real_value(json_array_get(norms, i));
        worst = fmax(worst, fabs(loss / count - want) / want);
        if (fabs(loss / count - want) > 1e-5 * want)
            fail_msg("step %zu: loss %.9g, expected %.9g", i, loss / count,
                     want);
        assert_true(fabs(norm - want_norm) < 1e-4 * want_norm);
    }
    print_message("largest relative difference of a loss: %.2g\n", worst);
    dt_optim_destroy(optim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests_name("gpt2_parity", tests, setup, teardown);
}
