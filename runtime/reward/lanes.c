/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.c - threads that score queued calls, each with a function */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "base/thread.h"
#include "reward/reward_impl.h"

enum { JOIN_MS = 10000 };

/* --- how each type of function scores, and for how long at most --- */

static const double own_s = 60; /* that a rule or a model may take */
static const double pause_max_s = 60;
static const double ending_s = 2; /* to kill a program */

const struct dt_reward_kind *dt_reward_kind_of(
    const struct dt_conf_reward *conf)
{
    switch (conf->type) {
    case DT_CONF_REWARD_COMMAND:
        return &dt_reward_command;
    case DT_CONF_REWARD_MODEL:
        return &dt_reward_model;
    case DT_CONF_REWARD_HTTP:
        return &dt_reward_http;
    default:
        return &dt_reward_rule;
    }
}

/* Whether a call may succeed when it is repeated: a program or server answers.
 */
static bool is_asked(const struct dt_conf_reward *conf)
{
    const struct dt_reward_kind *kind = dt_reward_kind_of(conf);
    return kind != &dt_reward_rule && kind != &dt_reward_model;
}

int dt_reward_calls(const struct dt_conf_reward *conf)
{
    return is_asked(conf) ? (int)conf->retries + 1 : 1;
}

double dt_reward_pause_s(const struct dt_conf_reward *conf, int call)
{
    double pause = ldexp(dt_reward_kind_of(conf)->pause_s, call);
    return fmin(pause, pause_max_s);
}

double dt_reward_call_s(const struct dt_conf_reward *conf)
{
    double pause = dt_reward_kind_of(conf)->pause_s;
    if (pause > 0)
        return conf->timeout_s + ending_s +
               dt_reward_pause_s(conf, (int)conf->retries);
    return is_asked(conf) ? 2 * conf->timeout_s + ending_s : own_s;
}

/* --- lanes --- */

/* Keeps the first failure, and wakes whoever collects. Call with the mutex. */
static void note_failure(struct dt_rewards *rewards, const struct dt_error *err)
{
    if (!rewards->has_failed)
        rewards->failure = *err;
    rewards->has_failed = true;
    pthread_cond_broadcast(&rewards->done);
}

/* Waits before a call is repeated, unless the lane must stop. */
static void pause_lane(const struct dt_reward_lane *lane, int calls)
{
    struct pollfd stop = {.fd = lane->stop, .events = POLLIN};
    double seconds = dt_reward_pause_s(lane->conf, calls);
    if (seconds > 0)
        poll(&stop, 1, (int)(seconds * 1e3));
}

/* Refuses values that are infinite or too large; those that a flush fills are
 * not there yet.
 */
static int check_values(const struct dt_reward_function *function,
                        const struct dt_reward_task *task, struct dt_error *err)
{
    const struct dt_conf_list *names = &function->conf->channels;
    const size_t K = function->channels;
    for (size_t i = 0; !function->kind->flush && i < task->part.count * K; i++)
        if (fabs(task->values[i]) > DT_REWARD_MOST)
            return dt_error_set(err, EX_PROTOCOL,
                                "\"%s\"[%zu]: %g is too large: expected a "
                                "number from -%g to %g, or none",
                                names->count ? names->text[i % K] : "rewards",
                                i / K, task->values[i], DT_REWARD_MOST,
                                DT_REWARD_MOST);
    return 0;
}

/* Scores a task, and repeats calls that fail. The error is that of the first
 * call, or that of a server that refuses the request and would do so again.
 */
static int call(struct dt_reward_lane *lane, struct dt_reward_task *task,
                struct dt_error *err)
{
    struct dt_reward_function *function = lane->function;
    struct dt_error now;
    int calls = dt_reward_calls(function->conf);
    for (int i = 0; i < calls; i++) {
        if (function->kind->score(lane, &task->part, task->values, &now) == 0 &&
            check_values(function, task, &now) == 0)
            return 0;
        if (i == 0 || now.status == EX_CONFIG)
            *err = now;
        if (lane->rewards->stop || now.status == EX_CONFIG)
            break;
        if (i + 1 == calls)
            break;
        dt_log(DT_LOG_WARN, "reward", "%s: %s; once more", lane->conf->name,
               now.text);
        pause_lane(lane, i);
    }
    return dt_error_prefix(err, "reward %s", lane->conf->name);
}

/* A task failed: that ends the run, or its values are NaN. */
static void give_up(struct dt_reward_lane *lane, struct dt_reward_task *task,
                    const struct dt_error *err)
{
    struct dt_reward_function *function = lane->function;
    size_t n = task->part.count * function->channels;
    if (!function->conf->nan_on_error || err->status == EX_CONFIG) {
        note_failure(lane->rewards, err);
        return;
    }
    for (size_t i = 0; i < n; i++)
        task->values[i] = (double)NAN;
    function->failed += task->part.count;
}

static void score(struct dt_reward_lane *lane, struct dt_reward_task *task)
{
    struct dt_rewards *rewards = lane->rewards;
    struct dt_error err;
    int rc = call(lane, task, &err);
    if (rc < 0 && !rewards->stop && lane->conf->nan_on_error)
        dt_log(DT_LOG_WARN, "reward", "%s; %zu completions have no reward",
               err.text, task->part.count);
    pthread_mutex_lock(&rewards->mutex);
    if (rc < 0)
        give_up(lane, task, &err);
    lane->function->left--;
    pthread_cond_broadcast(&rewards->done);
    pthread_mutex_unlock(&rewards->mutex);
}

/* The next task of the lane's function, or NULL when it must stop. */
static struct dt_reward_task *next_task(struct dt_reward_lane *lane)
{
    struct dt_rewards *rewards = lane->rewards;
    struct dt_reward_function *function = lane->function;
    pthread_mutex_lock(&rewards->mutex);
    while (!rewards->stop && !function->head)
        pthread_cond_wait(&rewards->work, &rewards->mutex);
    struct dt_reward_task *task = rewards->stop ? NULL : function->head;
    if (task)
        function->head = task->next;
    pthread_mutex_unlock(&rewards->mutex);
    return task;
}

static void *run_lane(void *arg)
{
    struct dt_reward_lane *lane = arg;
    struct dt_rewards *rewards = lane->rewards;
    const struct dt_reward_kind *kind = lane->function->kind;
    struct dt_reward_task *task;
    struct dt_span span;
    struct dt_error err;
    dt_span_lane("reward");
    bool good = kind->open(lane, &err) == 0;
    if (!good)
        dt_error_prefix(&err, "reward %s", lane->conf->name);
    pthread_mutex_lock(&rewards->mutex);
    if (!good)
        note_failure(rewards, &err);
    rewards->opening--;
    pthread_cond_broadcast(&rewards->done);
    pthread_mutex_unlock(&rewards->mutex);
    while (good && (task = next_task(lane))) {
        dt_span_begin_number(&span, DT_SPAN_SCORE, task->part.count);
        score(lane, task);
        dt_span_end(&span);
    }
    kind->close(lane);
    return NULL;
}

/* Opens a lane that has no thread. */
static int open_here(struct dt_reward_lane *lane, struct dt_error *err)
{
    lane->open = true;
    return lane->function->kind->open(lane, err) == 0
               ? 0
               : dt_error_prefix(err, "reward %s", lane->conf->name);
}

/* Fills a lane of a function and starts its thread. */
static int start_lane(struct dt_rewards *rewards,
                      struct dt_reward_function *function,
                      struct dt_reward_lane *lane,
                      const struct dt_reward_options *options,
                      struct dt_error *err)
{
    *lane = (struct dt_reward_lane){
        .conf = function->conf,
        .number = (size_t)(lane - function->lane),
        .run = rewards->conf->run.name,
        .directory = rewards->directory,
        .exec = options->exec,
        .dtype = options->dtype,
        .room =
            options->rooms
                ? &options
                       ->rooms[function->conf - rewards->conf->reward.functions]
                : NULL,
        .images = options->images,
        .stop = rewards->stop_fd,
        .rewards = rewards,
        .function = function,
    };
    if (function->kind->here)
        return open_here(lane, err);
    pthread_mutex_lock(&rewards->mutex);
    rewards->opening++;
    pthread_mutex_unlock(&rewards->mutex);
    int rc = dt_thread_start(&lane->thread, "reward", run_lane, lane);
    lane->started = rc == 0;
    return rc == 0 ? 0
                   : dt_error_set(err, EX_OSERR, "cannot start a thread: %s",
                                  strerror(rc));
}

/* Waits until every lane is ready. */
static int wait_for_lanes(struct dt_rewards *rewards, struct dt_error *err)
{
    double most = 0;
    for (size_t f = 0; f < rewards->function_count; f++)
        most = fmax(most, dt_reward_call_s(rewards->function[f].conf));
    const struct timespec end =
        dt_clock_in(CLOCK_MONOTONIC, (int)((most + 10) * 1e3));
    int rc = 0;
    pthread_mutex_lock(&rewards->mutex);
    while (rewards->opening > 0 && !rewards->has_failed && rc == 0)
        rc = pthread_cond_timedwait(&rewards->done, &rewards->mutex, &end);
    bool good = rewards->opening == 0 && !rewards->has_failed;
    if (rewards->has_failed)
        *err = rewards->failure;
    else if (!good)
        dt_error_set(err, EX_UNAVAILABLE,
                     "reward functions are not ready after %.0f s", most + 10);
    pthread_mutex_unlock(&rewards->mutex);
    return good ? 0 : -1;
}

int dt_reward_lanes_start(struct dt_rewards *rewards,
                          const struct dt_reward_options *options,
                          struct dt_error *err)
{
    rewards->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rewards->stop_fd < 0)
        return dt_error_set(err, EX_OSERR, "eventfd: %s", strerror(errno));
    for (size_t f = 0; f < rewards->function_count; f++) {
        struct dt_reward_function *function = &rewards->function[f];
        for (size_t i = 0; i < function->lane_count; i++)
            if (start_lane(rewards, function, &function->lane[i], options,
                           err) < 0)
                return -1;
    }
    return wait_for_lanes(rewards, err);
}

/* Calls that are queued for a function of the caller's thread. */
static void run_here(struct dt_rewards *rewards,
                     struct dt_reward_function *function)
{
    struct dt_reward_lane *lane = &function->lane[0];
    struct dt_error err;
    while (function->head) {
        struct dt_reward_task *task = function->head;
        function->head = task->next;
        score(lane, task);
    }
    if (function->kind->flush(lane, &err) == 0)
        return;
    dt_error_prefix(&err, "reward %s", lane->conf->name);
    pthread_mutex_lock(&rewards->mutex);
    note_failure(rewards, &err);
    pthread_mutex_unlock(&rewards->mutex);
}

void dt_reward_lanes_run(struct dt_rewards *rewards)
{
    for (size_t f = 0; f < rewards->function_count; f++)
        if (rewards->function[f].kind->here)
            run_here(rewards, &rewards->function[f]);
}

bool dt_reward_lanes_stop(struct dt_rewards *rewards)
{
    const struct timespec end = dt_clock_in(CLOCK_REALTIME, JOIN_MS);
    bool all = true;
    pthread_mutex_lock(&rewards->mutex);
    rewards->stop = true;
    pthread_cond_broadcast(&rewards->work);
    pthread_mutex_unlock(&rewards->mutex);
    if (rewards->stop_fd >= 0)
        eventfd_write(rewards->stop_fd, 1);
    for (size_t f = 0; f < rewards->function_count; f++) {
        struct dt_reward_function *function = &rewards->function[f];
        for (size_t i = 0; i < function->lane_count; i++)
            if (function->lane && function->lane[i].open)
                function->kind->close(&function->lane[i]);
            else if (function->lane && function->lane[i].started &&
                     pthread_timedjoin_np(function->lane[i].thread, NULL,
                                          &end) != 0)
                all = false;
    }
    return all;
}
