/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c - the passes of a step on the virtual clock
 *
 * Follows parallel/parallel_reduce.c function by function, so that it starts
 * the same collectives in the same order.
 */
#include "config.h"

#include <stdlib.h>

#include "forecast/timeline_impl.h"

enum { STEPS = 4 }; /* until a step is like the one before */

const char *dt_resource_name(enum dt_resource resource)
{
    static const char *const names[] = {
        [DT_ON_DEVICE] = "device",         [DT_ON_NODE] = "node",
        [DT_ON_NETWORK] = "network",       [DT_ON_PCIE_UP] = "pcie_up",
        [DT_ON_PCIE_DOWN] = "pcie_down",   [DT_ON_HOST] = "host",
        [DT_ON_DRIVE_READ] = "drive_read", [DT_ON_DRIVE_WRITE] = "drive_write",
    };
    return names[resource];
}

static size_t last_unit(const struct dt_clock *clock)
{
    return clock->layout->unit_count - 1;
}

/* --- passes --- */

static void forward(struct dt_clock *clock, size_t u)
{
    const size_t next = dt_layout_next(clock->layout, u + 1);
    dt_clock_need(clock, u);
    dt_clock_fetch_share(clock, next);
    dt_clock_fetch_share(clock, dt_layout_next(clock->layout, next + 1));
    dt_clock_prefetch(clock, u, next);
    dt_clock_take(clock, u);
    clock->earlier = clock->free[DT_ON_DEVICE];
    if (clock->layout->units[u].count > 0)
        dt_clock_compute(clock, clock->options->units[u].forward);
}

/* --- gradients --- */

static bool rounds(const struct dt_clock *clock)
{
    return clock->options->parallel->grads != DT_F32;
}

/* The sums of a group go over groups, unless the slot has; in ddp all come
 * together.
 */
static void end_sums(struct dt_clock *clock, size_t u)
{
    size_t count = clock->layout->units[u].count;
    if (!rounds(clock))
        clock->reduced = dt_clock_sum_across(clock, count);
    if (clock->kept.state == DT_WHOLE)
        clock->reduced = dt_clock_gather_sums(clock, count);
}

/* The sum in a slot goes to the gradients that this rank keeps. */
static void take_sum(struct dt_clock *clock, struct dt_timeline_sum *sum)
{
    bool own = clock->kept.grads == DT_OWN;
    double elements = (double)clock->layout->units[sum->unit].count *
                      (own ? clock->own : clock->share);
    double kept = (double)dt_dtype_bytes(clock->options->parallel->grads);
    double bytes = sizeof(float) + (sum->first ? 1 : 2) * kept;
    if (!sum->open)
        return;
    sum->open = false;
    dt_clock_wait(clock, sum->ready);
    dt_clock_compute(clock, elements * bytes /
                                clock->options->rates->of[DT_RATE_MEMORY]);
    if (sum->final && !own)
        end_sums(clock, sum->unit);
}

static void prepare_grads(struct dt_clock *clock, size_t u)
{
    if (clock->kept.grads_pass_slots && clock->layout->units[u].count > 0)
        take_sum(clock, &clock->sums[clock->grads_slots.of[u]]);
}

static void backward(struct dt_clock *clock, size_t u)
{
    const struct dt_layout *layout = clock->layout;
    const bool reads = layout->units[u].kind != DT_UNIT_EMBEDDING;
    if (reads)
        dt_clock_need(clock, u);
    dt_clock_prefetch(
        clock, u,
        dt_layout_before(layout, u, clock->options->parallel->lowest));
    if (!dt_layout_is_tied(layout, u))
        prepare_grads(clock, u);
    if (u == last_unit(clock) && dt_layout_is_tied(layout, layout->tied_unit))
        prepare_grads(clock, layout->tied_unit);
    if (reads)
        dt_clock_take(clock, u);
    clock->earlier = clock->free[DT_ON_DEVICE];
    if (clock->layout->units[u].count > 0)
        dt_clock_compute(clock, clock->options->units[u].backward);
}

static void add_to_bucket(struct dt_clock *clock, size_t u)
{
    clock->bucket += clock->layout->units[u].count;
    if (u > dt_layout_next(clock->layout, 0) &&
        clock->bucket * sizeof(float) < clock->options->parallel->bucket_bytes)
        return;
    clock->reduced = dt_clock_sum_all(clock, clock->bucket);
    clock->bucket = 0;
}

static void ready(struct dt_clock *clock, size_t u)
{
    size_t count = clock->layout->units[u].count;
    if (count == 0)
        return;
    if (clock->kept.grads_pass_slots) {
        struct dt_timeline_sum *sum = &clock->sums[clock->grads_slots.of[u]];
        *sum = (struct dt_timeline_sum){.unit = u,
                                        .open = true,
                                        .first = clock->first,
                                        .final = clock->final};
        bool own =
            clock->kept.grads == DT_OWN || (rounds(clock) && clock->final);
        sum->ready = own ? dt_clock_sum_own(clock, count)
                         : dt_clock_sum_share(clock, count);
    } else if (clock->final && clock->kept.state == DT_WHOLE) {
        add_to_bucket(clock, u);
    } else if (clock->final) {
        clock->reduced = dt_clock_sum_own(clock, count);
    }
}

static void finish(struct dt_clock *clock)
{
    clock->version++;
    for (size_t i = 0; i < clock->grads_slots.count; i++)
        take_sum(clock, &clock->sums[i]);
    dt_clock_wait(clock, clock->reduced);
}

/* --- a step --- */

static void take_step(struct dt_clock *clock)
{
    size_t count = clock->options->micro_batches;
    size_t units = clock->layout->unit_count;
    const bool trained = clock->options->parallel->use == DT_TRAINED;
    for (size_t a = 0; a < count; a++) {
        clock->first = a == 0;
        clock->final = a + 1 == count;
        for (size_t u = 0; u + 1 < units; u++)
            forward(clock, u);
        for (size_t u = units; u-- > clock->options->parallel->lowest;) {
            backward(clock, u);
            if (trained)
                ready(clock, u);
        }
    }
    if (trained) {
        finish(clock);
        dt_clock_update(clock);
    }
    clock->total.seconds = clock->free[DT_ON_DEVICE];
}

static int begin(struct dt_clock *clock, struct dt_error *err)
{
    const struct dt_timeline_options *options = clock->options;
    const struct dt_layout *layout = options->layout;
    int world = options->world, size = options->parallel->group;
    size_t units = layout->unit_count;
    if (size == 0)
        size = world;
    clock->layout = layout;
    clock->version = 1;
    clock->kept = dt_kept_of(options->parallel, world);
    clock->group = dt_traffic_neighbors(size, options->node_size);
    clock->across = dt_traffic_rail(size, world, options->node_size);
    clock->share = 1.0 / size;
    clock->own = 1.0 / world;
    clock->shares = calloc(units, sizeof(*clock->shares));
    clock->places = calloc(DT_SLOT_BLOCKS + units, sizeof(*clock->places));
    clock->sums = calloc(DT_SLOT_BLOCKS + units, sizeof(*clock->sums));
    clock->updated = calloc(units, sizeof(*clock->updated));
    if (!clock->places || !clock->sums || !clock->updated || !clock->shares)
        return dt_error_set(err, EX_OSERR, "out of memory");
    if (!dt_clock_keeps_weights(clock) &&
        dt_slots_init(&clock->weights_slots, layout,
                      options->parallel->prefetch, err) < 0)
        return -1;
    return !clock->kept.grads_pass_slots
               ? 0
               : dt_slots_init(&clock->grads_slots, layout, DT_GRADS_BLOCKS,
                               err);
}

/* The amounts that the last step added. */
static struct dt_timeline difference(const struct dt_timeline *now,
                                     const struct dt_timeline *before)
{
    struct dt_timeline step = {
        .seconds = now->seconds - before->seconds,
        .in_node = now->in_node - before->in_node,
        .out_of_node = now->out_of_node - before->out_of_node,
        .drive_read = now->drive_read - before->drive_read,
        .drive_written = now->drive_written - before->drive_written,
    };
    for (int i = 0; i < DT_RESOURCES; i++)
        step.busy[i] = now->busy[i] - before->busy[i];
    return step;
}

int dt_timeline_make(const struct dt_timeline_options *options,
                     struct dt_timeline *timeline, struct dt_error *err)
{
    struct dt_clock clock = {.options = options};
    struct dt_timeline before = {0};
    int rc = begin(&clock, err);
    for (int i = 0; rc == 0 && i < STEPS; i++) {
        before = clock.total;
        take_step(&clock);
    }
    *timeline = difference(&clock.total, &before);
    dt_slots_fini(&clock.weights_slots);
    dt_slots_fini(&clock.grads_slots);
    free(clock.places);
    free(clock.shares);
    free(clock.sums);
    free(clock.updated);
    return rc;
}
