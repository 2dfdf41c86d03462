/* SPDX-License-Identifier: Apache-2.0 */
/* test_decay.c - what decays in each family is what decays in transformers */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/model.h"
#include "optim/optim.h"

static void fixture_path(char path[4096], const char *name)
{
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, 4096, "%s/tests/parity/%s", srcdir ? srcdir : ".", name);
}

/* A step without gradients moves the weights that decay, and no others. */
static void check_family(const struct dt_layout *layout, const json_t *wanted,
                         enum dt_decay_filter filter)
{
    const struct dt_optim_options options = {.beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .eps = 1e-8,
                                             .weight_decay = 0.1,
                                             .decay_filter = filter};
    size_t bytes = layout->count * sizeof(float);
    struct dt_buffer *weights =
        dt_buffer_create(&dt_cpu, bytes, "weights", NULL);
    struct dt_buffer *grads =
        dt_buffer_create(&dt_cpu, bytes, "gradients", NULL);
    struct dt_buffer *m = dt_buffer_create(&dt_cpu, bytes, "m", NULL);
    struct dt_buffer *v = dt_buffer_create(&dt_cpu, bytes, "v", NULL);
    struct dt_buffer *scalars = dt_buffer_create(
        &dt_cpu, DT_STEP_COUNT * sizeof(double), "scalars", NULL);
    const struct dt_exec exec = dt_exec_cpu();
    struct dt_optim *optim = dt_optim_create(layout, &exec, &options, NULL);
    assert_true(weights && grads && m && v && scalars && optim);
    float *w = weights->data;
    for (size_t i = 0; i < layout->count; i++)
        w[i] = 1.0f;
    double *step = scalars->data;
    step[DT_STEP_LOSS_SCALE] = step[DT_STEP_TARGETS] = 1;
    step[DT_STEP_BIAS1] = step[DT_STEP_BIAS2] = 1;
    step[DT_STEP_LR] = 0.1;
    exec.ops->clip_and_check(NULL, dt_view_of(scalars, DT_F64), 0);
    dt_optim_update(optim, false, dt_view_of(scalars, DT_F64), 0,
                    dt_view_of(weights, DT_F32), (struct dt_view){0},
                    dt_view_of(grads, DT_F32), dt_view_of(m, DT_F32),
                    dt_view_of(v, DT_F32), NULL);
    assert_int_equal(layout->param_count, json_object_size(wanted));
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        const json_t *decays = json_object_get(wanted, param->name);
        if (!json_is_boolean(decays))
            fail_msg("%s: transformers does not know it", param->name);
        for (size_t j = 0; j < param->count; j++)
            if ((w[param->offset + j] < 1.0f) != json_is_true(decays))
                fail_msg("%s decays in one of both only", param->name);
    }
    dt_optim_destroy(optim);
    dt_buffer_destroy(weights);
    dt_buffer_destroy(grads);
    dt_buffer_destroy(m);
    dt_buffer_destroy(v);
    dt_buffer_destroy(scalars);
}

static void weights_decay_as_in_transformers(void **state)
{
    char path[4096], directory[64];
    const char *family;
    json_t *wanted;
    (void)state;
    fixture_path(path, "decay.json");
    json_t *families = json_load_file(path, 0, NULL);
    assert_int_equal(json_object_size(families), 6);
    json_object_foreach(families, family, wanted)
    {
        struct dt_model_config config;
        struct dt_error err;
        snprintf(directory, sizeof(directory), "models/%s", family);
        fixture_path(path, directory);
        if (dt_model_config_load(&config, path, &err) < 0)
            fail_msg("%s", err.text);
        struct dt_layout *layout = dt_model_layout(&config, 1, &err);
        assert_non_null(layout);
        check_family(layout, wanted, DT_DECAY_HF);
        check_family(layout, wanted, DT_DECAY_NDIM2);
        dt_layout_destroy(layout);
        dt_model_config_fini(&config);
    }
    json_decref(families);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_decay_as_in_transformers)};
    return cmocka_run_group_tests_name("decay", tests, NULL, NULL);
}
