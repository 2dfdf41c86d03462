/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch_call.h - a call that may hang, waited for with a deadline; for launch/
 * only
 *
 * A call is shared by the one who waits for it and the one who finishes it, a
 * thread or a callback; the last of them frees it. One that hangs is left
 * behind with its thread.
 */
#ifndef DT_LAUNCH_LAUNCH_CALL_H
#define DT_LAUNCH_LAUNCH_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* The first member of a malloc'ed struct with arguments and results. */
struct dt_call {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int holders;
    bool done;
    int status;
    int (*run)(struct dt_call *call); /* what dt_call_run runs */
    void (*fini)(struct dt_call *call);
};

/* Prepares a call for the two who share it; fini releases all but the call
 * itself.
 */
void dt_call_init(struct dt_call *call, int (*run)(struct dt_call *call),
                  void (*fini)(struct dt_call *call));

/* Ends the use of one of the two; the second time, frees the call. */
void dt_call_drop(struct dt_call *call);

/* The finishing side's last use of the call: it ends with this status. */
void dt_call_finish(struct dt_call *call, int status);

/* Waits until the call is finished. True and *status, or false if it is not by
 * `deadline` (CLOCK_MONOTONIC).
 */
bool dt_call_wait(struct dt_call *call, const struct timespec *deadline,
                  int *status);

/* Runs call->run in a thread that takes no signals, which finishes the call;
 * with status `failed`, if there can be no thread.
 */
void dt_call_start(struct dt_call *call, int failed);

#endif /* DT_LAUNCH_LAUNCH_CALL_H */
