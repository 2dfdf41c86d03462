/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c - from calls to operations, and from names to backends */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "comm/impl.h"

struct dt_comm *dt_comm_create(const char *backend,
                               const struct dt_comm_world *world,
                               const struct dt_comm_options *options,
                               struct dt_error *err)
{
    assert(world->size > 0 && world->rank >= 0 && world->rank < world->size);
    if (!strcmp(backend, "self") ||
        (!strcmp(backend, "gloo") && world->size == 1))
        return dt_comm_self(world, err);
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

void dt_comm_destroy(struct dt_comm *comm)
{
    if (comm)
        comm->backend->destroy(comm, NULL);
}

void dt_comm_abandon(struct dt_comm *comm, const struct dt_error *why)
{
    if (comm)
        comm->backend->destroy(comm, why);
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
    return comm->backend->start(comm, &all_reduce, ticket, err);
}

int dt_comm_reduce_scatter(struct dt_comm *comm, struct dt_view v,
                           enum dt_reduce op, enum dt_dtype wire,
                           dt_ticket_t *ticket, struct dt_error *err)
{
    assert_reducible(v, wire);
    assert(v.count % (size_t)comm->size == 0);
    return comm->backend->start(comm,
                                &(struct dt_op){.kind = DT_OP_REDUCE_SCATTER,
                                                .view = v,
                                                .reduce = op,
                                                .wire = wire},
                                ticket, err);
}

int dt_comm_all_gather(struct dt_comm *comm, struct dt_view v,
                       dt_ticket_t *ticket, struct dt_error *err)
{
    assert(v.count % (size_t)comm->size == 0);
    return comm->backend->start(
        comm,
        &(struct dt_op){.kind = DT_OP_ALL_GATHER, .view = v, .wire = v.dtype},
        ticket, err);
}

int dt_comm_broadcast(struct dt_comm *comm, struct dt_view v, int root,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    assert(root >= 0 && root < comm->size);
    return comm->backend->start(
        comm,
        &(struct dt_op){
            .kind = DT_OP_BROADCAST, .view = v, .wire = v.dtype, .root = root},
        ticket, err);
}

int dt_comm_wait(struct dt_comm *comm, dt_ticket_t ticket, struct dt_error *err)
{
    return comm->backend->wait(comm, ticket, err);
}

int dt_comm_wait_event(struct dt_comm *comm, const struct dt_device *device,
                       struct dt_event *event, struct dt_error *err)
{
    if (comm->backend->wait_event)
        return comm->backend->wait_event(comm, device, event, err);
    return dt_event_wait(device, event, err);
}

static int run(struct dt_comm *comm, const struct dt_op *op,
               struct dt_error *err)
{
    dt_ticket_t ticket;
    if (comm->backend->start(comm, op, &ticket, err) < 0)
        return -1;
    return comm->backend->wait(comm, ticket, err);
}

int dt_comm_barrier(struct dt_comm *comm, struct dt_error *err)
{
    double nothing = 0;
    return run(comm,
               &(struct dt_op){.kind = DT_OP_BARRIER,
                               .scalars = &nothing,
                               .scalar_count = 1},
               err);
}

int dt_comm_reduce_scalars(struct dt_comm *comm, double *values, size_t count,
                           enum dt_reduce op, struct dt_error *err)
{
    return run(comm,
               &(struct dt_op){.kind = DT_OP_SCALARS,
                               .reduce = op,
                               .scalars = values,
                               .scalar_count = count},
               err);
}

const char *dt_comm_library(void)
{
#ifdef HAVE_GLOO
    return "gloo";
#else
    return "none, built --without-gloo";
#endif
}
