/* SPDX-License-Identifier: Apache-2.0 */
/* comm_impl.h - the interface of the backends of comm (private to comm/) */
#ifndef DT_COMM_COMM_IMPL_H
#define DT_COMM_COMM_IMPL_H

#include "comm/comm.h"

enum dt_op_kind {
    DT_OP_ALL_REDUCE,
    DT_OP_REDUCE_SCATTER,
    DT_OP_REDUCE_SCATTER_INT8,
    DT_OP_ALL_GATHER,
    DT_OP_BROADCAST,
    DT_OP_SCALARS,
    DT_OP_BARRIER, /* DT_OP_SCALARS by another name */
    DT_OP_MEET,    /* of gloo: connects the members of a group */
};

/* One operation, as its start function was called. */
struct dt_op {
    const struct dt_comm *on; /* the world or a group, whose parts are meant */
    enum dt_op_kind kind;
    struct dt_view view;
    enum dt_reduce reduce;
    enum dt_dtype wire;
    struct dt_noise noise;
    int root;
    double *scalars; /* instead of view */
    size_t scalar_count;
};

/* "all_reduce" */
const char *dt_op_name(enum dt_op_kind kind);

/* Writes "all_reduce(1024 x f32)", or "... in a group of 2", to text. */
void dt_op_describe(const struct dt_op *op, char *text, size_t bytes);

/* First element of part `part` of `count` elements in `size` parts, whose
 * lengths differ by one at most.
 */
static inline size_t dt_op_part_first(size_t count, int size, int part)
{
    size_t n = (size_t)size, p = (size_t)part, longer = count % n;
    return count / n * p + (p < longer ? p : longer);
}

/* Start queues `op` after the ones before it and returns at once; an all-reduce
 * of F64 comes as DT_OP_SCALARS where views are the host's (wait_event is
 * NULL). Wait as in comm.h; destroy gets NULL, or from dt_comm_abandon the
 * reason.
 */
struct dt_comm_backend {
    const char *name;
    int (*start)(struct dt_comm *comm, const struct dt_op *op,
                 dt_ticket_t *ticket, struct dt_error *err);
    int (*wait)(struct dt_comm *comm, dt_ticket_t ticket, struct dt_error *err);
    /* as dt_comm_wait_event; NULL: operations are never in a stream */
    int (*wait_event)(struct dt_comm *comm, const struct dt_device *device,
                      struct dt_event *event, struct dt_error *err);
    /* Prepares a group, whose ranks are set. NULL: nothing to prepare. */
    int (*group)(struct dt_comm *comm, struct dt_comm *group,
                 struct dt_error *err);
    const char *(*host)(const struct dt_comm *comm, int rank);
    /* as dt_comm_forget_memory; NULL: it keeps nothing */
    void (*forget)(struct dt_comm *comm);
    void (*destroy)(struct dt_comm *comm, const struct dt_error *why);
};

/* A backend allocates this as the first member of its own struct. */
struct dt_comm {
    const struct dt_comm_backend *backend;
    int rank, size;
    struct dt_comm *groups, *next; /* of a world; of the list that it is in */
    struct dt_comm *world;         /* of a group; NULL: this is one */
    int *ranks;                    /* (size) of a group, in the world */
    void *own;                     /* the backend's */
    uint64_t runs; /* of a world: operations waited for at once */
    uint64_t *started; /* of a world: see dt_comm_count; NULL: nobody asks */
};

/* The rank in the world of a rank of `comm`. */
static inline int dt_comm_world_rank(const struct dt_comm *comm, int rank)
{
    return comm->ranks ? comm->ranks[rank] : rank;
}

/* The backends; as dt_comm_create, which is their only caller. */
struct dt_comm *dt_comm_gloo(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err);

/* In the module for CUDA; options->stream is where the views are computed. The
 * caller's thread talks to the peers itself: the process must ignore SIGPIPE.
 */
struct dt_comm *dt_comm_nccl(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err);

/* "NCCL 2.28.9", or why there is none. */
const char *dt_comm_nccl_library(void);

/* --- 8 bits for an element (int8.c) --- */

/* Bytes of `count` elements, a multiple of DT_INT8_BLOCK: first all q, then the
 * scales.
 */
static inline size_t dt_int8_bytes(size_t count)
{
    return count + count / DT_INT8_BLOCK * sizeof(float);
}

/* Packs x(count), elements noise->first + `from` .. of the reduction, as `rank`
 * sends them; `out` is aligned to 4 bytes.
 */
void dt_int8_pack(void *out, const float *x, size_t count, size_t from,
                  int rank, const struct dt_noise *noise);

/* acc(count) += the packed elements, or = if `first`. */
void dt_int8_add(float *acc, const void *packed, size_t count, bool first);

#endif /* DT_COMM_COMM_IMPL_H */
