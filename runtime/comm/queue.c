/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - one progress thread, fed in order */
#include "config.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/span.h"
#include "base/thread.h"
#include "comm/comm_gloo.h"

struct item {
    struct item *next;
    struct dt_op op;
};

enum { IDLE_MS = 500 };

struct dt_queue {
    struct dt_queue_calls calls;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t work;   /* for the thread: an item, or stop */
    pthread_cond_t done;   /* for waiters: finished or failed */
    struct item *first, **last;
    dt_ticket_t started, finished;
    bool stop, failed;
    struct dt_error failure;
};

/* The mutex is held. */
static void fail(struct dt_queue *q, const struct dt_error *err)
{
    q->failed = true;
    q->failure = *err;
    pthread_cond_broadcast(&q->done);
}

/* Waits for work, for a while if there is something to do meanwhile. */
static void queue_rest(struct dt_queue *q)
{
    struct timespec end = dt_clock_in(CLOCK_MONOTONIC, IDLE_MS);
    struct dt_error err;
    int rc;
    if (!q->calls.idle) {
        pthread_cond_wait(&q->work, &q->mutex);
        return;
    }
    if (pthread_cond_timedwait(&q->work, &q->mutex, &end) == 0)
        return;
    pthread_mutex_unlock(&q->mutex);
    rc = q->calls.idle(q->ctx, &err);
    pthread_mutex_lock(&q->mutex);
    if (rc < 0)
        fail(q, &err);
}

/* Takes the next item; NULL when it is time to stop. */
static struct item *queue_take(struct dt_queue *q)
{
    struct item *item;
    while (!q->first && !q->stop && !q->failed)
        queue_rest(q);
    if (q->stop || q->failed)
        return NULL;
    item = q->first;
    q->first = item->next;
    if (!q->first)
        q->last = &q->first;
    return item;
}

static void *queue_main(void *arg)
{
    struct dt_queue *q = arg;
    struct dt_error err;
    struct item *item;
    int rc;
    dt_span_lane("comm");
    pthread_mutex_lock(&q->mutex);
    while (!q->failed && (item = queue_take(q))) {
        pthread_mutex_unlock(&q->mutex);
        rc = q->calls.run(q->ctx, &item->op, &err);
        free(item);
        pthread_mutex_lock(&q->mutex);
        q->finished++;
        if (rc < 0)
            fail(q, &err);
        pthread_cond_broadcast(&q->done);
    }
    pthread_mutex_unlock(&q->mutex);
    q->calls.leave(q->ctx);
    return NULL;
}

struct dt_queue *dt_queue_create(const struct dt_queue_calls *calls, void *ctx,
                                 struct dt_error *err)
{
    struct dt_queue *q = calloc(1, sizeof(*q));
    pthread_condattr_t attr;
    if (!q) {
        dt_error_set(err, EX_OSERR, "no memory for a queue");
        return NULL;
    }
    q->calls = *calls;
    q->ctx = ctx;
    q->last = &q->first;
    pthread_mutex_init(&q->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->work, &attr);
    pthread_condattr_destroy(&attr);
    pthread_cond_init(&q->done, NULL);
    if (dt_thread_start(&q->thread, NULL, queue_main, q) == 0)
        return q;
    dt_error_set(err, EX_OSERR, "cannot start a thread");
    free(q);
    return NULL;
}

void dt_queue_destroy(struct dt_queue *q)
{
    struct item *next;
    if (!q)
        return;
    pthread_mutex_lock(&q->mutex);
    q->stop = true;
    pthread_cond_signal(&q->work);
    pthread_mutex_unlock(&q->mutex);
    pthread_join(q->thread, NULL);
    for (struct item *item = q->first; item; item = next) {
        next = item->next;
        free(item);
    }
    pthread_cond_destroy(&q->work);
    pthread_cond_destroy(&q->done);
    pthread_mutex_destroy(&q->mutex);
    free(q);
}

/* The mutex is held. */
static int give_failure(const struct dt_queue *q, struct dt_error *err)
{
    if (err)
        *err = q->failure;
    return -1;
}

int dt_queue_start(struct dt_queue *q, const struct dt_op *op,
                   dt_ticket_t *ticket, struct dt_error *err)
{
    struct item *item = malloc(sizeof(*item));
    int rc = 0;
    if (!item)
        return dt_error_set(err, EX_OSERR, "comm: no memory");
    item->op = *op;
    item->next = NULL;
    pthread_mutex_lock(&q->mutex);
    if (q->failed) {
        rc = give_failure(q, err);
        free(item);
    } else {
        *q->last = item;
        q->last = &item->next;
        *ticket = ++q->started;
        pthread_cond_signal(&q->work);
    }
    pthread_mutex_unlock(&q->mutex);
    return rc;
}

int dt_queue_wait(struct dt_queue *q, dt_ticket_t ticket, struct dt_error *err)
{
    int rc = 0;
    pthread_mutex_lock(&q->mutex);
    while (!q->failed && q->finished < ticket)
        pthread_cond_wait(&q->done, &q->mutex);
    if (q->failed)
        rc = give_failure(q, err);
    pthread_mutex_unlock(&q->mutex);
    return rc;
}
