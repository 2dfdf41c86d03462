/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - the backend gloo: a queue, whose thread talks to all the peers */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "comm/direct.h"
#include "comm/queue.h"

struct mesh {
    struct dt_comm base;
    struct dt_peers peers;
    struct dt_direct direct;
    struct dt_queue *queue;
    const struct dt_error *why; /* of destroy */
    bool left;                  /* belongs to the queue's thread */
};

static int mesh_run(void *ctx, const struct dt_op *op, struct dt_error *err)
{
    struct mesh *m = ctx;
    char what[64];
    if (dt_direct_run(&m->direct, op, err) == 0)
        return 0;
    /* before anybody hears of it: the caller may end the process at once */
    dt_peers_leave(&m->peers, err);
    m->left = true;
    dt_op_describe(op, what, sizeof(what));
    return dt_error_prefix(err, "comm/gloo: %s", what);
}

static void mesh_leave(void *ctx)
{
    struct mesh *m = ctx;
    if (!m->left)
        dt_peers_leave(&m->peers, m->why);
}

static int mesh_start(struct dt_comm *comm, const struct dt_op *op,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    return dt_queue_start(((struct mesh *)comm)->queue, op, ticket, err);
}

static int mesh_wait(struct dt_comm *comm, dt_ticket_t ticket,
                     struct dt_error *err)
{
    return dt_queue_wait(((struct mesh *)comm)->queue, ticket, err);
}

static void mesh_destroy(struct dt_comm *comm, const struct dt_error *why)
{
    struct mesh *m = (struct mesh *)comm;
    m->why = why;
    atomic_store(&m->peers.leaving, true);
    dt_queue_destroy(m->queue);
    dt_direct_fini(&m->direct);
    dt_peers_fini(&m->peers);
    free(m);
}

static const struct dt_comm_backend gloo_backend = {
    .name = "gloo",
    .start = mesh_start,
    .wait = mesh_wait,
    .destroy = mesh_destroy,
};

struct dt_comm *dt_comm_gloo(const struct dt_comm_world *world,
                             const struct dt_comm_options *options,
                             struct dt_error *err)
{
    struct mesh *m = calloc(1, sizeof(*m));
    if (!m) {
        dt_error_set(err, EX_OSERR, "comm/gloo: no memory");
        return NULL;
    }
    m->base = (struct dt_comm){&gloo_backend, world->rank, world->size};
    m->direct.peers = &m->peers;
    if (dt_peers_init(&m->peers, world, options, err) == 0)
        m->queue = dt_queue_create(mesh_run, mesh_leave, m, err);
    if (!m->queue) {
        dt_error_prefix(err, "comm/gloo: rank %d on %s", world->rank,
                        world->host(world->ctx, world->rank));
        mesh_destroy(&m->base, NULL);
        return NULL;
    }
    return &m->base;
}
