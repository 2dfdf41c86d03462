/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - threads that take no signals */
#ifndef DT_BASE_THREAD_H
#define DT_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a thread that runs entry(arg) with all signals blocked: they are left
 * to the threads that handle them. ps and gdb show `name`, of up to 15
 * bytes; NULL: the name of this thread. Returns 0 or an errno; the caller joins
 * or detaches the thread.
 */
int dt_thread_start(pthread_t *thread, const char *name,
                    void *(*entry)(void *arg), void *arg);

/* Blocks all signals in this thread, for a library that starts threads of its
 * own. The caller restores *before with pthread_sigmask.
 */
void dt_thread_block_signals(sigset_t *before);

#ifdef __cplusplus
}
#endif

#endif /* DT_BASE_THREAD_H */
