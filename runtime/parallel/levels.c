/* SPDX-License-Identifier: Apache-2.0 */
/*
 * levels.c - collectives over all ranks, in one level or in two
 *
 * In two levels rank l of group n, of S ranks and M groups, has share l of a
 * unit, and owns part n of that share. So both levels are in place and in one
 * piece: a sum in the group leaves a share, one across groups the own part of
 * it, and gathers go the other way. Sums are made in the order of l, then of n.
 */
#include "config.h"

#include <stdlib.h>

#include "parallel/parallel_impl.h"

int dt_levels_init(struct dt_levels *levels, struct dt_comm *comm,
                   const struct dt_parallel_options *options,
                   struct dt_error *err)
{
    int world = dt_comm_size(comm), size = options->group;
    const int *order = options->order;
    *levels = (struct dt_levels){.group = comm,
                                 .size = (size_t)world,
                                 .groups = 1,
                                 .place = (size_t)dt_comm_rank(comm)};
    if (size == 0 || size == world)
        return 0;
    int *ranks = calloc((size_t)world, sizeof(*ranks)), at = 0;
    if (!ranks)
        return dt_error_set(err, EX_OSERR, "out of memory");
    while ((order ? order[at] : at) != dt_comm_rank(comm))
        at++;
    *levels = (struct dt_levels){.size = (size_t)size,
                                 .groups = (size_t)(world / size),
                                 .place = (size_t)(at % size),
                                 .turn = (size_t)(at / size)};
    for (int i = at / size * size, k = 0; k < size; i++, k++)
        ranks[k] = order ? order[i] : i;
    if (size > 1)
        levels->group = dt_comm_group(comm, ranks, size, err);
    for (int i = at % size, k = 0; i < world; i += size, k++)
        ranks[k] = order ? order[i] : i;
    if (size == 1 || levels->group)
        levels->across = dt_comm_group(comm, ranks, world / size, err);
    free(ranks);
    return levels->across ? 0 : -1;
}

struct dt_view dt_levels_cut(const struct dt_parallel *p, struct dt_view view,
                             enum dt_extent from, enum dt_extent to)
{
    const struct dt_levels *l = &p->levels;
    size_t count = view.count;
    if (from == DT_WHOLE && to != DT_WHOLE) {
        count /= l->size;
        view = dt_view_slice(view, l->place * count, count);
    }
    if (from != DT_OWN && to == DT_OWN) {
        count /= l->groups;
        view = dt_view_slice(view, l->turn * count, count);
    }
    return view;
}

int dt_levels_sum_share(struct dt_parallel *p, struct dt_view whole,
                        dt_ticket_t *ticket, struct dt_error *err)
{
    *ticket = 0;
    if (!p->levels.group)
        return 0;
    return dt_comm_reduce_scatter(p->levels.group, whole, DT_SUM,
                                  p->options.wire, ticket, err);
}

int dt_levels_sum_across(struct dt_parallel *p, struct dt_view share,
                         size_t first, dt_ticket_t *ticket,
                         struct dt_error *err)
{
    const struct dt_noise noise = {
        .seed = p->options.seed,
        .step = p->step,
        .first = p->micro_batch * p->layout->count + first +
                 p->levels.place * share.count,
    };
    if (p->options.int8)
        return dt_comm_reduce_scatter_int8(p->levels.across, share, &noise,
                                           ticket, err);
    return dt_comm_reduce_scatter(p->levels.across, share, DT_SUM,
                                  p->options.wire, ticket, err);
}

int dt_levels_sum_own(struct dt_parallel *p, struct dt_view whole, size_t first,
                      dt_ticket_t *ticket, struct dt_error *err)
{
    if (dt_levels_sum_share(p, whole, ticket, err) < 0)
        return -1;
    if (!p->levels.across)
        return 0;
    return dt_levels_sum_across(p, dt_levels_cut(p, whole, DT_WHOLE, DT_SHARE),
                                first, ticket, err);
}

int dt_levels_gather_share(struct dt_parallel *p, struct dt_view share,
                           dt_ticket_t *ticket, struct dt_error *err)
{
    if (!p->levels.across)
        return 0;
    return dt_comm_all_gather(p->levels.across, share, ticket, err);
}

int dt_levels_gather_group(struct dt_parallel *p, struct dt_view whole,
                           dt_ticket_t *ticket, struct dt_error *err)
{
    if (!p->levels.group)
        return 0;
    return dt_comm_all_gather(p->levels.group, whole, ticket, err);
}

int dt_levels_gather(struct dt_parallel *p, struct dt_view whole,
                     dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_view share = dt_levels_cut(p, whole, DT_WHOLE, DT_SHARE);
    if (dt_levels_gather_share(p, share, ticket, err) < 0)
        return -1;
    return dt_levels_gather_group(p, whole, ticket, err);
}

/* Sums that were rounded to bf16 on their way go back as that, too. */
static int gather_rounded(struct dt_parallel *p, struct dt_view whole,
                          dt_ticket_t *ticket, struct dt_error *err)
{
    struct dt_view share = dt_levels_cut(p, whole, DT_WHOLE, DT_SHARE);
    if (dt_comm_all_gather_bf16(p->levels.across, share, ticket, err) < 0)
        return -1;
    if (!p->levels.group)
        return 0;
    return dt_comm_all_gather_bf16(p->levels.group, whole, ticket, err);
}

int dt_levels_sum(struct dt_parallel *p, struct dt_view whole, size_t first,
                  dt_ticket_t *ticket, struct dt_error *err)
{
    const struct dt_parallel_options *options = &p->options;
    if (!p->levels.across)
        return dt_comm_all_reduce(p->comm, whole, DT_SUM, options->wire, ticket,
                                  err);
    if (dt_levels_sum_own(p, whole, first, ticket, err) < 0)
        return -1;
    return options->wire == DT_BF16 && !options->int8
               ? gather_rounded(p, whole, ticket, err)
               : dt_levels_gather(p, whole, ticket, err);
}
