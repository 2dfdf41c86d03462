/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_find.c - where a rank has what it holds */
#include "config.h"

#include "parallel/parallel_impl.h"

struct dt_places dt_parallel_weights(const struct dt_parallel *p)
{
    return (struct dt_places){.flat = p->weights, .units = p->weights_at};
}

struct dt_places dt_parallel_grads(const struct dt_parallel *p)
{
    return (struct dt_places){.flat = p->kinds[DT_OWNED_GRADS],
                              .units = p->grads_at};
}

/* Whether the weights that the model reads, whole or shares, are the master. */
static bool master_is_kept(const struct dt_parallel *p)
{
    const struct dt_buffer *master = p->kinds[DT_OWNED_MASTER].buf;
    return master && (master == p->weights_buf || master == p->shares_buf);
}

enum dt_extent dt_owned_extent(const struct dt_parallel *p, enum dt_owned kind)
{
    if (kind == DT_OWNED_GRADS)
        return p->kept.grads;
    return kind == DT_OWNED_MASTER && master_is_kept(p) ? p->kept.weights
                                                        : p->kept.state;
}

bool dt_owned_is_tiled(const struct dt_parallel *p, enum dt_owned kind)
{
    return p->tile > 0 && kind >= p->first_tiled && kind < DT_OWNED_GRADS;
}

int dt_parallel_index(const struct dt_parallel *p)
{
    return (int)(p->levels.place * p->levels.groups + p->levels.turn);
}

size_t dt_part_first(const struct dt_parallel *p, size_t u)
{
    /* the parts of the units before u are as long as a part of all of them */
    return p->layout->units[u].offset / p->world;
}

struct dt_view dt_extent_unit(const struct dt_parallel *p, struct dt_view all,
                              enum dt_extent extent, size_t u)
{
    const struct dt_unit *unit = &p->layout->units[u];
    const size_t parts[] = {
        [DT_WHOLE] = 1, [DT_SHARE] = p->levels.size, [DT_OWN] = p->world};
    return dt_view_slice(all, unit->offset / parts[extent],
                         unit->count / parts[extent]);
}

struct dt_view dt_owned_unit(const struct dt_parallel *p, enum dt_owned kind,
                             size_t u)
{
    return dt_extent_unit(p, p->kinds[kind], dt_owned_extent(p, kind), u);
}

struct dt_view dt_unit_share(const struct dt_parallel *p, size_t u)
{
    return dt_extent_unit(p, p->shares, DT_SHARE, u);
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
    if (dt_owned_is_tiled(p, kind)) /* see parallel_offload.c */
        return (struct dt_view){
            .offset = (size_t)kind * (p->layout->count / p->world) +
                      dt_part_first(p, u),
            .count = p->layout->units[u].count / p->world,
            .dtype = DT_F32,
        };
    return dt_levels_cut(p, dt_owned_unit(p, kind, u), dt_owned_extent(p, kind),
                         DT_OWN);
}

bool dt_rounds_weights(const struct dt_parallel *p)
{
    return p->kept.weights != DT_OWN && !master_is_kept(p);
}

struct dt_view dt_rounded_weights(const struct dt_parallel *p, size_t u)
{
    return p->kept.weights == DT_SHARE
               ? dt_levels_cut(p, dt_unit_share(p, u), DT_SHARE, DT_OWN)
               : dt_levels_cut(p, dt_unit_weights(p, u), DT_WHOLE,
                               p->kept.state);
}
