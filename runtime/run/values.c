/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.c - the last unit, for algorithms whose loss the host computes
 *
 * A few numbers per sequence go to the host and back. It waits for them, which
 * costs less than maintaining a kernel for every loss would; the rest of the
 * step stays queued ahead.
 */
#include "config.h"

#include "run/run.h"

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
