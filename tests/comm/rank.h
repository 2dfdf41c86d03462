/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - ranks that meet over gloo on the CPU or over NCCL on GPUs */
#ifndef DT_TESTS_COMM_RANK_H
#define DT_TESTS_COMM_RANK_H

#include <stdbool.h>

#include "backend/backend.h"
#include "../unit/world.h"

/* The differences between kinds of hardware. */
struct hardware {
    const char *device;  /* for dt_backend_open */
    const char *backend; /* connects several ranks; its name in messages */
    int most_ranks;      /* largest world */
    bool large;          /* fast enough for large tensors */
    bool threads;        /* ranks may share a process */
    bool own_sums;       /* we reduce fp32 ourselves, in the order of ranks */
    bool compares;       /* ranks compare which operation they call */
    bool stages;         /* bf16 is sent through a buffer of fixed size */
};

struct rank {
    const struct dt_device *device;
    struct dt_stream *stream;
    struct dt_event *event;
    struct dt_comm *comm;
    int rank, size;
};

/* The hardware that $DT_TEST_DEVICE names ("cuda"), or the CPU. */
const struct hardware *hardware(void);

/* Runs `size` ranks. Asserts that each returns 0, except `killed` (-1: none),
 * which SIGKILL must end.
 */
void ranks_run(int size, world_rank_f f, void *arg, int killed);

/* Opens the hardware and joins `world`. On -1, r->comm is NULL; the caller
 * calls rank_close in any case.
 */
int rank_open(struct rank *r, const struct dt_comm_world *world, int timeout_ms,
              struct dt_error *err);

/* Leaves the world in order, or because of `why` if that is not NULL. */
void rank_close(struct rank *r, const struct dt_error *why);

/* Waits until everything queued to the stream is done. Returns 0, or -1 as
 * dt_comm_wait_event.
 */
int rank_finish(struct rank *r, struct dt_error *err);

#endif /* DT_TESTS_COMM_RANK_H */
