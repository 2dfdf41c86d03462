/* SPDX-License-Identifier: Apache-2.0 */
/* comm_gloo.c - the gloo backend: a queue, and the thread that works it off */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/span.h"
#include "comm/comm_gloo.h"

/* --- connections of a group in a large world --- */

/* The largest of all ranks' counts. */
static int largest(struct dt_messages *m, const struct dt_comm *world,
                   int *count, struct dt_error *err)
{
    double most = *count;
    const struct dt_op max = {.on = world,
                              .kind = DT_OP_SCALARS,
                              .reduce = DT_MAX,
                              .scalars = &most,
                              .scalar_count = 1};
    if (dt_log_rounds_reduce_scalars(m, &max, err) < 0)
        return -1;
    *count = (int)most;
    return 0;
}

/* Where this rank listens for `count` others, to all: `all` has room for the
 * address of each rank.
 */
static int tell_addresses(struct dt_messages *m, const struct dt_comm *world,
                          int count, struct dt_buffer *all,
                          struct dt_error *err)
{
    struct dt_view view = dt_view_of(all, DT_I32);
    const struct dt_op gather = {
        .on = world, .kind = DT_OP_ALL_GATHER, .view = view, .wire = DT_I32};
    union dt_net_address *own =
        (union dt_net_address *)dt_view_data(view) + world->rank;
    memset(own, 0, sizeof(*own));
    if (count > 0 && dt_peers_listen(m->peers, count, own, err) < 0)
        return -1;
    m->sequence++; /* on all ranks: messages of their own */
    return dt_log_rounds_all_gather(m, &gather, err);
}

static int connect_peers(struct dt_messages *m, const int *peers, int count,
                         const union dt_net_address *all, struct dt_error *err)
{
    for (int i = 0; i < count; i++)
        if (dt_peers_connect(m->peers, peers[i], &all[peers[i]], err) < 0 ||
            dt_arrivals_open(&m->arrivals, peers[i], err) < 0)
            return -1;
    return 0;
}

static int connect_all(struct dt_messages *m, const struct dt_op *op,
                       const int *peers, int count, struct dt_error *err)
{
    const struct dt_comm *world = op->on->world ? op->on->world : op->on;
    int most = count;
    if (largest(m, world, &most, err) < 0)
        return -1;
    if (most == 0)
        return 0;
    struct dt_buffer *all = dt_buffer_create(
        &dt_cpu, sizeof(union dt_net_address) * (size_t)world->size,
        "addresses", err);
    if (!all)
        return -1;
    int rc = tell_addresses(m, world, count, all, err);
    if (rc == 0)
        rc = connect_peers(m, peers, count,
                           dt_view_data(dt_view_of(all, DT_I32)), err);
    dt_peers_stop_listening(m->peers);
    dt_buffer_destroy(all);
    return rc;
}

/* Connections that a group needs in a large world. It is an operation of the
 * world, which all ranks start together: each tells all where it listens for
 * the ranks that it will talk to in its group, and then those connect. The
 * members of op->on are connected as far as collectives need it, or with `all`
 * each to each. -1: EX_UNAVAILABLE or EX_OSERR.
 */
static int meet_run(struct dt_messages *m, const struct dt_op *op, bool all,
                    struct dt_error *err)
{
    const struct dt_links *links = &m->peers->links;
    int *members = calloc((size_t)op->on->size, sizeof(*members));
    int *peers = calloc((size_t)links->size, sizeof(*peers));
    int count, rc = -1;
    for (int i = 0; members && i < op->on->size; i++)
        members[i] = dt_comm_world_rank(op->on, i);
    if (members && peers) {
        count = dt_links_missing(links, members, op->on->size, op->on->rank,
                                 all, peers);
        rc = connect_all(m, op, peers, count, err);
    } else {
        dt_error_set(err, EX_OSERR, "no memory for %d ranks", links->size);
    }
    free(members);
    free(peers);
    return rc;
}

/* --- the backend --- */

struct gloo {
    struct dt_comm base;
    struct dt_peers peers;
    struct dt_messages messages;
    struct dt_queue *queue;
    const struct dt_error *why; /* of destroy */
    bool left;                  /* belongs to the queue's thread */
    bool complete;              /* each rank talks to each, see scatter_int8 */
};

static int all_reduce(struct dt_messages *m, const struct dt_op *op,
                      struct dt_error *err)
{
    size_t bytes = op->view.count * dt_dtype_bytes(op->wire);
    if (dt_direct_is_small(bytes, op->on->size))
        return dt_direct_all_reduce(m, op, err);
    return dt_pipeline_run(m, op, err);
}

/* Are so many ranks not connected each to each? */
static bool is_large(int size)
{
    return size > DT_LINKS_ALL;
}

typedef int (*run_f)(struct dt_messages *m, const struct dt_op *op,
                     struct dt_error *err);

static int meet(struct dt_messages *m, const struct dt_op *op,
                struct dt_error *err)
{
    return meet_run(m, op, false, err);
}

/* In 8 bits, contributions go from each to each: the first time, in a group
 * that is not so connected.
 */
static int scatter_int8(struct dt_messages *m, const struct dt_op *op,
                        struct dt_error *err)
{
    bool *complete = op->on->own;
    if (!*complete && meet_run(m, op, true, err) < 0)
        return -1;
    *complete = true;
    return dt_scatter_int8(m, op, err);
}

static int run_op(struct dt_messages *m, const struct dt_op *op,
                  struct dt_error *err)
{
    static const struct {
        const char *fault;
        run_f small, large; /* by the number of ranks */
    } kinds[] = {
        [DT_OP_ALL_REDUCE] = {"comm.all_reduce", all_reduce,
                              dt_log_rounds_reduce},
        [DT_OP_REDUCE_SCATTER] = {"comm.reduce_scatter", dt_pipeline_run,
                                  dt_log_rounds_reduce},
        [DT_OP_REDUCE_SCATTER_INT8] = {"comm.reduce_scatter_int8",
                                       dt_scatter_int8, scatter_int8},
        [DT_OP_ALL_GATHER] = {"comm.all_gather", dt_direct_all_gather,
                              dt_log_rounds_all_gather},
        [DT_OP_BROADCAST] = {"comm.broadcast", dt_direct_broadcast,
                             dt_log_rounds_broadcast},
        [DT_OP_SCALARS] = {"comm.reduce_scalars", dt_direct_reduce_scalars,
                           dt_log_rounds_reduce_scalars},
        [DT_OP_BARRIER] = {"comm.barrier", dt_direct_reduce_scalars,
                           dt_log_rounds_reduce_scalars},
        [DT_OP_MEET] = {"comm.meet", meet, meet},
    };
    m->sequence++;
    if (dt_fault(kinds[op->kind].fault))
        return dt_error_set(err, EX_UNAVAILABLE,
                            "lost rank %d on %s: DISTTRAIN_FAULT",
                            m->peers->rank, m->peers->hosts[m->peers->rank]);
    if (op->kind != DT_OP_MEET &&
        (op->view.count + op->scalar_count == 0 || op->on->size == 1))
        return 0;
    return is_large(op->on->size) ? kinds[op->kind].large(m, op, err)
                                  : kinds[op->kind].small(m, op, err);
}

/* An operation, as it appears in a trace. */
static struct dt_span_detail span_detail(const struct gloo *g,
                                         const struct dt_op *op)
{
    size_t bytes = op->view.count * dt_dtype_bytes(op->wire);
    if (op->kind == DT_OP_SCALARS)
        bytes = op->scalar_count * sizeof(double);
    else if (op->kind == DT_OP_REDUCE_SCATTER_INT8)
        bytes = op->view.count;
    return (struct dt_span_detail){
        .name = dt_op_name(op->kind),
        .number = g->messages.sequence + 1,
        .bytes = bytes,
        .first = dt_comm_world_rank(op->on, 0),
        .size = op->on->size,
    };
}

static int gloo_run(void *ctx, const struct dt_op *op, struct dt_error *err)
{
    struct gloo *g = ctx;
    const struct dt_span_detail detail = span_detail(g, op);
    struct dt_span span;
    char what[64];
    dt_span_begin(&span, DT_SPAN_COLLECTIVE, &detail);
    int rc = run_op(&g->messages, op, err);
    dt_span_end(&span);
    if (rc == 0)
        return 0;
    /* now, because the caller may end the process at once */
    dt_peers_leave(&g->peers, err);
    g->left = true;
    dt_op_describe(op, what, sizeof(what));
    return dt_error_prefix(err, "comm/gloo: %s", what);
}

/* A rank that computes passes the news of a loss on, too: in a large world, not
 * all are connected to the one that is lost.
 */
static int gloo_idle(void *ctx, struct dt_error *err)
{
    struct gloo *g = ctx;
    if (dt_peers_look(&g->peers, err) == 0)
        return 0;
    dt_peers_leave(&g->peers, err);
    g->left = true;
    return dt_error_prefix(err, "comm/gloo");
}

static void gloo_leave(void *ctx)
{
    struct gloo *g = ctx;
    if (!g->left)
        dt_peers_leave(&g->peers, g->why);
}

static int gloo_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    return dt_queue_start(((struct gloo *)comm)->queue, op, ticket, err);
}

static int gloo_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *err)
{
    return dt_queue_wait(((struct gloo *)comm)->queue, ticket, err);
}

/* Connects the members; a small world is connected already. */
static int gloo_group(struct dt_comm *comm, struct dt_comm *group,
                      struct dt_error *err)
{
    const struct dt_op meet = {.on = group, .kind = DT_OP_MEET};
    dt_ticket_t ticket;
    if (!is_large(comm->size))
        return 0;
    group->own = calloc(1, sizeof(bool)); /* as complete of the world */
    if (!group->own)
        return dt_error_set(err, EX_OSERR, "comm/gloo: no memory");
    if (gloo_start(comm, &meet, &ticket, err) < 0)
        return -1;
    return gloo_wait(comm, ticket, err);
}

static const char *gloo_host(const struct dt_comm *comm, int rank)
{
    return ((const struct gloo *)comm)->peers.hosts[rank];
}

static void gloo_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    struct gloo *g = (struct gloo *)comm;
    g->why = why;
    atomic_store(&g->peers.leaving, true);
    dt_queue_destroy(g->queue);
    if (g->peers.transport)
        dt_transport_close(g->peers.transport);
    for (struct dt_comm *group = comm->groups; group; group = group->next)
        free(group->own);
    dt_messages_fini(&g->messages);
    dt_peers_fini(&g->peers);
    free(g);
}

static const struct dt_comm_backend gloo_backend = {
    .name = "gloo",
    .start = gloo_start,
    .wait = gloo_wait,
    .group = gloo_group,
    .host = gloo_host,
    .destroy = gloo_destroy,
};

static int join_world(struct gloo *g, const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      struct dt_error *err)
{
    const struct dt_queue_calls calls = {
        .run = gloo_run,
        .idle = is_large(world->size) ? gloo_idle : NULL,
        .leave = gloo_leave,
    };
    if (dt_peers_init(&g->peers, world, options, false, err) < 0 ||
        dt_arrivals_init(&g->messages.arrivals, &g->peers, err) < 0)
        return -1;
    g->queue = dt_queue_create(&calls, g, err);
    return g->queue ? 0 : -1;
}

struct dt_comm *dt_comm_gloo(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err)
{
    struct gloo *g = calloc(1, sizeof(*g));
    if (!g) {
        dt_error_set(err, EX_OSERR, "comm/gloo: no memory");
        return NULL;
    }
    g->base = (struct dt_comm){
        .backend = &gloo_backend, .rank = world->rank, .size = world->size};
    g->base.own = &g->complete;
    g->messages.peers = &g->peers;
    if (join_world(g, world, options, err) < 0) {
        dt_error_prefix(err, "comm/gloo: rank %d on %s", world->rank,
                        world->host(world->ctx, world->rank));
        gloo_destroy(&g->base, NULL);
        return NULL;
    }
    return &g->base;
}
