/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - where a rank has what it holds */
#include "config.h"

#include "parallel/impl.h"

struct dt_places dt_parallel_weights(const struct dt_parallel *p)
{
    return (struct dt_places){.flat = p->weights, .units = p->weights_at};
}

struct dt_places dt_parallel_grads(const struct dt_parallel *p)
{
    return (struct dt_places){.flat = p->kinds[DT_OWNED_GRADS],
                              .units = p->grads_at};
}

bool dt_owned_is_whole(const struct dt_parallel *p, enum dt_owned kind)
{
    if (kind == DT_OWNED_GRADS)
        return p->whole.gradients;
    return p->whole.optimizer ||
           (kind == DT_OWNED_MASTER && p->kinds[kind].buf == p->weights_buf);
}

bool dt_owned_is_tiled(const struct dt_parallel *p, enum dt_owned kind)
{
    return p->tile > 0 && kind >= p->first_tiled && kind < DT_OWNED_GRADS;
}

size_t dt_part_first(const struct dt_parallel *p, size_t u)
{
    /* the parts of the units before u are as long as a part of all of them */
    return p->layout->units[u].offset / p->world;
}

struct dt_view dt_unit_part(const struct dt_parallel *p, struct dt_view unit)
{
    size_t count = unit.count / p->world;
    return dt_view_slice(unit, p->rank * count, count);
}

struct dt_view dt_unit_weights(const struct dt_parallel *p, size_t u)
{
    struct dt_places places = dt_parallel_weights(p);
    return dt_layout_unit(p->layout, &places, u);
}

struct dt_view dt_unit_grads(const struct dt_parallel *p, size_t u)
{
    struct dt_places places = dt_parallel_grads(p);
    return dt_layout_unit(p->layout, &places, u);
}

struct dt_view dt_parallel_part(const struct dt_parallel *p, enum dt_owned kind,
                                size_t u)
{
    const struct dt_unit *unit = &p->layout->units[u];
    const size_t first = dt_part_first(p, u), count = unit->count / p->world;
    struct dt_view all = p->kinds[kind];
    if (dt_owned_is_tiled(p, kind)) /* offload.c knows where these are */
        return (struct dt_view){
            .offset = (size_t)kind * (p->layout->count / p->world) + first,
            .count = count,
            .dtype = DT_F32,
        };
    if (dt_owned_is_whole(p, kind))
        return dt_unit_part(p, dt_view_slice(all, unit->offset, unit->count));
    return dt_view_slice(all, first, count);
}
