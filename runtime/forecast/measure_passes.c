/* SPDX-License-Identifier: Apache-2.0 */
/*
 * measure_passes.c - the rates of blocks, of the head and of AdamW
 *
 * A model of the given shapes, with as few blocks as do not stay in caches,
 * makes the passes of a step. So attention, norms and everything else besides
 * matrix multiplications count.
 */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "forecast/cost.h"
#include "forecast/measure_impl.h"
#include "optim/optim.h"

enum {
    MOST_BLOCKS = 4,
    MOST_VOCABULARY = 50304, /* a larger head is as fast */
    MOST_UPDATED = 1 << 26,  /* elements */
    ADAMW_BYTES = 28,        /* of an element: p, m, v both ways, g */
};

struct bench {
    const struct dt_measure *measure;
    const struct dt_exec *exec;
    struct dt_model_config config;
    struct dt_model_options options;
    struct dt_layout *layout;
    struct dt_buffer *weights, *grads, *master, *m, *v, *scalars;
    struct dt_model *model;
    struct dt_optim *optim;
    int32_t *ids;
    struct dt_stopwatch blocks, head, update;
};

static struct dt_buffer *allocate(const struct bench *b, size_t count,
                                  enum dt_dtype type, struct dt_error *err)
{
    return dt_buffer_create(b->exec->device, count * dt_dtype_bytes(type),
                            "measuring", err);
}

static size_t updated_elements(const struct bench *b)
{
    size_t count = b->layout->count;
    return count < MOST_UPDATED ? count : MOST_UPDATED;
}

/* Random weights, as zeros would cost a GPU less power; by way of the
 * gradients, which are fp32 and as many.
 */
static int fill_weights(struct bench *b, struct dt_error *err)
{
    const struct dt_exec *exec = b->exec;
    size_t bytes = b->layout->count * sizeof(float);
    struct dt_buffer *host = dt_buffer_create(&dt_cpu, bytes, "measuring", err);
    if (!host)
        return -1;
    const struct dt_places places = dt_places_flat(dt_view_of(host, DT_F32));
    for (size_t u = 0; u < b->layout->unit_count; u++)
        dt_model_init_unit(&b->config, b->layout, u,
                           dt_layout_unit(b->layout, &places, u), 1);
    int rc = exec->device->copy(exec->stream, b->grads->data, host->data, bytes,
                                err);
    if (rc == 0) {
        exec->ops->convert(exec->stream,
                           dt_view_of(b->weights, b->options.compute),
                           dt_view_of(b->grads, DT_F32));
        rc = exec->device->stream_wait(exec->stream, err);
    }
    dt_buffer_destroy(host);
    return rc;
}

static int create(struct bench *b, struct dt_error *err)
{
    const struct dt_optim_options adamw = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
    enum dt_dtype compute = b->options.compute;
    if (!(b->layout = dt_model_layout(&b->config, 1, err)))
        return -1;
    size_t count = b->layout->count, updated = updated_elements(b);
    size_t tokens = b->options.B * b->options.T;
    if (!(b->weights = allocate(b, count, compute, err)) ||
        !(b->grads = allocate(b, count, DT_F32, err)) ||
        !(b->master = allocate(b, updated, DT_F32, err)) ||
        !(b->m = allocate(b, updated, DT_F32, err)) ||
        !(b->v = allocate(b, updated, DT_F32, err)) ||
        !(b->scalars = allocate(b, DT_STEP_COUNT, DT_F64, err)) ||
        fill_weights(b, err) < 0)
        return -1;
    b->model = dt_model_create(&b->config, b->layout, b->exec,
                               dt_places_flat(dt_view_of(b->weights, compute)),
                               dt_places_flat(dt_view_of(b->grads, DT_F32)),
                               &b->options, err);
    if (!b->model ||
        !(b->optim = dt_optim_create(b->layout, b->exec, &adamw, err)))
        return -1;
    b->ids = calloc(tokens, sizeof(*b->ids));
    for (size_t i = 0; b->ids && i < tokens; i++)
        b->ids[i] = (int32_t)(i * 7919 % b->config.vocab_size);
    return b->ids ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

static void destroy(struct bench *b)
{
    free(b->ids);
    dt_optim_destroy(b->optim);
    dt_model_destroy(b->model);
    dt_buffer_destroy(b->weights);
    dt_buffer_destroy(b->grads);
    dt_buffer_destroy(b->master);
    dt_buffer_destroy(b->m);
    dt_buffer_destroy(b->v);
    dt_buffer_destroy(b->scalars);
    dt_layout_destroy(b->layout);
}

/* Seconds since *start, with all queued work done; and starts again. */
static int lap(const struct bench *b, double *start, double *seconds,
               struct dt_error *err)
{
    if (b->exec->device->stream_wait(b->exec->stream, err) < 0)
        return -1;
    double now = dt_clock_now();
    *seconds = now - *start;
    *start = now;
    return 0;
}

static int bind_batch(struct bench *b, struct dt_view step,
                      struct dt_error *err)
{
    const struct dt_ops *ops = b->exec->ops;
    struct dt_step_params params[DT_STEP_OUTCOMES];
    const struct dt_batch batch = {.B = b->options.B,
                                   .T = b->options.T,
                                   .inputs = b->ids,
                                   .targets = b->ids,
                                   .target_count = b->options.B * b->options.T};
    for (int i = 0; i < DT_STEP_OUTCOMES; i++) {
        params[i] = dt_optim_step_params(b->optim, 1, 0);
        params[i].loss_scale = 1.0;
    }
    ops->step_begin(b->exec->stream, step, params);
    ops->step_add(b->exec->stream, step, (double)batch.target_count, 0);
    return dt_model_bind(b->model, &batch, true, err);
}

/* AdamW with a rate of 0, in ranges of one call. */
static void queue_update(struct bench *b, struct dt_view step)
{
    size_t count = updated_elements(b);
    b->exec->ops->clip_and_check(b->exec->stream, step, 0);
    dt_optim_update(b->optim, false, step, 0, dt_view_of(b->master, DT_F32),
                    (struct dt_view){0},
                    dt_view_slice(dt_view_of(b->grads, DT_F32), 0, count),
                    dt_view_of(b->m, DT_F32), dt_view_of(b->v, DT_F32));
}

/* The passes of a micro-batch, timed in three parts. */
static int run_round(struct bench *b, struct dt_error *err)
{
    struct dt_view step = dt_view_of(b->scalars, DT_F64);
    size_t last = b->layout->unit_count - 1;
    double start = dt_clock_now(), other, up, head, down, update;
    if (bind_batch(b, step, err) < 0)
        return -1;
    dt_model_forward(b->model, 0);
    if (lap(b, &start, &other, err) < 0)
        return -1;
    for (size_t u = 1; u < last; u++)
        dt_model_forward(b->model, u);
    if (lap(b, &start, &up, err) < 0)
        return -1;
    dt_model_loss_and_backward(b->model, step, false);
    if (lap(b, &start, &head, err) < 0)
        return -1;
    for (size_t u = last; u-- > 1;)
        dt_model_backward(b->model, u, false);
    if (lap(b, &start, &down, err) < 0)
        return -1;
    dt_model_backward(b->model, 0, false);
    if (lap(b, &start, &other, err) < 0)
        return -1;
    queue_update(b, step);
    if (lap(b, &start, &update, err) < 0)
        return -1;
    dt_stopwatch_add(&b->blocks, up + down);
    dt_stopwatch_add(&b->head, head);
    dt_stopwatch_add(&b->update, update);
    return 0;
}

static int set_rates(const struct bench *b, struct dt_rates *rates,
                     struct dt_error *err)
{
    bool fp32 = b->options.compute == DT_F32;
    size_t B = b->options.B, T = b->options.T;
    double flops = 0;
    for (size_t u = 1; u + 1 < b->layout->unit_count; u++)
        flops += 3 * dt_cost_block(&b->config, b->layout, u, B, T);
    if (dt_measure_set(b->measure, rates,
                       fp32 ? DT_RATE_BLOCKS_FP32 : DT_RATE_BLOCKS_BF16, flops,
                       dt_stopwatch_median(&b->blocks), err) < 0 ||
        dt_measure_set(b->measure, rates,
                       fp32 ? DT_RATE_HEAD_FP32 : DT_RATE_HEAD_BF16,
                       dt_cost_head(&b->config, B, T),
                       dt_stopwatch_median(&b->head), err) < 0)
        return -1;
    return dt_measure_set(b->measure, rates, DT_RATE_MEMORY,
                          ADAMW_BYTES * (double)updated_elements(b),
                          dt_stopwatch_median(&b->update), err);
}

int dt_measure_passes(const struct dt_measure *measure, struct dt_rates *rates,
                      struct dt_error *err)
{
    struct bench b = {
        .measure = measure,
        .exec = measure->exec,
        .config = *measure->model,
        .options = {.B = measure->B,
                    .T = measure->T,
                    .compute = measure->compute,
                    .train = true,
                    .save_activations = !measure->exec->device->is_host},
    };
    b.config.text = NULL;
    if (b.config.n_layer > MOST_BLOCKS)
        b.config.n_layer = MOST_BLOCKS;
    if (b.config.vocab_size > MOST_VOCABULARY)
        b.config.vocab_size = MOST_VOCABULARY;
    int rc = create(&b, err);
    for (int i = 0; rc == 0 && i < DT_MEASURE_ROUNDS; i++)
        rc = run_round(&b, err);
    if (rc == 0)
        rc = set_rates(&b, rates, err);
    destroy(&b);
    return rc;
}
