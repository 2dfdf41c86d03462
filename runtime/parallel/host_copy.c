/* SPDX-License-Identifier: Apache-2.0 */
/* host_copy.c - copies a rank's parts to host memory, and back */
#include "config.h"

#include "base/fault.h"
#include "parallel/host_copy.h"
#include "parallel/parallel_impl.h"

/* The kinds that are copied are those before this one. */
static enum dt_owned end_of(enum dt_weights_use use)
{
    return use == DT_TRAINED ? DT_OWNED_GRADS : DT_OWNED_M;
}

/* --- which part is whose --- */

/* Whether the ranks of each node copy all between them. */
static bool is_for_nodes(const struct dt_parallel_options *options, int world)
{
    return options->node > 0 && dt_kept_of(options, world).state == DT_WHOLE;
}

static size_t count_parts(const struct dt_parallel_options *options, int world)
{
    return (size_t)(is_for_nodes(options, world) ? options->node : world);
}

size_t dt_host_copy_parts(const struct dt_parallel *p)
{
    return count_parts(&p->options, (int)p->world);
}

size_t dt_host_copy_part(const struct dt_parallel *p)
{
    const int rank = dt_comm_rank(p->comm), *order = p->options.order;
    int at = 0;
    if (!is_for_nodes(&p->options, (int)p->world))
        return (size_t)dt_parallel_index(p);
    while ((order ? order[at] : at) != rank)
        at++;
    return (size_t)(at % p->options.node);
}

size_t dt_host_copy_plan(const struct dt_layout *layout, int world,
                         const struct dt_parallel_options *options)
{
    return (size_t)end_of(options->use) *
           (layout->count / count_parts(options, world)) *
           dt_dtype_bytes(dt_master_dtype(options));
}

size_t dt_host_copy_bytes(const struct dt_parallel *p)
{
    return dt_host_copy_plan(p->layout, (int)p->world, &p->options);
}

/* --- there and back --- */

/* Part i of unit u where this rank keeps all of it, else its own. */
static struct dt_view part_of(const struct dt_parallel *p, enum dt_owned kind,
                              size_t u, size_t i)
{
    if (p->kept.state != DT_WHOLE)
        return dt_parallel_part(p, kind, u);
    const struct dt_view unit = dt_owned_unit(p, kind, u);
    const size_t count = unit.count / dt_host_copy_parts(p);
    return dt_view_slice(unit, i * count, count);
}

static int move_all(struct dt_parallel *p, struct dt_stream *stream, char *host,
                    bool put, struct dt_error *err)
{
    const struct dt_layout *layout = p->layout;
    const size_t mine = dt_host_copy_part(p);
    for (enum dt_owned kind = 0; kind < end_of(p->options.use); kind++)
        for (size_t u = dt_layout_next(layout, 0); u < layout->unit_count;
             u = dt_layout_next(layout, u + 1)) {
            const struct dt_view part = part_of(p, kind, u, mine);
            dt_fault("copy.part");
            if (dt_part_move(p, stream, part, host, put, err) < 0)
                return -1;
            host += part.count * dt_dtype_bytes(part.dtype);
        }
    return 0;
}

int dt_host_copy_take(struct dt_parallel *p, struct dt_stream *stream, void *to,
                      struct dt_error *err)
{
    return move_all(p, stream, to, false, err);
}

/* Brings all parts of unit u from ranks that have them to all. */
static int share_unit(struct dt_parallel *p, enum dt_owned kind, size_t u,
                      const int *sources, struct dt_error *err)
{
    dt_ticket_t ticket = 0;
    for (size_t i = 0; i < dt_host_copy_parts(p); i++)
        if (dt_comm_broadcast(p->comm, part_of(p, kind, u, i), sources[i],
                              &ticket, err) < 0)
            return -1;
    return dt_comm_wait(p->comm, ticket, err);
}

int dt_host_copy_put(struct dt_parallel *p, const void *from,
                     const int *sources, struct dt_error *err)
{
    const struct dt_layout *layout = p->layout;
    if (from &&
        move_all(p, p->exec.stream, (char *)(uintptr_t)from, true, err) < 0)
        return -1;
    if (p->kept.state == DT_WHOLE)
        for (enum dt_owned kind = 0; kind < end_of(p->options.use); kind++)
            for (size_t u = dt_layout_next(layout, 0); u < layout->unit_count;
                 u = dt_layout_next(layout, u + 1))
                if (share_unit(p, kind, u, sources, err) < 0)
                    return -1;
    return dt_parallel_renew(p, err);
}
