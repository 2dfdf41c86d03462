/* SPDX-License-Identifier: Apache-2.0 */
/* learner.c - the steps of one rank */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/learner.h"
#include "weights/adapter_file.h"
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

/* Gives the units of a model to parts. */
static void split_units(struct dt_layout *layout, enum learner_split split)
{
    static const enum dt_model_part parts[LEARNER_SPLITS][4] = {
        [LEARNER_INSIDE] = {DT_PART_LANGUAGE, DT_PART_VISION, DT_PART_PROJECTOR,
                            DT_PART_LANGUAGE},
        [LEARNER_BELOW] = {DT_PART_VISION, DT_PART_VISION, DT_PART_PROJECTOR,
                           DT_PART_LANGUAGE},
    };
    for (size_t u = 0; split != LEARNER_WHOLE && u < layout->unit_count; u++)
        layout->units[u].part = parts[split][u];
}

int learner_describe(struct learner *l, int world)
{
    const struct reference *r = l->reference;
    struct dt_learner_spec *spec = &l->spec;
    snprintf(l->start, sizeof(l->start), "%s", reference_path(r->name, ""));
    *spec = (struct dt_learner_spec){
        .folder = "", .start = l->start, .config = r->config};
    memcpy(spec->freezes, l->options.freezes, sizeof(spec->freezes));
    memcpy(spec->rates, l->options.rates, sizeof(spec->rates));
    spec->layout = dt_model_layout(&r->config, world, &l->err);
    if (!spec->layout)
        return -1;
    split_units(spec->layout, l->options.split);
    if (!l->options.adapts)
        return dt_learner_divide(spec, world, &l->err);
    snprintf(l->adapter_start, sizeof(l->adapter_start), "%s",
             reference_adapter(r->name));
    spec->adapter_start = l->adapter_start;
    spec->frozen = spec->layout;
    spec->layout = NULL;
    if (dt_adapter_load(&spec->adapter, l->adapter_start, &l->err) < 0)
        return -1;
    spec->layout = dt_adapter_layout(&spec->adapter, &r->config, spec->frozen,
                                     world, &l->err);
    return spec->layout ? 0 : -1;
}

void learner_forget(struct learner *l)
{
    l->spec.config = (struct dt_model_config){0}; /* the reference's */
    dt_learner_spec_fini(&l->spec);
}

static int create(struct learner *l, const struct dt_optim_options *optim)
{
    const struct reference *r = l->reference;
    struct dt_parallel_options parallel = l->options.parallel;
    const struct dt_model_options model = {
        .B = ROWS_MAX,
        .T = ROWS_WIDTH,
        .compute = l->options.compute,
        .train = true,
        .recompute = l->options.recompute,
        .label_smoothing = l->options.smoothing
                               ? (float)reference_number(r, "label_smoothing")
                               : 0,
    };
    parallel.compute = l->options.compute;
    if (learner_describe(l, dt_comm_size(l->comm)) < 0 ||
        dt_learner_init(&l->own, &l->spec, &l->exec, l->comm, &model, &parallel,
                        optim, &l->err) < 0)
        return -1;
    l->layout = l->spec.layout;
    l->parallel = l->own.parallel;
    l->step = l->own.step;
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
    return l->comm && create(l, &optim) == 0
               ? dt_learner_load(&l->own, NULL, 0, &l->err)
               : -1;
}

void learner_fini(struct learner *l)
{
    struct dt_error
        late; /* the last gathers end before their memory is freed */
    if (l->comm)
        dt_comm_barrier(l->comm, &late);
    dt_learner_fini(&l->own);
    learner_forget(l);
    dt_comm_destroy(l->comm);
}

/* --- a step --- */

void learner_begin(struct learner *l, size_t k, double scale)
{
    struct dt_step_params params[DT_STEP_OUTCOMES];
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(
            l->own.optim, (long)k + 1, reference_listed(l->reference, "lr", k));
        params[i].loss_scale = scale;
    }
    l->exec.ops->step_begin(l->exec.stream, l->step, params);
}

static int evaluate(struct learner *l)
{
    if (dt_learner_forward_all(&l->own, &l->err) < 0)
        return -1;
    dt_model_loss_and_backward(l->own.model, l->step, false);
    return 0;
}

static int train(struct learner *l, bool accumulate)
{
    struct dt_model *model = l->own.model;
    size_t last = l->layout->unit_count - 1;
    for (size_t u = 0; u < last; u++) {
        if (dt_learner_forward(&l->own, u, &l->err) < 0)
            return -1;
        dt_model_forward(model, u);
    }
    for (size_t u = last + 1; u-- > dt_learner_lowest(&l->spec);) {
        if (dt_learner_backward(&l->own, u, &l->err) < 0)
            return -1;
        if (u == last)
            dt_model_loss_and_backward(model, l->step, accumulate);
        else
            dt_model_backward(model, u, accumulate);
        if (dt_parallel_ready(l->parallel, u, &l->err) < 0)
            return -1;
    }
    return 0;
}

int learner_pass(struct learner *l, size_t a, size_t count,
                 const struct dt_batch *batch, bool training)
{
    if (dt_model_bind(l->own.model, batch, training, &l->err) < 0)
        return -1;
    if (!training)
        return evaluate(l);
    bool accumulate = dt_parallel_begin(l->parallel, l->updates + 1, a, count);
    l->exec.ops->step_add(l->exec.stream, l->step, (double)batch->target_count,
                          0);
    return train(l, accumulate);
}

int learner_update(struct learner *l, double scalars[DT_STEP_COUNT])
{
    if (dt_parallel_finish(l->parallel, &l->err) < 0 ||
        dt_learner_judge(&l->own, l->options.max_norm, &l->err) < 0 ||
        dt_learner_update(&l->own, ++l->updates, &l->err) < 0)
        return -1;
    return copy_wait(l, scalars, dt_view_data(l->step), dt_view_bytes(l->step));
}
