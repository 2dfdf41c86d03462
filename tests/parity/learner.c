/* SPDX-License-Identifier: Apache-2.0 */
/* learner.c - the steps of one rank */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/parity/learner.h"
#include "weights/weights.h"

/* --- to and from the device --- */

static int copy_wait(struct learner *l, void *to, const void *from,
                     size_t bytes)
{
    const struct dt_exec *exec = &l->exec;
    if (exec->device->copy(exec->stream, to, from, bytes, &l->err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, &l->err);
}

static int load_unit(struct learner *l, struct dt_parallel *parallel,
                     const struct dt_layout *layout,
                     const struct dt_weights *weights, size_t u)
{
    struct dt_range part = dt_layout_part(
        layout, u, dt_parallel_index(parallel), dt_comm_size(l->comm));
    struct dt_view to = dt_parallel_part(parallel, DT_OWNED_MASTER, u);
    if (part.count == 0)
        return 0;
    struct dt_buffer *here = dt_buffer_create(
        &dt_cpu, part.count * sizeof(float), "a test", &l->err);
    struct dt_view view = {here, 0, part.count, to.dtype};
    int rc = here && dt_weights_read(weights, part, view, &l->err) == 0
                 ? dt_parallel_put(parallel, to, here->data, &l->err)
                 : -1;
    dt_buffer_destroy(here);
    return rc;
}

/* Loads what `weights` has, which it closes. */
static int load_all(struct learner *l, struct dt_parallel *parallel,
                    const struct dt_layout *layout, struct dt_weights *weights)
{
    int rc = weights ? 0 : -1;
    for (size_t u = 0; u < layout->unit_count && rc == 0; u++)
        rc = load_unit(l, parallel, layout, weights, u);
    for (size_t u = 0; u < layout->unit_count && rc == 0; u++)
        rc = dt_parallel_loaded(parallel, u, &l->err);
    dt_weights_close(weights);
    return rc;
}

static int load(struct learner *l)
{
    char dir[4096];
    snprintf(dir, sizeof(dir), "%s", reference_path(l->reference->name, ""));
    if (!l->frozen)
        return load_all(l, l->parallel, l->layout,
                        dt_weights_open(dir, l->layout, &l->err));
    if (load_all(l, l->frozen, l->frozen_layout,
                 dt_weights_open(dir, l->frozen_layout, &l->err)) < 0)
        return -1;
    return load_all(
        l, l->parallel, l->layout,
        dt_weights_open_adapter(reference_adapter(l->reference->name),
                                l->layout, &l->err));
}

int learner_fetch(struct learner *l, enum dt_owned kind, float *flat)
{
    for (size_t u = 0; u < l->layout->unit_count; u++) {
        struct dt_range part =
            dt_layout_part(l->layout, u, dt_parallel_index(l->parallel),
                           dt_comm_size(l->comm));
        struct dt_view from = dt_parallel_part(l->parallel, kind, u);
        if (dt_parallel_get(l->parallel, from, flat + part.first, &l->err) <
                0 ||
            l->exec.device->stream_wait(l->exec.stream, &l->err) < 0)
            return -1;
    }
    return 0;
}

/* --- set-up --- */

/* The engine of frozen weights, and the layout of what is trained instead. */
static int create_frozen(struct learner *l)
{
    const struct reference *r = l->reference;
    struct dt_parallel_options parallel = l->options.parallel;
    parallel.compute = l->options.compute;
    parallel.use = DT_FROZEN;
    if (!l->options.adapts)
        return 0;
    l->frozen_layout = l->layout;
    l->layout = NULL;
    if (dt_adapter_load(&l->adapter, reference_adapter(r->name), &l->err) < 0)
        return -1;
    l->layout = dt_adapter_layout(&l->adapter, &r->config, l->frozen_layout,
                                  dt_comm_size(l->comm), &l->err);
    l->frozen = dt_parallel_create(l->frozen_layout, l->comm, &l->exec,
                                   &parallel, &l->err);
    return l->layout && l->frozen ? 0 : -1;
}

static int create(struct learner *l, const struct dt_optim_options *optim)
{
    const struct reference *r = l->reference;
    struct dt_parallel_options parallel = l->options.parallel;
    struct dt_model_options model = {
        .B = ROWS_MAX,
        .T = ROWS_WIDTH,
        .compute = l->options.compute,
        .train = true,
        .label_smoothing = l->options.smoothing
                               ? (float)reference_number(r, "label_smoothing")
                               : 0,
    };
    parallel.compute = l->options.compute;
    l->layout = dt_model_layout(&r->config, dt_comm_size(l->comm), &l->err);
    if (!l->layout || create_frozen(l) < 0)
        return -1;
    if (l->frozen && parallel.strategy == DT_ZERO3)
        parallel.strategy = DT_ZERO2; /* as run/adapter.c */
    l->parallel =
        dt_parallel_create(l->layout, l->comm, &l->exec, &parallel, &l->err);
    if (!l->parallel)
        return -1;
    if (l->frozen)
        model.adapter = (struct dt_model_adapter){
            .r = l->adapter.r,
            .scale = dt_adapter_scale(&l->adapter),
            .layout = l->layout,
            .weights = dt_parallel_weights(l->parallel),
        };
    l->model = dt_model_create(
        &r->config, l->frozen ? l->frozen_layout : l->layout, &l->exec,
        dt_parallel_weights(l->frozen ? l->frozen : l->parallel),
        dt_parallel_grads(l->parallel), &model, &l->err);
    l->optim = dt_optim_create(l->layout, &l->exec, optim, &l->err);
    l->step_buf = dt_buffer_create(
        l->exec.device, DT_STEP_COUNT * sizeof(double), "a test", &l->err);
    if (!l->model || !l->optim || !l->step_buf)
        return -1;
    l->step = dt_view_of(l->step_buf, DT_F64);
    return 0;
}

int learner_init(struct learner *l, const struct reference *r,
                 const struct learner_options *options, struct dt_comm *comm)
{
    const json_t *betas = json_object_get(r->sft, "betas");
    const struct dt_comm_world alone = {.rank = 0, .size = 1};
    const struct dt_comm_options none = {0};
    const struct dt_optim_options optim = {
        .beta1 = json_number_value(json_array_get(betas, 0)),
        .beta2 = json_number_value(json_array_get(betas, 1)),
        .eps = reference_number(r, "eps"),
        .weight_decay = reference_number(r, "weight_decay"),
    };
    *l = (struct learner){
        .reference = r, .options = *options, .exec = *subject_exec()};
    l->comm = comm ? comm : dt_comm_create("self", &alone, &none, &l->err);
    return l->comm && create(l, &optim) == 0 ? load(l) : -1;
}

void learner_fini(struct learner *l)
{
    struct dt_error
        late; /* the last gathers end before their memory is freed */
    if (l->comm)
        dt_comm_barrier(l->comm, &late);
    dt_model_destroy(l->model);
    dt_parallel_destroy(l->frozen);
    dt_parallel_destroy(l->parallel);
    dt_adapter_fini(&l->adapter);
    dt_layout_destroy(l->frozen_layout);
    dt_optim_destroy(l->optim);
    dt_buffer_destroy(l->step_buf);
    dt_layout_destroy(l->layout);
    dt_comm_destroy(l->comm);
}

/* --- a step --- */

void learner_begin(struct learner *l, size_t k, double scale)
{
    struct dt_step_params params[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(
            l->optim, (long)k + 1, reference_listed(l->reference, "lr", k));
        params[i].loss_scale = scale;
    }
    l->exec.ops->step_begin(l->exec.stream, l->step, params);
}

/* The weights of unit u are there. */
static int forward_unit(struct learner *l, size_t u)
{
    if (l->frozen && dt_parallel_forward(l->frozen, u, &l->err) < 0)
        return -1;
    return dt_parallel_forward(l->parallel, u, &l->err);
}

static int backward_unit(struct learner *l, size_t u)
{
    if (l->frozen && dt_parallel_backward(l->frozen, u, &l->err) < 0)
        return -1;
    return dt_parallel_backward(l->parallel, u, &l->err);
}

static int evaluate(struct learner *l)
{
    size_t last = l->layout->unit_count - 1;
    for (size_t u = 0; u < last; u++) {
        if (forward_unit(l, u) < 0)
            return -1;
        dt_model_forward(l->model, u);
    }
    if (forward_unit(l, last) < 0)
        return -1;
    dt_model_loss_and_backward(l->model, l->step, false);
    return 0;
}

static int train(struct learner *l, bool accumulate)
{
    size_t last = l->layout->unit_count - 1;
    for (size_t u = 0; u < last; u++) {
        if (forward_unit(l, u) < 0)
            return -1;
        dt_model_forward(l->model, u);
    }
    for (size_t u = last + 1; u-- > 0;) {
        if (backward_unit(l, u) < 0)
            return -1;
        if (u == last)
            dt_model_loss_and_backward(l->model, l->step, accumulate);
        else
            dt_model_backward(l->model, u, accumulate);
        if (dt_parallel_ready(l->parallel, u, &l->err) < 0)
            return -1;
    }
    return 0;
}

int learner_pass(struct learner *l, size_t a, size_t count,
                 const struct dt_batch *batch, bool training)
{
    if (dt_model_bind(l->model, batch, training, &l->err) < 0)
        return -1;
    if (!training)
        return evaluate(l);
    bool accumulate = dt_parallel_begin(l->parallel, a, count);
    l->exec.ops->step_add(l->exec.stream, l->step, (double)batch->target_count,
                          0);
    return train(l, accumulate);
}

int learner_update(struct learner *l, double scalars[DT_STEP_COUNT])
{
    dt_ticket_t ticket;
    struct dt_update own;
    int more;
    if (dt_parallel_finish(l->parallel, &l->err) < 0)
        return -1;
    for (size_t u = 0; u < l->layout->unit_count; u++)
        l->exec.ops->sum_of_squares(
            l->exec.stream, l->step,
            dt_parallel_part(l->parallel, DT_OWNED_GRADS, u));
    if (dt_comm_all_reduce(l->comm, dt_view_slice(l->step, 0, DT_STEP_SUMS),
                           DT_SUM, DT_F32, &ticket, &l->err) < 0 ||
        dt_comm_wait(l->comm, ticket, &l->err) < 0)
        return -1;
    l->exec.ops->clip_and_check(l->exec.stream, l->step, l->options.max_norm);
    if (dt_parallel_update_begin(l->parallel, l->step, &l->err) < 0)
        return -1;
    while ((more = dt_parallel_update_next(l->parallel, &own, &l->err)) > 0)
        dt_optim_update(l->optim, own.on_host, own.step, own.first, own.master,
                        own.weights, own.grads, own.m, own.v);
    if (more < 0)
        return -1;
    return copy_wait(l, scalars, dt_view_data(l->step), l->step_buf->bytes);
}
