/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - from calls to operations, from names to backends; a world of one */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "comm/comm_impl.h"

static int self_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    (void)comm;
    (void)op;
    (void)err;
    *ticket = 0;
    return 0;
}

static int self_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *err)
{
    (void)comm;
    (void)ticket;
    (void)err;
    return 0;
}

static const char *self_host(const struct dt_comm *comm, int rank)
{
    (void)comm;
    (void)rank;
    return "this host";
}

static void self_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    (void)why;
    free(comm);
}

static const struct dt_comm_backend self_backend = {
    .name = "self",
    .start = self_start,
    .wait = self_wait,
    .host = self_host,
    .destroy = self_destroy,
};

static struct dt_comm *comm_self(const struct dt_comm_world *world,
                                 struct dt_error *err)
{
    struct dt_comm *comm;
    if (world->size != 1) {
        dt_error_set(err, EX_CONFIG,
                     "comm: backend self is for one rank, not for %d: use "
                     "gloo",
                     world->size);
        return NULL;
    }
    comm = calloc(1, sizeof(*comm));
    if (!comm) {
        dt_error_set(err, EX_OSERR, "comm/self: no memory");
        return NULL;
    }
    comm->backend = &self_backend;
    comm->size = 1;
    return comm;
}

struct dt_comm *dt_comm_create(const char *backend,
                               const struct dt_comm_world *world,
                               const struct dt_comm_options *options,
                               struct dt_error *err)
{
    assert(world->size > 0 && world->rank >= 0 && world->rank < world->size);
    if (!strcmp(backend, "self") ||
        (!strcmp(backend, "gloo") && world->size == 1))
        return comm_self(world, err);
#ifdef HAVE_GLOO
    if (!strcmp(backend, "gloo"))
        return dt_comm_gloo(world, options, err);
#else
    (void)options;
    if (!strcmp(backend, "gloo")) {
        dt_error_set(err, EX_CONFIG,
                     "comm: this disttrain was built without gloo, so it "
                     "cannot use %d ranks: configure it --with-gloo (Debian: "
                     "libgloo-dev)",
                     world->size);
        return NULL;
    }
#endif
    dt_error_set(err, EX_CONFIG,
                 "comm: there is no backend \"%s\"; expected self or gloo",
                 backend);
    return NULL;
}

/* Ends a world and its groups. */
static void destroy(struct dt_comm *comm, const struct dt_error *why)
{
    struct dt_comm *next;
    if (!comm)
        return;
    assert(!comm->world);
    struct dt_comm *group = comm->groups;
    comm->backend->destroy(comm, why);
    for (; group; group = next) {
        next = group->next;
        free(group->ranks);
        free(group);
    }
}

void dt_comm_destroy(struct dt_comm *comm)
{
    destroy(comm, NULL);
}

void dt_comm_abandon(struct dt_comm *comm, const struct dt_error *why)
{
    destroy(comm, why);
}

/* The communicator that has the connections and the queue. */
static struct dt_comm *world_of(struct dt_comm *comm)
{
    return comm->world ? comm->world : comm;
}

struct dt_comm *dt_comm_group(struct dt_comm *comm, const int *ranks, int count,
                              struct dt_error *err)
{
    struct dt_comm *group = calloc(1, sizeof(*group));
    int *copy = calloc((size_t)count, sizeof(*copy));
    assert(!comm->world);
    if (!group || !copy) {
        free(group);
        free(copy);
        dt_error_set(err, EX_OSERR, "comm: no memory for a group");
        return NULL;
    }
    memcpy(copy, ranks, (size_t)count * sizeof(*copy));
    *group = (struct dt_comm){.backend = comm->backend,
                              .rank = -1,
                              .size = count,
                              .next = comm->groups,
                              .world = comm,
                              .ranks = copy};
    for (int i = 0; i < count; i++)
        if (copy[i] == comm->rank)
            group->rank = i;
    assert(group->rank >= 0);
    comm->groups = group;
    if (comm->backend->group && comm->backend->group(comm, group, err) < 0)
        return NULL;
    return group;
}

void dt_comm_count(struct dt_comm *comm, uint64_t *started)
{
    comm->started = started;
}

int dt_comm_rank(const struct dt_comm *comm)
{
    return comm->rank;
}

int dt_comm_size(const struct dt_comm *comm)
{
    return comm->size;
}

const char *dt_comm_backend(const struct dt_comm *comm)
{
    return comm->backend->name;
}

const char *dt_comm_host(const struct dt_comm *comm, int rank)
{
    const struct dt_comm *world = comm->world ? comm->world : comm;
    return world->backend->host(world, dt_comm_world_rank(comm, rank));
}

static int start(struct dt_comm *comm, const struct dt_op *op,
                 dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_comm *world = world_of(comm);
    struct dt_op here = *op;
    here.on = comm;
    if (world->started)
        __atomic_add_fetch(world->started, 1, __ATOMIC_RELAXED);
    return world->backend->start(world, &here, ticket, err);
}

static void assert_reducible(struct dt_view v, enum dt_dtype wire)
{
    assert(wire == DT_F32 || wire == DT_BF16);
    assert(v.dtype == DT_F32 || (v.dtype == DT_BF16 && wire == DT_BF16));
    (void)v;
    (void)wire;
}

int dt_comm_all_reduce(struct dt_comm *comm, struct dt_view v,
                       enum dt_reduce op, enum dt_dtype wire,
                       dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_op all_reduce = {
        .kind = DT_OP_ALL_REDUCE, .view = v, .reduce = op, .wire = wire};
    if (v.dtype != DT_F64) {
        assert_reducible(v, wire);
    } else if (!comm->backend->wait_event) {
        all_reduce.kind = DT_OP_SCALARS;
        all_reduce.scalars = dt_view_f64(v);
        all_reduce.scalar_count = v.count;
    }
    return start(comm, &all_reduce, ticket, err);
}

int dt_comm_reduce_scatter(struct dt_comm *comm, struct dt_view v,
                           enum dt_reduce op, enum dt_dtype wire,
                           dt_ticket_t *ticket, struct dt_error *err)
{
    assert_reducible(v, wire);
    assert(v.count % (size_t)comm->size == 0);
    return start(comm,
                 &(struct dt_op){.kind = DT_OP_REDUCE_SCATTER,
                                 .view = v,
                                 .reduce = op,
                                 .wire = wire},
                 ticket, err);
}

int dt_comm_reduce_scatter_int8(struct dt_comm *comm, struct dt_view v,
                                const struct dt_noise *noise,
                                dt_ticket_t *ticket, struct dt_error *err)
{
    assert(v.dtype == DT_F32 && v.count % (size_t)comm->size == 0);
    assert(v.count / (size_t)comm->size % DT_INT8_BLOCK == 0);
    assert(noise->first % DT_INT8_BLOCK == 0);
    return start(comm,
                 &(struct dt_op){.kind = DT_OP_REDUCE_SCATTER_INT8,
                                 .view = v,
                                 .noise = *noise},
                 ticket, err);
}

int dt_comm_all_gather(struct dt_comm *comm, struct dt_view v,
                       dt_ticket_t *ticket, struct dt_error *err)
{
    assert(v.count % (size_t)comm->size == 0);
    return start(
        comm,
        &(struct dt_op){.kind = DT_OP_ALL_GATHER, .view = v, .wire = v.dtype},
        ticket, err);
}

int dt_comm_all_gather_bf16(struct dt_comm *comm, struct dt_view v,
                            dt_ticket_t *ticket, struct dt_error *err)
{
    assert(v.dtype == DT_F32 && v.count % ((size_t)comm->size * 8) == 0);
    return start(
        comm,
        &(struct dt_op){.kind = DT_OP_ALL_GATHER, .view = v, .wire = DT_BF16},
        ticket, err);
}

int dt_comm_broadcast(struct dt_comm *comm, struct dt_view v, int root,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    assert(root >= 0 && root < comm->size);
    return start(
        comm,
        &(struct dt_op){
            .kind = DT_OP_BROADCAST, .view = v, .wire = v.dtype, .root = root},
        ticket, err);
}

int dt_comm_wait(struct dt_comm *comm, dt_ticket_t ticket, struct dt_error *err)
{
    struct dt_comm *world = world_of(comm);
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_COMM_WAIT, ticket);
    int rc = world->backend->wait(world, ticket, err);
    dt_span_end(&span);
    return rc;
}

int dt_comm_wait_event(struct dt_comm *comm, const struct dt_device *device,
                       struct dt_event *event, struct dt_error *err)
{
    struct dt_comm *world = world_of(comm);
    struct dt_span span;
    dt_span_begin_number(&span, DT_SPAN_DEVICE_WAIT, 0);
    int rc = world->backend->wait_event
                 ? world->backend->wait_event(world, device, event, err)
                 : dt_event_wait(device, NULL, event, err);
    dt_span_end(&span);
    return rc;
}

static int run(struct dt_comm *comm, const struct dt_op *op,
               struct dt_error *err)
{
    dt_ticket_t ticket;
    if (start(comm, op, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(comm, ticket, err);
}

/* Where operations are in a stream, no thread sees them begin and end but this
 * one, if it waits. All ranks run as many.
 */
static int run_seen(struct dt_comm *comm, const struct dt_op *op,
                    struct dt_error *err)
{
    struct dt_comm *world = world_of(comm);
    const struct dt_span_detail detail = {
        .name = dt_op_name(op->kind),
        .number = ++world->runs,
        .bytes = op->scalar_count * sizeof(double),
        .first = dt_comm_world_rank(comm, 0),
        .size = comm->size,
    };
    struct dt_span span;
    if (!world->backend->wait_event)
        return run(comm, op, err);
    dt_span_begin(&span, DT_SPAN_COLLECTIVE, &detail);
    int rc = run(comm, op, err);
    dt_span_end(&span);
    return rc;
}

int dt_comm_barrier(struct dt_comm *comm, struct dt_error *err)
{
    double nothing = 0;
    return run_seen(comm,
                    &(struct dt_op){.kind = DT_OP_BARRIER,
                                    .scalars = &nothing,
                                    .scalar_count = 1},
                    err);
}

int dt_comm_reduce_scalars(struct dt_comm *comm, double *values, size_t count,
                           enum dt_reduce op, struct dt_error *err)
{
    return run_seen(comm,
                    &(struct dt_op){.kind = DT_OP_SCALARS,
                                    .reduce = op,
                                    .scalars = values,
                                    .scalar_count = count},
                    err);
}

void dt_comm_forget_memory(struct dt_comm *comm)
{
    if (comm && comm->backend->forget)
        comm->backend->forget(comm);
}

const char *dt_comm_library(void)
{
#ifdef HAVE_GLOO
    return "gloo";
#else
    return "none, built --without-gloo";
#endif
}
