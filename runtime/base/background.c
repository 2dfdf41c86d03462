/* SPDX-License-Identifier: Apache-2.0 */
/* background.c - a thread, and a ring of items that it is to work on */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/clock.h"
#include "base/thread.h"

enum { MOST = 4096 }; /* items that are not done */

struct dt_background {
    void (*work)(void *ctx, void *item);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t given, done;
    void *items[MOST]; /* a ring: the one at hand, and those that wait */
    size_t first, count;
    bool end, left;
};

static void release(struct dt_background *b)
{
    pthread_cond_destroy(&b->given);
    pthread_cond_destroy(&b->done);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static void *run(void *arg)
{
    struct dt_background *b = arg;
    pthread_mutex_lock(&b->lock);
    while (!b->left && (b->count > 0 || !b->end)) {
        if (b->count == 0) {
            pthread_cond_wait(&b->given, &b->lock);
            continue;
        }
        void *item = b->items[b->first];
        pthread_mutex_unlock(&b->lock);
        b->work(b->ctx, item);
        pthread_mutex_lock(&b->lock);
        b->first = (b->first + 1) % MOST;
        if (--b->count == 0)
            pthread_cond_signal(&b->done);
    }
    const bool left = b->left;
    pthread_mutex_unlock(&b->lock);
    if (left)
        release(b);
    return NULL;
}

static int init_conditions(struct dt_background *b)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int bad = pthread_cond_init(&b->done, &attr);
    pthread_condattr_destroy(&attr);
    if (bad == 0)
        bad = pthread_cond_init(&b->given, NULL);
    return bad ? bad : pthread_mutex_init(&b->lock, NULL);
}

struct dt_background *dt_background_create(const char *name,
                                           void (*work)(void *ctx, void *item),
                                           void *ctx, struct dt_error *err)
{
    struct dt_background *b = calloc(1, sizeof(*b));
    if (!b) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    b->work = work;
    b->ctx = ctx;
    int bad = init_conditions(b);
    if (bad == 0)
        bad = dt_thread_start(&b->thread, name, run, b);
    if (bad == 0)
        return b;
    dt_error_set(err, EX_OSERR, "cannot start a thread: %s", strerror(bad));
    free(b);
    return NULL;
}

/* Waits until nothing is left to do; the lock is held. */
static bool wait_done(struct dt_background *b, int wait_ms)
{
    const struct timespec until = dt_clock_in(CLOCK_MONOTONIC, wait_ms);
    while (b->count > 0 &&
           pthread_cond_timedwait(&b->done, &b->lock, &until) == 0)
        ;
    return b->count == 0;
}

int dt_background_give(struct dt_background *b, void *item, int wait_ms)
{
    int rc = -1;
    pthread_mutex_lock(&b->lock);
    if (b->count < MOST) {
        const bool late = b->count > 0;
        b->items[(b->first + b->count++) % MOST] = item;
        pthread_cond_signal(&b->given);
        rc = late || !wait_done(b, wait_ms);
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

bool dt_background_wait(struct dt_background *b, int wait_ms)
{
    pthread_mutex_lock(&b->lock);
    const bool done = wait_done(b, wait_ms);
    pthread_mutex_unlock(&b->lock);
    return done;
}

bool dt_background_destroy(struct dt_background *b, int wait_ms)
{
    if (!b)
        return true;
    pthread_mutex_lock(&b->lock);
    const bool done = wait_done(b, wait_ms);
    const pthread_t thread = b->thread;
    b->end = true;
    b->left = !done; /* the thread releases it */
    pthread_cond_signal(&b->given);
    pthread_mutex_unlock(&b->lock);
    if (!done) {
        pthread_detach(thread);
        return false;
    }
    pthread_join(thread, NULL);
    release(b);
    return true;
}

bool dt_background_is_left(struct dt_background *b)
{
    pthread_mutex_lock(&b->lock);
    const bool left = b->left;
    pthread_mutex_unlock(&b->lock);
    return left;
}
