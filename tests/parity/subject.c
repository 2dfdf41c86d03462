/* SPDX-License-Identifier: Apache-2.0 */
/* subject.c - buffers and passes of one small model */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "base/rng.h"
#include "tests/parity/subject.h"

static void must(bool done, const struct dt_error *err)
{
    if (!done)
        fail_msg("%s", err->text);
}

static struct dt_backend_options backend_options;

void subject_deterministic(void)
{
    backend_options.deterministic = true;
}

const struct dt_exec *subject_exec(void)
{
    static struct dt_exec exec;
    const char *name = getenv("DT_TEST_DEVICE");
    struct dt_error err;
    if (exec.ops)
        return &exec;
    if (!name) {
        exec = dt_exec_cpu();
        return &exec;
    }
    const struct dt_backend *backend =
        dt_backend_open(name, &backend_options, NULL, 0, &err);
    must(backend, &err);
    exec = (struct dt_exec){backend->device, backend->ops, NULL};
    must(exec.device->stream_create(&exec.stream, &err) == 0, &err);
    return &exec;
}

/* --- between host and device --- */

static void copy(const struct subject *s, void *to, const void *from,
                 size_t bytes)
{
    const struct dt_exec *exec = s->exec;
    struct dt_error err;
    if (to == from)
        return;
    must(exec->device->copy(exec->stream, to, from, bytes, &err) == 0 &&
             exec->device->stream_wait(exec->stream, &err) == 0,
         &err);
}

static struct dt_buffer *allocate(const struct subject *s, size_t bytes)
{
    struct dt_error err;
    struct dt_buffer *buf =
        dt_buffer_create(s->exec->device, bytes, "a test", &err);
    must(buf, &err);
    return buf;
}

/* Memory of the host for a flat fp32 buffer: its own, if that is the host's. */
static float *here(const struct subject *s, struct dt_buffer *buf)
{
    if (s->exec->device->is_host)
        return buf->data;
    float *data = calloc(s->layout->count, sizeof(*data));
    assert_non_null(data);
    return data;
}

void subject_init(struct subject *s, const struct dt_model_config *config,
                  const struct dt_model_options *options)
{
    struct dt_error err = {0};
    *s = (struct subject){
        .config = config, .options = *options, .exec = subject_exec()};
    s->layout = dt_model_layout(config, 1, &err);
    must(s->layout, &err);
    size_t count = s->layout->count;
    s->step_buf = allocate(s, DT_STEP_COUNT * sizeof(double));
    s->step = dt_view_of(s->step_buf, DT_F64);
    s->master_buf = allocate(s, count * sizeof(float));
    s->master = dt_view_of(s->master_buf, DT_F32);
    s->weights_here = here(s, s->master_buf);
    if (options->compute != DT_F32) {
        s->copy_buf = allocate(s, count * dt_dtype_bytes(options->compute));
        s->copy = dt_view_of(s->copy_buf, options->compute);
    }
    if (options->train) {
        s->grads_buf = allocate(s, count * sizeof(float));
        s->grads = dt_view_of(s->grads_buf, DT_F32);
        s->grads_here = here(s, s->grads_buf);
    }
    s->model =
        dt_model_create(config, s->layout, s->exec,
                        dt_places_flat(s->copy_buf ? s->copy : s->master),
                        dt_places_flat(s->grads), options, &err);
    must(s->model, &err);
}

void subject_fini(struct subject *s)
{
    dt_model_destroy(s->model);
    if (!s->exec->device->is_host) {
        free(s->weights_here);
        free(s->grads_here);
    }
    dt_buffer_destroy(s->master_buf);
    dt_buffer_destroy(s->copy_buf);
    dt_buffer_destroy(s->grads_buf);
    dt_buffer_destroy(s->step_buf);
    dt_layout_destroy(s->layout);
}

float *subject_weights(const struct subject *s, size_t i)
{
    return s->weights_here + s->layout->params[i].offset;
}

float *subject_grads(const struct subject *s, size_t i)
{
    return s->grads_here + s->layout->params[i].offset;
}

void subject_publish(struct subject *s)
{
    copy(s, s->master_buf->data, s->weights_here, s->master_buf->bytes);
    if (s->copy_buf)
        s->exec->ops->convert(s->exec->stream, s->copy, s->master);
}

void subject_fetch(struct subject *s)
{
    copy(s, s->weights_here, s->master_buf->data, s->master_buf->bytes);
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
    copy(s, s->grads_buf->data, s->grads_here, s->grads_buf->bytes);
}

/* --- passes --- */

void subject_begin(struct subject *s, const struct dt_step_params *params)
{
    struct dt_step_params all[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++)
        all[i] = *params;
    s->exec->ops->step_begin(s->exec->stream, s->step, all);
}

void subject_scalars(struct subject *s, double scalars[DT_STEP_COUNT])
{
    copy(s, scalars, s->step_buf->data, s->step_buf->bytes);
}

/* NaN, or an index far outside, in all that a model may not read before it has
 * written it: others use this memory between two batches.
 */
static void poison(const struct subject *s)
{
    struct dt_buffer *memory = dt_model_memory(s->model);
    void *bytes = malloc(memory->bytes);
    if (!bytes)
        abort();
    memset(bytes, 0xff, memory->bytes);
    copy(s, memory->data, bytes, memory->bytes);
    free(bytes);
}

void subject_forward(struct subject *s, const struct dt_batch *batch,
                     bool train)
{
    struct dt_error err;
    poison(s);
    must(dt_model_bind(s->model, batch, train, &err) == 0, &err);
    for (size_t u = 0; u + 1 < s->layout->unit_count; u++)
        dt_model_forward(s->model, u);
}

static double loss_of(struct subject *s)
{
    double scalars[DT_STEP_COUNT];
    subject_scalars(s, scalars);
    return scalars[DT_STEP_LOSS];
}

double subject_train(struct subject *s, const struct dt_batch *batch,
                     float scale, bool accumulate)
{
    const struct dt_step_params params = {.loss_scale = (double)scale};
    subject_begin(s, &params);
    subject_forward(s, batch, true);
    dt_model_loss_and_backward(s->model, s->step, accumulate);
    for (size_t u = s->layout->unit_count - 1; u-- > 0;)
        dt_model_backward(s->model, u, accumulate);
    copy(s, s->grads_here, s->grads_buf->data, s->grads_buf->bytes);
    return loss_of(s);
}

double subject_evaluate(struct subject *s, const struct dt_batch *batch)
{
    const struct dt_step_params params = {0};
    subject_begin(s, &params);
    subject_forward(s, batch, false);
    dt_model_loss_and_backward(s->model, s->step, false);
    return loss_of(s);
}
