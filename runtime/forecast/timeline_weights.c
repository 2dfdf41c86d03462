/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_weights.c - the gathers of a step on the virtual clock
 *
 * Follows parallel/parallel_gather.c function by function.
 */
#include "config.h"

#include "forecast/timeline_impl.h"

bool dt_clock_keeps_weights(const struct dt_clock *clock)
{
    return clock->kept.weights == DT_WHOLE;
}

static struct dt_timeline_place *place_of(struct dt_clock *clock, size_t u)
{
    return &clock->places[dt_clock_keeps_weights(clock)
                              ? u
                              : clock->weights_slots.of[u]];
}

static void take_weights(struct dt_clock *clock, size_t u)
{
    struct dt_timeline_place *place = place_of(clock, u);
    if (place->on_the_way)
        dt_clock_wait(clock, place->ready);
    else if (dt_clock_keeps_weights(clock))
        dt_clock_wait(clock, clock->updated[u]);
    place->on_the_way = false;
}

/* The rank's part goes from where it is kept to the slot. */
static void fill_own_part(struct dt_clock *clock, size_t u)
{
    const struct dt_parallel_options *parallel = clock->options->parallel;
    const double *of = clock->options->rates->of;
    double elements = (double)clock->layout->units[u].count * clock->own;
    double bytes = (double)dt_dtype_bytes(parallel->compute);
    bool device = parallel->offload.weights == DT_TIER_DEVICE;
    bool master = parallel->offload.state == DT_TIER_DEVICE;
    if (parallel->offload.weights == DT_TIER_FILE)
        dt_clock_wait(
            clock, dt_clock_work(clock, DT_ON_DRIVE_READ, clock->earlier,
                                 elements * bytes * clock->options->node_size /
                                     of[DT_RATE_DRIVE_READ]));
    if (!device && of[DT_RATE_PCIE_UP] > 0)
        dt_clock_on_stream(clock, DT_ON_PCIE_UP,
                           elements * bytes / of[DT_RATE_PCIE_UP]);
    else
        dt_clock_compute(clock, elements *
                                    (bytes + (master ? sizeof(float) : bytes)) /
                                    of[DT_RATE_MEMORY]);
}

/* A share of a group's weights is brought together once a step. */
void dt_clock_fetch_share(struct dt_clock *clock, size_t u)
{
    struct dt_timeline_place *place = &clock->shares[u];
    if (clock->kept.weights != DT_SHARE || place->version == clock->version)
        return;
    place->version = clock->version;
    place->ready = dt_clock_gather_share(clock, u, 0);
}

/* The slot of unit u from shares. */
static double gather_shares(struct dt_clock *clock, size_t u)
{
    double bytes = (double)clock->layout->units[u].count * clock->share *
                   (double)dt_dtype_bytes(clock->options->parallel->compute);
    dt_clock_fetch_share(clock, u);
    dt_clock_wait(clock, clock->shares[u].ready);
    dt_clock_compute(clock,
                     2 * bytes / clock->options->rates->of[DT_RATE_MEMORY]);
    return dt_clock_gather_group(clock, u, 0);
}

static void fill_slot(struct dt_clock *clock, size_t u)
{
    struct dt_timeline_place *place = place_of(clock, u);
    if (dt_clock_keeps_weights(clock) ||
        (place->unit == u && place->version == clock->version))
        return;
    if (place->on_the_way)
        dt_clock_wait(clock, place->ready);
    place->unit = u;
    place->version = clock->version;
    place->on_the_way = true;
    if (clock->kept.weights == DT_SHARE) {
        place->ready = gather_shares(clock, u);
        return;
    }
    fill_own_part(clock, u);
    place->ready = dt_clock_gather(clock, u, clock->updated[u]);
}

void dt_clock_send_ahead(struct dt_clock *clock, size_t u)
{
    if (clock->kept.weights == DT_SHARE)
        dt_clock_fetch_share(clock, u);
    else
        fill_slot(clock, u);
}

bool dt_clock_uses_embedding(const struct dt_clock *clock, size_t u)
{
    return clock->layout->tied && u == clock->layout->unit_count - 1;
}

void dt_clock_need(struct dt_clock *clock, size_t u)
{
    fill_slot(clock, u);
    if (dt_clock_uses_embedding(clock, u))
        fill_slot(clock, 0);
}

void dt_clock_prefetch(struct dt_clock *clock, size_t u, size_t next)
{
    if (!dt_clock_keeps_weights(clock) &&
        place_of(clock, u) != place_of(clock, next))
        dt_clock_need(clock, next);
}

void dt_clock_take(struct dt_clock *clock, size_t u)
{
    if (dt_clock_uses_embedding(clock, u))
        take_weights(clock, 0);
    take_weights(clock, u);
}
