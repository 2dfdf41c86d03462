/* SPDX-License-Identifier: Apache-2.0 */
/*
 * update.c - the updates of a step, in the order of units
 *
 * A piece is the elements that a unit and a tile have in common; without
 * offload it is a unit. When its last piece is updated, a unit's weights are
 * published; when the last piece in it is, a tile goes back.
 */
#include "config.h"

#include "parallel/parallel_impl.h"

/* --- the decision --- */

/* Whether the host has to know the outcome before it goes on: because it
 * computes or moves tiles.
 */
static bool must_know(const struct dt_parallel *p)
{
    return p->tile > 0 && (p->exec.device->is_host || p->scalars.data);
}

/* Brings the scalars to where the host can read them. */
static int fetch_scalars(struct dt_parallel *p, struct dt_view step,
                         struct dt_view *here, struct dt_error *err)
{
    const struct dt_exec *exec = &p->exec;
    *here = step;
    if (exec->device->is_host)
        return 0;
    *here = dt_view_of(&p->scalars, DT_F64);
    if (exec->device->copy(exec->stream, p->scalars.data, dt_view_data(step),
                           p->scalars.bytes, err) < 0 ||
        exec->device->event_record(p->decided, exec->stream, err) < 0)
        return -1;
    return dt_comm_wait_event(p->comm, exec->device, p->decided, err);
}

int dt_parallel_update_begin(struct dt_parallel *p, uint64_t number,
                             struct dt_view step, struct dt_error *err)
{
    struct dt_view here;
    p->version++;
    p->walk = (struct dt_walk){.step = step};
    if (p->undo_buf)
        p->walk.undo = (struct dt_undo){
            .step = number,
            .stamps = p->stamps_buf->data,
            .slots = p->undo_buf->data,
        };
    if (!must_know(p))
        return 0;
    if (fetch_scalars(p, step, &here, err) < 0)
        return -1;
    p->walk.skips = (int)dt_view_f64(here)[DT_STEP_OUTCOME] != DT_STEP_TAKEN;
    return 0;
}

/* --- where a piece is --- */

/* Where unit u begins and ends, among the parts or in the flat buffer. */
static size_t unit_begin(const struct dt_parallel *p, size_t u)
{
    return p->kept.state == DT_WHOLE ? p->layout->units[u].offset
                                     : dt_part_first(p, u);
}

static size_t unit_end(const struct dt_parallel *p, size_t u)
{
    size_t count = p->layout->units[u].count;
    return unit_begin(p, u) +
           (p->kept.state == DT_WHOLE ? count : count / p->world);
}

/* Elements of a kind in the unit's own range, whole or parts. */
static struct dt_view piece_of(const struct dt_parallel *p, enum dt_owned kind)
{
    const struct dt_walk *w = &p->walk;
    const size_t count = w->end - w->at;
    if (p->kept.state == DT_WHOLE)
        return dt_view_slice(p->kinds[kind], w->at, count);
    if (!dt_owned_is_tiled(p, kind))
        return dt_view_slice(dt_parallel_part(p, kind, w->u),
                             w->at - dt_part_first(p, w->u), count);
    if (w->at < p->resident)
        return dt_view_slice(p->kinds[kind], w->at, count);
    assert(w->state_open);
    return dt_view_slice(w->state[kind - p->first_tiled], w->at % p->tile,
                         count);
}

/* Where the rounded weights of the piece go; count 0: nowhere. */
static struct dt_view piece_weights(const struct dt_parallel *p)
{
    const struct dt_walk *w = &p->walk;
    const size_t count = w->end - w->at;
    if (p->weights_tiles)
        return dt_view_slice(w->weights, w->at % p->tile, count);
    if (!dt_rounds_weights(p))
        return (struct dt_view){0};
    return dt_view_slice(dt_rounded_weights(p, w->u),
                         w->at - unit_begin(p, w->u), count);
}

/* --- AdamW on the host, for a device that is not --- */

static bool on_host(const struct dt_parallel *p)
{
    return p->staged_grads.data && p->walk.at >= p->resident;
}

/* The tensor that comes back from the host: rounded weights, or, where the
 * model computes with it, the master. Weights in tiles are there already.
 */
static struct dt_view piece_returned(const struct dt_parallel *p)
{
    if (!dt_owned_is_tiled(p, DT_OWNED_MASTER))
        return piece_of(p, DT_OWNED_MASTER);
    return p->weights_tiles ? (struct dt_view){0} : piece_weights(p);
}

/* Brings the piece to the host, gradients and, if it is not in tiles, master.
 */
static int stage_piece(struct dt_parallel *p, struct dt_update *update,
                       struct dt_error *err)
{
    const struct dt_exec *exec = &p->exec;
    struct dt_view grads = update->grads, back = piece_returned(p);
    bool master = !dt_owned_is_tiled(p, DT_OWNED_MASTER);
    struct dt_view staged = dt_view_slice(
        dt_view_of(&p->staged_weights, p->options.compute), 0, back.count);
    update->on_host = true;
    update->step = dt_view_of(&p->scalars, DT_F64);
    update->grads = dt_view_slice(
        dt_view_of(&p->staged_grads, p->options.grads), 0, grads.count);
    if (master)
        update->master = staged;
    else if (back.count > 0)
        update->weights = staged;
    if (dt_exec_copy(exec, update->grads, grads, err) < 0 ||
        (master && dt_exec_copy(exec, staged, back, err) < 0))
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

static int return_piece(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_view back = piece_returned(p);
    if (back.count == 0)
        return 0;
    return p->exec.device->copy(p->exec.stream, dt_view_data(back),
                                p->staged_weights.data, dt_view_bytes(back),
                                err);
}

/* --- the walk --- */

/* The tiles that element `at` of the parts is in. */
static int open_tiles(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_walk *w = &p->walk;
    if (p->tile == 0)
        return 0;
    if (w->at >= p->resident && !w->state_open) {
        if (dt_tiles_open(p->state_tiles, (w->at - p->resident) / p->tile,
                          false, w->state, err) < 0)
            return -1;
        w->state_open = true;
    }
    if (p->weights_tiles && !w->weights_open) {
        if (dt_tiles_open(p->weights_tiles, w->at / p->tile, true, &w->weights,
                          err) < 0)
            return -1;
        w->weights_open = true;
    }
    return 0;
}

static int close_tiles(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_walk *w = &p->walk;
    if (w->state_open && dt_tiles_close(p->state_tiles, err) < 0)
        return -1;
    w->state_open = false;
    if (w->weights_open && dt_tiles_close(p->weights_tiles, err) < 0)
        return -1;
    w->weights_open = false;
    return 0;
}

/* The piece that was given out is updated. */
static int end_piece(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_walk *w = &p->walk;
    if (w->at == w->end)
        return 0;
    if (on_host(p) && return_piece(p, err) < 0)
        return -1;
    w->undo.first += dt_undo_pieces(w->end - w->at);
    w->at = w->end;
    bool ends = p->tile > 0 &&
                (w->at % p->tile == 0 || w->at == p->layout->count / p->world);
    return ends ? close_tiles(p, err) : 0;
}

/* Publishes the units that are done. */
static int publish_units(struct dt_parallel *p, struct dt_error *err)
{
    struct dt_walk *w = &p->walk;
    while (w->u <= p->last && (w->skips || w->at == unit_end(p, w->u))) {
        if (dt_weights_publish(p, w->u, err) < 0)
            return -1;
        w->u++;
    }
    return 0;
}

/* The piece that begins at w->at. */
static struct dt_update describe_piece(struct dt_parallel *p)
{
    struct dt_walk *w = &p->walk;
    const struct dt_unit *unit = &p->layout->units[w->u];
    size_t before = p->kept.state == DT_WHOLE ? 0
                                              : (size_t)dt_parallel_index(p) *
                                                    (unit->count / p->world);
    w->end = unit_end(p, w->u);
    if (p->tile > 0 && w->end > (w->at / p->tile + 1) * p->tile)
        w->end = (w->at / p->tile + 1) * p->tile;
    return (struct dt_update){
        .step = w->step,
        .first = unit->offset + before + w->at - unit_begin(p, w->u),
        .master = piece_of(p, DT_OWNED_MASTER),
        .weights = piece_weights(p),
        .grads = piece_of(p, DT_OWNED_GRADS),
        .m = piece_of(p, DT_OWNED_M),
        .v = piece_of(p, DT_OWNED_V),
        .undo = p->undo_buf ? &w->undo : NULL,
    };
}

int dt_parallel_update_next(struct dt_parallel *p, struct dt_update *update,
                            struct dt_error *err)
{
    if (end_piece(p, err) < 0 || publish_units(p, err) < 0)
        return -1;
    if (p->walk.u > p->last)
        return 0;
    if (open_tiles(p, err) < 0)
        return -1;
    *update = describe_piece(p);
    if (on_host(p) && stage_piece(p, update, err) < 0)
        return -1;
    return 1;
}
