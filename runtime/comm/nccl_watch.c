/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_watch.c - waiting for NCCL, and finding out for whom it waits */
#include "config.h"

#include "base/clock.h"
#include "comm/comm_nccl.h"

enum {
    LOOK_MS = 50,   /* how often a waiting rank looks at all the others */
    HEAR_MS = 1000, /* for the watch to hear of a loss that NCCL knows */
    ABORT_MS = 500, /* for NCCL to let go of the GPU */
    SPIN_US = 200,  /* most calls are through by then */
};

int dt_nccl_check_cuda(cudaError_t rc, const char *call, struct dt_error *err)
{
    if (rc == cudaSuccess)
        return 0;
    return dt_error_set(err, EX_OSERR, "%s: %s", call, dt_cuda_words(rc));
}

static struct dt_nccl_operation *operation_of(struct dt_nccl_queue *queue,
                                              uint64_t n)
{
    return &queue->slots[n % DT_NCCL_QUEUE_SLOTS];
}

/* By force the world comes first: while one of its ranks is being split off,
 * NCCL writes into the group, also when that fails. If the world does not end,
 * such a group stays.
 */
bool dt_nccl_queue_end(struct dt_nccl_queue *queue, bool in_order,
                       int timeout_ms)
{
    bool over = in_order || dt_nccl_destroy(queue->nccl, false, timeout_ms);
    for (struct dt_comm *g = queue->base.groups; g; g = g->next) {
        if (over || dt_nccl_is_made(g->own))
            over &= dt_nccl_destroy(g->own, in_order, timeout_ms);
        g->own = NULL;
    }
    if (in_order)
        over &= dt_nccl_destroy(queue->nccl, true, timeout_ms);
    queue->nccl = NULL;
    return over;
}

int dt_nccl_queue_fail(struct dt_nccl_queue *queue, struct dt_error *err)
{
    bool inside =
        queue->finished < queue->started || queue->state == DT_NCCL_STARTING;
    /* before anybody hears of it: the caller may end the process at once */
    if (dt_nccl_queue_is_joined(queue))
        dt_peers_leave(&queue->peers, err);
    if (inside)
        dt_error_prefix(err, "%s",
                        operation_of(queue, queue->finished + 1)->what);
    dt_error_prefix(err, "comm/nccl");
    queue->failure = *err;
    queue->state = dt_nccl_queue_end(queue, false, ABORT_MS) ? DT_NCCL_FAILED
                                                             : DT_NCCL_STUCK;
    return -1;
}

/* 1: the event has been passed, 0: not yet. */
static int event_passed(cudaEvent_t event, struct dt_error *err)
{
    cudaError_t rc = cudaEventQuery(event);
    if (rc == cudaErrorNotReady)
        return 0;
    return dt_nccl_check_cuda(rc, "cudaEventQuery", err) < 0 ? -1 : 1;
}

/* Counts the finished operations, and notes since when the next one could run.
 */
static int count_finished(struct dt_nccl_queue *queue, struct dt_error *err)
{
    int rc;
    while (queue->finished < queue->started) {
        rc = event_passed(operation_of(queue, queue->finished + 1)->done, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            break;
        queue->finished++;
        queue->since = 0;
    }
    if (queue->since > 0)
        return 0;
    rc = queue->state == DT_NCCL_STARTING;
    if (queue->finished < queue->started)
        rc = event_passed(operation_of(queue, queue->finished + 1)->ready, err);
    if (rc == 1)
        queue->since = dt_clock_now();
    return rc < 0 ? -1 : 0;
}

/* Has somebody left who would have to take part in operation `place`? */
static int look_for_left(struct dt_nccl_queue *queue, uint64_t place,
                         struct dt_error *err)
{
    const struct dt_peers *p = &queue->peers;
    for (int r = 0; r < p->size; r++)
        if (p->left[r] && p->others[r].started < place)
            return dt_peers_about(p, r, err,
                                  " has exited normally: it started fewer "
                                  "operations than this rank");
    return 0;
}

/* Does the oldest unfinished operation take too long? */
static int look_at_clock(struct dt_nccl_queue *queue, double now,
                         struct dt_error *err)
{
    uint64_t place = queue->finished + 1;
    const struct dt_nccl_operation *operation = operation_of(queue, place);
    const char *what = operation->what;
    double waited_ms = (now - queue->since) * 1000;
    int timeout_ms = queue->peers.timeout_ms;
    int say_ms = dt_arrivals_silence_ms(timeout_ms);
    bool others = dt_arrivals_receive(&queue->arrivals, place);
    if (queue->since == 0)
        return 0;
    if (look_for_left(queue, place, err) < 0)
        return -1;
    if (others || waited_ms >= say_ms)
        dt_arrivals_announce(&queue->arrivals, place, what);
    if (waited_ms >= timeout_ms)
        return dt_arrivals_missing(&queue->arrivals, place, what,
                                   operation->in_group, timeout_ms, err);
    return 0;
}

/* NCCL has failed, with the words in err: because a rank is lost, in most
 * cases. Then err becomes the error of the watch.
 */
static int name_lost_rank(struct dt_nccl_queue *queue, struct dt_error *err)
{
    double deadline = dt_clock_now() + HEAR_MS / 1000.0;
    struct dt_error better;
    do {
        if (dt_peers_look(&queue->peers, &better) < 0) {
            *err = better;
            break;
        }
        dt_clock_sleep(LOOK_MS / 1000.0);
    } while (dt_clock_now() < deadline);
    return -1;
}

/* -1: one of the communicators has failed. */
static int look_at_nccl(struct dt_nccl_queue *queue, struct dt_error *err)
{
    int rc = dt_nccl_state(queue->nccl, err);
    for (struct dt_comm *g = queue->base.groups; g && rc >= 0; g = g->next)
        if (g->own)
            rc = dt_nccl_state(g->own, err);
    return rc < 0 ? -1 : 0;
}

static int look_at_all(struct dt_nccl_queue *queue, struct dt_error *err)
{
    double now = dt_clock_now();
    if (count_finished(queue, err) < 0)
        return -1;
    /* who waits for nobody learns of losses in its next operation */
    if (now < queue->next_look ||
        (queue->finished == queue->started && queue->state != DT_NCCL_STARTING))
        return 0;
    queue->next_look = now + LOOK_MS / 1000.0;
    if (look_at_nccl(queue, err) < 0)
        return name_lost_rank(queue, err);
    if (dt_peers_look(&queue->peers, err) < 0)
        return -1;
    return look_at_clock(queue, now, err);
}

int dt_nccl_queue_watch(struct dt_nccl_queue *queue, struct dt_error *err)
{
    if (!dt_nccl_queue_has_failed(queue) && look_at_all(queue, err) == 0)
        return 0;
    if (!dt_nccl_queue_has_failed(queue))
        return dt_nccl_queue_fail(queue, err);
    *err = queue->failure;
    return -1;
}

int dt_nccl_queue_wait_call(struct dt_nccl_queue *queue, struct dt_nccl *nccl,
                            int rc, struct dt_error *err)
{
    double begun = dt_clock_now();
    rc = rc < 0 ? -1 : dt_nccl_state(nccl, err);
    while (rc == 0) {
        if (dt_nccl_queue_watch(queue, err) < 0)
            return -1;
        if (dt_clock_now() - begun > SPIN_US * 1e-6)
            dt_clock_sleep(DT_NCCL_QUEUE_PAUSE_US * 1e-6);
        rc = dt_nccl_state(nccl, err);
    }
    if (rc == 1)
        return 0;
    name_lost_rank(queue, err);
    return dt_nccl_queue_fail(queue, err);
}

int dt_nccl_queue_finish(struct dt_nccl_queue *queue, uint64_t n,
                         struct dt_error *err)
{
    while (queue->finished < n) {
        if (dt_nccl_queue_watch(queue, err) < 0)
            return -1;
        dt_clock_sleep(DT_NCCL_QUEUE_PAUSE_US * 1e-6);
    }
    return 0;
}

bool dt_nccl_queue_drain(struct dt_nccl_queue *queue, int timeout_ms)
{
    double deadline = dt_clock_now() + timeout_ms / 1000.0;
    struct dt_error why;
    while (count_finished(queue, &why) == 0) {
        if (queue->finished == queue->started)
            return true;
        if (dt_clock_now() >= deadline)
            break;
        dt_clock_sleep(DT_NCCL_QUEUE_PAUSE_US * 1e-6);
    }
    return false;
}
