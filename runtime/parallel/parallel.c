/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c - allocates weights, gradients and state of a rank */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "parallel/parallel_impl.h"

/* Where memory is: in options.segment, if there is one, or in the device. */
enum place { STATE, DEVICE };

static struct dt_buffer *create_buffer(struct dt_parallel *p, enum place place,
                                       size_t bytes, const char *what,
                                       struct dt_error *err)
{
    const struct dt_parallel_options *o = &p->options;
    char name[64];
    if (place == DEVICE || !o->segment)
        return dt_buffer_create(p->exec.device, bytes, what, err);
    snprintf(name, sizeof(name), "%s%s%s", o->name, *o->name ? "/" : "", what);
    return dt_segment_buffer(o->segment, name, bytes, err);
}

static int allocate(struct dt_parallel *p, enum place place, size_t count,
                    enum dt_dtype type, const char *what,
                    struct dt_buffer **buf, struct dt_view *view,
                    struct dt_error *err)
{
    if (count == 0)
        return 0;
    *buf = create_buffer(p, place, count * dt_dtype_bytes(type), what, err);
    if (!*buf)
        return -1;
    *view = dt_view_of(*buf, type);
    return 0;
}

/* The places of units in `slots`. NULL: out of memory. */
static struct dt_view *slot_views(const struct dt_layout *layout,
                                  const struct dt_slots *slots,
                                  struct dt_view all)
{
    struct dt_view *views = calloc(layout->unit_count, sizeof(*views));
    for (size_t u = 0; views && u < layout->unit_count; u++)
        views[u] = dt_view_slice(all, slots->first[slots->of[u]],
                                 layout->units[u].count);
    return views;
}

static int allocate_weights(struct dt_parallel *p, const struct dt_sizes *sizes,
                            struct dt_error *err)
{
    struct dt_view *master = &p->kinds[DT_OWNED_MASTER];
    const bool same =
        sizes->master == 0 && sizes->state_tiles.arrays < DT_OWNED_GRADS;
    const enum place place = same ? STATE : DEVICE;
    if (allocate(p, place, sizes->weights, p->options.compute, "weights",
                 &p->weights_buf, &p->weights, err) < 0 ||
        allocate(p, STATE, sizes->master, dt_master_dtype(&p->options),
                 "fp32 weights", &p->master_buf, master, err) < 0 ||
        allocate(p, place, sizes->shares, p->options.compute,
                 "a share of weights", &p->shares_buf, &p->shares, err) < 0)
        return -1;
    if (same)
        *master = p->kept.weights == DT_SHARE ? p->shares : p->weights;
    size_t count = p->layout->unit_count;
    if (p->kept.weights != DT_WHOLE) {
        if (dt_slots_init(&p->weights_slots, p->layout, p->options.prefetch,
                          err) < 0)
            return -1;
        count = p->weights_slots.count;
        p->weights_at = slot_views(p->layout, &p->weights_slots, p->weights);
    }
    p->places = calloc(count, sizeof(*p->places));
    p->share_places = calloc(p->layout->unit_count, sizeof(*p->share_places));
    return p->places && p->share_places &&
                   (p->kept.weights == DT_WHOLE || p->weights_at)
               ? 0
               : dt_error_set(err, EX_OSERR, "out of memory");
}

static int allocate_grads(struct dt_parallel *p, const struct dt_sizes *sizes,
                          struct dt_error *err)
{
    struct dt_view slots = {0};
    if (allocate(p, STATE, sizes->grads, p->options.grads, "gradients",
                 &p->grads_buf, &p->kinds[DT_OWNED_GRADS], err) < 0 ||
        allocate(p, DEVICE, sizes->grads_slots, DT_F32,
                 "gradients of a few units", &p->slots_buf, &slots, err) < 0)
        return -1;
    if (!p->kept.grads_pass_slots)
        return 0;
    if (dt_slots_init(&p->grads_slots, p->layout, DT_GRADS_BLOCKS, err) < 0)
        return -1;
    p->grads_at = slot_views(p->layout, &p->grads_slots, slots);
    p->sums = calloc(p->grads_slots.count, sizeof(*p->sums));
    return p->grads_at && p->sums
               ? 0
               : dt_error_set(err, EX_OSERR, "out of memory");
}

static int allocate_moments(struct dt_parallel *p, const struct dt_sizes *sizes,
                            struct dt_error *err)
{
    const enum dt_dtype type = p->options.state;
    struct dt_view stamps, slots;
    const size_t undo = sizes->pieces > 0 ? DT_UNDO_BYTES : 0;
    return allocate(p, STATE, sizes->moments, type, "AdamW's m", &p->m_buf,
                    &p->kinds[DT_OWNED_M], err) == 0 &&
                   allocate(p, STATE, sizes->moments, type, "AdamW's v",
                            &p->v_buf, &p->kinds[DT_OWNED_V], err) == 0 &&
                   allocate(p, STATE, sizes->pieces, DT_I64, "stamps",
                            &p->stamps_buf, &stamps, err) == 0 &&
                   allocate(p, STATE, undo, DT_U8, "undo", &p->undo_buf, &slots,
                            err) == 0
               ? 0
               : -1;
}

struct dt_parallel *dt_parallel_create(
    const struct dt_layout *layout, struct dt_comm *comm,
    const struct dt_exec *exec, const struct dt_parallel_options *options,
    struct dt_error *err)
{
    int world = dt_comm_size(comm);
    struct dt_sizes sizes = dt_sizes_of(layout, world, options);
    struct dt_parallel *p = calloc(1, sizeof(*p));
    if (!p) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    p->layout = layout;
    p->comm = comm;
    p->exec = *exec;
    p->options = *options;
    p->kept = dt_kept_of(options, world);
    p->world = (size_t)world;
    p->last = layout->unit_count - 1;
    p->first_unit = dt_layout_next(layout, 0);
    p->version = 1;
    if (dt_levels_init(&p->levels, comm, options, err) == 0 &&
        allocate_weights(p, &sizes, err) == 0 &&
        allocate_grads(p, &sizes, err) == 0 &&
        allocate_moments(p, &sizes, err) == 0 &&
        dt_offload_init(p, &sizes, err) == 0)
        return p;
    dt_parallel_destroy(p);
    return NULL;
}

void dt_parallel_destroy(struct dt_parallel *p)
{
    if (!p)
        return;
    dt_weights_settle(p);
    dt_offload_fini(p);
    dt_buffer_destroy(p->weights_buf);
    dt_buffer_destroy(p->shares_buf);
    dt_buffer_destroy(p->master_buf);
    dt_buffer_destroy(p->grads_buf);
    dt_buffer_destroy(p->slots_buf);
    dt_buffer_destroy(p->m_buf);
    dt_buffer_destroy(p->v_buf);
    dt_buffer_destroy(p->stamps_buf);
    dt_buffer_destroy(p->undo_buf);
    dt_slots_fini(&p->weights_slots);
    dt_slots_fini(&p->grads_slots);
    free(p->weights_at);
    free(p->grads_at);
    free(p->places);
    free(p->share_places);
    free(p->sums);
    free(p);
}
