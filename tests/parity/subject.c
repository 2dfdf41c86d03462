/* SPDX-License-Identifier: Apache-2.0 */
/* subject.c - buffers and passes of one small model */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "tests/parity/subject.h"

static struct dt_buffer *allocate(const struct subject *s, enum dt_dtype dtype)
{
    struct dt_buffer *buf = dt_buffer_create(
        s->layout->count * dt_dtype_bytes(dtype), "a test", NULL);
    assert_non_null(buf);
    return buf;
}

void subject_init(struct subject *s, const struct dt_model_config *config,
                  const struct dt_model_options *options)
{
    struct dt_error err = {0};
    *s = (struct subject){.config = config, .options = *options};
    s->layout = dt_model_layout(config, 1, &err);
    if (!s->layout)
        fail_msg("%s", err.text);
    s->master_buf = allocate(s, DT_F32);
    s->master = dt_view_of(s->master_buf, DT_F32);
    if (options->compute != DT_F32) {
        s->copy_buf = allocate(s, options->compute);
        s->copy = dt_view_of(s->copy_buf, options->compute);
    }
    if (options->train) {
        s->grads_buf = allocate(s, DT_F32);
        s->grads = dt_view_of(s->grads_buf, DT_F32);
    }
    s->model = dt_model_create(config, s->layout, dt_ops_cpu(),
                               s->copy_buf ? s->copy : s->master, s->grads,
                               options, &err);
    if (!s->model)
        fail_msg("%s", err.text);
}

void subject_fini(struct subject *s)
{
    dt_model_destroy(s->model);
    dt_buffer_destroy(s->master_buf);
    dt_buffer_destroy(s->copy_buf);
    dt_buffer_destroy(s->grads_buf);
    dt_layout_destroy(s->layout);
}

float *subject_weights(const struct subject *s, size_t i)
{
    return dt_view_f32(dt_layout_param(s->layout, s->master, i));
}

float *subject_grads(const struct subject *s, size_t i)
{
    return dt_view_f32(dt_layout_param(s->layout, s->grads, i));
}

void subject_publish(struct subject *s)
{
    if (s->copy_buf)
        dt_ops_cpu()->convert(NULL, s->copy, s->master);
}

void subject_randomize(struct subject *s, double std)
{
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        float *w = subject_weights(s, i);
        bool scale = param->ndim == 1 && strstr(param->name, "weight");
        dt_rng_normals(w, param->count, (float)std, 7, DT_RNG_INIT,
                       param->offset);
        for (size_t j = 0; scale && j < param->count; j++)
            w[j] += 1.0f;
    }
    subject_publish(s);
}

void subject_spoil(struct subject *s)
{
    for (size_t i = 0; i < s->layout->param_count; i++)
        for (size_t j = 0; j < s->layout->params[i].count; j++)
            subject_grads(s, i)[j] = 1e6f;
}

void subject_forward(struct subject *s, const struct dt_batch *batch,
                     bool train)
{
    for (size_t u = 0; u + 1 < s->layout->unit_count; u++)
        dt_model_forward(s->model, u, batch, train);
}

double subject_train(struct subject *s, const struct dt_batch *batch,
                     float scale, bool accumulate)
{
    subject_forward(s, batch, true);
    double loss = dt_model_loss(s->model, batch, true, scale, accumulate);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, batch, accumulate);
    return loss;
}

double subject_evaluate(struct subject *s, const struct dt_batch *batch)
{
    subject_forward(s, batch, false);
    return dt_model_loss(s->model, batch, false, 0, false);
}
