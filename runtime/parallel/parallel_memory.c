/* SPDX-License-Identifier: Apache-2.0 */
/* parallel_memory.c - sizes of the tensors of a rank, and their places */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "parallel/parallel_impl.h"

/* Whether there are several groups of ranks. */
static bool has_groups(const struct dt_parallel_options *options, int world)
{
    assert(options->group >= 0);
    assert(options->group == 0 || world % options->group == 0);
    return options->group > 0 && options->group < world;
}

/* Whether rounded weights are on the device, and the fp32 ones are not. */
static bool rounds_apart(const struct dt_parallel_options *options)
{
    const struct dt_offload *o = &options->offload;
    return o->state != DT_TIER_DEVICE && o->ratio > 0 &&
           o->weights == DT_TIER_DEVICE && options->compute != options->state;
}

enum dt_dtype dt_master_dtype(const struct dt_parallel_options *options)
{
    static const enum dt_dtype followed = DT_F32;
    return options->use == DT_TRAINED  ? options->state
           : options->use == DT_FROZEN ? options->compute
                                       : followed;
}

struct dt_kept dt_kept_of(const struct dt_parallel_options *options, int world)
{
    bool trained = options->use == DT_TRAINED;
    bool ddp = options->strategy == DT_DDP && trained;
    bool each = options->when == DT_WHEN_AUTO ? options->strategy >= DT_ZERO2
                                              : options->when == DT_WHEN_EACH;
    each = each || options->grads != DT_F32;
    enum dt_extent part =
        options->hybrid && has_groups(options, world) ? DT_SHARE : DT_OWN;
    enum dt_extent weights = trained && rounds_apart(options) ? DT_SHARE : part;
    return (struct dt_kept){
        .weights = options->strategy == DT_ZERO3 ? weights : DT_WHOLE,
        .grads = ddp || !each ? DT_WHOLE : part,
        .state = ddp ? DT_WHOLE : DT_OWN,
        .grads_pass_slots = each && trained,
    };
}

/* --- slots --- */

static bool is_block(const struct dt_unit *unit)
{
    return unit->kind == DT_UNIT_BLOCK && unit->count > 0;
}

/* The slot of unit u, which is not empty and comes after so many blocks. */
static size_t slot_of(const struct dt_layout *layout, size_t blocks, size_t u,
                      size_t block)
{
    const struct dt_unit *unit = &layout->units[u];
    if (dt_layout_is_tied(layout, u))
        return DT_SLOT_TIED;
    if (unit->kind == DT_UNIT_BLOCK)
        return DT_SLOT_BLOCKS + block % blocks;
    return unit->part == DT_PART_LANGUAGE ? DT_SLOT_LANGUAGE : DT_SLOT_EDGES;
}

/* A slot is as large as the largest of its units. */
static size_t slot_elements(const struct dt_layout *layout, size_t blocks,
                            size_t slot)
{
    size_t most = 0, block = 0;
    for (size_t u = 0; u < layout->unit_count; u++) {
        const struct dt_unit *unit = &layout->units[u];
        if (unit->count > most && slot_of(layout, blocks, u, block) == slot)
            most = unit->count;
        block += is_block(unit);
    }
    return most;
}

/* Slots for blocks: no more than there are blocks. */
static size_t block_slots(const struct dt_layout *layout, size_t blocks)
{
    size_t count = 0;
    for (size_t u = 0; u < layout->unit_count; u++)
        count += is_block(&layout->units[u]);
    return count < blocks ? count : blocks;
}

static size_t all_slots(const struct dt_layout *layout, size_t blocks)
{
    const size_t turns = block_slots(layout, blocks);
    size_t sum = 0;
    for (size_t i = 0; i < DT_SLOT_BLOCKS + turns; i++)
        sum += slot_elements(layout, turns, i);
    return sum;
}

/* The first unit that is none of those which go ahead. */
static size_t end_of_ahead(const struct dt_layout *layout,
                           const struct dt_slots *slots)
{
    size_t seen[DT_UNITS_AHEAD], count = 0, u = 0;
    for (; u + 1 < layout->unit_count; u++) {
        if (layout->units[u].count == 0)
            continue;
        for (size_t i = 0; i < count; i++)
            if (seen[i] == slots->of[u])
                return u;
        if (count == DT_UNITS_AHEAD)
            return u;
        seen[count++] = slots->of[u];
    }
    return u;
}

int dt_slots_init(struct dt_slots *slots, const struct dt_layout *layout,
                  size_t blocks, struct dt_error *err)
{
    const size_t turns = block_slots(layout, blocks);
    const size_t count = DT_SLOT_BLOCKS + turns;
    size_t block = 0;
    *slots = (struct dt_slots){
        .count = count,
        .of = calloc(layout->unit_count, sizeof(*slots->of)),
        .first = calloc(count, sizeof(*slots->first)),
    };
    if (!slots->of || !slots->first)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t u = 0; u < layout->unit_count; u++) {
        if (layout->units[u].count > 0)
            slots->of[u] = slot_of(layout, turns, u, block);
        block += is_block(&layout->units[u]);
    }
    for (size_t i = 0; i < count; i++) {
        slots->first[i] = slots->elements;
        slots->elements += slot_elements(layout, turns, i);
    }
    slots->ahead = end_of_ahead(layout, slots);
    return 0;
}

void dt_slots_fini(struct dt_slots *slots)
{
    free(slots->of);
    free(slots->first);
}

size_t dt_layout_before(const struct dt_layout *layout, size_t u, size_t lowest)
{
    while (u != DT_NO_UNIT && u-- > lowest)
        if (layout->units[u].count > 0 &&
            layout->units[u].kind != DT_UNIT_EMBEDDING)
            return u;
    return DT_NO_UNIT;
}

/* --- buffers --- */

/* The tiles of arrays of a rank's parts, kept as `tier` says. */
static struct dt_tiles_options tiles_of(const struct dt_offload *o,
                                        enum dt_tier tier, enum dt_dtype type,
                                        size_t part)
{
    const size_t tile = o->tile / DT_LAYOUT_ALIGN * DT_LAYOUT_ALIGN;
    return (struct dt_tiles_options){
        .tier = tier,
        .on_device = o->compute == DT_OFFLOAD_STREAM,
        .type = type,
        .count = part,
        .tile = tile < part ? tile : part,
        .buffers = o->buffers,
        .path = o->path,
        .block_bytes = o->block_bytes,
        .queue_depth = o->queue_depth,
    };
}

/* Elements of a part whose state stays on the device. */
static size_t resident(const struct dt_offload *o,
                       const struct dt_tiles_options *tiles)
{
    size_t count = (tiles->count + tiles->tile - 1) / tiles->tile;
    size_t kept = (size_t)((1.0 - o->ratio) * (double)count) * tiles->tile;
    return kept < tiles->count ? kept : tiles->count;
}

/* Moves offloaded tensors from the buffers to tiles. */
static void offload(struct dt_sizes *sizes, size_t part,
                    const struct dt_parallel_options *options,
                    enum dt_extent weights)
{
    const struct dt_offload *o = &options->offload;
    const bool weights_too =
        weights != DT_WHOLE && o->weights != DT_TIER_DEVICE;
    if (o->state == DT_TIER_DEVICE)
        return;
    struct dt_tiles_options tiles = tiles_of(o, o->state, options->state, part);
    size_t kept = resident(o, &tiles);
    if (kept == part)
        return;
    assert(options->strategy != DT_DDP);
    sizes->tile = tiles.tile;
    sizes->moments = kept;
    /* the master is the only copy that stays if nothing is rounded */
    bool has_master = options->compute != options->state ||
                      weights == DT_SHARE || weights_too;
    if (has_master)
        sizes->master = kept;
    tiles.arrays = has_master ? 3 : 2;
    tiles.count = part - kept;
    tiles.tile = tiles.tile < tiles.count ? tiles.tile : tiles.count;
    sizes->state_tiles = tiles;
    if (weights_too) {
        tiles = tiles_of(o, o->weights, options->compute, part);
        tiles.arrays = 1;
        tiles.path = o->weights_path;
        sizes->weights_tiles = tiles;
    }
    bool file = o->state == DT_TIER_FILE || o->weights == DT_TIER_FILE;
    if (o->compute == DT_OFFLOAD_HOST)
        sizes->staging = sizes->tile;
    if (o->compute == DT_OFFLOAD_HOST ||
        (o->compute == DT_OFFLOAD_STREAM && file))
        sizes->scalars = DT_STEP_COUNT;
}

/* Leaves out buffers that only training needs. Frozen weights that are kept
 * anyway are their own master.
 */
static void leave_out(struct dt_sizes *sizes, enum dt_weights_use use,
                      enum dt_extent weights)
{
    sizes->grads = sizes->grads_slots = sizes->moments = sizes->pieces = 0;
    if (use == DT_FROZEN && weights != DT_OWN)
        sizes->master = 0;
}

/* Pieces of the parts of all units (struct dt_undo). */
static size_t count_pieces(const struct dt_layout *layout, size_t parts)
{
    size_t count = 0;
    for (size_t u = 0; u < layout->unit_count; u++)
        count += dt_undo_pieces(layout->units[u].count / parts);
    return count;
}

struct dt_sizes dt_sizes_of(const struct dt_layout *layout, int world,
                            const struct dt_parallel_options *options)
{
    const struct dt_kept kept = dt_kept_of(options, world);
    size_t all = layout->count, ranks = (size_t)world;
    size_t group = has_groups(options, world) ? (size_t)options->group : ranks;
    const size_t of[] = {
        [DT_WHOLE] = all, [DT_SHARE] = all / group, [DT_OWN] = all / ranks};
    bool whole = kept.weights == DT_WHOLE;
    bool same = whole && options->compute == dt_master_dtype(options);
    struct dt_sizes sizes = {
        .weights = whole ? all : all_slots(layout, options->prefetch),
        .shares = kept.weights == DT_SHARE ? of[DT_SHARE] : 0,
        .master = same ? 0 : of[kept.state],
        .grads = of[kept.grads],
        .grads_slots =
            kept.grads_pass_slots ? all_slots(layout, DT_GRADS_BLOCKS) : 0,
        .moments = of[kept.state],
    };
    if (options->segment)
        sizes.pieces = count_pieces(layout, kept.state == DT_WHOLE ? 1 : ranks);
    if (options->use == DT_TRAINED)
        offload(&sizes, all / ranks, options, kept.weights);
    else
        leave_out(&sizes, options->use, kept.weights);
    return sizes;
}

/* Adds the memory of tiles. */
static void add_tiles(struct dt_parallel_bytes *bytes,
                      const struct dt_tiles_options *options)
{
    if (options->arrays == 0)
        return;
    struct dt_tiles_bytes taken = dt_tiles_plan(options);
    bytes->tiles += taken.device;
    bytes->host += taken.host;
    bytes->nvme += taken.file;
}

struct dt_parallel_bytes dt_parallel_plan(
    const struct dt_layout *layout, int world,
    const struct dt_parallel_options *options)
{
    struct dt_sizes sizes = dt_sizes_of(layout, world, options);
    size_t compute = dt_dtype_bytes(options->compute);
    size_t grads = dt_dtype_bytes(options->grads);
    struct dt_parallel_bytes bytes = {
        .weights = (sizes.weights + sizes.shares) * compute,
        .master = sizes.master * dt_dtype_bytes(dt_master_dtype(options)),
        .gradients = sizes.grads * grads + sizes.grads_slots * sizeof(float),
        .moments = 2 * sizes.moments * dt_dtype_bytes(options->state),
        .host =
            sizes.staging * (grads + compute) + sizes.scalars * sizeof(double),
    };
    add_tiles(&bytes, &sizes.state_tiles);
    add_tiles(&bytes, &sizes.weights_tiles);
    return bytes;
}

/* --- places --- */

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

/* Unit u in a buffer that has `extent` of every unit. */
static struct dt_view extent_unit(const struct dt_parallel *p,
                                  struct dt_view all, enum dt_extent extent,
                                  size_t u)
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
    return extent_unit(p, p->kinds[kind], dt_owned_extent(p, kind), u);
}

struct dt_view dt_unit_share(const struct dt_parallel *p, size_t u)
{
    return extent_unit(p, p->shares, DT_SHARE, u);
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
            .dtype = p->options.state,
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
