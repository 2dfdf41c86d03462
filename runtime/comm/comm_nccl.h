/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_nccl.h - operations queued to a stream of NCCL, and the host that
 * watches them; for comm/ only
 *
 * NCCL waits forever for a peer that is gone: the operation stays in the stream
 * and nothing says so. So the host never waits for the GPU alone: it looks at
 * the events of the stream, at what NCCL says, and at the connections between
 * the processes (peers.h), until one of them decides. One thread does all that,
 * the one that calls comm.
 */
#ifndef DT_COMM_COMM_NCCL_H
#define DT_COMM_COMM_NCCL_H

#include "comm/arrivals.h"
#include "comm/comm_impl.h"
#include "comm/nccl_api.h"
#include "device/device_cuda.h"

enum {
    DT_NCCL_QUEUE_SLOTS = 256,   /* unfinished operations, at most */
    DT_NCCL_QUEUE_PAUSE_US = 20, /* between two looks, as in dt_event_wait */
};

enum dt_nccl_queue_state {
    DT_NCCL_APART,    /* not connected to the peers, or has left them */
    DT_NCCL_READY,    /* connected */
    DT_NCCL_STARTING, /* operation started + 1 is on its way to the stream */
    DT_NCCL_FAILED,   /* `failure` says why; has left, and NCCL has ended */
    DT_NCCL_STUCK,    /* has left, and NCCL still holds the GPU */
};

struct dt_nccl_operation {
    cudaEvent_t ready; /* the operation may begin */
    cudaEvent_t done;
    char what[64]; /* "all_reduce(1024 x f32)" */
    bool in_group;
};

struct dt_nccl_queue {
    struct dt_comm base;
    struct dt_peers peers;
    struct dt_arrivals arrivals;
    struct dt_nccl *nccl; /* of the world; a group has its own */
    enum dt_nccl_queue_state state;
    struct dt_error failure;

    struct dt_stream *compute; /* of the views; not owned */
    struct dt_stream own;      /* of the operations; without workspace */

    /* Operation n, from 1 on, has slot n % DT_NCCL_QUEUE_SLOTS. Making the
     * communicator is the first.
     */
    struct dt_nccl_operation slots[DT_NCCL_QUEUE_SLOTS];
    uint64_t started, finished;
    double since; /* when the oldest unfinished one could begin; 0: cannot */
    double next_look; /* at the peers */

    double *scalars, *host_scalars; /* on the GPU, in pinned memory */
    char *send, *receive;           /* staging of bf16, NULL until needed */
};

/* Whether this rank is connected to the others, and whether it has failed. */
static inline bool dt_nccl_queue_is_joined(const struct dt_nccl_queue *queue)
{
    return queue->state == DT_NCCL_READY || queue->state == DT_NCCL_STARTING;
}

static inline bool dt_nccl_queue_has_failed(const struct dt_nccl_queue *queue)
{
    return queue->state == DT_NCCL_FAILED || queue->state == DT_NCCL_STUCK;
}

/* Turns the result of a CUDA call into 0 or -1 and an error (EX_OSERR). */
int dt_nccl_check_cuda(cudaError_t rc, const char *call, struct dt_error *err);

/* Ends the queue after an error: tells the other ranks, names the operation,
 * stops NCCL. `err` is what went wrong, and gets the words for the caller.
 * Always -1.
 */
int dt_nccl_queue_fail(struct dt_nccl_queue *queue, struct dt_error *err);

/* One look at all that may go wrong while this rank waits for something. -1:
 * it did, and the queue has failed.
 */
int dt_nccl_queue_watch(struct dt_nccl_queue *queue, struct dt_error *err);

/* Waits until the last call for `nccl` is through, so that the next one may be
 * made. `rc` is what it returned, with err if that was -1. -1: the queue has
 * failed.
 */
int dt_nccl_queue_wait_call(struct dt_nccl_queue *queue, struct dt_nccl *nccl,
                            int rc, struct dt_error *err);

/* nccl_run.c: the communicator for an operation's world or group. */
struct dt_nccl *dt_nccl_queue_nccl(const struct dt_nccl_queue *queue,
                                   const struct dt_op *op);

/* nccl_run.c: queues an operation on a view. -1: the queue has failed. */
int dt_nccl_queue_run(struct dt_nccl_queue *queue, const struct dt_op *op,
                      struct dt_error *err);

/* Ends the communicators of groups and world as dt_nccl_destroy does. */
bool dt_nccl_queue_end(struct dt_nccl_queue *queue, bool in_order,
                       int timeout_ms);

/* Waits until all up to operation n is done. -1: the queue has failed. */
int dt_nccl_queue_finish(struct dt_nccl_queue *queue, uint64_t n,
                         struct dt_error *err);

/* Waits for what is queued, and not for peers that are late: true if all
 * was done within `timeout_ms`.
 */
bool dt_nccl_queue_drain(struct dt_nccl_queue *queue, int timeout_ms);

#endif /* DT_COMM_COMM_NCCL_H */
