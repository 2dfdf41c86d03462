/* SPDX-License-Identifier: Apache-2.0 */
/* launch_call.c - a call that may hang, waited for with a deadline */
#include "config.h"

#include <stdlib.h>

#include "base/thread.h"
#include "launch/launch_call.h"

void dt_call_init(struct dt_call *call, int (*run)(struct dt_call *call),
                  void (*fini)(struct dt_call *call))
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&call->mutex, NULL);
    pthread_cond_init(&call->cond, &attr);
    pthread_condattr_destroy(&attr);
    call->holders = 2;
    call->done = false;
    call->run = run;
    call->fini = fini;
}

void dt_call_drop(struct dt_call *call)
{
    bool last;
    pthread_mutex_lock(&call->mutex);
    last = --call->holders == 0;
    pthread_mutex_unlock(&call->mutex);
    if (!last)
        return;
    call->fini(call);
    pthread_cond_destroy(&call->cond);
    pthread_mutex_destroy(&call->mutex);
    free(call);
}

void dt_call_finish(struct dt_call *call, int status)
{
    pthread_mutex_lock(&call->mutex);
    call->status = status;
    call->done = true;
    pthread_cond_signal(&call->cond);
    pthread_mutex_unlock(&call->mutex);
    dt_call_drop(call);
}

bool dt_call_wait(struct dt_call *call, const struct timespec *deadline,
                  int *status)
{
    bool done;
    int rc = 0;
    pthread_mutex_lock(&call->mutex);
    while (!call->done && rc == 0)
        rc = pthread_cond_timedwait(&call->cond, &call->mutex, deadline);
    done = call->done;
    if (done)
        *status = call->status;
    pthread_mutex_unlock(&call->mutex);
    return done;
}

static void *call_main(void *arg)
{
    struct dt_call *call = arg;
    dt_call_finish(call, call->run(call));
    return NULL;
}

void dt_call_start(struct dt_call *call, int failed)
{
    pthread_t thread;
    if (dt_thread_start(&thread, NULL, call_main, call) == 0)
        pthread_detach(thread);
    else
        dt_call_finish(call, failed);
}
