/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scoring.c - the rewards of a generation, on all ranks
 *
 * A reward may be slow, or hang until its deadline. So a thread waits for it,
 * while the ranks ask each other a few times a second whether all are done or
 * one was told to stop: a lost rank is noticed as in any collective, and no
 * collective is open for longer.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/span.h"
#include "base/thread.h"
#include "sampling/sampling_impl.h"

enum { LOOK_MS = 100 }; /* how often ranks ask each other */

/* Completions submitted to the functions of one place, and their results. */
struct place {
    struct dt_rewards *rewards; /* NULL: none runs here */
    size_t *groups;             /* in the order in which they were submitted */
    size_t count;
    double *values; /* (count * copies, columns of the place) */
    int rc;
    struct dt_error err;
};

struct dt_scoring {
    struct dt_experience *of; /* the completions that are scored */
    long step;                /* step that will use them */
    struct place places[DT_WHERES];
    pthread_t thread;
    pthread_mutex_t lock; /* protects done */
    pthread_cond_t changed;
    bool started, done;
};

static int no_memory(struct dt_error *err)
{
    return dt_error_set(err, EX_OSERR, "rewards: out of memory");
}

static void free_scoring(struct dt_scoring *scoring)
{
    for (int where = 0; where < DT_WHERES; where++) {
        free(scoring->places[where].groups);
        free(scoring->places[where].values);
    }
    pthread_mutex_destroy(&scoring->lock);
    pthread_cond_destroy(&scoring->changed);
    free(scoring);
}

int dt_scoring_begin(struct dt_run *run, struct dt_experience *of, long step,
                     struct dt_error *err)
{
    const struct dt_samples *s = &run->samples;
    struct dt_scoring *scoring = calloc(1, sizeof(*scoring));
    if (!scoring)
        return no_memory(err);
    run->samples.scoring = scoring;
    scoring->of = of;
    scoring->step = step;
    pthread_mutex_init(&scoring->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&scoring->changed, &attr);
    pthread_condattr_destroy(&attr);
    for (int where = 0; where < DT_WHERES; where++) {
        struct place *place = &scoring->places[where];
        place->rewards = s->rewards[where];
        if (place->rewards &&
            !(place->groups = calloc(of->groups, sizeof(*place->groups))))
            return no_memory(err);
    }
    return 0;
}

/* --- submitting --- */

/* Fills samples(copies) of a group; their texts belong to the caller. */
static int describe(const struct dt_run *run, size_t g,
                    const struct dt_prompt_line *line,
                    struct dt_reward_sample *samples, char **texts,
                    struct dt_error *err)
{
    const struct dt_experience *e = run->samples.scoring->of;
    for (size_t copy = 0; copy < e->copies; copy++) {
        size_t row = g * e->copies + copy, count = (size_t)e->count[row];
        const int32_t *ids = dt_experience_ids(e, row);
        size_t bytes;
        texts[copy] =
            dt_detokenize_all(run->data.tokenizer, true, ids, count, &bytes);
        if (!texts[copy])
            return no_memory(err);
        samples[copy] = (struct dt_reward_sample){
            .prompt = e->number[g],
            .copy = (uint32_t)copy,
            .prompt_text = line->text,
            .completion_text = texts[copy],
            .prompt_bytes = line->bytes,
            .completion_bytes = bytes,
            .messages = line->messages,
            .columns = line->columns,
            .images = line->images,
            .ids = ids,
            .count = count,
            .truncated = e->end[row] == DT_END_LENGTH,
        };
    }
    return 0;
}

static int submit_to(struct dt_run *run, struct place *place, size_t g,
                     const struct dt_reward_sample *samples,
                     struct dt_error *err)
{
    const struct dt_scoring *scoring = run->samples.scoring;
    place->groups[place->count++] = g;
    return dt_rewards_submit(place->rewards, scoring->step, samples,
                             scoring->of->copies, err);
}

/* Submits group g to the functions of the places from `first` to `last`. */
static int submit(struct dt_run *run, size_t g, int first, int last,
                  struct dt_error *err)
{
    struct dt_scoring *scoring = run->samples.scoring;
    const size_t copies = scoring->of->copies;
    struct dt_reward_sample *samples = calloc(copies, sizeof(*samples));
    char **texts = calloc(copies, sizeof(*texts));
    struct dt_prompt_line line = {0};
    int rc = samples && texts ? 0 : no_memory(err);
    if (rc == 0)
        rc = dt_prompts_read(scoring->of->prompts, scoring->of->number[g],
                             &line, err);
    if (rc == 0)
        rc = describe(run, g, &line, samples, texts, err);
    for (int where = first; where <= last && rc == 0; where++)
        if (scoring->places[where].rewards)
            rc = submit_to(run, &scoring->places[where], g, samples, err);
    for (size_t copy = 0; texts && copy < copies; copy++)
        free(texts[copy]);
    free(texts);
    free(samples);
    dt_prompt_line_fini(&line);
    return rc;
}

int dt_scoring_submit(struct dt_run *run, size_t g, struct dt_error *err)
{
    return submit(run, g, DT_CONF_RANK0, DT_CONF_ALL, err);
}

int dt_scoring_submit_rest(struct dt_run *run, struct dt_error *err)
{
    const struct dt_scoring *scoring = run->samples.scoring;
    const struct dt_experience *e = scoring->of;
    int rc = 0;
    if (!scoring->places[DT_CONF_RANK0].rewards)
        return 0;
    for (size_t g = 0; g < e->groups && rc == 0; g++)
        if (dt_experience_rank(e, g, run->spec.world) != run->spec.rank)
            rc = submit(run, g, DT_CONF_RANK0, DT_CONF_RANK0, err);
    return rc;
}

int dt_scoring_submit_all(struct dt_run *run, struct dt_error *err)
{
    const struct dt_experience *e = run->samples.scoring->of;
    int rc = 0;
    for (size_t g = 0; g < e->groups && rc == 0; g++)
        if (dt_experience_rank(e, g, run->spec.world) == run->spec.rank)
            rc = dt_scoring_submit(run, g, err);
    return rc == 0 ? dt_scoring_submit_rest(run, err) : rc;
}

/* --- results --- */

static void collect_place(struct place *place, size_t copies)
{
    size_t columns;
    if (!place->rewards || place->count == 0)
        return;
    dt_rewards_columns(place->rewards, &columns);
    place->values = calloc(place->count * copies * columns + 1, sizeof(double));
    place->rc = place->values
                    ? dt_rewards_collect(place->rewards, place->values,
                                         place->count * copies, &place->err)
                    : no_memory(&place->err);
}

static void *collect(void *arg)
{
    struct dt_scoring *scoring = arg;
    for (int where = 0; where < DT_WHERES; where++)
        collect_place(&scoring->places[where], scoring->of->copies);
    pthread_mutex_lock(&scoring->lock);
    scoring->done = true;
    pthread_cond_signal(&scoring->changed);
    pthread_mutex_unlock(&scoring->lock);
    return NULL;
}

/* Waits up to LOOK_MS for the thread. Whether it is done. */
static bool look(struct dt_scoring *scoring)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&scoring->lock);
    while (!scoring->done &&
           pthread_cond_timedwait(&scoring->changed, &scoring->lock, &until) !=
               ETIMEDOUT)
        ;
    bool done = scoring->done;
    pthread_mutex_unlock(&scoring->lock);
    return done;
}

/* Waits for the rewards of all ranks. 1: a rank was told to stop. */
static int wait_all(struct dt_run *run, struct dt_error *err)
{
    struct dt_scoring *scoring = run->samples.scoring;
    double flags[2]; /* not done, told to stop */
    do {
        bool done = look(scoring);
        for (int where = 0; where < DT_WHERES && done; where++)
            if (scoring->places[where].rc < 0) {
                *err = scoring->places[where].err;
                return -1;
            }
        flags[0] = !done;
        flags[1] = run->stop && run->stop();
        if (run->spec.world > 1 &&
            dt_comm_reduce_scalars(run->comm, flags, 2, DT_MAX, err) < 0)
            return -1;
    } while (flags[0] > 0 && flags[1] == 0);
    return flags[1] > 0;
}

/* Copies the columns of a place, numbered by its functions, to the columns of
 * the configuration.
 */
static void place_values(struct dt_experience *e, const struct place *place,
                         bool *have)
{
    size_t columns;
    if (!place->rewards || place->count == 0)
        return;
    const struct dt_reward_column *of =
        dt_rewards_columns(place->rewards, &columns);
    for (size_t i = 0; i < place->count * e->copies; i++) {
        size_t row = place->groups[i / e->copies] * e->copies + i % e->copies;
        for (size_t k = 0; k < columns; k++) {
            size_t at = row * e->columns + of[k].index;
            e->rewards[at] = place->values[i * columns + k];
            have[at] = true;
        }
    }
}

/* Brings rewards from the ranks that have them to all. */
static int share(struct dt_run *run, struct dt_error *err)
{
    struct dt_scoring *scoring = run->samples.scoring;
    struct dt_experience *e = scoring->of;
    bool *have = calloc(e->rows * e->columns + 1, sizeof(*have));
    if (!have)
        return no_memory(err);
    for (int where = 0; where < DT_WHERES; where++)
        place_values(e, &scoring->places[where], have);
    int rc = dt_experience_share_rewards(e, have, run->comm, err);
    free(have);
    return rc;
}

/* Whether reward models run here. They compute on a stream that only this
 * thread uses.
 */
static bool uses_device(const struct dt_run *run)
{
    for (int where = 0; where < DT_WHERES; where++) {
        const struct dt_rewards *rewards = run->samples.rewards[where];
        if (rewards && dt_rewards_is_model(rewards))
            return !run->spec.exec.device->is_host;
    }
    return false;
}

static int start(struct dt_run *run, struct dt_error *err)
{
    struct dt_scoring *scoring = run->samples.scoring;
    if (uses_device(run)) {
        collect(scoring);
        return 0;
    }
    int failed =
        dt_thread_start(&scoring->thread, "dt-rewards", collect, scoring);
    scoring->started = failed == 0;
    return failed ? dt_error_set(err, EX_OSERR, "rewards: no thread: %s",
                                 strerror(failed))
                  : 0;
}

int dt_scoring_end(struct dt_run *run, struct dt_error *err)
{
    const struct dt_scoring *scoring = run->samples.scoring;
    if (dt_fault("scoring"))
        return dt_error_set(err, EX_SOFTWARE, "failed on purpose");
    if (!scoring->started && !scoring->done && start(run, err) < 0)
        return -1;
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_REWARD, scoring->of->groups);
    int rc = wait_all(run, err);
    dt_span_end(&span);
    return rc == 0 ? share(run, err) : rc;
}

/* Leaks the memory that a still waiting thread uses: the process is about to
 * end, and its reward programs end with it.
 */
void dt_scoring_fini(struct dt_run *run)
{
    struct dt_scoring *scoring = run->samples.scoring;
    if (!scoring)
        return;
    run->samples.scoring = NULL;
    if (scoring->started && !look(scoring)) {
        pthread_detach(scoring->thread);
        memset(run->samples.rewards, 0, sizeof(run->samples.rewards));
        return;
    }
    if (scoring->started)
        pthread_join(scoring->thread, NULL);
    free_scoring(scoring);
}
