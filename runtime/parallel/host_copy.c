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

size_t dt_host_copy_plan(const struct dt_layout *layout, int world,
                         const struct dt_parallel_options *options)
{
    return (size_t)end_of(options->use) * (layout->count / (size_t)world) *
           dt_dtype_bytes(dt_master_dtype(options));
}

size_t dt_host_copy_bytes(const struct dt_parallel *p)
{
    return dt_host_copy_plan(p->layout, (int)p->world, &p->options);
}

static int move_all(struct dt_parallel *p, struct dt_stream *stream, char *host,
                    bool put, struct dt_error *err)
{
    const struct dt_layout *layout = p->layout;
    for (enum dt_owned kind = 0; kind < end_of(p->options.use); kind++)
        for (size_t u = dt_layout_next(layout, 0); u < layout->unit_count;
             u = dt_layout_next(layout, u + 1)) {
            const struct dt_view part = dt_parallel_part(p, kind, u);
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

int dt_host_copy_put(struct dt_parallel *p, const void *from,
                     struct dt_error *err)
{
    if (move_all(p, p->exec.stream, (char *)(uintptr_t)from, true, err) < 0)
        return -1;
    for (size_t u = 0; u < p->layout->unit_count; u++)
        if (dt_parallel_loaded(p, u, err) < 0)
            return -1;
    return 0;
}
