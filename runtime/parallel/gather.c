/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather.c - brings the weights of a unit together
 *
 * Every rank starts the same collectives in the same order, which depends on
 * the order of units alone, never on what is finished first.
 */
#include "config.h"

#include "parallel/impl.h"

static struct dt_place *place_of(const struct dt_parallel *p, size_t u)
{
    return &p->places[p->whole.weights ? u : p->weights_slots.of[u]];
}

static int wait_weights(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    if (!place->on_the_way)
        return 0;
    place->on_the_way = false;
    return dt_comm_wait(p->comm, place->ticket, err);
}

/* Starts the gather of unit u; its own part is in place. */
static int start_gather(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    place->on_the_way = true;
    return dt_comm_all_gather(p->comm, dt_unit_weights(p, u), &place->ticket,
                              err);
}

/* Starts to fill the slot of unit u, if it does not hold it. */
static int fill_slot(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    if (p->whole.weights || (place->unit == u && place->version == p->version))
        return 0;
    if (wait_weights(p, u, err) < 0)
        return -1;
    place->unit = u;
    place->version = p->version;
    struct dt_view own = dt_unit_part(p, dt_unit_weights(p, u));
    if (p->shard.count > 0 || p->weights_tiles) {
        if (dt_offload_weights(p, u, own, err) < 0)
            return -1;
    } else {
        p->exec.ops->convert(p->exec.stream, own,
                             dt_parallel_part(p, DT_OWNED_MASTER, u));
    }
    return start_gather(p, u, err);
}

int dt_weights_need(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    bool tied = p->layout->tied && u == p->last;
    if (fill_slot(p, u, err) < 0 || (tied && fill_slot(p, 0, err) < 0))
        return -1;
    return 0;
}

int dt_weights_take(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (p->layout->tied && u == p->last && wait_weights(p, 0, err) < 0)
        return -1;
    return wait_weights(p, u, err);
}

int dt_weights_prefetch(struct dt_parallel *p, size_t u, size_t next,
                        struct dt_error *err)
{
    if (p->whole.weights || place_of(p, u) == place_of(p, next))
        return 0;
    return dt_weights_need(p, next, err);
}

int dt_weights_expect(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const struct dt_place *place = p->weights_tiles ? place_of(p, u) : NULL;
    if (!place || (place->unit == u && place->version == p->version))
        return 0;
    return dt_tiles_expect(p->weights_tiles, dt_part_first(p, u),
                           p->layout->units[u].count / p->world, err);
}

int dt_parallel_forward(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (dt_weights_need(p, u, err) < 0 ||
        (u < p->last && dt_weights_prefetch(p, u, u + 1, err) < 0) ||
        (u + 1 < p->last && dt_weights_expect(p, u + 2, err) < 0))
        return -1;
    return dt_weights_take(p, u, err);
}

int dt_weights_publish(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    return p->whole.weights && !p->whole.optimizer ? start_gather(p, u, err)
                                                   : 0;
}

/* --- loading and saving --- */

/* Gathers what every rank keeps whole of one kind of unit u. */
static int gather_kind(struct dt_parallel *p, enum dt_owned kind, size_t u,
                       struct dt_error *err)
{
    const struct dt_unit *unit = &p->layout->units[u];
    dt_ticket_t ticket;
    if (!dt_owned_is_whole(p, kind))
        return 0;
    if (dt_comm_all_gather(
            p->comm, dt_view_slice(p->kinds[kind], unit->offset, unit->count),
            &ticket, err) < 0)
        return -1;
    return dt_comm_wait(p->comm, ticket, err);
}

/* Rounds the master of unit u to the weights that this rank keeps. */
static int round_master(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_view master = dt_parallel_part(p, DT_OWNED_MASTER, u);
    struct dt_view unit = dt_unit_weights(p, u);
    if (!master.buf)
        return dt_offload_round(p, u, err);
    if (!p->whole.weights || master.buf == p->weights_buf)
        return 0;
    if (p->whole.optimizer)
        master = dt_view_slice(p->kinds[DT_OWNED_MASTER],
                               p->layout->units[u].offset, unit.count);
    else
        unit = dt_unit_part(p, unit);
    p->exec.ops->convert(p->exec.stream, unit, master);
    return 0;
}

int dt_parallel_loaded(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (u == 0)
        p->version++;
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        if (gather_kind(p, kind, u, err) < 0)
            return -1;
    if (round_master(p, u, err) < 0 || dt_weights_publish(p, u, err) < 0)
        return -1;
    return p->whole.weights ? wait_weights(p, u, err) : 0;
}

/* The fp32 weights of unit u, in the place of its gradients. */
static int gather_master(struct dt_parallel *p, size_t u, struct dt_view *unit,
                         struct dt_error *err)
{
    dt_ticket_t ticket;
    *unit = dt_unit_grads(p, u);
    if (dt_parallel_get(p, dt_parallel_part(p, DT_OWNED_MASTER, u),
                        dt_view_data(dt_unit_part(p, *unit)), err) < 0 ||
        dt_comm_all_gather(p->comm, *unit, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(p->comm, ticket, err);
}

int dt_parallel_gather(struct dt_parallel *p, size_t u, bool master,
                       struct dt_view *unit, struct dt_error *err)
{
    const struct dt_unit *range = &p->layout->units[u];
    if (!master || p->options.compute == DT_F32) {
        *unit = dt_unit_weights(p, u);
        if (fill_slot(p, u, err) < 0)
            return -1;
        return wait_weights(p, u, err);
    }
    if (!p->whole.optimizer)
        return gather_master(p, u, unit, err);
    *unit =
        dt_view_slice(p->kinds[DT_OWNED_MASTER], range->offset, range->count);
    return 0;
}
