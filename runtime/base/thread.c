/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - threads that take no signals */
#include "config.h"

#include <stddef.h>

#include "base/thread.h"

void dt_thread_block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

/* A new thread inherits the mask, so that it has no moment without it. */
int dt_thread_start(pthread_t *thread, const char *name,
                    void *(*entry)(void *arg), void *arg)
{
    sigset_t before;
    dt_thread_block_signals(&before);
    int rc = pthread_create(thread, NULL, entry, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0 && name)
        pthread_setname_np(*thread, name);
    return rc;
}
