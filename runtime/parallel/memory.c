/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - sizes of buffers and slots of a strategy */
#include "config.h"

#include <stdlib.h>

#include "parallel/memory.h"

struct dt_whole dt_whole_of(enum dt_strategy strategy)
{
    static const struct dt_whole whole[] = {
        [DT_DDP] = {.weights = true, .gradients = true, .optimizer = true},
        [DT_ZERO1] = {.weights = true, .gradients = true},
        [DT_ZERO2] = {.weights = true},
        [DT_ZERO3] = {0},
    };
    return whole[strategy];
}

/* --- slots --- */

/* Slots for the first and the last unit. */
static size_t outer_slots(const struct dt_layout *layout)
{
    return layout->tied ? 2 : 1;
}

static size_t slot_count(const struct dt_layout *layout, size_t blocks)
{
    size_t inner = layout->unit_count - 2;
    return outer_slots(layout) + (inner < blocks ? inner : blocks);
}

static size_t slot_of(const struct dt_layout *layout, size_t blocks, size_t u)
{
    size_t outer = outer_slots(layout);
    if (u == 0)
        return 0;
    if (u + 1 == layout->unit_count)
        return outer - 1;
    return outer + (u - 1) % blocks;
}

/* A slot is as large as the largest of its units. */
static size_t slot_elements(const struct dt_layout *layout, size_t blocks,
                            size_t slot)
{
    size_t most = 0;
    for (size_t u = 0; u < layout->unit_count; u++)
        if (slot_of(layout, blocks, u) == slot && layout->units[u].count > most)
            most = layout->units[u].count;
    return most;
}

static size_t all_slots(const struct dt_layout *layout, size_t blocks)
{
    size_t sum = 0;
    for (size_t i = 0; i < slot_count(layout, blocks); i++)
        sum += slot_elements(layout, blocks, i);
    return sum;
}

int dt_slots_init(struct dt_slots *slots, const struct dt_layout *layout,
                  size_t blocks, struct dt_error *err)
{
    size_t count = slot_count(layout, blocks);
    *slots = (struct dt_slots){
        .count = count,
        .of = calloc(layout->unit_count, sizeof(*slots->of)),
        .first = calloc(count, sizeof(*slots->first)),
    };
    if (!slots->of || !slots->first)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t u = 0; u < layout->unit_count; u++)
        slots->of[u] = slot_of(layout, blocks, u);
    for (size_t i = 0; i < count; i++) {
        slots->first[i] = slots->elements;
        slots->elements += slot_elements(layout, blocks, i);
    }
    return 0;
}

void dt_slots_fini(struct dt_slots *slots)
{
    free(slots->of);
    free(slots->first);
}

/* --- buffers --- */

struct dt_sizes dt_sizes_of(const struct dt_layout *layout, int world,
                            const struct dt_parallel_options *options)
{
    struct dt_whole whole = dt_whole_of(options->strategy);
    size_t all = layout->count, part = all / (size_t)world;
    size_t optimizer = whole.optimizer ? all : part;
    bool shared = whole.weights && options->compute == DT_F32;
    return (struct dt_sizes){
        .weights = whole.weights ? all : all_slots(layout, options->prefetch),
        .master = shared ? 0 : optimizer,
        .grads = whole.gradients ? all : part,
        .grads_slots = whole.gradients ? 0 : all_slots(layout, DT_GRADS_BLOCKS),
        .moments = optimizer,
    };
}

struct dt_parallel_bytes dt_parallel_plan(
    const struct dt_layout *layout, int world,
    const struct dt_parallel_options *options)
{
    struct dt_sizes sizes = dt_sizes_of(layout, world, options);
    return (struct dt_parallel_bytes){
        .weights = sizes.weights * dt_dtype_bytes(options->compute),
        .master = sizes.master * sizeof(float),
        .gradients = (sizes.grads + sizes.grads_slots) * sizeof(float),
        .moments = 2 * sizes.moments * sizeof(float),
    };
}
