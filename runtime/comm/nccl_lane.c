/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_lane.c - the backend nccl: operations on a stream of their own */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "comm/nccl_bootstrap.h"
#include "comm/nccl_lane.h"
#include "comm/nccl_wire.h"

enum {
    SCALARS = 256, /* in one operation, at most */
    DRAIN_MS = 300,
    LEAVE_MS = 5000, /* for NCCL to close, when nothing is under way */
    STAGING_BYTES = 32 << 20,
    REGISTER_BYTES = 16 << 20, /* smaller memory is not worth registering */
};

/* Begins operation started + 1: it comes after what is in the compute stream.
 */
static int begin(struct dt_lane *l, const struct dt_op *op,
                 struct dt_error *err)
{
    uint64_t n = l->started + 1;
    struct dt_lane_slot *slot = &l->slots[n % DT_LANE_SLOTS];
    char point[64];
    if (n > DT_LANE_SLOTS && dt_lane_finish(l, n - DT_LANE_SLOTS, err) < 0)
        return -1;
    dt_op_describe(op, slot->what, sizeof(slot->what));
    l->settling = true;
    if (dt_lane_watch(l, err) < 0)
        return -1;
    snprintf(point, sizeof(point), "comm.%.*s", (int)strcspn(slot->what, "("),
             slot->what);
    if (dt_fault(point)) {
        dt_peers_about(&l->peers, l->base.rank, err, ": DISTTRAIN_FAULT");
        return dt_lane_fail(l, err);
    }
    if (dt_lane_cuda(cudaEventRecord(slot->ready, l->compute->cuda),
                     "cudaEventRecord", err) < 0 ||
        dt_lane_cuda(cudaStreamWaitEvent(l->own.cuda, slot->ready, 0),
                     "cudaStreamWaitEvent", err) < 0)
        return dt_lane_fail(l, err);
    return 0;
}

/* All of the operation is in the stream. */
static int end(struct dt_lane *l, struct dt_error *err)
{
    uint64_t n = l->started + 1;
    if (dt_lane_cuda(
            cudaEventRecord(l->slots[n % DT_LANE_SLOTS].done, l->own.cuda),
            "cudaEventRecord", err) < 0)
        return dt_lane_fail(l, err);
    l->settling = false;
    if (l->finished == l->started)
        l->since = 0;
    l->started = n;
    return 0;
}

/* --- bf16 on the wire --- */

static int allocate_staging(struct dt_lane *l, size_t bytes,
                            struct dt_error *err)
{
    if (l->send)
        return 0;
    if (dt_lane_cuda(cudaMalloc((void **)&l->send, bytes), "cudaMalloc", err) <
            0 ||
        dt_lane_cuda(cudaMalloc((void **)&l->receive, bytes), "cudaMalloc",
                     err) < 0) {
        dt_error_prefix(err, "%zu bytes for gradients in bf16", 2 * bytes);
        return dt_lane_fail(l, err);
    }
    dt_nccl_register(l->nccl, l->send, bytes);
    dt_nccl_register(l->nccl, l->receive, bytes);
    return 0;
}

/* Everybody's parts go to their owners, are added there, and, for an
 * all-reduce, come back.
 */
static int swap(struct dt_lane *l, const struct dt_op *op,
                const struct dt_wire *wire, struct dt_error *err)
{
    size_t bytes = wire->length * dt_dtype_bytes(DT_BF16);
    int rank = l->base.rank, rc;
    dt_wire_narrow(&l->own, wire, l->send);
    rc = dt_nccl_swap(l->nccl, l->receive, l->send, bytes, l->own.cuda, err);
    if (dt_lane_settle(l, rc, err) < 0)
        return -1;
    dt_wire_reduce(&l->own, wire, l->send + bytes * (size_t)rank, l->receive,
                   rank, op->reduce);
    if (op->kind == DT_OP_REDUCE_SCATTER) {
        dt_wire_widen(&l->own, wire, l->send, rank, 1);
        return 0;
    }
    rc = dt_nccl_all_gather(l->nccl, l->send, bytes * (size_t)wire->parts,
                            l->own.cuda, err);
    if (dt_lane_settle(l, rc, err) < 0)
        return -1;
    dt_wire_widen(&l->own, wire, l->send, 0, wire->parts);
    return 0;
}

/* Cuts the elements into what staging holds: an all-reduce into runs of
 * neighbours, which are cut into parts; a reduce-scatter into the same slice of
 * each part.
 */
static int reduce_bf16(struct dt_lane *l, const struct dt_op *op,
                       struct dt_error *err)
{
    size_t size = (size_t)l->base.size;
    size_t room = STAGING_BYTES / dt_dtype_bytes(DT_BF16) / size / 8 * 8 + 8;
    bool scatter = op->kind == DT_OP_REDUCE_SCATTER;
    size_t count = scatter ? op->view.count / size : op->view.count;
    size_t run = scatter ? room : room * size;
    struct dt_wire wire = {.view = op->view, .parts = l->base.size};
    if (allocate_staging(l, room * size * dt_dtype_bytes(DT_BF16), err) < 0)
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
        if (swap(l, op, &wire, err) < 0)
            return -1;
    }
    return 0;
}

/* --- operations --- */

static int run(struct dt_lane *l, const struct dt_op *op, struct dt_error *err)
{
    struct dt_view v = op->view;
    void *data = dt_view_data(v);
    size_t bytes = v.count * dt_dtype_bytes(v.dtype);
    cudaStream_t stream = l->own.cuda;
    bool reduces =
        op->kind == DT_OP_ALL_REDUCE || op->kind == DT_OP_REDUCE_SCATTER;
    int rc;
    if (reduces && v.dtype != DT_F64 && op->wire == DT_BF16)
        return reduce_bf16(l, op, err);
    if (reduces && v.buf->bytes >= REGISTER_BYTES)
        dt_nccl_register(l->nccl, v.buf->data, v.buf->bytes);
    if (op->kind == DT_OP_ALL_REDUCE)
        rc = dt_nccl_all_reduce(l->nccl, data, v.count, v.dtype, op->reduce,
                                stream, err);
    else if (op->kind == DT_OP_REDUCE_SCATTER)
        rc = dt_nccl_reduce_scatter(l->nccl, data, v.count, v.dtype, op->reduce,
                                    stream, err);
    else if (op->kind == DT_OP_ALL_GATHER)
        rc = dt_nccl_all_gather(l->nccl, data, bytes, stream, err);
    else
        rc = dt_nccl_broadcast(l->nccl, data, bytes, op->root, stream, err);
    return dt_lane_settle(l, rc, err);
}

static int copy(struct dt_lane *l, void *to, const void *from, size_t count,
                enum cudaMemcpyKind way, struct dt_error *err)
{
    if (dt_lane_cuda(
            cudaMemcpyAsync(to, from, count * sizeof(double), way, l->own.cuda),
            "cudaMemcpyAsync", err) < 0)
        return dt_lane_fail(l, err);
    return 0;
}

/* Up to SCALARS doubles of the host; done on return. */
static int run_scalars(struct dt_lane *l, const struct dt_op *op,
                       struct dt_error *err)
{
    size_t n = op->scalar_count;
    int rc;
    memcpy(l->host_scalars, op->scalars, n * sizeof(double));
    if (begin(l, op, err) < 0 || copy(l, l->scalars, l->host_scalars, n,
                                      cudaMemcpyHostToDevice, err) < 0)
        return -1;
    rc = dt_nccl_all_reduce(l->nccl, l->scalars, n, DT_F64, op->reduce,
                            l->own.cuda, err);
    if (dt_lane_settle(l, rc, err) < 0 ||
        copy(l, l->host_scalars, l->scalars, n, cudaMemcpyDeviceToHost, err) <
            0 ||
        end(l, err) < 0 || dt_lane_finish(l, l->started, err) < 0)
        return -1;
    memcpy(op->scalars, l->host_scalars, n * sizeof(double));
    return 0;
}

static int lane_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_lane *l = (struct dt_lane *)comm;
    struct dt_error room;
    struct dt_op some = *op;
    err = err ? err : &room;
    if (l->failed)
        return dt_lane_watch(l, err);
    if (op->kind == DT_OP_SCALARS || op->kind == DT_OP_BARRIER) {
        for (size_t i = 0; i < op->scalar_count; i += SCALARS) {
            size_t left = op->scalar_count - i;
            some.scalars = op->scalars + i;
            some.scalar_count = left < SCALARS ? left : SCALARS;
            if (run_scalars(l, &some, err) < 0)
                return -1;
        }
    } else if (op->view.count > 0) {
        if (begin(l, op, err) < 0 || run(l, op, err) < 0 || end(l, err) < 0)
            return -1;
    }
    *ticket = l->started;
    return 0;
}

static int lane_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *err)
{
    struct dt_lane *l = (struct dt_lane *)comm;
    struct dt_error room;
    err = err ? err : &room;
    if (l->failed)
        return dt_lane_watch(l, err);
    /* if the slot has a later operation by now, that one ends later */
    if (dt_lane_cuda(cudaStreamWaitEvent(l->compute->cuda,
                                         l->slots[ticket % DT_LANE_SLOTS].done,
                                         0),
                     "cudaStreamWaitEvent", err) < 0)
        return dt_lane_fail(l, err);
    return 0;
}

static int lane_wait_event(struct dt_comm *comm, const struct dt_device *device,
                           struct dt_event *event, struct dt_error *err)
{
    struct dt_lane *l = (struct dt_lane *)comm;
    struct dt_error room;
    int done;
    err = err ? err : &room;
    if (l->failed)
        return dt_lane_watch(l, err);
    while ((done = device->event_done(event, err)) == 0) {
        if (dt_lane_watch(l, err) < 0)
            return -1;
        dt_clock_sleep(DT_LANE_PAUSE_US * 1e-6);
    }
    return done < 0 ? -1 : 0;
}

/* --- coming and going --- */

static void free_memory(struct dt_lane *l)
{
    /* an operation that NCCL has not stopped may still use it, and to free it
     * would wait for that
     */
    if (l->stuck)
        return;
    for (int i = 0; i < DT_LANE_SLOTS; i++) {
        if (l->slots[i].ready)
            cudaEventDestroy(l->slots[i].ready);
        if (l->slots[i].done)
            cudaEventDestroy(l->slots[i].done);
    }
    if (l->own.cuda)
        cudaStreamDestroy(l->own.cuda);
    cudaFree(l->send);
    cudaFree(l->receive);
    cudaFree(l->scalars);
    cudaFreeHost(l->host_scalars);
}

static void lane_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    struct dt_lane *l = (struct dt_lane *)comm;
    struct dt_error middle;
    if (!l->failed && !why && !dt_lane_drain(l, DRAIN_MS)) {
        dt_peers_about(&l->peers, l->base.rank, &middle,
                       " has left in the middle of it");
        why = &middle;
    }
    if (l->joined) {
        l->peers.own.started = l->started;
        dt_peers_leave(&l->peers, why);
    }
    if (l->nccl)
        l->stuck = !dt_nccl_destroy(l->nccl, !why, why ? DRAIN_MS : LEAVE_MS);
    free_memory(l);
    if (l->peers.link)
        dt_link_close(l->peers.link);
    dt_roll_fini(&l->roll);
    dt_peers_fini(&l->peers);
    free(l);
}

static const struct dt_comm_backend nccl_backend = {
    .name = "nccl",
    .start = lane_start,
    .wait = lane_wait,
    .wait_event = lane_wait_event,
    .destroy = lane_destroy,
};

/* What NCCL reads from the environment, unless the user has said otherwise. */
static void set_variables(const struct dt_comm_options *options)
{
    char name[64];
    /* Trees and switches add in an order of their own. */
    if (dt_cuda_facts.deterministic)
        setenv("NCCL_ALGO", "Ring", 0);
    if (options->interface) {
        snprintf(name, sizeof(name), "=%s", options->interface);
        setenv("NCCL_SOCKET_IFNAME", name, 0);
    }
}

/* What the other ranks have to know of this one; a failure is part of it. */
static void find_facts(struct dt_nccl_facts *facts)
{
    struct cudaDeviceProp card;
    struct dt_error err;
    int device;
    dt_nccl_facts_init(facts);
    if (dt_nccl_open(&facts->version, &err) < 0 ||
        dt_lane_cuda(cudaGetDevice(&device), "cudaGetDevice", &err) < 0 ||
        dt_lane_cuda(
            cudaDeviceGetPCIBusId(facts->gpu, sizeof(facts->gpu), device),
            "cudaDeviceGetPCIBusId", &err) < 0 ||
        dt_lane_cuda(cudaGetDeviceProperties(&card, device),
                     "cudaGetDeviceProperties", &err) < 0)
        snprintf(facts->failure, sizeof(facts->failure), "%.255s", err.text);
    else
        snprintf(facts->card, sizeof(facts->card), "%.63s", card.name);
}

static int allocate(struct dt_lane *l, struct dt_error *err)
{
    int least, greatest;
    if (dt_lane_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                     "cudaDeviceGetStreamPriorityRange", err) < 0 ||
        dt_lane_cuda(cudaStreamCreateWithPriority(
                         &l->own.cuda, cudaStreamNonBlocking, greatest),
                     "cudaStreamCreateWithPriority", err) < 0 ||
        dt_lane_cuda(cudaMalloc((void **)&l->scalars, SCALARS * sizeof(double)),
                     "cudaMalloc", err) < 0 ||
        dt_lane_cuda(
            cudaMallocHost((void **)&l->host_scalars, SCALARS * sizeof(double)),
            "cudaMallocHost", err) < 0)
        return -1;
    for (int i = 0; i < DT_LANE_SLOTS; i++)
        if (dt_lane_cuda(cudaEventCreateWithFlags(&l->slots[i].ready,
                                                  cudaEventDisableTiming),
                         "cudaEventCreateWithFlags", err) < 0 ||
            dt_lane_cuda(cudaEventCreateWithFlags(&l->slots[i].done,
                                                  cudaEventDisableTiming),
                         "cudaEventCreateWithFlags", err) < 0)
            return -1;
    return 0;
}

/* Makes the communicator: the first operation. If it does not come about in
 * time, that is the end: one more attempt would meet the same network, and the
 * user would wait twice as long to hear of it.
 */
static int connect_cards(struct dt_lane *l, const struct dt_nccl_id *ids,
                         int id_count, struct dt_error *err)
{
    snprintf(l->slots[1].what, sizeof(l->slots[1].what), "connecting %d cards",
             l->base.size);
    l->settling = true;
    l->nccl = dt_nccl_create(l->base.rank, l->base.size, ids, id_count, err);
    if (!l->nccl)
        return dt_lane_fail(l, err);
    if (dt_lane_settle(l, 0, err) < 0)
        return -1;
    return end(l, err);
}

static int join(struct dt_lane *l, const struct dt_comm_world *world,
                const struct dt_comm_options *options, struct dt_error *err)
{
    struct dt_nccl_facts facts;
    struct dt_nccl_id *ids;
    int id_count, rc;
    set_variables(options);
    if (dt_peers_init(&l->peers, world, options, err) < 0 ||
        dt_roll_init(&l->roll, &l->peers, err) < 0)
        return -1;
    l->joined = true;
    find_facts(&facts);
    id_count = dt_nccl_id_count(world->size, dt_nccl_many_ids());
    ids = dt_nccl_meet(world, &facts, id_count, options->timeout_ms, err);
    if (!ids)
        return -1;
    rc = allocate(l, err);
    if (rc == 0)
        rc = connect_cards(l, ids, id_count, err);
    free(ids);
    return rc;
}

struct dt_comm *dt_comm_nccl(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err)
{
    struct dt_lane *l = calloc(1, sizeof(*l));
    struct dt_error room;
    err = err ? err : &room;
    if (!l) {
        dt_error_set(err, EX_OSERR, "comm/nccl: no memory");
        return NULL;
    }
    l->base = (struct dt_comm){&nccl_backend, world->rank, world->size};
    l->compute = options->stream;
    dt_fault_rank(world->rank); /* the module has its own */
    if (join(l, world, options, err) == 0)
        return &l->base;
    if (!l->failed) {
        if (l->joined)
            dt_peers_leave(&l->peers, err);
        l->joined = false;
        dt_error_prefix(err, "comm/nccl: rank %d on %s", world->rank,
                        world->host(world->ctx, world->rank));
    }
    lane_destroy(&l->base, err);
    return NULL;
}
