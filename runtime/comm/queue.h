/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - operations in the order in which they were started, on a thread
 * of their own; for comm/ only
 *
 * The thread sleeps when there is nothing to do and takes no signals. After
 * the first failure nothing runs any more and everybody gets that failure.
 */
#ifndef DT_COMM_QUEUE_H
#define DT_COMM_QUEUE_H

#include "comm/impl.h"

struct dt_queue;

/* What the thread does; all get the `ctx` of dt_queue_create. */
struct dt_queue_calls {
    /* one operation */
    int (*run)(void *ctx, const struct dt_op *op, struct dt_error *err);
    /* between operations, twice a second; NULL: nothing. -1: the failure */
    int (*idle)(void *ctx, struct dt_error *err);
    /* the last thing that happens on the thread, also after a failure */
    void (*leave)(void *ctx);
};

/* `calls` is copied. NULL: EX_OSERR. */
struct dt_queue *dt_queue_create(const struct dt_queue_calls *calls, void *ctx,
                                 struct dt_error *err);

/* Waits for the operation that is running, if any, and ends the thread; what
 * has not begun is dropped. NULL is fine.
 */
void dt_queue_destroy(struct dt_queue *queue);

/* Appends a copy of op. -1: the failure, or EX_OSERR. */
int dt_queue_start(struct dt_queue *queue, const struct dt_op *op,
                   dt_ticket_t *ticket, struct dt_error *err);

/* Returns when `ticket` and all before it are done. -1: the failure. */
int dt_queue_wait(struct dt_queue *queue, dt_ticket_t ticket,
                  struct dt_error *err);

#endif /* DT_COMM_QUEUE_H */
