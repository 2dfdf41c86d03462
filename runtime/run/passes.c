/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passes.c - forward and backward of a micro-batch
 *
 * Some algorithms have a loss that the host computes: a few numbers per
 * sequence go there and back. It waits for them, which costs less than
 * maintaining a kernel for every loss would; the rest of the step stays queued
 * ahead.
 */
#include "config.h"

#include "base/fault.h"
#include "base/span.h"
#include "run/run.h"

/* --- the last unit, for losses of the host --- */

size_t dt_run_pick_completions(const struct dt_run *run,
                               const struct dt_batch *batch, int32_t *picked)
{
    size_t count = 0;
    (void)run;
    for (size_t i = 0; i < batch->sample_count; i++)
        for (size_t t = 0; t < batch->samples[i].picked; t++)
            picked[count++] = (int32_t)(batch->samples[i].first + t);
    return count;
}

/* A batch without pairs reads a token with weight 0. A rank has one if others
 * need more micro-batches than it.
 */
void dt_run_pick(struct dt_run *run, struct dt_batch *batch)
{
    int32_t *picked = run->learner.values.picked;
    if (!run->spec.algo->pick)
        return;
    batch->picked = picked;
    batch->picked_count = run->spec.algo->pick(run, batch, picked);
    if (batch->picked_count == 0)
        picked[batch->picked_count++] = 0;
}

static void count_tokens(const struct dt_batch *batch, struct dt_metrics *m)
{
    for (size_t i = 0; i < batch->sample_count; i++) {
        size_t first = batch->samples[i].first;
        m->tokens += (double)(first - (size_t)batch->doc_start[first] +
                              batch->samples[i].count);
    }
    for (size_t i = 0; i < batch->pair_count; i++) {
        const struct dt_batch_pair *pair = &batch->pairs[i];
        m->tokens += (double)(pair->chosen.end - pair->chosen.start +
                              pair->rejected.end - pair->rejected.start);
    }
}

/* The loss of a critic that is a head of the model. */
static void weigh_scores(struct dt_run *run, const struct dt_picked *picked,
                         const struct dt_learner_values *v)
{
    struct dt_picked scores = *picked;
    scores.value = v->score;
    scores.weight = v->score_weight;
    v->score_weight[0] = 0;
    run->spec.algo->critic_loss(run, &scores);
}

int dt_run_weigh(struct dt_run *run, struct dt_learner *learner,
                 const struct dt_batch *batch, bool train, bool accumulate,
                 struct dt_metrics *metrics, struct dt_error *err)
{
    const bool critic = learner == &run->critic;
    struct dt_learner_values *v = &learner->values;
    const struct dt_picked picked = {
        .batch = batch,
        .value = v->value,
        .collision = v->collision,
        .entropy = v->entropy,
        .mean = v->mean,
        .top = v->top,
        .reference = v->reference,
        .pairs_per_token = run->pairs_per_token,
        .weight = v->weight,
        .entropy_weight = v->entropy_weight,
        .metrics = metrics,
    };
    dt_model_values_forward(learner->model);
    if (dt_learner_bring_values(learner, v->value, err) < 0)
        return -1;
    v->weight[0] = v->entropy_weight[0] = 0; /* of a batch without pairs */
    if (critic) {
        run->spec.algo->critic_loss(run, &picked);
    } else {
        run->spec.algo->loss(run, &picked);
        count_tokens(batch, metrics);
    }
    if (v->score)
        weigh_scores(run, &picked, v);
    if (!train)
        return 0;
    if (dt_learner_send_weights(learner, batch->picked_count, err) < 0)
        return -1;
    dt_model_values_backward(learner->model, learner->step, accumulate);
    return 0;
}

/* --- all units --- */

/* The work of a unit, which is recorded. */
struct unit {
    struct dt_learner *learner;
    size_t u;
    bool accumulate;
};

static void unit_forward(void *ctx)
{
    const struct unit *unit = ctx;
    dt_model_forward(unit->learner->model, unit->u);
}

static void unit_backward(void *ctx)
{
    const struct unit *unit = ctx;
    const struct dt_learner *learner = unit->learner;
    if (unit->u + 1 == learner->spec->layout->unit_count)
        dt_model_loss_and_backward(learner->model, learner->step,
                                   unit->accumulate);
    else
        dt_model_backward(learner->model, unit->u, unit->accumulate);
}

/* Runs the work of a unit, or its recording. A tower, and what adds its
 * features to the text, have other sizes in each batch: they cannot be
 * recorded.
 */
static int run_unit(struct unit *unit, const struct dt_graph_shape *shape,
                    size_t piece, void (*work)(void *ctx), struct dt_error *err)
{
    const struct dt_model_config *config = &unit->learner->spec->config;
    if (!config->vision || unit->u > dt_model_last_fed(config))
        return dt_graphs_run(unit->learner->graphs, shape, piece, work, unit,
                             err);
    work(unit);
    return 0;
}

static int queue_forward(struct unit *unit, const struct dt_graph_shape *shape,
                         struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_FORWARD, unit->u);
    (void)dt_fault("train.forward");
    int rc = run_unit(unit, shape, unit->u, unit_forward, err);
    dt_span_end(&span);
    return rc;
}

/* A last unit in which the host computes the loss cannot be recorded. */
static int queue_backward(struct dt_run *run, struct unit *unit,
                          const struct dt_graph_shape *shape,
                          const struct dt_batch *batch,
                          struct dt_metrics *metrics, struct dt_error *err)
{
    struct dt_learner *learner = unit->learner;
    size_t count = learner->spec->layout->unit_count;
    const bool last = unit->u + 1 == count;
    struct dt_span span;
    dt_span_begin_number(&span, last ? DT_SPAN_LOSS : DT_SPAN_BACKWARD,
                         unit->u);
    int rc = run->spec.algo->loss && last
                 ? dt_run_weigh(run, learner, batch, true, unit->accumulate,
                                metrics, err)
                 : run_unit(unit, shape, count + unit->u, unit_backward, err);
    dt_span_end(&span);
    return rc;
}

int dt_run_queue_passes(struct dt_run *run, struct dt_learner *learner,
                        const struct dt_graph_shape *shape,
                        const struct dt_batch *batch,
                        struct dt_metrics *metrics, struct dt_error *err)
{
    size_t count = learner->spec->layout->unit_count;
    struct unit unit = {learner, 0, shape->accumulate};
    for (unit.u = 0; unit.u + 1 < count; unit.u++)
        if (dt_learner_forward(learner, unit.u, err) < 0 ||
            queue_forward(&unit, shape, err) < 0 ||
            dt_model_send_input(learner->model, unit.u, err) < 0)
            return -1;
    for (unit.u = count; unit.u-- > dt_learner_lowest(learner->spec);)
        if (dt_learner_backward(learner, unit.u, err) < 0 ||
            dt_model_bring_input(learner->model, unit.u, err) < 0 ||
            queue_backward(run, &unit, shape, batch, metrics, err) < 0 ||
            dt_parallel_ready(learner->parallel, unit.u, err) < 0)
            return -1;
    return 0;
}

int dt_learner_forward_all(struct dt_learner *learner, struct dt_error *err)
{
    const size_t last = learner->spec->layout->unit_count - 1;
    for (size_t u = 0; u < last; u++) {
        if (dt_learner_forward(learner, u, err) < 0)
            return -1;
        dt_model_forward(learner->model, u);
    }
    return dt_learner_forward(learner, last, err);
}

int dt_learner_values(struct dt_learner *learner, float *value,
                      struct dt_error *err)
{
    if (dt_learner_forward_all(learner, err) < 0)
        return -1;
    dt_model_values_forward(learner->model);
    return dt_learner_bring_values(learner, value, err);
}
