/* SPDX-License-Identifier: Apache-2.0 */
/* subject.h - a small model with its buffers, as parity tests set it up */
#ifndef TESTS_PARITY_SUBJECT_H
#define TESTS_PARITY_SUBJECT_H

#include "base/rng.h"
#include "model/model.h"

struct subject {
    struct dt_model_config config;
    struct dt_layout *layout;
    struct dt_buffer *weights_buf, *grads_buf;
    struct dt_view weights, grads;
    struct dt_model *model;
};

/* A model for batches of up to B x T; without gradients if !train. */
static inline void subject_init(struct subject *s,
                                const struct dt_model_config *config, size_t B,
                                size_t T, bool train)
{
    struct dt_error err = {0};
    *s = (struct subject){.config = *config};
    s->layout = dt_model_layout(config, 1, &err);
    assert_non_null(s->layout);
    size_t bytes = s->layout->count * sizeof(float);
    s->weights_buf = dt_buffer_create(bytes, "weights", &err);
    s->grads_buf = dt_buffer_create(bytes, "gradients", &err);
    s->weights = dt_view_of(s->weights_buf, DT_F32);
    if (train)
        s->grads = dt_view_of(s->grads_buf, DT_F32);
    const struct dt_model_options options = {.B = B, .T = T, .train = train};
    s->model = dt_model_create(config, s->layout, dt_ops_cpu(), s->weights,
                               s->grads, &options, &err);
    assert_non_null(s->model);
}

static inline void subject_fini(struct subject *s)
{
    dt_model_destroy(s->model);
    dt_buffer_destroy(s->weights_buf);
    dt_buffer_destroy(s->grads_buf);
    dt_layout_destroy(s->layout);
}

/* Weights far from their usual first values, so that no gradient is trivial. */
static inline void subject_randomize(struct subject *s, double std)
{
    for (size_t i = 0; i < s->layout->param_count; i++) {
        const struct dt_param *param = &s->layout->params[i];
        float *w = dt_view_f32(dt_layout_param(s->layout, s->weights, i));
        bool norm = strstr(param->name, "ln_") && strstr(param->name, "weight");
        dt_rng_normals(w, param->count, (float)std, 7, DT_RNG_INIT,
                       param->offset);
        for (size_t j = 0; norm && j < param->count; j++)
            w[j] += 1.0f;
    }
}

static inline void subject_forward(struct subject *s,
                                   const struct dt_batch *batch, bool train)
{
    for (size_t u = 0; u <= s->config.n_layer; u++)
        dt_model_forward(s->model, u, batch, train);
}

/* Sum of the losses of a batch; its gradients times scale, in s->grads. */
static inline double subject_gradients(struct subject *s,
                                       const struct dt_batch *batch,
                                       float scale, bool accumulate)
{
    subject_forward(s, batch, true);
    double loss = dt_model_loss(s->model, batch, true, scale, accumulate);
    for (size_t u = s->config.n_layer + 1; u-- > 0;)
        dt_model_backward(s->model, u, batch, accumulate);
    return loss;
}

/* Sum of the losses of a batch. */
static inline double subject_loss(struct subject *s,
                                  const struct dt_batch *batch)
{
    subject_forward(s, batch, false);
    return dt_model_loss(s->model, batch, false, 0, false);
}

#endif /* TESTS_PARITY_SUBJECT_H */
