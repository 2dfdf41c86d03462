/* SPDX-License-Identifier: Apache-2.0 */
/*
 * comm_nccl.h - operations queued to a stream of NCCL, and the host that
 * watches them (private to comm/)
 *
 * NCCL waits forever for a peer that is gone: the operation stays in the
 * stream, and no error is reported. So the host never waits for the GPU alone:
 * it looks at the events of the stream, at the state of NCCL, and at the
 * connections between the processes (peers.h), until one of them decides. One
 * thread does all that, the one that calls comm.
 */
#ifndef DT_COMM_COMM_NCCL_H
#define DT_COMM_COMM_NCCL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "comm/comm.h"
#include "comm/comm_impl.h"
#include "comm/peers.h"
#include "device/device_cuda.h"

/* --- nccl_api.c: the calls of NCCL, for those who do not see its header ---
 *
 * The library is opened when the first communicator is made, so that one GPU
 * needs no NCCL. Calls return at once: until dt_nccl_state says that the last
 * one is through, no other may be made, and the work is not yet in the stream.
 * One thread makes all calls. Errors are EX_OSERR with the name of the function
 * and the words of NCCL.
 */

struct dt_nccl; /* one communicator */

enum {
    DT_NCCL_ID_BYTES = 128,
};

/* One of the meeting points of a world that is about to be made. */
struct dt_nccl_id {
    char bytes[DT_NCCL_ID_BYTES];
};

/* Opens libnccl.so.2, or takes the one that is in the process already, and
 * writes its version (22809 is 2.28.9). -1: it is missing or too old
 * (EX_UNAVAILABLE).
 */
int dt_nccl_open(int *version, struct dt_error *err);

/* May several ids be used for one communicator? From 2.23 on. */
bool dt_nccl_many_ids(void);

/* Begins to listen for the ranks that get this id; for one communicator. */
int dt_nccl_listen(struct dt_nccl_id *id, struct dt_error *err);

/* Begins to make a communicator on the current GPU. The ids are those of the
 * ranks that dt_nccl_root gives, in this order, the same on all ranks.
 */
struct dt_nccl *dt_nccl_create(int rank, int size, const struct dt_nccl_id *ids,
                               int id_count, struct dt_error *err);

/* Begins to make a communicator of some ranks of `nccl`: of those with the same
 * color (0 or more), in the order of their keys; all ranks of `nccl` call it.
 * The call is through when it is for `nccl`, and then for the new one. NULL and
 * err: EX_UNAVAILABLE before NCCL 2.18.
 */
struct dt_nccl *dt_nccl_split(struct dt_nccl *nccl, int color, int key,
                              int rank, int size, struct dt_error *err);

/* Has a split given it its communicator? NULL is fine. */
bool dt_nccl_is_made(const struct dt_nccl *nccl);

/* 1: the last call is through, 0: not yet, -1: the communicator has failed. */
int dt_nccl_state(struct dt_nccl *nccl, struct dt_error *err);

/* Ends the communicator in a thread of its own: in order, or else by force,
 * which removes its operations from the stream. True if that is over within
 * `timeout_ms`; otherwise the thread goes on alone, and memory that NCCL uses
 * must not be freed. NULL is fine.
 */
bool dt_nccl_destroy(struct dt_nccl *nccl, bool in_order, int timeout_ms);

/* Lets the network reach `bytes` at `data` directly, until that is taken back
 * from all memory. Without effect where it cannot be.
 */
void dt_nccl_register(struct dt_nccl *nccl, void *data, size_t bytes);

/* Takes it back, before the memory is freed and others may get its address; by
 * then the last call is through and all operations are done.
 */
void dt_nccl_deregister(struct dt_nccl *nccl);

/* The collectives of NCCL, in place, queued to `stream`; `count` elements in
 * all. Types: F32, F64 and BF16 where something is added, bytes elsewhere.
 */
int dt_nccl_all_reduce(struct dt_nccl *nccl, void *data, size_t count,
                       enum dt_dtype dtype, enum dt_reduce op,
                       cudaStream_t stream, struct dt_error *err);
int dt_nccl_reduce_scatter(struct dt_nccl *nccl, void *data, size_t count,
                           enum dt_dtype dtype, enum dt_reduce op,
                           cudaStream_t stream, struct dt_error *err);
int dt_nccl_all_gather(struct dt_nccl *nccl, void *data, size_t bytes,
                       cudaStream_t stream, struct dt_error *err);
int dt_nccl_broadcast(struct dt_nccl *nccl, void *data, size_t bytes, int root,
                      cudaStream_t stream, struct dt_error *err);

/* Part r of `from`, of `part_bytes` bytes, goes to rank r, which keeps it as
 * part `rank` of its `to`. The own part is not copied.
 */
int dt_nccl_swap(struct dt_nccl *nccl, void *to, const void *from,
                 size_t part_bytes, cudaStream_t stream, struct dt_error *err);

/* --- nccl_bootstrap.c: facts that ranks exchange before they connect --- */

enum {
    DT_NCCL_RANKS_PER_ID = 128, /* that connect to one root, at most */
};

/* One rank, as the others see it. */
struct dt_nccl_facts {
    int version;       /* of NCCL */
    char gpu[32];      /* "00000000:17:00.0" */
    char uuid[16];     /* of the GPU, or of a part of it (MIG) */
    char gpu_name[64]; /* "NVIDIA H200" */
    char visible[64];  /* CUDA_VISIBLE_DEVICES, "" if it is not set */
    char node[64];     /* NCCL_HOSTID, or "" for the host's name */
    bool shared;       /* NCCL_MULTI_RANK_GPU_ENABLE=1 */
    char failure[256]; /* why this rank cannot go on, "" if it can */
};

/* How many ids a world has, and the rank that makes the i-th of them: the
 * first of its part, when the ranks are cut into parts whose lengths differ by
 * one at most, the longer ones first.
 */
int dt_nccl_id_count(int size, bool many_ids);
int dt_nccl_root(int size, int id_count, int i);

/* Fills in the members that come from the environment. */
void dt_nccl_facts_init(struct dt_nccl_facts *facts);

/* Exchanges facts, and the ids of those who make them, with one fence. Returns
 * the ids (the caller frees them). NULL and err: EX_CONFIG if two ranks have
 * one GPU or different versions of NCCL, or a rank's failure, on all of them.
 */
struct dt_nccl_id *dt_nccl_meet(const struct dt_comm_world *world,
                                struct dt_nccl_facts *facts, int id_count,
                                int timeout_ms, struct dt_error *err);

/* --- the backend --- */

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
 * stops NCCL. `err` is the error, and gets the words for the caller. Always -1.
 */
int dt_nccl_queue_fail(struct dt_nccl_queue *queue, struct dt_error *err);

/* One look at all that may go wrong while this rank waits for something. -1:
 * it did, and the queue has failed.
 */
int dt_nccl_queue_watch(struct dt_nccl_queue *queue, struct dt_error *err);

/* Waits until the last call for `nccl` is through, so that the next one may be
 * made. `rc` is the result of that call, with err if it was -1. -1: the queue
 * has failed.
 */
int dt_nccl_queue_wait_call(struct dt_nccl_queue *queue, struct dt_nccl *nccl,
                            int rc, struct dt_error *err);

/* Ends the communicators of groups and world as dt_nccl_destroy does. */
bool dt_nccl_queue_end(struct dt_nccl_queue *queue, bool in_order,
                       int timeout_ms);

/* Waits until all up to operation n is done. -1: the queue has failed. */
int dt_nccl_queue_finish(struct dt_nccl_queue *queue, uint64_t n,
                         struct dt_error *err);

/* Waits for all queued operations, but not for peers that are late: true if all
 * were done within `timeout_ms`.
 */
bool dt_nccl_queue_drain(struct dt_nccl_queue *queue, int timeout_ms);

#endif /* DT_COMM_COMM_NCCL_H */
