/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old.c - the trainer's log-probabilities of a generation before it trains
 *
 * Ratios compare with what the weights gave before the first update. They are
 * of the same passes in the same micro-batches as those that train: another
 * split would give other bits, and a ratio that is not 1 to begin with.
 */
#include "config.h"

#include "algo/run.h"

/* Forward passes up to the values, which come to values.value. */
static int forward(struct dt_run *run, struct dt_batch *batch,
                   struct dt_error *err)
{
    struct dt_learner *learner = &run->learner;
    size_t last = learner->layout->unit_count - 1;
    dt_run_pick(run, batch);
    if (dt_model_bind(learner->model, batch, true, err) < 0)
        return -1;
    for (size_t u = 0; u < last; u++) {
        if (dt_parallel_forward(learner->parallel, u, err) < 0)
            return -1;
        dt_model_forward(learner->model, u);
    }
    if (dt_parallel_forward(learner->parallel, last, err) < 0)
        return -1;
    dt_model_values_forward(learner->model);
    return dt_learner_bring_values(learner, learner->values.value,
                                   learner->values.collision, err);
}

/* The values of samples stand one after another. */
static void keep(struct dt_run *run, const struct dt_batch *batch)
{
    struct dt_experience *e = &run->samples.experience;
    const float *value = run->learner.values.value;
    for (size_t i = 0; i < batch->sample_count; i++) {
        const struct dt_batch_sample *sample = &batch->samples[i];
        float *old = e->old + e->at[sample->number];
        for (size_t t = 0; t < sample->count; t++)
            old[t] = *value++;
    }
}

int dt_run_old_values(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_batch batch;
    for (size_t part = 0; part < s->parts; part++) {
        if (dt_sample_batches_step(&s->batches, part, err) < 0)
            return -1;
        for (size_t a = 0; a < dt_sample_batches_count(&s->batches); a++) {
            dt_sample_batches_get(&s->batches, a, &batch);
            if (forward(run, &batch, err) < 0)
                return -1;
            keep(run, &batch);
        }
    }
    return dt_experience_share_old(&s->experience, run->comm, &run->exec, err);
}
