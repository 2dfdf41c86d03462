/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_run.c - one operation becomes calls of NCCL, of the world or a group */
#include "config.h"

#include "comm/comm_nccl.h"
#include "comm/int8.h"
#include "comm/nccl_wire.h"

enum {
    STAGING_BYTES = 32 << 20,
    REGISTER_BYTES = 16 << 20, /* smaller memory is not worth registering */
};

struct dt_nccl *dt_nccl_queue_nccl(const struct dt_nccl_queue *queue,
                                   const struct dt_op *op)
{
    return op->on->world ? op->on->own : queue->nccl;
}

/* --- bf16 on the wire --- */

/* Elements of a part that the staging memory holds, in a group of any size. */
static size_t staging_room(const struct dt_op *op)
{
    size_t size = (size_t)op->on->size;
    return STAGING_BYTES / dt_dtype_bytes(DT_BF16) / size / 8 * 8;
}

static int allocate_staging(struct dt_nccl_queue *queue, struct dt_error *err)
{
    size_t bytes = STAGING_BYTES;
    if (queue->send)
        return 0;
    if (dt_nccl_check_cuda(cudaMalloc((void **)&queue->send, bytes),
                           "cudaMalloc", err) < 0 ||
        dt_nccl_check_cuda(cudaMalloc((void **)&queue->receive, bytes),
                           "cudaMalloc", err) < 0) {
        dt_error_prefix(err, "%zu bytes for gradients in bf16", 2 * bytes);
        return dt_nccl_queue_fail(queue, err);
    }
    dt_nccl_register(queue->nccl, queue->send, bytes);
    dt_nccl_register(queue->nccl, queue->receive, bytes);
    return 0;
}

/* Everybody's parts go to their owners, are added there, and, for an
 * all-reduce, come back.
 */
static int swap_parts(struct dt_nccl_queue *queue, const struct dt_op *op,
                      const struct dt_wire *wire, struct dt_error *err)
{
    size_t bytes = wire->length * dt_dtype_bytes(DT_BF16);
    struct dt_nccl *nccl = dt_nccl_queue_nccl(queue, op);
    int rank = op->on->rank, rc;
    dt_wire_narrow(&queue->own, wire, queue->send);
    rc = dt_nccl_swap(nccl, queue->receive, queue->send, bytes, queue->own.cuda,
                      err);
    if (dt_nccl_queue_wait_call(queue, nccl, rc, err) < 0)
        return -1;
    dt_wire_reduce(&queue->own, wire, queue->send + bytes * (size_t)rank,
                   queue->receive, rank, op->reduce);
    if (op->kind == DT_OP_REDUCE_SCATTER) {
        dt_wire_widen(&queue->own, wire, queue->send, rank, 1);
        return 0;
    }
    rc = dt_nccl_all_gather(nccl, queue->send, bytes * (size_t)wire->parts,
                            queue->own.cuda, err);
    if (dt_nccl_queue_wait_call(queue, nccl, rc, err) < 0)
        return -1;
    dt_wire_widen(&queue->own, wire, queue->send, 0, wire->parts);
    return 0;
}

/* Cuts the elements into what staging holds: an all-reduce into runs of
 * neighbors, which are cut into parts; a reduce-scatter into the same slice of
 * each part.
 */
static int reduce_bf16(struct dt_nccl_queue *queue, const struct dt_op *op,
                       struct dt_error *err)
{
    size_t size = (size_t)op->on->size, room = staging_room(op);
    bool scatter = op->kind == DT_OP_REDUCE_SCATTER;
    size_t count = scatter ? op->view.count / size : op->view.count;
    size_t run = scatter ? room : room * size;
    struct dt_wire wire = {.view = op->view, .parts = op->on->size};
    if (allocate_staging(queue, err) < 0)
        return -1;
    for (size_t first = 0; first < count; first += run) {
        size_t n = count - first < run ? count - first : run;
        if (!scatter)
            n = (n + size - 1) / size;
        wire.first = first;
        wire.length = (n + 7) / 8 * 8;
        wire.stride = scatter ? count : wire.length;
        wire.end =
            scatter || first + run > count ? op->view.count : first + run;
        if (swap_parts(queue, op, &wire, err) < 0)
            return -1;
    }
    return 0;
}

/* Gathers what was rounded before. */
static int gather_bf16(struct dt_nccl_queue *queue, const struct dt_op *op,
                       struct dt_error *err)
{
    struct dt_nccl *nccl = dt_nccl_queue_nccl(queue, op);
    int size = op->on->size, rank = op->on->rank;
    size_t count = op->view.count / (size_t)size, run = staging_room(op);
    if (allocate_staging(queue, err) < 0)
        return -1;
    for (size_t first = 0; first < count; first += run) {
        size_t n = count - first < run ? count - first : run;
        struct dt_wire all = {.view = op->view,
                              .first = first,
                              .stride = count,
                              .end = op->view.count,
                              .parts = size,
                              .length = n};
        struct dt_wire own = all;
        size_t bytes = all.length * dt_dtype_bytes(DT_BF16);
        own.first += (size_t)rank * count;
        own.parts = 1;
        dt_wire_narrow(&queue->own, &own, queue->send + bytes * (size_t)rank);
        int rc = dt_nccl_all_gather(nccl, queue->send, bytes * (size_t)size,
                                    queue->own.cuda, err);
        if (dt_nccl_queue_wait_call(queue, nccl, rc, err) < 0)
            return -1;
        dt_wire_widen(&queue->own, &all, queue->send, 0, size);
    }
    return 0;
}

/* --- 8 bits on the wire --- */

/* As reduce_bf16, of a reduce-scatter. */
static int reduce_int8(struct dt_nccl_queue *queue, const struct dt_op *op,
                       struct dt_error *err)
{
    struct dt_nccl *nccl = dt_nccl_queue_nccl(queue, op);
    size_t count = op->view.count / (size_t)op->on->size;
    size_t run = staging_room(op) / DT_INT8_BLOCK * DT_INT8_BLOCK;
    struct dt_wire wire = {.view = op->view,
                           .stride = count,
                           .end = op->view.count,
                           .parts = op->on->size};
    if (allocate_staging(queue, err) < 0)
        return -1;
    for (; wire.first < count; wire.first += wire.length) {
        wire.length = count - wire.first < run ? count - wire.first : run;
        dt_wire_pack_int8(&queue->own, &wire, queue->send, op->on->rank,
                          &op->noise);
        int rc = dt_nccl_swap(nccl, queue->receive, queue->send,
                              dt_int8_bytes(wire.length), queue->own.cuda, err);
        if (dt_nccl_queue_wait_call(queue, nccl, rc, err) < 0)
            return -1;
        dt_wire_reduce_int8(&queue->own, &wire, queue->receive, op->on->rank);
    }
    return 0;
}

/* --- operations --- */

int dt_nccl_queue_run(struct dt_nccl_queue *queue, const struct dt_op *op,
                      struct dt_error *err)
{
    struct dt_view v = op->view;
    void *data = dt_view_data(v);
    size_t bytes = v.count * dt_dtype_bytes(v.dtype);
    struct dt_nccl *nccl = dt_nccl_queue_nccl(queue, op);
    cudaStream_t stream = queue->own.cuda;
    bool reduces =
        op->kind == DT_OP_ALL_REDUCE || op->kind == DT_OP_REDUCE_SCATTER;
    int rc;
    if (reduces && v.dtype != DT_F64 && op->wire == DT_BF16)
        return reduce_bf16(queue, op, err);
    if (op->kind == DT_OP_ALL_GATHER && op->wire != v.dtype)
        return gather_bf16(queue, op, err);
    if (op->kind == DT_OP_REDUCE_SCATTER_INT8)
        return reduce_int8(queue, op, err);
    if (reduces && v.buf->bytes >= REGISTER_BYTES)
        dt_nccl_register(nccl, v.buf->data, v.buf->bytes);
    if (op->kind == DT_OP_ALL_REDUCE)
        rc = dt_nccl_all_reduce(nccl, data, v.count, v.dtype, op->reduce,
                                stream, err);
    else if (op->kind == DT_OP_REDUCE_SCATTER)
        rc = dt_nccl_reduce_scatter(nccl, data, v.count, v.dtype, op->reduce,
                                    stream, err);
    else if (op->kind == DT_OP_ALL_GATHER)
        rc = dt_nccl_all_gather(nccl, data, bytes, stream, err);
    else
        rc = dt_nccl_broadcast(nccl, data, bytes, op->root, stream, err);
    return dt_nccl_queue_wait_call(queue, nccl, rc, err);
}
