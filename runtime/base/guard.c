/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - reading a mapped file that may shrink or fail */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "base/guard.h"

static _Thread_local sigjmp_buf *volatile escape; /* of a guarded read */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int readers;             /* threads in dt_guard_run */
static struct sigaction before; /* what SIGBUS does without them */

static void on_sigbus(int signal)
{
    if (escape)
        siglongjmp(*escape, 1);
    sigaction(SIGBUS, &before, NULL);
    raise(signal);
}

static void enter(void)
{
    struct sigaction action = {.sa_handler = on_sigbus};
    pthread_mutex_lock(&lock);
    if (readers++ == 0)
        sigaction(SIGBUS, &action, &before);
    pthread_mutex_unlock(&lock);
}

static void leave(void)
{
    pthread_mutex_lock(&lock);
    if (--readers == 0)
        sigaction(SIGBUS, &before, NULL);
    pthread_mutex_unlock(&lock);
}

int dt_guard_run(void (*read)(void *ctx), void *ctx)
{
    sigjmp_buf here;
    volatile int rc = -1;
    enter();
    if (sigsetjmp(here, 1) == 0) {
        escape = &here;
        read(ctx);
        rc = 0;
    }
    escape = NULL;
    leave();
    return rc;
}
