/* SPDX-License-Identifier: Apache-2.0 */
/* rewards.c - queues samples for all functions and collects their values */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "reward/reward_impl.h"

static const double spare_s = 30; /* for a machine that is busy */

enum { RECENT = 256 }; /* samples that max_failed is a share of, at least */

size_t dt_reward_columns(const struct dt_conf *conf)
{
    size_t count = 0;
    for (size_t i = 0; i < conf->reward.count; i++)
        count += dt_conf_reward_channels(&conf->reward.functions[i]);
    return count;
}

/* Fills the columns of function `conf`, whose first one is `index` of all. */
static int add_columns(struct dt_rewards *rewards,
                       const struct dt_conf_reward *conf, size_t index)
{
    for (size_t c = 0; c < dt_conf_reward_channels(conf); c++) {
        struct dt_reward_column *column =
            &rewards->column[rewards->column_count++];
        column->weight = conf->weight;
        column->index = index + c;
        if (conf->channels.count == 0) {
            column->name = strdup(conf->name);
        } else {
            column->weight *= conf->channels.weight[c];
            if (asprintf(&column->name, "%s/%s", conf->name,
                         conf->channels.text[c]) < 0)
                column->name = NULL;
        }
        if (!column->name)
            return -1;
    }
    return 0;
}

/* How many calls may run at a time; each address gets as many. */
static size_t lanes_of(const struct dt_reward_function *function)
{
    size_t each = function->conf->url.count > 0 ? function->conf->url.count : 1;
    return function->kind->one ? 1 : each * (size_t)function->conf->processes;
}

/* Fills the functions that run at this place. -1: out of memory. */
static int add_functions(struct dt_rewards *rewards, int where)
{
    const struct dt_conf_rewards *all = &rewards->conf->reward;
    size_t index = 0;
    rewards->function = calloc(all->count + 1, sizeof(*rewards->function));
    rewards->column =
        calloc(dt_reward_columns(rewards->conf) + 1, sizeof(*rewards->column));
    if (!rewards->function || !rewards->column)
        return -1;
    for (size_t i = 0; i < all->count; i++) {
        const struct dt_conf_reward *conf = &all->functions[i];
        struct dt_reward_function *function =
            &rewards->function[rewards->function_count];
        index += dt_conf_reward_channels(conf);
        if (conf->where != where)
            continue;
        function->conf = conf;
        function->kind = dt_reward_kind_of(conf);
        function->channels = dt_conf_reward_channels(conf);
        function->first = rewards->column_count;
        function->lane_count = lanes_of(function);
        function->lane = calloc(function->lane_count, sizeof(*function->lane));
        rewards->function_count++;
        if (!function->lane ||
            add_columns(rewards, conf, index - function->channels) < 0)
            return -1;
    }
    return 0;
}

static char *directory_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash == file ? strdup("/") : strndup(file, (size_t)(slash - file));
}

static void init_waiting(struct dt_rewards *rewards)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&rewards->done, &attr);
    pthread_cond_init(&rewards->work, NULL);
    pthread_mutex_init(&rewards->mutex, NULL);
    pthread_condattr_destroy(&attr);
}

struct dt_rewards *dt_rewards_open(const struct dt_conf *conf,
                                   const struct dt_reward_options *options,
                                   struct dt_error *err)
{
    struct dt_rewards *rewards = calloc(1, sizeof(*rewards));
    if (!rewards) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    rewards->conf = conf;
    rewards->stop_fd = -1;
    rewards->directory = directory_of(conf->file);
    init_waiting(rewards);
    if (!rewards->directory || add_functions(rewards, options->where) < 0)
        dt_error_set(err, EX_OSERR, "out of memory");
    else if (dt_reward_lanes_start(rewards, options, err) == 0)
        return rewards;
    dt_rewards_close(rewards);
    return NULL;
}

/* Forgets all queued and collected samples. */
static void clear_tasks(struct dt_rewards *rewards)
{
    for (struct dt_reward_task *t = rewards->tasks, *next; t; t = next) {
        next = t->behind;
        free(t);
    }
    for (size_t i = 0; i < rewards->batch_count; i++)
        dt_reward_batch_destroy(rewards->batch[i]);
    rewards->tasks = NULL;
    rewards->batch_count = rewards->rows = 0;
    for (size_t f = 0; f < rewards->function_count; f++)
        rewards->function[f].failed = 0;
}

void dt_rewards_close(struct dt_rewards *rewards)
{
    if (!rewards || !dt_reward_lanes_stop(rewards))
        return;
    clear_tasks(rewards);
    for (size_t f = 0; f < rewards->function_count; f++)
        free(rewards->function[f].lane);
    for (size_t c = 0; c < rewards->column_count; c++)
        free(rewards->column[c].name);
    if (rewards->stop_fd >= 0)
        close(rewards->stop_fd);
    pthread_mutex_destroy(&rewards->mutex);
    pthread_cond_destroy(&rewards->work);
    pthread_cond_destroy(&rewards->done);
    free(rewards->function);
    free(rewards->column);
    free(rewards->batch);
    free(rewards->directory);
    free(rewards);
}

const struct dt_reward_column *dt_rewards_columns(
    const struct dt_rewards *rewards, size_t *count)
{
    *count = rewards->column_count;
    return rewards->column;
}

bool dt_rewards_is_model(const struct dt_rewards *rewards)
{
    for (size_t f = 0; f < rewards->function_count; f++)
        if (rewards->function[f].kind->here)
            return true;
    return false;
}

/* --- copies of samples, so that the caller can continue --- */

/* Copies text with U+FFFD for each byte that is no part of a character, and
 * stores its length. NULL: out of memory.
 */
static char *copy_text(const char *text, size_t bytes, size_t *copied)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t bad = 0;
    for (size_t at = 0; at < bytes; at++) {
        at += dt_utf8_check(text + at, bytes - at);
        bad += at < bytes;
    }
    char *copy = malloc(bytes + 2 * bad + 1), *end = copy;
    for (size_t at = 0; copy && at < bytes; at++) {
        size_t good = dt_utf8_check(text + at, bytes - at);
        memcpy(end, text + at, good);
        end += good;
        at += good;
        if (at < bytes)
            end = memcpy(end, replacement, 3), end += 3;
    }
    if (copy) {
        *end = '\0';
        *copied = (size_t)(end - copy);
    }
    return copy;
}

/* The completions of a prompt follow each other, and their common parts are
 * copied once: `copy` was made of `before`, the sample before this one. Both
 * are NULL for the first.
 */
static bool copy_prompt(struct dt_reward_sample *to,
                        const struct dt_reward_sample *from,
                        const struct dt_reward_sample *before,
                        const struct dt_reward_sample *copy)
{
    if (before && from->prompt_text == before->prompt_text &&
        from->prompt_bytes == before->prompt_bytes) {
        to->prompt_text = copy->prompt_text;
        to->prompt_bytes = copy->prompt_bytes;
    } else {
        to->prompt_text =
            copy_text(from->prompt_text, from->prompt_bytes, &to->prompt_bytes);
    }
    to->messages = before && from->messages == before->messages
                       ? json_incref((json_t *)copy->messages)
                       : json_deep_copy(from->messages);
    to->columns = before && from->columns == before->columns
                      ? json_incref((json_t *)copy->columns)
                      : json_deep_copy(from->columns);
    to->images = before && from->images == before->images
                     ? json_incref((json_t *)copy->images)
                     : json_deep_copy(from->images);
    return to->prompt_text && !to->messages == !from->messages &&
           !to->columns == !from->columns && !to->images == !from->images;
}

static bool copy_completion(struct dt_reward_sample *to,
                            const struct dt_reward_sample *from)
{
    int32_t *ids = malloc(from->count * sizeof(*ids) + 1);
    to->completion_text = copy_text(
        from->completion_text, from->completion_bytes, &to->completion_bytes);
    to->ids = ids;
    if (ids && from->count > 0)
        memcpy(ids, from->ids, from->count * sizeof(*ids));
    return to->completion_text && ids;
}

struct dt_reward_batch *dt_reward_batch_create(
    long step, const struct dt_reward_sample *samples, size_t count)
{
    struct dt_reward_batch *batch =
        calloc(1, sizeof(*batch) + count * sizeof(batch->sample[0]));
    bool good = true;
    if (!batch)
        return NULL;
    batch->step = step;
    for (size_t i = 0; i < count && good; i++) {
        batch->sample[i] = samples[i];
        batch->count = i + 1;
        good = copy_prompt(&batch->sample[i], &samples[i],
                           i > 0 ? &samples[i - 1] : NULL,
                           i > 0 ? &batch->sample[i - 1] : NULL);
        good = copy_completion(&batch->sample[i], &samples[i]) && good;
    }
    if (good)
        return batch;
    dt_reward_batch_destroy(batch);
    return NULL;
}

void dt_reward_batch_destroy(struct dt_reward_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = batch->count; i-- > 0;) {
        struct dt_reward_sample *s = &batch->sample[i];
        if (i == 0 || s->prompt_text != s[-1].prompt_text)
            free((char *)s->prompt_text);
        free((char *)s->completion_text);
        free((int32_t *)s->ids);
        json_decref((json_t *)s->messages);
        json_decref((json_t *)s->columns);
        json_decref((json_t *)s->images);
    }
    free(batch);
}

/* --- queueing and collecting --- */

/* Samples of a call: as the file says, or an equal part for each lane. */
static size_t call_size(const struct dt_reward_function *function, size_t count)
{
    size_t even = (count + function->lane_count - 1) / function->lane_count;
    return function->conf->batch_size > 0 ? (size_t)function->conf->batch_size
                                          : even;
}

/* Queues a task for samples first..first + count of a batch. */
static int add_task(struct dt_rewards *rewards,
                    struct dt_reward_function *function,
                    const struct dt_reward_batch *batch, size_t first,
                    size_t count)
{
    struct dt_reward_task *task = malloc(
        sizeof(*task) + count * function->channels * sizeof(task->values[0]));
    if (!task)
        return -1;
    *task = (struct dt_reward_task){
        .behind = rewards->tasks,
        .function = function,
        .part = {.batch = batch, .first = first, .count = count},
        .row = rewards->rows + first,
    };
    rewards->tasks = task;
    if (function->head)
        function->tail->next = task;
    else
        function->head = task;
    function->tail = task;
    function->left++;
    return 0;
}

/* Queues all samples of a batch for all functions. Call with the mutex. */
static int add_tasks(struct dt_rewards *rewards,
                     const struct dt_reward_batch *batch)
{
    for (size_t f = 0; f < rewards->function_count; f++) {
        struct dt_reward_function *function = &rewards->function[f];
        size_t size = call_size(function, batch->count);
        for (size_t i = 0; i < batch->count; i += size) {
            size_t left = batch->count - i;
            if (add_task(rewards, function, batch, i,
                         left < size ? left : size) < 0)
                return -1;
        }
    }
    rewards->rows += batch->count;
    pthread_cond_broadcast(&rewards->work);
    return 0;
}

int dt_rewards_submit(struct dt_rewards *rewards, long step,
                      const struct dt_reward_sample *samples, size_t count,
                      struct dt_error *err)
{
    struct dt_reward_batch **list = realloc(
        rewards->batch, (rewards->batch_count + 1) * sizeof(rewards->batch[0]));
    struct dt_reward_batch *batch =
        list ? dt_reward_batch_create(step, samples, count) : NULL;
    if (list)
        rewards->batch = list;
    if (!batch)
        return dt_error_set(err, EX_OSERR, "out of memory");
    rewards->batch[rewards->batch_count++] = batch;
    pthread_mutex_lock(&rewards->mutex);
    int rc = add_tasks(rewards, batch);
    pthread_mutex_unlock(&rewards->mutex);
    return rc == 0 ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

/* Call with the mutex. */
static double deadline_s(const struct dt_rewards *rewards)
{
    double most = 0;
    for (size_t f = 0; f < rewards->function_count; f++) {
        const struct dt_reward_function *function = &rewards->function[f];
        double rounds =
            ceil((double)function->left / (double)function->lane_count);
        double calls = dt_reward_calls(function->conf);
        most = fmax(most, rounds * calls * dt_reward_call_s(function->conf));
    }
    return most + spare_s;
}

static bool is_done(const struct dt_rewards *rewards)
{
    for (size_t f = 0; f < rewards->function_count; f++)
        if (rewards->function[f].left > 0)
            return false;
    return true;
}

/* Waits for all values, or the first failure. Call with the mutex. */
static int wait_for_values(struct dt_rewards *rewards, struct dt_error *err)
{
    double most = deadline_s(rewards);
    const struct timespec end =
        dt_clock_in(CLOCK_MONOTONIC, (int)fmin(most * 1e3, INT32_MAX));
    int rc = 0;
    while (!is_done(rewards) && !rewards->has_failed && rc == 0)
        rc = pthread_cond_timedwait(&rewards->done, &rewards->mutex, &end);
    if (rewards->has_failed) {
        *err = rewards->failure;
        return -1;
    }
    return is_done(rewards)
               ? 0
               : dt_error_set(err, EX_UNAVAILABLE,
                              "rewards are not there after %.0f s", most);
}

/* Counts failures of a step, which may be collected in several parts, and of
 * the last steps, since a share of few samples tells nothing.
 */
static void count_failed(struct dt_rewards *rewards)
{
    long step = rewards->batch_count > 0 ? rewards->batch[0]->step : 0;
    bool begins = step != rewards->step;
    bool enough = begins && rewards->recent_rows >= RECENT;
    rewards->step = step;
    rewards->step_rows = rewards->rows + (begins ? 0 : rewards->step_rows);
    rewards->recent_rows = rewards->rows + (enough ? 0 : rewards->recent_rows);
    for (size_t f = 0; f < rewards->function_count; f++) {
        struct dt_reward_function *function = &rewards->function[f];
        function->step_failed =
            function->failed + (begins ? 0 : function->step_failed);
        function->recent_failed =
            function->failed + (enough ? 0 : function->recent_failed);
    }
}

static int check_function(const struct dt_rewards *rewards,
                          const struct dt_reward_function *function,
                          struct dt_error *err)
{
    const double share = function->conf->max_failed;
    const double rows = fmax((double)rewards->recent_rows, RECENT);
    if (function->step_failed > 0 && share < 1 &&
        function->step_failed == rewards->step_rows)
        return dt_error_set(err, EX_UNAVAILABLE,
                            "reward %s: none of the %zu completions of the "
                            "step has a reward: the log says why",
                            function->conf->name, rewards->step_rows);
    if ((double)function->recent_failed <= share * rows)
        return 0;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "reward %s: %zu of the last %zu completions have no "
                        "reward, and max_failed allows %.0f of %.0f: the log "
                        "says why",
                        function->conf->name, function->recent_failed,
                        rewards->recent_rows, floor(share * rows), rows);
}

/* Refuses a step when too many samples have failed. */
static int check_failed(struct dt_rewards *rewards, struct dt_error *err)
{
    int rc = 0;
    count_failed(rewards);
    for (size_t f = 0; f < rewards->function_count && rc == 0; f++)
        rc = check_function(rewards, &rewards->function[f], err);
    return rc;
}

static void copy_values(const struct dt_rewards *rewards, double *values)
{
    size_t K = rewards->column_count;
    for (const struct dt_reward_task *t = rewards->tasks; t; t = t->behind)
        for (size_t i = 0; i < t->part.count; i++)
            memcpy(values + (t->row + i) * K + t->function->first,
                   t->values + i * t->function->channels,
                   t->function->channels * sizeof(*values));
}

int dt_rewards_collect(struct dt_rewards *rewards, double *values, size_t rows,
                       struct dt_error *err)
{
    if (rows != rewards->rows)
        return dt_error_set(err, EX_SOFTWARE,
                            "%zu samples were submitted, and %zu are collected",
                            rewards->rows, rows);
    dt_reward_lanes_run(rewards);
    pthread_mutex_lock(&rewards->mutex);
    int rc = wait_for_values(rewards, err);
    pthread_mutex_unlock(&rewards->mutex);
    if (rc < 0 || check_failed(rewards, err) < 0)
        return -1;
    copy_values(rewards, values);
    clear_tasks(rewards);
    return 0;
}
