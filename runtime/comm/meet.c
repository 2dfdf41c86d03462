/* SPDX-License-Identifier: Apache-2.0 */
/* meet.c - connections that a group needs in a large world */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "comm/comm_gloo.h"

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

static int meet(struct dt_messages *m, const struct dt_op *op, const int *peers,
                int count, struct dt_error *err)
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

int dt_meet_run(struct dt_messages *m, const struct dt_op *op, bool all,
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
        rc = meet(m, op, peers, count, err);
    } else {
        dt_error_set(err, EX_OSERR, "no memory for %d ranks", links->size);
    }
    free(members);
    free(peers);
    return rc;
}
