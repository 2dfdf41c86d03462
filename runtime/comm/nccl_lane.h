/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_lane.h - a stream in which NCCL works, and the host that watches it; for
 * comm/ only
 *
 * NCCL waits for ever for a peer that is gone: the operation stays in the
 * stream and nothing says so. So the host never waits for the card alone: it
 * looks at the events of the lane, at what NCCL says, and at the connections
 * between the processes (peers.h), until one of them decides. One thread does
 * all that, the one that calls comm.
 */
#ifndef DT_COMM_NCCL_LANE_H
#define DT_COMM_NCCL_LANE_H

#include "comm/comm_nccl.h"
#include "comm/impl.h"
#include "comm/roll.h"
#include "ops/cuda/cuda.h"

enum {
    DT_LANE_SLOTS = 256,   /* operations under way, at most */
    DT_LANE_PAUSE_US = 20, /* between two looks, as in dt_event_wait */
};

struct dt_lane_slot {
    cudaEvent_t ready; /* the operation may begin */
    cudaEvent_t done;
    char what[64]; /* "all_reduce(1024 x f32)" */
};

struct dt_lane {
    struct dt_comm base;
    struct dt_peers peers;
    struct dt_roll roll;
    bool joined; /* peers and roll are there, and not yet left */
    struct dt_nccl *nccl;
    bool stuck; /* NCCL did not let go of the card */

    struct dt_stream *compute; /* of the views; not owned */
    struct dt_stream own;      /* the lane; without workspace */

    /* Operation n, from 1 on, has slot n % DT_LANE_SLOTS. Making the
     * communicator is the first.
     */
    struct dt_lane_slot slots[DT_LANE_SLOTS];
    uint64_t started, finished;
    bool settling; /* operation started + 1 is on its way to the stream */
    double since;  /* when the oldest unfinished one could begin; 0: cannot */
    double next_look; /* at the peers */

    bool failed;
    struct dt_error failure;

    double *scalars, *host_scalars; /* on the card, in pinned memory */
    char *send, *receive;           /* staging of bf16, NULL until needed */
};

/* Turns the result of a CUDA call into 0 or -1 and an error (EX_OSERR). */
int dt_lane_cuda(cudaError_t rc, const char *call, struct dt_error *err);

/* Ends the lane after an error: tells the other ranks, names the operation,
 * stops NCCL. `err` is what went wrong, and gets the words for the caller.
 * Always -1.
 */
int dt_lane_fail(struct dt_lane *lane, struct dt_error *err);

/* One look at all that may go wrong while this rank waits for something. -1:
 * it did, and the lane has failed.
 */
int dt_lane_watch(struct dt_lane *lane, struct dt_error *err);

/* Waits until the last call of NCCL is through, so that the next one may be
 * made. `rc` is what it returned, with err if that was -1. -1: the lane has
 * failed.
 */
int dt_lane_settle(struct dt_lane *lane, int rc, struct dt_error *err);

/* Waits until all up to operation n is done. -1: the lane has failed. */
int dt_lane_finish(struct dt_lane *lane, uint64_t n, struct dt_error *err);

/* Waits for what is in the lane, but not for peers that are late: true if all
 * was done within `timeout_ms`.
 */
bool dt_lane_drain(struct dt_lane *lane, int timeout_ms);

#endif /* DT_COMM_NCCL_LANE_H */
