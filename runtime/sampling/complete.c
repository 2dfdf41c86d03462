/* SPDX-License-Identifier: Apache-2.0 */
/* complete.c - samples completions of prompts, and brings them to all ranks */
#include "config.h"

#include <stdlib.h>

#include "base/fault.h"
#include "base/span.h"
#include "sampling/sampling_impl.h"

/* --- the weights --- */

/* Makes all weights available on this rank, in place or gathered into a buffer,
 * which the caller destroys. -1: out of memory, or a peer failed.
 */
static int whole_weights(struct dt_run *run, struct dt_buffer **buf,
                         struct dt_places *places, struct dt_error *err)
{
    struct dt_learner *learner = &run->learner;
    const struct dt_layout *layout = dt_learner_model_layout(learner->spec);
    *buf = NULL;
    *places = dt_learner_weights(learner);
    if (dt_learner_has_weights(learner)) /* or they are on their way */
        return dt_learner_take_all(learner, err);
    *buf = dt_buffer_create(run->spec.exec.device,
                            layout->count * dt_dtype_bytes(learner->compute),
                            "weights to sample with", err);
    if (!*buf)
        return -1;
    *places = dt_places_flat(dt_view_of(*buf, learner->compute));
    for (size_t u = 0; u < layout->unit_count; u++) {
        struct dt_view from, to = dt_layout_unit(layout, places, u);
        if (to.count == 0)
            continue;
        if (dt_learner_gather(learner, u, false, &from, err) < 0 ||
            run->spec.exec.device->copy(
                run->spec.exec.stream, dt_view_data(to), dt_view_data(from),
                to.count * dt_dtype_bytes(to.dtype), err) < 0)
            return -1;
    }
    return 0;
}

/* --- the rollout --- */

/* A rollout in progress: the next group, and the missing completions of each.
 */
struct progress {
    struct dt_run *run;
    struct dt_experience *e;
    bool score; /* submit complete groups for scoring */
    size_t next;
    size_t *missing;                    /* (groups) */
    struct dt_sample_pictures pictures; /* of the prompt that is given */
};

static int next_prompt(void *ctx, struct dt_prompt *prompt,
                       struct dt_error *err)
{
    struct progress *progress = ctx;
    const struct dt_run *run = progress->run;
    const struct dt_experience *e = progress->e;
    struct dt_batch batch = {0};
    while (progress->next < e->groups &&
           dt_experience_rank(e, progress->next, run->spec.world) !=
               run->spec.rank)
        progress->next++;
    if (progress->next == e->groups)
        return 0;
    prompt->number = e->number[progress->next++];
    prompt->ids = dt_prompts_ids(e->prompts, prompt->number, &prompt->count);
    dt_sample_pictures_begin(&progress->pictures);
    if (dt_sample_pictures_add(&progress->pictures, prompt->number, 0, err) <
            0 ||
        dt_sample_pictures_read(&progress->pictures, &batch, err) < 0)
        return -1;
    prompt->pictures = batch.pictures;
    prompt->picture_count = batch.picture_count;
    prompt->pixels = batch.pixels;
    return 1;
}

/* Finds a group by its number. Numbers are sorted. */
static size_t find_group(const struct dt_experience *e, uint64_t number)
{
    size_t first = 0, end = e->groups;
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;
        if (e->number[middle] <= number)
            first = middle;
        else
            end = middle;
    }
    return first;
}

static int take(void *ctx, const struct dt_completion *c, struct dt_error *err)
{
    struct progress *progress = ctx;
    struct dt_experience *e = progress->e;
    size_t g = find_group(e, c->prompt);
    if (dt_experience_add(e, g * e->copies + c->copy, c->ids, c->logps,
                          c->count, (int)c->end, err) < 0)
        return -1;
    return --progress->missing[g] > 0 || !progress->score
               ? 0
               : dt_scoring_submit(progress->run, g, err);
}

/* Runs the rollout. 1: this rank was told to stop. */
static int run_rollout(struct dt_run *run, struct dt_rollout *rollout,
                       struct dt_experience *e, bool score,
                       struct dt_error *err)
{
    struct dt_buffer *buf;
    struct dt_places places;
    struct progress progress = {.run = run, .e = e, .score = score};
    const struct dt_rollout_io io = {
        .next = next_prompt, .done = take, .stop = run->stop, .ctx = &progress};
    if (!(progress.missing = calloc(e->groups, sizeof(size_t))))
        return dt_error_set(err, EX_OSERR, "a generation: out of memory");
    for (size_t g = 0; g < e->groups; g++)
        progress.missing[g] = e->copies;
    int rc = whole_weights(run, &buf, &places, err);
    if (rc == 0)
        rc = dt_sample_pictures_init(&progress.pictures, e->prompts,
                                     run->samples.options.patches, err);
    if (rc == 0 && dt_fault("rollout"))
        rc = dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    if (rc == 0) {
        dt_rollout_use(rollout, places);
        rc = dt_rollout_run(rollout, &io, err);
    }
    dt_sample_pictures_fini(&progress.pictures);
    free(progress.missing);
    dt_buffer_destroy(buf);
    return rc;
}

/* --- on all ranks --- */

static int begin(struct dt_run *run, struct dt_experience *e, uint64_t first,
                 size_t count, struct dt_error *err)
{
    uint64_t *number = calloc(count, sizeof(*number));
    if (!number)
        return dt_error_set(err, EX_OSERR, "a generation: out of memory");
    for (size_t g = 0; g < count; g++)
        number[g] = first + g;
    int rc = dt_experience_begin(e, number, count, run->spec.sampling.copies,
                                 dt_reward_columns(&run->spec.conf), err);
    free(number);
    e->prompts = run->data.prompts;
    return rc;
}

/* Whether any rank was told to stop: 1 or 0. */
static int any_stopped(struct dt_run *run, int stopped, struct dt_error *err)
{
    double any = stopped;
    if (run->spec.world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    return any > 0;
}

static int complete(struct dt_run *run, struct dt_rollout *rollout,
                    struct dt_experience *e, bool score, struct dt_error *err)
{
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_ROLLOUT, e->groups);
    int rc = run_rollout(run, rollout, e, score, err);
    dt_span_end(&span);
    if (rc >= 0)
        rc = any_stopped(run, rc, err);
    return rc == 0 ? dt_experience_gather(e, run->comm, &run->spec.exec, err)
                   : rc;
}

int dt_run_complete(struct dt_run *run, struct dt_rollout *rollout,
                    struct dt_experience *e, long step, struct dt_error *err)
{
    int rc = dt_scoring_begin(run, e, step, err);
    if (rc == 0)
        rc = complete(run, rollout, e, true, err);
    if (rc == 0)
        rc = dt_scoring_submit_rest(run, err);
    if (rc == 0)
        rc = dt_scoring_end(run, err);
    dt_scoring_fini(run);
    return rc;
}

int dt_run_sample(struct dt_run *run, struct dt_experience *e, uint64_t first,
                  size_t count, struct dt_error *err)
{
    int rc = begin(run, e, first, count, err);
    return rc == 0 ? complete(run, run->samples.rollout, e, false, err) : rc;
}

int dt_run_sample_scored(struct dt_run *run, uint64_t first, size_t count,
                         struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = begin(run, &s->experience, first, count, err);
    return rc == 0 ? dt_run_complete(run, s->rollout, &s->experience,
                                     run->queued + 1, err)
                   : rc;
}
