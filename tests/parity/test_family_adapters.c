/* SPDX-License-Identifier: Apache-2.0 */
/* test_family_adapters.c - adapters beside variants of families, as in PEFT */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <jansson.h>

#include "model/model_adapter.h"
#include "optim/optim.h"
#include "tests/parity/stored.h"
#include "tests/parity/subject.h"
#include "tests/parity/variant.h"

static json_t *variants, *adapters; /* families.json, of both folders */

/* A variant with frozen weights, and the adapter beside it. */
struct pair {
    struct variant v;
    const json_t *keys; /* of the adapter */
    struct dt_adapter adapter;
    struct dt_layout *layout, *trained;
    struct dt_buffer *frozen_buf, *state_buf, *step_buf;
    struct dt_view weights, grads, m, v_moment, step;
    struct dt_model *model;
    struct dt_error err;
};

/* --- the adapter --- */

static void take_names(struct dt_adapter_names *names, const json_t *list)
{
    struct dt_error err;
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_int_equal(
            dt_adapter_add_name(
                names, json_string_value(json_array_get(list, i)), &err),
            0);
}

static void read_keys(struct pair *p, const char *name)
{
    const json_t *keys = p->keys = json_object_get(adapters, name);
    const json_t *targets = json_object_get(keys, "target_modules");
    p->adapter.r = (size_t)variant_number(keys, "r");
    p->adapter.alpha = variant_number(keys, "lora_alpha");
    p->adapter.rslora = json_is_true(json_object_get(keys, "use_rslora"));
    p->adapter.all_linear = json_is_string(targets);
    take_names(&p->adapter.targets, targets);
    take_names(&p->adapter.saved, json_object_get(keys, "modules_to_save"));
}

/* Copies begin as what they are copies of. */
static void fill_trained(struct pair *p)
{
    for (size_t i = 0; i < p->trained->param_count; i++) {
        const struct dt_param *param = &p->trained->params[i];
        const int copied = dt_adapter_copied(p->layout, param->name);
        float *w = dt_view_f32(dt_layout_param(p->trained, p->weights, i));
        if (copied >= 0)
            variant_fill(&p->v.config, &p->layout->params[copied], w);
        else
            variant_hashes(w, param->count, param->name, 0.25f);
    }
}

/* --- the model beside it --- */

static struct dt_view allocate(struct dt_buffer **buf, size_t bytes,
                               enum dt_dtype type)
{
    struct dt_error err;
    *buf = dt_buffer_create(&dt_cpu, bytes, "a test", &err);
    assert_non_null(*buf);
    memset((*buf)->data, 0, bytes); /* padding, too */
    return dt_view_of(*buf, type);
}

static void open_pair(struct pair *p, const char *name)
{
    *p = (struct pair){0};
    variant_open(&p->v, variants, name);
    read_keys(p, name);
    p->layout = dt_model_layout(&p->v.config, 1, &p->err);
    assert_non_null(p->layout);
    p->trained =
        dt_adapter_layout(&p->adapter, &p->v.config, p->layout, 1, &p->err);
    if (!p->trained)
        fail_msg("%s", p->err.text);
    struct dt_view frozen =
        allocate(&p->frozen_buf, p->layout->count * sizeof(float), DT_F32);
    for (size_t i = 0; i < p->layout->param_count; i++)
        variant_fill(&p->v.config, &p->layout->params[i],
                     dt_view_f32(dt_layout_param(p->layout, frozen, i)));
    const size_t count = p->trained->count;
    struct dt_view all =
        allocate(&p->state_buf, 4 * count * sizeof(float), DT_F32);
    p->weights = dt_view_slice(all, 0, count);
    p->grads = dt_view_slice(all, count, count);
    p->m = dt_view_slice(all, 2 * count, count);
    p->v_moment = dt_view_slice(all, 3 * count, count);
    p->step = allocate(&p->step_buf, DT_STEP_COUNT * sizeof(double), DT_F64);
    fill_trained(p);
    const struct dt_model_options options = {
        .B = VARIANT_ROWS,
        .T = ROWS_WIDTH,
        .train = true,
        .documents = true,
        .adapter = {.r = p->adapter.r,
                    .scale = dt_adapter_scale(&p->adapter),
                    .layout = p->trained,
                    .weights = dt_places_flat(p->weights),
                    .grads = dt_places_flat(p->grads)},
    };
    p->model = dt_model_create(&p->v.config, p->layout, subject_exec(),
                               dt_places_flat(frozen), (struct dt_places){0},
                               &options, &p->err);
    if (!p->model)
        fail_msg("%s", p->err.text);
}

static void close_pair(struct pair *p)
{
    dt_model_destroy(p->model);
    dt_buffer_destroy(p->frozen_buf);
    dt_buffer_destroy(p->state_buf);
    dt_buffer_destroy(p->step_buf);
    dt_layout_destroy(p->trained);
    dt_layout_destroy(p->layout);
    dt_adapter_fini(&p->adapter);
    variant_close(&p->v);
}

/* --- steps --- */

static void pass(struct pair *p)
{
    const size_t last = p->layout->unit_count - 1;
    assert_int_equal(dt_model_bind(p->model, &p->v.rows.batch, true, &p->err),
                     0);
    for (size_t u = 0; u < last; u++)
        dt_model_forward(p->model, u);
    dt_model_loss_and_backward(p->model, p->step, false);
    for (size_t u = last; u-- > 0;)
        dt_model_backward(p->model, u, false);
}

/* Step k, and its mean loss and norm. */
static void step(struct pair *p, struct dt_optim *optim, size_t k, double *loss,
                 double *norm)
{
    const struct dt_exec *exec = subject_exec();
    const double targets = (double)p->v.rows.batch.target_count;
    const double *scalars = dt_view_data(p->step);
    struct dt_step_params params[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(optim, (long)k + 1,
                                         variant_number(p->v.all, "lr"));
        params[i].loss_scale = 1;
    }
    exec->ops->step_begin(exec->stream, p->step, params);
    exec->ops->step_add(exec->stream, p->step, targets, 0);
    pass(p);
    exec->ops->sum_of_squares(exec->stream, p->step, p->grads);
    exec->ops->clip_and_check(exec->stream, p->step,
                              variant_number(p->v.all, "max_norm"));
    dt_optim_update(optim, false, p->step, 0, p->weights, (struct dt_view){0},
                    p->grads, p->m, p->v_moment, NULL);
    *loss = scalars[DT_STEP_LOSS] / targets;
    *norm = scalars[DT_STEP_NORM];
}

static void check_steps(struct pair *p, struct dt_optim *optim)
{
    for (size_t k = 0; k < VARIANT_STEPS; k++) {
        const double want =
            variant_number_at(json_object_get(p->keys, "losses"), k);
        const double norm_want =
            variant_number_at(json_object_get(p->keys, "norms"), k);
        double loss, norm;
        step(p, optim, k, &loss, &norm);
        if (!(fabs(loss / want - 1) < 1e-5 &&
              fabs(norm / norm_want - 1) < 1e-4))
            fail_msg("step %zu: loss %.8g, expected %.8g; norm %.8g, expected "
                     "%.8g",
                     k, loss, want, norm, norm_want);
    }
}

/* Losses within 1e-5 of PEFT's, norms of gradients within 1e-4. */
static void losses_are_those_of_peft(void **state)
{
    struct pair p;
    open_pair(&p, *state);
    const json_t *betas = json_object_get(p.v.all, "betas");
    const struct dt_optim_options options = {
        .beta1 = variant_number_at(betas, 0),
        .beta2 = variant_number_at(betas, 1),
        .eps = variant_number(p.v.all, "eps"),
        .weight_decay = variant_number(p.v.all, "weight_decay"),
    };
    struct dt_optim *optim =
        dt_optim_create(p.trained, subject_exec(), &options, &p.err);
    assert_non_null(optim);
    check_steps(&p, optim);
    dt_optim_destroy(optim);
    close_pair(&p);
}

enum { MOST_TESTS = 16 };

int main(void)
{
    static struct CMUnitTest tests[MOST_TESTS];
    const char *name;
    size_t count = 0;
    json_t *keys;
    variants = stored_load("families.json");
    adapters = stored_load("adapters/families.json");
    json_object_foreach(adapters, name, keys)
    {
        if (count < MOST_TESTS)
            tests[count++] =
                (struct CMUnitTest){.name = name,
                                    .test_func = losses_are_those_of_peft,
                                    .initial_state = (void *)name};
    }
    if (count == 0)
        return EXIT_FAILURE;
    int rc =
        _cmocka_run_group_tests("family adapters", tests, count, NULL, NULL);
    json_decref(variants);
    json_decref(adapters);
    return rc;
}
