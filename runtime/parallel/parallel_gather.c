/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parallel_gather.c - brings the weights of a unit together
 *
 * Every rank starts the same collectives in the same order, which depends on
 * the order of units alone, never on which operation ends first.
 */
#include "config.h"

#include "parallel/parallel_impl.h"

static bool keeps_weights(const struct dt_parallel *p)
{
    return p->kept.weights == DT_WHOLE;
}

static bool is_empty(const struct dt_parallel *p, size_t u)
{
    return p->layout->units[u].count == 0;
}

static struct dt_place *place_of(const struct dt_parallel *p, size_t u)
{
    return &p->places[keeps_weights(p) ? u : p->weights_slots.of[u]];
}

static int wait_place(struct dt_parallel *p, struct dt_place *place,
                      struct dt_error *err)
{
    if (!place->on_the_way)
        return 0;
    place->on_the_way = false;
    return dt_comm_wait(p->comm, place->ticket, err);
}

int dt_weights_take(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (is_empty(p, u))
        return 0;
    return wait_place(p, place_of(p, u), err);
}

/* Starts the gather of unit u; its own part is in place. */
static int start_gather(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    place->on_the_way = true;
    return dt_levels_gather(p, dt_unit_weights(p, u), &place->ticket, err);
}

/* --- shares, which groups gather once a step --- */

/* Starts to bring together this rank's share of unit u, unless it is new. */
static int fetch_share(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = &p->share_places[u];
    if (u > p->last || p->kept.weights != DT_SHARE ||
        place->version == p->version)
        return 0;
    place->version = p->version;
    place->on_the_way = true;
    return dt_levels_gather_share(p, dt_unit_share(p, u), &place->ticket, err);
}

/* Fills the slot of unit u from shares. */
static int gather_shares(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    struct dt_view unit = dt_unit_weights(p, u), share = dt_unit_share(p, u);
    struct dt_view here = dt_levels_cut(p, unit, DT_WHOLE, DT_SHARE);
    if (fetch_share(p, u, err) < 0 ||
        wait_place(p, &p->share_places[u], err) < 0)
        return -1;
    if (dt_exec_copy(&p->exec, here, share, err) < 0)
        return -1;
    place->on_the_way = p->levels.group;
    return dt_levels_gather_group(p, unit, &place->ticket, err);
}

int dt_weights_bring(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (p->kept.weights != DT_SHARE)
        return dt_weights_take(p, u, err);
    if (is_empty(p, u))
        return 0;
    if (fetch_share(p, u, err) < 0)
        return -1;
    return wait_place(p, &p->share_places[u], err);
}

/* --- slots --- */

/* Queues weights, rounded if they have another type. */
static int round_weights(struct dt_parallel *p, struct dt_view to,
                         struct dt_view from, struct dt_error *err)
{
    if (to.dtype == from.dtype)
        return dt_exec_copy(&p->exec, to, from, err);
    p->exec.ops->convert(p->exec.stream, to, from);
    return 0;
}

/* Queues this rank's part of unit u to its slot. */
static int fill_own(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_view own =
        dt_levels_cut(p, dt_unit_weights(p, u), DT_WHOLE, DT_OWN);
    if (p->weights_tiles)
        return dt_tiles_get(p->weights_tiles, 0, dt_part_first(p, u), own.count,
                            dt_view_data(own), err);
    return round_weights(p, own, dt_parallel_part(p, DT_OWNED_MASTER, u), err);
}

int dt_weights_need(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_place *place = place_of(p, u);
    if (is_empty(p, u) || keeps_weights(p) ||
        (place->unit == u && place->version == p->version))
        return 0;
    if (dt_weights_take(p, u, err) < 0)
        return -1;
    place->unit = u;
    place->version = p->version;
    if (p->kept.weights == DT_SHARE)
        return gather_shares(p, u, err);
    if (fill_own(p, u, err) < 0)
        return -1;
    return start_gather(p, u, err);
}

int dt_weights_prefetch(struct dt_parallel *p, size_t u, size_t next,
                        struct dt_error *err)
{
    if (next > p->last || keeps_weights(p) ||
        (!is_empty(p, u) && place_of(p, u) == place_of(p, next)))
        return 0;
    return dt_weights_need(p, next, err);
}

int dt_weights_expect(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const struct dt_place *place =
        p->weights_tiles && u <= p->last ? place_of(p, u) : NULL;
    if (!place || (place->unit == u && place->version == p->version))
        return 0;
    return dt_tiles_expect(p->weights_tiles, dt_part_first(p, u),
                           p->layout->units[u].count / p->world, err);
}

int dt_parallel_forward(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    const size_t next = dt_layout_next(p->layout, u + 1);
    const size_t after = dt_layout_next(p->layout, next + 1);
    /* shares go one unit ahead of the gather that needs them */
    if (dt_weights_need(p, u, err) < 0 || fetch_share(p, next, err) < 0 ||
        fetch_share(p, after, err) < 0 ||
        dt_weights_prefetch(p, u, next, err) < 0 ||
        dt_weights_expect(p, after, err) < 0)
        return -1;
    return dt_weights_take(p, u, err);
}

/* Whether the weights of the updated unit u can be on their way before the next
 * pass begins: those of the first units, which need no slot that another of
 * them has (struct dt_slots), and no tile.
 */
static bool goes_ahead(const struct dt_parallel *p, size_t u)
{
    return u < p->weights_slots.ahead && p->tile == 0;
}

int dt_weights_publish(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (is_empty(p, u))
        return 0;
    if (keeps_weights(p))
        return p->kept.state == DT_OWN ? start_gather(p, u, err) : 0;
    if (!goes_ahead(p, u))
        return 0;
    return p->kept.weights == DT_SHARE ? fetch_share(p, u, err)
                                       : dt_weights_need(p, u, err);
}

void dt_weights_settle(struct dt_parallel *p)
{
    struct dt_error err;
    for (size_t u = 0; p->places && u <= p->last; u++)
        if (dt_weights_take(p, u, &err) < 0 ||
            (p->share_places && wait_place(p, &p->share_places[u], &err) < 0))
            return;
}

/* --- loading and saving --- */

/* Gathers unit u of a kind that every rank keeps whole. */
static int gather_kind(struct dt_parallel *p, enum dt_owned kind, size_t u,
                       struct dt_error *err)
{
    dt_ticket_t ticket;
    if (dt_owned_extent(p, kind) != DT_WHOLE)
        return 0;
    if (dt_levels_gather(p, dt_owned_unit(p, kind, u), &ticket, err) < 0)
        return -1;
    return dt_comm_wait(p->comm, ticket, err);
}

/* Rounds the master of unit u to the weights that this rank keeps. */
static int round_master(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    struct dt_view master = dt_parallel_part(p, DT_OWNED_MASTER, u);
    if (!master.buf)
        return dt_offload_round(p, u, err);
    if (!dt_rounds_weights(p))
        return 0;
    if (p->kept.state == DT_WHOLE)
        master = dt_owned_unit(p, DT_OWNED_MASTER, u);
    return round_weights(p, dt_rounded_weights(p, u), master, err);
}

int dt_parallel_loaded(struct dt_parallel *p, size_t u, struct dt_error *err)
{
    if (u == 0)
        p->version++;
    if (is_empty(p, u))
        return 0;
    for (enum dt_owned kind = 0; kind < DT_OWNED_GRADS; kind++)
        if (gather_kind(p, kind, u, err) < 0)
            return -1;
    if (round_master(p, u, err) < 0 || dt_weights_publish(p, u, err) < 0)
        return -1;
    return keeps_weights(p) ? dt_weights_take(p, u, err) : 0;
}

int dt_parallel_renew(struct dt_parallel *p, struct dt_error *err)
{
    dt_weights_settle(p);
    p->version++;
    for (size_t u = 0; u <= p->last; u++)
        if (!is_empty(p, u) &&
            (round_master(p, u, err) < 0 || dt_weights_publish(p, u, err) < 0 ||
             dt_weights_take(p, u, err) < 0))
            return -1;
    return 0;
}

/* The fp32 weights of unit u, in the place of its gradients. In bf16 they are
 * those that passes read.
 */
static int gather_master(struct dt_parallel *p, size_t u, struct dt_view *unit,
                         struct dt_error *err)
{
    dt_ticket_t ticket;
    *unit = dt_unit_grads(p, u);
    struct dt_view own = dt_levels_cut(p, *unit, DT_WHOLE, DT_OWN);
    if (dt_parallel_get(p, dt_parallel_part(p, DT_OWNED_MASTER, u),
                        dt_view_data(own), err) < 0 ||
        dt_levels_gather(p, *unit, &ticket, err) < 0)
        return -1;
    return dt_comm_wait(p->comm, ticket, err);
}

int dt_parallel_gather(struct dt_parallel *p, size_t u, bool master,
                       struct dt_view *unit, struct dt_error *err)
{
    *unit = (struct dt_view){.dtype = p->options.compute};
    if (is_empty(p, u))
        return 0;
    if (!master || p->options.compute == dt_master_dtype(&p->options)) {
        *unit = dt_unit_weights(p, u);
        if (dt_weights_need(p, u, err) < 0)
            return -1;
        return dt_weights_take(p, u, err);
    }
    if (p->kept.state == DT_OWN)
        return gather_master(p, u, unit, err);
    *unit = dt_owned_unit(p, DT_OWNED_MASTER, u);
    return 0;
}
