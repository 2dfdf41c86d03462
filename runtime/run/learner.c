/* SPDX-License-Identifier: Apache-2.0 */
/*
 * learner.c - creates a learner, and ends its steps
 *
 * Fault point: learner.update, after each piece of an update.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "run/learner.h"

void dt_learner_spec_fini(struct dt_learner_spec *spec)
{
    dt_adapter_fini(&spec->adapter);
    dt_layout_destroy(spec->whole);
    dt_layout_destroy(spec->frozen);
    dt_layout_destroy(spec->layout);
    dt_model_config_fini(&spec->config);
}

/* --- creation --- */

/* The scalars of steps, and staging memory for them. */
static int allocate_steps(struct dt_learner *learner, struct dt_error *err)
{
    const struct dt_device *device = learner->exec->device;
    size_t bytes = DT_STEP_COUNT * sizeof(double);
    learner->step_buf = dt_buffer_create(device, 2 * bytes, "scalars", err);
    if (!learner->step_buf)
        return -1;
    struct dt_view both = dt_view_of(learner->step_buf, DT_F64);
    learner->step = dt_view_slice(both, 0, DT_STEP_COUNT);
    learner->eval = dt_view_slice(both, DT_STEP_COUNT, DT_STEP_COUNT);
    for (int i = 0; i < DT_MAX_IN_FLIGHT; i++) {
        void *scalars;
        if (device->allocate_staging(bytes, &scalars, err) < 0)
            return -1;
        learner->results[i].scalars = scalars;
        if (device->event_create(&learner->results[i].done, err) < 0)
            return -1;
    }
    return 0;
}

static void release_steps(struct dt_learner *learner)
{
    const struct dt_device *device = learner->exec->device;
    for (int i = 0; i < DT_MAX_IN_FLIGHT; i++) {
        struct dt_learner_result *result = &learner->results[i];
        if (result->done)
            device->event_destroy(result->done);
        if (result->scalars)
            device->release_staging(result->scalars,
                                    DT_STEP_COUNT * sizeof(double));
    }
    dt_buffer_destroy(learner->step_buf);
}

static int allocate_values(struct dt_learner *learner, size_t tokens,
                           struct dt_error *err)
{
    const struct dt_device *device = learner->exec->device;
    const bool scored = learner->spec->config.value_head;
    const size_t arrays = scored ? 10 : 8;
    struct dt_learner_values *v = &learner->values;
    v->bytes =
        sizeof(double) + tokens * (sizeof(int32_t) + arrays * sizeof(float));
    if (device->allocate_staging(v->bytes, &v->staging, err) < 0)
        return -1;
    memset(v->staging, 0, v->bytes);
    v->loss_scale = v->staging;
    v->value = (float *)(v->loss_scale + 1);
    v->collision = v->value + tokens;
    v->reference = v->collision + tokens;
    v->weight = v->reference + tokens;
    v->entropy = v->weight + tokens;
    v->entropy_weight = v->entropy + tokens;
    v->mean = v->entropy_weight + tokens;
    v->top = v->mean + tokens;
    v->picked = (int32_t *)(v->top + tokens);
    if (scored) {
        v->score = (float *)(v->picked + tokens);
        v->score_weight = v->score + tokens;
    }
    return device->event_create(&v->there, err);
}

static void release_values(struct dt_learner *learner)
{
    const struct dt_device *device = learner->exec->device;
    struct dt_learner_values *v = &learner->values;
    if (v->there)
        device->event_destroy(v->there);
    if (v->staging)
        device->release_staging(v->staging, v->bytes);
}

static int create_engines(struct dt_learner *learner,
                          const struct dt_parallel_options *parallel,
                          struct dt_error *err)
{
    const struct dt_parallel_options trained =
        dt_learner_trained_options(learner->spec, parallel);
    const struct dt_parallel_options frozen =
        dt_learner_frozen_options(learner->spec, parallel);
    learner->parallel = dt_parallel_create(learner->spec->layout, learner->comm,
                                           learner->exec, &trained, err);
    if (!learner->parallel)
        return -1;
    if (!learner->spec->frozen)
        return 0;
    learner->frozen = dt_parallel_create(learner->spec->frozen, learner->comm,
                                         learner->exec, &frozen, err);
    return learner->frozen ? 0 : -1;
}

/* The places of the model's units, which are in both engines. */
static int find_places(struct dt_learner *learner, struct dt_error *err)
{
    const struct dt_layout *layout = learner->spec->layout;
    const struct dt_places grads = dt_parallel_grads(learner->parallel);
    if (!learner->spec->whole)
        return 0;
    learner->weights_at =
        calloc(layout->unit_count, sizeof(*learner->weights_at));
    learner->grads_at = calloc(layout->unit_count, sizeof(*learner->grads_at));
    if (!learner->weights_at || !learner->grads_at)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_learner_weights_with(learner, learner->parallel, learner->weights_at);
    for (size_t u = 0; u < layout->unit_count; u++)
        learner->grads_at[u] = dt_layout_unit(layout, &grads, u);
    return 0;
}

static int create_model(struct dt_learner *learner,
                        const struct dt_model_options *options,
                        struct dt_error *err)
{
    const struct dt_learner_spec *spec = learner->spec;
    struct dt_model_options own = dt_learner_model_options(spec, options);
    struct dt_places grads = dt_parallel_grads(learner->parallel);
    if (dt_learner_adapts(spec)) {
        own.adapter.weights = dt_parallel_weights(learner->parallel);
        own.adapter.grads = grads;
        grads = (struct dt_places){0};
    } else if (learner->grads_at) {
        grads = (struct dt_places){.flat = {.dtype = DT_F32},
                                   .units = learner->grads_at};
    }
    learner->model = dt_model_create(
        &spec->config, dt_learner_model_layout(spec), learner->exec,
        dt_learner_weights(learner), grads, &own, err);
    return learner->model ? 0 : -1;
}

int dt_learner_init(struct dt_learner *learner,
                    const struct dt_learner_spec *spec,
                    const struct dt_exec *exec, struct dt_comm *comm,
                    const struct dt_model_options *options,
                    const struct dt_parallel_options *parallel,
                    const struct dt_optim_options *optim, struct dt_error *err)
{
    learner->spec = spec;
    learner->exec = exec;
    learner->comm = comm;
    learner->compute = options->compute;
    learner->state = parallel->state;
    if (create_engines(learner, parallel, err) < 0 ||
        find_places(learner, err) < 0 ||
        create_model(learner, options, err) < 0)
        return -1;
    struct dt_optim_options adamw = *optim;
    memcpy(adamw.rates, spec->rates, sizeof(adamw.rates));
    learner->optim = dt_optim_create(spec->layout, exec, &adamw, err);
    if (!learner->optim || allocate_steps(learner, err) < 0 ||
        (options->values &&
         allocate_values(learner, options->B * options->T, err) < 0))
        return -1;
    learner->graphs = dt_graphs_create(exec, 2 * spec->layout->unit_count, err);
    return learner->graphs ? 0 : -1;
}

void dt_learner_fini(struct dt_learner *learner)
{
    if (!learner->exec)
        return;
    dt_graphs_destroy(learner->graphs);
    release_values(learner);
    release_steps(learner);
    dt_optim_destroy(learner->optim);
    dt_model_destroy(learner->model);
    dt_parallel_destroy(learner->frozen);
    dt_parallel_destroy(learner->parallel);
    dt_carried_fini(&learner->carried);
    free(learner->weights_at);
    free(learner->grads_at);
}

size_t dt_learner_unit_elements(const struct dt_learner *learner)
{
    const struct dt_learner_spec *spec = learner->spec;
    return dt_layout_largest(spec->whole ? spec->whole : spec->layout);
}

/* --- the end of a step --- */

int dt_learner_reduce(struct dt_learner *learner, struct dt_view step,
                      struct dt_error *err)
{
    dt_ticket_t ticket;
    if (dt_comm_all_reduce(learner->comm, dt_view_slice(step, 0, DT_STEP_SUMS),
                           DT_SUM, DT_F32, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(learner->comm, ticket, err);
}

/* Every rank squares the gradients of its own parts. */
int dt_learner_judge(struct dt_learner *learner, double max_norm,
                     struct dt_error *err)
{
    const struct dt_exec *exec = learner->exec;
    struct dt_parallel *parallel = learner->parallel;
    for (size_t u = 0; u < learner->spec->layout->unit_count; u++)
        if (dt_parallel_squares(parallel,
                                dt_parallel_part(parallel, DT_OWNED_GRADS, u),
                                learner->step, err) < 0)
            return -1;
    if (dt_learner_reduce(learner, learner->step, err) < 0)
        return -1;
    exec->ops->clip_and_check(exec->stream, learner->step, max_norm);
    return 0;
}

int dt_learner_update(struct dt_learner *learner, uint64_t number,
                      struct dt_error *err)
{
    struct dt_parallel *parallel = learner->parallel;
    struct dt_update own;
    int more;
    if (dt_parallel_update_begin(parallel, number, learner->step, err) < 0)
        return -1;
    dt_optim_begin(learner->optim, number);
    while ((more = dt_parallel_update_next(parallel, &own, err)) > 0) {
        dt_optim_update(learner->optim, own.on_host, own.step, own.first,
                        own.master, own.weights, own.grads, own.m, own.v,
                        own.undo);
        if (dt_fault("learner.update"))
            return dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    }
    return more;
}

int dt_learner_send_result(struct dt_learner *learner, struct dt_view step,
                           struct dt_learner_result *result,
                           struct dt_error *err)
{
    const struct dt_exec *exec = learner->exec;
    if (exec->device->copy(exec->stream, result->scalars, dt_view_data(step),
                           DT_STEP_COUNT * sizeof(double), err) < 0)
        return -1;
    return exec->device->event_record(result->done, exec->stream, err);
}

int dt_learner_wait_result(struct dt_learner *learner,
                           const struct dt_learner_result *result,
                           struct dt_error *err)
{
    return dt_comm_wait_event(learner->comm, learner->exec->device,
                              result->done, err);
}

/* --- values of picked tokens --- */

static int copy(struct dt_learner *learner, void *to, const void *from,
                size_t bytes, struct dt_error *err)
{
    const struct dt_exec *exec = learner->exec;
    return exec->device->copy(exec->stream, to, from, bytes, err);
}

/* Queues the copy of values, unless they are absent, to the host. */
static int bring(struct dt_learner *learner, float *to, struct dt_view from,
                 struct dt_error *err)
{
    return from.count > 0 ? copy(learner, to, dt_view_data(from),
                                 from.count * sizeof(float), err)
                          : 0;
}

int dt_learner_bring_values(struct dt_learner *learner, float *value,
                            struct dt_error *err)
{
    const struct dt_exec *exec = learner->exec;
    struct dt_learner_values *v = &learner->values;
    struct dt_values values = dt_model_values(learner->model);
    struct dt_view scale = dt_view_slice(learner->step, DT_STEP_LOSS_SCALE, 1);
    if (bring(learner, value, values.value, err) < 0 ||
        bring(learner, v->collision, values.collision, err) < 0 ||
        bring(learner, v->entropy, values.entropy, err) < 0 ||
        bring(learner, v->mean, values.mean, err) < 0 ||
        bring(learner, v->top, values.top, err) < 0 ||
        bring(learner, v->score, values.score, err) < 0 ||
        copy(learner, v->loss_scale, dt_view_data(scale), sizeof(double), err) <
            0 ||
        exec->device->event_record(v->there, exec->stream, err) < 0)
        return -1;
    return dt_comm_wait_event(learner->comm, exec->device, v->there, err);
}

/* The head of a language model multiplies by the loss scale, that of a reward
 * model and a value head expect it to be there.
 */
int dt_learner_send_weights(struct dt_learner *learner, size_t count,
                            struct dt_error *err)
{
    struct dt_learner_values *v = &learner->values;
    struct dt_values values = dt_model_values(learner->model);
    for (size_t i = 0; i < count && learner->spec->config.scores; i++)
        v->weight[i] *= (float)*v->loss_scale;
    for (size_t i = 0; i < count && v->score; i++)
        v->score_weight[i] *= (float)*v->loss_scale;
    if ((values.entropy_weight.count > 0 &&
         copy(learner, dt_view_data(values.entropy_weight), v->entropy_weight,
              count * sizeof(float), err) < 0) ||
        (values.score_weight.count > 0 &&
         copy(learner, dt_view_data(values.score_weight), v->score_weight,
              count * sizeof(float), err) < 0))
        return -1;
    return copy(learner, dt_view_data(values.weight), v->weight,
                count * sizeof(float), err);
}
