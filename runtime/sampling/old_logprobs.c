/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_logprobs.c - log-probabilities and values of a generation under the
 * weights before its first update
 *
 * Importance ratios compare with the log-probabilities before the first update.
 * These come from the same passes in the same micro-batches as those that
 * train: another split would give other bits, and an initial ratio that is not
 * 1. Advantages are computed from the critic's values at that time and from the
 * reference's log-probabilities. Entropies choose the tokens that take part.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "run/reference/reference.h"
#include "sampling/sampling_impl.h"

/* Keeps the values of a micro-batch, which has those of each sample in turn. A
 * value after the last token of a sample goes to `after`, unless that is NULL.
 */
static void keep(const struct dt_experience *e, const struct dt_batch *batch,
                 const float *value, float *tokens, float *after)
{
    for (size_t i = 0; i < batch->sample_count; i++) {
        const struct dt_batch_sample *sample = &batch->samples[i];
        memcpy(tokens + e->at[sample->number], value,
               sample->count * sizeof(*tokens));
        if (after && sample->picked > sample->count)
            after[sample->number] = value[sample->count];
        value += sample->picked;
    }
}

static int values(struct dt_learner *learner, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_VALUES, 0);
    int rc = dt_learner_values(learner, learner->values.value, err);
    dt_span_end(&span);
    return rc;
}

/* Computes the values of a micro-batch by all models that are needed. */
static int pass(struct dt_run *run, struct dt_batch *batch,
                struct dt_error *err)
{
    struct dt_experience *e = &run->samples.experience;
    struct dt_learner *learner = &run->learner, *critic = &run->critic;
    dt_run_pick(run, batch);
    if (dt_model_bind(learner->model, batch, true, err) < 0)
        return -1;
    if (e->reference) {
        if (dt_run_reference(run, NULL, err) < 0)
            return -1;
        keep(e, batch, learner->values.reference, e->reference, NULL);
    }
    if (values(learner, err) < 0)
        return -1;
    keep(e, batch, learner->values.value, e->old, NULL);
    if (e->entropy)
        keep(e, batch, learner->values.entropy, e->entropy, NULL);
    if (e->values && learner->values.score)
        keep(e, batch, learner->values.score, e->values, e->after);
    if (!critic->model)
        return 0;
    if (dt_model_bind(critic->model, batch, true, err) < 0 ||
        values(critic, err) < 0)
        return -1;
    keep(e, batch, critic->values.value, e->values, e->after);
    return 0;
}

/* Allocates an array with an element per token, if it is needed. */
static int make_room(const struct dt_experience *e, bool needed, float **tokens,
                     struct dt_error *err)
{
    if (!needed || (*tokens = calloc(e->tokens + 1, sizeof(**tokens))))
        return 0;
    return dt_error_set(err, EX_OSERR, "the experience: out of memory");
}

int dt_run_old_room(struct dt_run *run, struct dt_error *err)
{
    struct dt_experience *e = &run->samples.experience;
    const bool critic = run->spec.algo->critic_loss;
    const bool after = run->spec.conf.ppo.score_at == DT_SCORE_AT_TRL_NEXT;
    if (make_room(e, critic, &e->values, err) < 0 ||
        make_room(e, critic && after, &e->after, err) < 0 ||
        make_room(e, critic && run->reference.parallel, &e->reference, err) < 0)
        return -1;
    return make_room(e, !critic && run->spec.conf.grpo.top_entropy_quantile < 1,
                     &e->entropy, err);
}

static int share(struct dt_run *run, float *values, size_t count,
                 struct dt_error *err)
{
    return values ? dt_experience_share_values(values, count, run->comm,
                                               &run->spec.exec, err)
                  : 0;
}

/* Brings the values that each rank has computed to all ranks. */
static int share_all(struct dt_run *run, struct dt_error *err)
{
    const struct dt_experience *e = &run->samples.experience;
    if (share(run, e->old, e->tokens, err) < 0 ||
        share(run, e->entropy, e->tokens, err) < 0 ||
        share(run, e->reference, e->tokens, err) < 0 ||
        share(run, e->values, e->tokens, err) < 0)
        return -1;
    return share(run, e->after, e->rows, err);
}

int dt_run_old_values(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_batch batch;
    if (dt_run_old_room(run, err) < 0)
        return -1;
    for (size_t part = 0; part < run->spec.sampling.parts; part++) {
        if (dt_sample_batches_step(&s->batches, part, err) < 0)
            return -1;
        for (size_t a = 0; a < dt_sample_batches_count(&s->batches); a++) {
            if (dt_sample_batches_get(&s->batches, a, &batch, err) < 0 ||
                pass(run, &batch, err) < 0)
                return -1;
        }
    }
    return share_all(run, err);
}
