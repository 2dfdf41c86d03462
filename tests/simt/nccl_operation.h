/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_operation.h - operations of the fake NCCL that are queued in a stream */
#ifndef DT_SIMT_NCCL_OPERATION_H
#define DT_SIMT_NCCL_OPERATION_H

#include <pthread.h>

#include "nccl_net.h"
#include "simt.h"

enum nccl_kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    SEND_RECEIVE
};

/* The header of each message. */
struct nccl_header {
    unsigned number;                  /* of the operation */
    int kind, type, op, root, unused; /* no padding: it is compared */
    size_t bytes;
};

/* One direction between two ranks. */
struct nccl_transfer {
    char *data; /* NULL: nothing */
    size_t bytes, done;
    struct nccl_header header;
    size_t header_done;
};

struct nccl_operation {
    struct ncclComm *comm;
    struct nccl_header what;
    const char *from;
    char *to;
    size_t count; /* elements of one part */
    cudaStream_t stream;
    bool moved, said;
    struct nccl_transfer *out, *in; /* [size] */
    char *room;                     /* [size] parts to add */
    struct nccl_operation *next;    /* list of those not yet in the stream */
};

struct ncclComm {
    int rank, size, *fds; /* [size] */
    struct nccl_door door;
    pthread_t thread;
    atomic_bool stop;        /* aborted */
    atomic_int joined;       /* -1: failed, 1: yes */
    struct ncclComm *parent; /* of which it is being split */
    struct nccl_side side;
    struct ncclComm *split;  /* that is being split from it */
    struct ncclComm **place; /* for the user's handle of it */
    int asked;               /* for the last call */
    bool calling, failed;
    unsigned issued, finished;      /* operations */
    atomic_int references;          /* of operations, and the user's */
    struct nccl_operation *waiting; /* of a call that has not finished */
};

/* Bytes of an element of that ncclDataType_t. */
size_t nccl_width(int type);

/* Creates an operation without transfers, which holds a reference to comm. */
struct nccl_operation *nccl_operation(struct ncclComm *comm,
                                      enum nccl_kind kind, cudaStream_t stream);

/* For simt_enqueue_work: whether nothing can move; makes progress as far as
 * possible now; frees.
 */
bool nccl_operation_blocked(void *ctx);
enum simt_progress nccl_operation_progress(void *ctx);
void nccl_operation_release(void *ctx);

/* Drops a reference. */
void nccl_comm_unref(struct ncclComm *comm);

#endif /* DT_SIMT_NCCL_OPERATION_H */
