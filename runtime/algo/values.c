/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.c - the last unit of algorithms whose loss the host computes
 *
 * A few numbers a sequence come to the host and go back. It waits for them,
 * which costs less than a copy of every loss in a kernel would be worth; all
 * else of the step stays queued ahead.
 */
#include "config.h"

#include <string.h>

#include "algo/run.h"

int dt_run_values_init(struct dt_run *run, size_t tokens, struct dt_error *err)
{
    const struct dt_device *device = run->exec.device;
    struct dt_run_values *v = &run->values;
    if (!run->algo->pick)
        return 0;
    v->bytes = sizeof(double) + tokens * (sizeof(int32_t) + 4 * sizeof(float));
    if (device->allocate_staging(v->bytes, &v->staging, err) < 0)
        return -1;
    memset(v->staging, 0, v->bytes);
    v->loss_scale = v->staging;
    v->value = (float *)(v->loss_scale + 1);
    v->collision = v->value + tokens;
    v->reference = v->collision + tokens;
    v->weight = v->reference + tokens;
    v->picked = (int32_t *)(v->weight + tokens);
    return device->event_create(&v->there, err);
}

void dt_run_values_fini(struct dt_run *run)
{
    const struct dt_device *device = run->exec.device;
    struct dt_run_values *v = &run->values;
    if (v->there)
        device->event_destroy(v->there);
    if (v->staging)
        device->release_staging(v->staging, v->bytes);
}

/* A batch without pairs, which a rank has if others need more micro-batches
 * than it, reads a token that weighs nothing.
 */
void dt_run_pick(struct dt_run *run, struct dt_batch *batch)
{
    int32_t *picked = run->values.picked;
    if (!run->algo->pick)
        return;
    batch->picked = picked;
    batch->picked_count = run->algo->pick(run, batch, picked);
    if (batch->picked_count == 0)
        picked[batch->picked_count++] = 0;
}

static int copy(struct dt_run *run, void *to, const void *from, size_t bytes,
                struct dt_error *err)
{
    return run->exec.device->copy(run->exec.stream, to, from, bytes, err);
}

/* With the step's loss scale. */
int dt_run_bring_values(struct dt_run *run, float *value, float *collision,
                        struct dt_error *err)
{
    struct dt_run_values *v = &run->values;
    struct dt_values values = dt_model_values(run->model);
    size_t bytes = values.value.count * sizeof(float);
    struct dt_view scale = dt_view_slice(run->step, DT_STEP_LOSS_SCALE, 1);
    if (copy(run, value, dt_view_data(values.value), bytes, err) < 0 ||
        (values.collision.count > 0 &&
         copy(run, collision, dt_view_data(values.collision), bytes, err) <
             0) ||
        copy(run, v->loss_scale, dt_view_data(scale), sizeof(double), err) <
            0 ||
        run->exec.device->event_record(v->there, run->exec.stream, err) < 0)
        return -1;
    return dt_comm_wait_event(run->comm, run->exec.device, v->there, err);
}

static void count_tokens(const struct dt_batch *batch, struct dt_metrics *m)
{
    for (size_t i = 0; i < batch->pair_count; i++) {
        const struct dt_batch_pair *pair = &batch->pairs[i];
        m->tokens += (double)(pair->chosen.end - pair->chosen.start +
                              pair->rejected.end - pair->rejected.start);
    }
}

/* What the values weigh, on the device. The head of a language model multiplies
 * by the loss scale, that of a reward model expects it to be there.
 */
static int send_weights(struct dt_run *run, size_t count, struct dt_error *err)
{
    struct dt_run_values *v = &run->values;
    struct dt_values values = dt_model_values(run->model);
    for (size_t i = 0; i < count && run->algo->scores; i++)
        v->weight[i] *= (float)*v->loss_scale;
    return copy(run, dt_view_data(values.weight), v->weight,
                count * sizeof(float), err);
}

int dt_run_weigh(struct dt_run *run, const struct dt_batch *batch, bool train,
                 bool accumulate, struct dt_metrics *metrics,
                 struct dt_error *err)
{
    struct dt_run_values *v = &run->values;
    const struct dt_picked picked = {
        .batch = batch,
        .value = v->value,
        .collision = v->collision,
        .reference = v->reference,
        .pairs_per_token = run->pairs_per_token,
        .weight = v->weight,
        .metrics = metrics,
    };
    dt_model_values_forward(run->model);
    if (dt_run_bring_values(run, v->value, v->collision, err) < 0)
        return -1;
    v->weight[0] = 0; /* of a batch without pairs */
    run->algo->loss(run, &picked);
    count_tokens(batch, metrics);
    if (!train)
        return 0;
    if (send_weights(run, batch->picked_count, err) < 0)
        return -1;
    dt_model_values_backward(run->model, run->step, accumulate);
    return 0;
}
