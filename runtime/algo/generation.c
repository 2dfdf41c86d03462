/* SPDX-License-Identifier: Apache-2.0 */
/* generation.c - samples the completions of a generation and scores them */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/run.h"
#include "base/fault.h"
#include "base/log.h"

/* --- the weights --- */

/* All weights on this rank: where they are, or gathered into a buffer. The
 * caller destroys it. -1: out of memory, or a peer failed.
 */
static int whole_weights(struct dt_run *run, struct dt_buffer **buf,
                         struct dt_places *places, struct dt_error *err)
{
    const struct dt_learner *learner = &run->learner;
    const struct dt_layout *layout = learner->layout;
    *buf = NULL;
    *places = dt_parallel_weights(learner->parallel);
    if (!places->units)
        return 0;
    *buf = dt_buffer_create(run->exec.device,
                            layout->count * dt_dtype_bytes(learner->compute),
                            "weights to sample with", err);
    if (!*buf)
        return -1;
    *places = dt_places_flat(dt_view_of(*buf, learner->compute));
    for (size_t u = 0; u < layout->unit_count; u++) {
        struct dt_view from, to = dt_layout_unit(layout, places, u);
        if (dt_parallel_gather(learner->parallel, u, false, &from, err) < 0 ||
            run->exec.device->copy(
                run->exec.stream, dt_view_data(to), dt_view_data(from),
                to.count * dt_dtype_bytes(to.dtype), err) < 0)
            return -1;
    }
    return 0;
}

/* --- the rollout --- */

/* A rollout in progress: the next group, and completions that groups lack. */
struct progress {
    struct dt_run *run;
    size_t next;
    size_t *missing; /* (groups) */
};

static int next_prompt(void *ctx, struct dt_prompt *prompt,
                       struct dt_error *err)
{
    struct progress *progress = ctx;
    struct dt_run *run = progress->run;
    const struct dt_experience *e = &run->samples.experience;
    (void)err;
    while (progress->next < e->groups &&
           dt_experience_rank(e, progress->next, run->world) != run->rank)
        progress->next++;
    if (progress->next == e->groups)
        return 0;
    prompt->number = e->number[progress->next++];
    prompt->ids =
        dt_prompts_ids(run->data.prompts, prompt->number, &prompt->count);
    return 1;
}

/* The numbers of groups are in order. */
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
    struct dt_run *run = progress->run;
    struct dt_experience *e = &run->samples.experience;
    size_t g = find_group(e, c->prompt);
    if (dt_experience_add(e, g * e->copies + c->copy, c->ids, c->logps,
                          c->count, (int)c->end, err) < 0)
        return -1;
    return --progress->missing[g] > 0 ? 0 : dt_scoring_submit(run, g, err);
}

/* 1: this rank was told to stop. */
static int run_rollout(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    struct dt_buffer *buf;
    struct dt_places places;
    struct progress progress = {.run = run};
    const struct dt_rollout_io io = {
        .next = next_prompt, .done = take, .stop = run->stop, .ctx = &progress};
    if (!(progress.missing = calloc(s->groups, sizeof(size_t))))
        return dt_error_set(err, EX_OSERR, "a generation: out of memory");
    for (size_t g = 0; g < s->groups; g++)
        progress.missing[g] = s->copies;
    int rc = whole_weights(run, &buf, &places, err);
    if (rc == 0 && dt_fault("rollout"))
        rc = dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    if (rc == 0) {
        dt_rollout_use(s->rollout, places);
        rc = dt_rollout_run(s->rollout, &io, err);
    }
    free(progress.missing);
    dt_buffer_destroy(buf);
    return rc;
}

/* --- a generation --- */

static int begin(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    uint64_t *number = calloc(s->groups, sizeof(*number));
    if (!number)
        return dt_error_set(err, EX_OSERR, "a generation: out of memory");
    for (size_t g = 0; g < s->groups; g++)
        number[g] = s->position + g;
    int rc = dt_experience_begin(&s->experience, number, s->groups, s->copies,
                                 dt_reward_columns(&run->conf), err);
    free(number);
    return rc < 0 ? -1 : dt_scoring_begin(run, err);
}

/* Whether any rank was told to stop: 1 or 0. */
static int any_stopped(struct dt_run *run, int stopped, struct dt_error *err)
{
    double any = stopped;
    if (run->world > 1 &&
        dt_comm_reduce_scalars(run->comm, &any, 1, DT_MAX, err) < 0)
        return -1;
    return any > 0;
}

/* All ranks have the same numbers, or they would train different models. */
static int compare_hashes(struct dt_run *run, struct dt_error *err)
{
    uint64_t hash = dt_experience_hash(&run->samples.experience);
    double most[] = {(double)(hash >> 32), (double)(hash & UINT32_MAX),
                     -(double)(hash >> 32), -(double)(hash & UINT32_MAX)};
    if (run->world == 1)
        return 0;
    if (dt_comm_reduce_scalars(run->comm, most, 4, DT_MAX, err) < 0)
        return -1;
    if (most[0] == -most[2] && most[1] == -most[3])
        return 0;
    return dt_error_set(err, EX_SOFTWARE,
                        "rank %d: generation %llu differs between ranks, whose "
                        "rewards and advantages have to be equal",
                        run->rank, (unsigned long long)run->samples.generation);
}

int dt_run_order_rows(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    uint64_t first = s->generation - (s->use > 0);
    uint64_t key = run->algo->critic_loss
                       ? first * (s->uses / s->parts) + s->use / s->parts
                       : first;
    return dt_sample_batches_begin(&s->batches, &s->experience, key, err);
}

static int sample_and_score(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = begin(run, err);
    if (rc == 0)
        rc = run_rollout(run, err);
    if (rc >= 0)
        rc = any_stopped(run, rc, err);
    if (rc == 0)
        rc = dt_experience_gather(&s->experience, run->comm, &run->exec, err);
    if (rc == 0)
        rc = dt_scoring_end(run, err);
    dt_scoring_fini(run);
    if (rc == 0)
        rc = dt_run_order_rows(run, err);
    if (rc == 0 && s->stores_old)
        rc = dt_run_old_values(run, err);
    if (rc == 0)
        rc = run->algo->advantages(run, err);
    return rc == 0 ? compare_hashes(run, err) : rc;
}

static int make_generation(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = sample_and_score(run, err);
    if (rc != 0)
        return rc;
    s->position += s->groups;
    s->generation++;
    dt_run_make_numbers(run);
    dt_run_warn_idle(run);
    dt_run_log_samples(run, run->queued + 1);
    return 0;
}

int dt_run_next_samples(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    int rc = s->use == 0 ? make_generation(run, err) : 0;
    if (rc != 0)
        return rc;
    if ((s->use > 0 && s->use % s->parts == 0 &&
         dt_run_order_rows(run, err) < 0) ||
        dt_sample_batches_step(&s->batches, s->use % s->parts, err) < 0)
        return -1;
    s->use = (s->use + 1) % s->uses;
    s->denominator = run->algo->denominator(run);
    return 0;
}
