/* SPDX-License-Identifier: Apache-2.0 */
/* comm_nccl.c - the backend nccl: operations on a stream of their own */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "comm/comm_impl.h"
#include "comm/comm_nccl.h"
#include "comm/nccl_wire.h"

enum {
    STAGING_BYTES = 32 << 20,
    REGISTER_BYTES = 16 << 20, /* smaller memory is not worth registering */
};

/* The communicator for an operation's world or group. */
static struct dt_nccl *queue_nccl(const struct dt_nccl_queue *queue,
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
    struct dt_nccl *nccl = queue_nccl(queue, op);
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

/* Cuts the elements into pieces that staging holds: an all-reduce into runs of
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

/* Gathers fp32 that was rounded to bf16 before. */
static int gather_bf16(struct dt_nccl_queue *queue, const struct dt_op *op,
                       struct dt_error *err)
{
    struct dt_nccl *nccl = queue_nccl(queue, op);
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
    struct dt_nccl *nccl = queue_nccl(queue, op);
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

/* Queues an operation on a view. -1: the queue has failed. */
static int queue_run(struct dt_nccl_queue *queue, const struct dt_op *op,
                     struct dt_error *err)
{
    struct dt_view v = op->view;
    void *data = dt_view_data(v);
    size_t bytes = dt_view_bytes(v);
    struct dt_nccl *nccl = queue_nccl(queue, op);
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

enum {
    SCALARS = 256, /* in one operation, at most */
    DRAIN_MS = 300,
    LEAVE_MS = 5000, /* for NCCL to close, when nothing is queued */
};

/* Begins operation started + 1, which waits for all work now in the compute
 * stream.
 */
static int begin_operation(struct dt_nccl_queue *queue, const struct dt_op *op,
                           struct dt_error *err)
{
    uint64_t n = queue->started + 1;
    struct dt_nccl_operation *slot = &queue->slots[n % DT_NCCL_QUEUE_SLOTS];
    char point[64];
    if (n > DT_NCCL_QUEUE_SLOTS &&
        dt_nccl_queue_finish(queue, n - DT_NCCL_QUEUE_SLOTS, err) < 0)
        return -1;
    dt_op_describe(op, slot->what, sizeof(slot->what));
    slot->in_group = op->on->world;
    queue->state = DT_NCCL_STARTING;
    if (dt_nccl_queue_watch(queue, err) < 0)
        return -1;
    snprintf(point, sizeof(point), "comm.%.*s", (int)strcspn(slot->what, "("),
             slot->what);
    if (dt_fault(point)) {
        dt_peers_about(&queue->peers, queue->base.rank, err,
                       ": DISTTRAIN_FAULT");
        return dt_nccl_queue_fail(queue, err);
    }
    if (dt_nccl_check_cuda(cudaEventRecord(slot->ready, queue->compute->cuda),
                           "cudaEventRecord", err) < 0 ||
        dt_nccl_check_cuda(cudaStreamWaitEvent(queue->own.cuda, slot->ready, 0),
                           "cudaStreamWaitEvent", err) < 0)
        return dt_nccl_queue_fail(queue, err);
    return 0;
}

/* All of the operation is in the stream. */
static int end_operation(struct dt_nccl_queue *queue, struct dt_error *err)
{
    uint64_t n = queue->started + 1;
    if (dt_nccl_check_cuda(
            cudaEventRecord(queue->slots[n % DT_NCCL_QUEUE_SLOTS].done,
                            queue->own.cuda),
            "cudaEventRecord", err) < 0)
        return dt_nccl_queue_fail(queue, err);
    queue->state = DT_NCCL_READY;
    if (queue->finished == queue->started)
        queue->since = 0;
    queue->started = n;
    return 0;
}

static int copy_scalars(struct dt_nccl_queue *queue, void *to, const void *from,
                        size_t count, enum cudaMemcpyKind way,
                        struct dt_error *err)
{
    if (dt_nccl_check_cuda(cudaMemcpyAsync(to, from, count * sizeof(double),
                                           way, queue->own.cuda),
                           "cudaMemcpyAsync", err) < 0)
        return dt_nccl_queue_fail(queue, err);
    return 0;
}

/* Up to SCALARS doubles of the host; done on return. */
static int run_scalars(struct dt_nccl_queue *queue, const struct dt_op *op,
                       struct dt_error *err)
{
    size_t n = op->scalar_count;
    struct dt_nccl *nccl = queue_nccl(queue, op);
    int rc;
    memcpy(queue->host_scalars, op->scalars, n * sizeof(double));
    if (begin_operation(queue, op, err) < 0 ||
        copy_scalars(queue, queue->scalars, queue->host_scalars, n,
                     cudaMemcpyHostToDevice, err) < 0)
        return -1;
    rc = dt_nccl_all_reduce(nccl, queue->scalars, n, DT_F64, op->reduce,
                            queue->own.cuda, err);
    if (dt_nccl_queue_wait_call(queue, nccl, rc, err) < 0 ||
        copy_scalars(queue, queue->host_scalars, queue->scalars, n,
                     cudaMemcpyDeviceToHost, err) < 0 ||
        end_operation(queue, err) < 0 ||
        dt_nccl_queue_finish(queue, queue->started, err) < 0)
        return -1;
    memcpy(op->scalars, queue->host_scalars, n * sizeof(double));
    return 0;
}

static int nccl_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_error room;
    struct dt_op some = *op;
    err = err ? err : &room;
    if (dt_nccl_queue_has_failed(queue))
        return dt_nccl_queue_watch(queue, err);
    if (op->kind == DT_OP_SCALARS || op->kind == DT_OP_BARRIER) {
        for (size_t i = 0; i < op->scalar_count; i += SCALARS) {
            size_t left = op->scalar_count - i;
            some.scalars = op->scalars + i;
            some.scalar_count = left < SCALARS ? left : SCALARS;
            if (run_scalars(queue, &some, err) < 0)
                return -1;
        }
    } else if (op->view.count > 0 && op->on->size > 1) {
        if (begin_operation(queue, op, err) < 0 ||
            queue_run(queue, op, err) < 0 || end_operation(queue, err) < 0)
            return -1;
    }
    *ticket = queue->started;
    return 0;
}

static int nccl_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *err)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_error room;
    err = err ? err : &room;
    if (dt_nccl_queue_has_failed(queue))
        return dt_nccl_queue_watch(queue, err);
    enum dt_lap lap = dt_cuda_lap(queue->compute, DT_LAP_WAIT);
    /* if the slot has a later operation by now, that one ends later */
    if (dt_nccl_check_cuda(
            cudaStreamWaitEvent(queue->compute->cuda,
                                queue->slots[ticket % DT_NCCL_QUEUE_SLOTS].done,
                                0),
            "cudaStreamWaitEvent", err) < 0)
        return dt_nccl_queue_fail(queue, err);
    dt_cuda_lap(queue->compute, lap);
    return 0;
}

static int nccl_wait_event(struct dt_comm *comm, const struct dt_device *device,
                           struct dt_event *event, struct dt_error *err)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_error room;
    int done;
    err = err ? err : &room;
    if (dt_nccl_queue_has_failed(queue))
        return dt_nccl_queue_watch(queue, err);
    while ((done = device->event_done(event, err)) == 0) {
        if (dt_nccl_queue_watch(queue, err) < 0)
            return -1;
        dt_clock_sleep(DT_NCCL_QUEUE_PAUSE_US * 1e-6);
    }
    return done < 0 ? -1 : 0;
}

/* --- coming and going --- */

static void free_memory(struct dt_nccl_queue *queue)
{
    /* an operation that NCCL has not stopped may still use it, and to free it
     * would wait for that
     */
    if (queue->state == DT_NCCL_STUCK)
        return;
    for (int i = 0; i < DT_NCCL_QUEUE_SLOTS; i++) {
        if (queue->slots[i].ready)
            cudaEventDestroy(queue->slots[i].ready);
        if (queue->slots[i].done)
            cudaEventDestroy(queue->slots[i].done);
    }
    if (queue->own.cuda)
        cudaStreamDestroy(queue->own.cuda);
    cudaFree(queue->send);
    cudaFree(queue->receive);
    cudaFree(queue->scalars);
    cudaFreeHost(queue->host_scalars);
}

static void nccl_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_error middle;
    if (!dt_nccl_queue_has_failed(queue) && !why &&
        !dt_nccl_queue_drain(queue, DRAIN_MS)) {
        dt_peers_about(&queue->peers, queue->base.rank, &middle,
                       " has exited in the middle of it");
        why = &middle;
    }
    if (dt_nccl_queue_is_joined(queue)) {
        queue->peers.own.started = queue->started;
        dt_peers_leave(&queue->peers, why);
        queue->state = DT_NCCL_APART;
    }
    if (!dt_nccl_queue_end(queue, !why, why ? DRAIN_MS : LEAVE_MS))
        queue->state = DT_NCCL_STUCK;
    if (queue->compute && queue->compute->watch_ctx == queue)
        queue->compute->watch = NULL;
    free_memory(queue);
    if (queue->peers.transport)
        dt_transport_close(queue->peers.transport);
    dt_arrivals_fini(&queue->arrivals);
    dt_peers_fini(&queue->peers);
    free(queue);
}

/* Sets the variables that NCCL reads, unless the user has. */
static void set_variables(const struct dt_comm_options *options)
{
    char name[64];
    /* Trees and switches add in an order of their own. */
    if (options->deterministic)
        setenv("NCCL_ALGO", "Ring", 0);
    if (options->interface) {
        snprintf(name, sizeof(name), "=%s", options->interface);
        setenv("NCCL_SOCKET_IFNAME", name, 0);
    }
}

/* The facts about this rank that the others need; a failure is one of them. */
static void find_facts(struct dt_nccl_facts *facts)
{
    struct cudaDeviceProp properties;
    struct dt_error err;
    int device;
    dt_nccl_facts_init(facts);
    if (dt_nccl_open(&facts->version, &err) < 0 ||
        dt_nccl_check_cuda(cudaGetDevice(&device), "cudaGetDevice", &err) < 0 ||
        dt_nccl_check_cuda(
            cudaDeviceGetPCIBusId(facts->gpu, sizeof(facts->gpu), device),
            "cudaDeviceGetPCIBusId", &err) < 0 ||
        dt_nccl_check_cuda(cudaGetDeviceProperties(&properties, device),
                           "cudaGetDeviceProperties", &err) < 0)
        snprintf(facts->failure, sizeof(facts->failure), "%.255s", err.text);
    else {
        snprintf(facts->gpu_name, sizeof(facts->gpu_name), "%.63s",
                 properties.name);
        memcpy(facts->uuid, &properties.uuid, sizeof(facts->uuid));
    }
}

static int allocate_queue(struct dt_nccl_queue *queue, struct dt_error *err)
{
    int least, greatest;
    if (dt_nccl_check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                           "cudaDeviceGetStreamPriorityRange", err) < 0 ||
        dt_nccl_check_cuda(cudaStreamCreateWithPriority(&queue->own.cuda,
                                                        cudaStreamNonBlocking,
                                                        greatest),
                           "cudaStreamCreateWithPriority", err) < 0 ||
        dt_nccl_check_cuda(
            cudaMalloc((void **)&queue->scalars, SCALARS * sizeof(double)),
            "cudaMalloc", err) < 0 ||
        dt_nccl_check_cuda(cudaMallocHost((void **)&queue->host_scalars,
                                          SCALARS * sizeof(double)),
                           "cudaMallocHost", err) < 0)
        return -1;
    for (int i = 0; i < DT_NCCL_QUEUE_SLOTS; i++)
        if (dt_nccl_check_cuda(cudaEventCreateWithFlags(&queue->slots[i].ready,
                                                        cudaEventDisableTiming),
                               "cudaEventCreateWithFlags", err) < 0 ||
            dt_nccl_check_cuda(cudaEventCreateWithFlags(&queue->slots[i].done,
                                                        cudaEventDisableTiming),
                               "cudaEventCreateWithFlags", err) < 0)
            return -1;
    return 0;
}

/* Makes the communicator: the first operation. If it does not come about in
 * time, that is the end: one more attempt would meet the same network, and the
 * user would wait twice as long to hear of it.
 */
static int connect_gpus(struct dt_nccl_queue *queue,
                        const struct dt_nccl_id *ids, int id_count,
                        struct dt_error *err)
{
    snprintf(queue->slots[1].what, sizeof(queue->slots[1].what),
             "connecting %d GPUs", queue->base.size);
    queue->state = DT_NCCL_STARTING;
    queue->nccl =
        dt_nccl_create(queue->base.rank, queue->base.size, ids, id_count, err);
    if (!queue->nccl)
        return dt_nccl_queue_fail(queue, err);
    if (dt_nccl_queue_wait_call(queue, queue->nccl, 0, err) < 0)
        return -1;
    return end_operation(queue, err);
}

static int nccl_group(struct dt_comm *comm, struct dt_comm *group,
                      struct dt_error *err)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_nccl_operation *slot =
        &queue->slots[(queue->started + 1) % DT_NCCL_QUEUE_SLOTS];
    if (dt_nccl_queue_has_failed(queue))
        return dt_nccl_queue_watch(queue, err);
    if (dt_nccl_queue_finish(queue, queue->started, err) < 0)
        return -1;
    snprintf(slot->what, sizeof(slot->what), "connecting a group of %d GPUs",
             group->size);
    slot->in_group = true;
    queue->state = DT_NCCL_STARTING;
    group->own = dt_nccl_split(queue->nccl, group->ranks[0], group->rank,
                               group->rank, group->size, err);
    if (!group->own)
        return dt_nccl_queue_fail(queue, err);
    if (dt_nccl_queue_wait_call(queue, queue->nccl, 0, err) < 0 ||
        dt_nccl_queue_wait_call(queue, group->own, 0, err) < 0)
        return -1;
    return end_operation(queue, err);
}

static const char *nccl_host(const struct dt_comm *comm, int rank)
{
    return ((const struct dt_nccl_queue *)comm)->peers.hosts[rank];
}

static int join_world(struct dt_nccl_queue *queue,
                      const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      struct dt_error *err)
{
    struct dt_nccl_facts facts;
    struct dt_nccl_id *ids;
    int id_count, rc;
    set_variables(options);
    if (dt_peers_init(&queue->peers, world, options, true, err) < 0 ||
        dt_arrivals_init(&queue->arrivals, &queue->peers, err) < 0)
        return -1;
    queue->state = DT_NCCL_READY;
    find_facts(&facts);
    id_count = dt_nccl_id_count(world->size, dt_nccl_many_ids());
    ids = dt_nccl_meet(world, &facts, id_count, options->timeout_ms, err);
    if (!ids)
        return -1;
    rc = allocate_queue(queue, err);
    if (rc == 0)
        rc = connect_gpus(queue, ids, id_count, err);
    free(ids);
    return rc;
}

/* Operations that are not done by then are stopped by force, so that they use
 * no memory after that, and the others hear why.
 */
static void nccl_forget(struct dt_comm *comm)
{
    struct dt_nccl_queue *queue = (struct dt_nccl_queue *)comm;
    struct dt_error why;
    if (queue->state != DT_NCCL_READY)
        return;
    if (!dt_nccl_queue_drain(queue, DRAIN_MS)) {
        dt_peers_about(&queue->peers, queue->base.rank, &why,
                       " has freed its memory in the middle of it");
        dt_nccl_queue_fail(queue, &why);
        return;
    }
    for (struct dt_comm *g = comm->groups; g; g = g->next)
        if (g->own)
            dt_nccl_deregister(g->own);
    dt_nccl_deregister(queue->nccl);
}

/* For who waits for the compute stream, which waits for operations. */
static int watch_peers(void *ctx, struct dt_error *err)
{
    return dt_nccl_queue_watch(ctx, err);
}

static const struct dt_comm_backend nccl_backend = {
    .name = "nccl",
    .start = nccl_start,
    .wait = nccl_wait,
    .wait_event = nccl_wait_event,
    .group = nccl_group,
    .host = nccl_host,
    .forget = nccl_forget,
    .destroy = nccl_destroy,
};

struct dt_comm *dt_comm_nccl(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err)
{
    struct dt_nccl_queue *queue = calloc(1, sizeof(*queue));
    struct dt_error room;
    err = err ? err : &room;
    if (!queue) {
        dt_error_set(err, EX_OSERR, "comm/nccl: no memory");
        return NULL;
    }
    queue->base = (struct dt_comm){
        .backend = &nccl_backend, .rank = world->rank, .size = world->size};
    queue->compute = options->stream;
    dt_fault_rank(world->rank); /* the module has its own */
    if (join_world(queue, world, options, err) == 0) {
        queue->compute->watch = watch_peers;
        queue->compute->watch_ctx = queue;
        return &queue->base;
    }
    if (!dt_nccl_queue_has_failed(queue)) {
        if (dt_nccl_queue_is_joined(queue))
            dt_peers_leave(&queue->peers, err);
        queue->state = DT_NCCL_APART;
        dt_error_prefix(err, "comm/nccl: rank %d on %s", world->rank,
                        world->host(world->ctx, world->rank));
    }
    nccl_destroy(&queue->base, err);
    return NULL;
}
