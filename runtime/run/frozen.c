/* SPDX-License-Identifier: Apache-2.0 */
/* frozen.c - reads weights that are not trained */
#include "config.h"

#include <string.h>

#include "run/frozen.h"

/* The range of unit u of random weights into `to`; the unit goes to `unit`. */
static void make_part(const struct dt_frozen *from, size_t u,
                      struct dt_range part, struct dt_view unit,
                      struct dt_view to)
{
    const struct dt_exec host = dt_exec_cpu();
    memset(dt_view_data(unit), 0, unit.count * sizeof(float));
    dt_model_init_unit(from->config, from->layout, u, unit, from->seed);
    unit = dt_view_slice(unit, part.first - from->layout->units[u].offset,
                         part.count);
    if (to.dtype == DT_F32)
        memcpy(dt_view_data(to), dt_view_data(unit), to.count * sizeof(float));
    else
        host.ops->convert(host.stream, to, unit);
}

static int read_part(const struct dt_frozen *from, size_t u,
                     struct dt_range part, struct dt_view unit,
                     struct dt_view to, struct dt_error *err)
{
    const bool is_new = from->new_head && u + 1 == from->layout->unit_count;
    memset(dt_view_data(to), 0, to.count * dt_dtype_bytes(to.dtype));
    if (!from->weights || is_new)
        make_part(from, u, part, unit, to);
    return from->weights ? dt_weights_read(from->weights, part, to, err) : 0;
}

int dt_frozen_load(struct dt_parallel *parallel, const struct dt_frozen *from,
                   int world, struct dt_error *err)
{
    const struct dt_layout *layout = from->layout;
    const size_t most = dt_layout_largest(layout);
    struct dt_buffer *room =
        dt_buffer_create(&dt_cpu, 2 * most * sizeof(float), "a unit", err);
    int result = room ? 0 : -1;
    for (size_t u = 0; u < layout->unit_count && result == 0; u++) {
        const struct dt_range range =
            dt_layout_part(layout, u, dt_parallel_index(parallel), world);
        struct dt_view part = dt_parallel_part(parallel, DT_OWNED_MASTER, u);
        struct dt_view unit =
            dt_view_slice(dt_view_of(room, DT_F32), 0, layout->units[u].count);
        size_t second = most * sizeof(float) / dt_dtype_bytes(part.dtype);
        struct dt_view here =
            dt_view_slice(dt_view_of(room, part.dtype), second, part.count);
        result = read_part(from, u, range, unit, here, err);
        if (result == 0)
            result = dt_parallel_put(parallel, part, dt_view_data(here), err);
    }
    dt_buffer_destroy(room);
    for (size_t u = 0; u < layout->unit_count && result == 0; u++)
        result = dt_parallel_loaded(parallel, u, err);
    return result;
}
