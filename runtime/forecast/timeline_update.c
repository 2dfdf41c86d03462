/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_update.c - norm, AdamW and weights on their way on the virtual clock
 *
 * Follows parallel/update.c and parallel/parallel_weights.c, piece by piece,
 * wherever the state of the optimizer is.
 */
#include "config.h"

#include "forecast/timeline_impl.h"

/* Bytes per element of host memory traffic of the copies of gradients and
 * weights, besides AdamW, on the host of a GPU.
 */
enum { COPIES = 8 };

enum { MOST_BUFFERS = 64 };

/* Tiles that are moved, one after the other. */
struct tiles {
    double written[MOST_BUFFERS]; /* when a buffer of the drive is free */
    size_t buffers, count;
};

static double memory_seconds(const struct dt_clock *clock, double bytes)
{
    return bytes / clock->options->rates->of[DT_RATE_MEMORY];
}

static double weight_bytes(const struct dt_clock *clock)
{
    return (double)dt_dtype_bytes(clock->options->parallel->compute);
}

/* Of an element: master, m or v, and a gradient. */
static double each_bytes(const struct dt_clock *clock)
{
    return (double)dt_dtype_bytes(clock->options->parallel->state);
}

static double grad_bytes(const struct dt_clock *clock)
{
    return (double)dt_dtype_bytes(clock->options->parallel->grads);
}

/* What AdamW reads and writes without rounded weights. */
static double adamw_bytes(const struct dt_clock *clock)
{
    return 6 * each_bytes(clock) + grad_bytes(clock);
}

/* Whether weights are rounded from the master, or are it. */
static bool is_mixed(const struct dt_clock *clock)
{
    const struct dt_parallel_options *parallel = clock->options->parallel;
    return parallel->compute != parallel->state;
}

/* Master, m and v; without a master if the model computes with it. */
static double state_bytes(const struct dt_clock *clock)
{
    const struct dt_parallel_options *parallel = clock->options->parallel;
    bool master =
        is_mixed(clock) || (clock->kept.weights != DT_WHOLE &&
                            parallel->offload.weights != DT_TIER_DEVICE);
    return (master ? 3 : 2) * each_bytes(clock);
}

/* Elements of unit u that this rank updates. */
static double own_elements(const struct dt_clock *clock, size_t u)
{
    double count = (double)clock->layout->units[u].count;
    return clock->kept.state == DT_WHOLE ? count : count * clock->own;
}

/* Every rank squares only its own parts. */
static void take_norm(struct dt_clock *clock)
{
    double part = (double)clock->layout->count / clock->options->world;
    dt_clock_compute(clock, memory_seconds(clock, part * grad_bytes(clock)));
    if (clock->options->world > 1)
        dt_clock_wait(clock, dt_clock_scalars(clock));
}

static void update_on_device(struct dt_clock *clock, double elements)
{
    double bytes = adamw_bytes(clock);
    if (is_mixed(clock) && clock->kept.weights != DT_OWN)
        bytes += weight_bytes(clock);
    dt_clock_compute(clock, memory_seconds(clock, elements * bytes));
}

/* --- tiles --- */

/* Seconds of a resource that the ranks of a node share. */
static double shared_seconds(const struct dt_clock *clock, enum dt_rate rate,
                             double bytes)
{
    return bytes * clock->options->node_size / clock->options->rates->of[rate];
}

static bool is_on_drive(const struct dt_clock *clock)
{
    return clock->options->parallel->offload.state == DT_TIER_FILE;
}

/* A tile is read ahead as soon as there is a buffer for it. */
static void read_tile(struct dt_clock *clock, const struct tiles *tiles,
                      double bytes)
{
    if (!is_on_drive(clock))
        return;
    clock->total.drive_read += bytes * clock->options->node_size;
    dt_clock_wait(
        clock, dt_clock_work(clock, DT_ON_DRIVE_READ,
                             tiles->written[tiles->count % tiles->buffers],
                             shared_seconds(clock, DT_RATE_DRIVE_READ, bytes)));
}

static void write_tile(struct dt_clock *clock, struct tiles *tiles,
                       double bytes)
{
    if (!is_on_drive(clock))
        return;
    clock->total.drive_written += bytes * clock->options->node_size;
    tiles->written[tiles->count % tiles->buffers] =
        dt_clock_work(clock, DT_ON_DRIVE_WRITE, clock->free[DT_ON_DEVICE],
                      shared_seconds(clock, DT_RATE_DRIVE_WRITE, bytes));
}

/* State up, the update, and state down again. */
static void stream_tile(struct dt_clock *clock, double elements, double bytes)
{
    const double *of = clock->options->rates->of;
    dt_clock_on_stream(clock, DT_ON_PCIE_UP, bytes / of[DT_RATE_PCIE_UP]);
    update_on_device(clock, elements);
    dt_clock_on_stream(clock, DT_ON_PCIE_DOWN, bytes / of[DT_RATE_PCIE_DOWN]);
}

/* Gradients down, the update by the CPUs of the node, weights up. */
static void host_tile(struct dt_clock *clock, double elements)
{
    const double *of = clock->options->rates->of;
    dt_clock_on_stream(clock, DT_ON_PCIE_DOWN,
                       elements * grad_bytes(clock) / of[DT_RATE_PCIE_DOWN]);
    dt_clock_on_stream(
        clock, DT_ON_HOST,
        shared_seconds(clock, DT_RATE_HOST_MEMORY,
                       (adamw_bytes(clock) + COPIES) * elements));
    dt_clock_on_stream(clock, DT_ON_PCIE_UP,
                       elements * weight_bytes(clock) / of[DT_RATE_PCIE_UP]);
}

static void update_tile(struct dt_clock *clock, struct tiles *tiles,
                        double elements)
{
    double bytes = elements * state_bytes(clock);
    read_tile(clock, tiles, bytes);
    switch (clock->options->parallel->offload.compute) {
    case DT_OFFLOAD_IN_PLACE:
        update_on_device(clock, elements);
        break;
    case DT_OFFLOAD_STREAM:
        stream_tile(clock, elements, bytes);
        break;
    case DT_OFFLOAD_HOST:
        host_tile(clock, elements);
        break;
    }
    write_tile(clock, tiles, bytes);
    tiles->count++;
}

/* Updates a unit: first the state that stays on the device. */
static void update_unit(struct dt_clock *clock, struct tiles *tiles,
                        double *kept, size_t u)
{
    double left = own_elements(clock, u);
    double tile = (double)clock->options->parallel->offload.tile;
    double here = left < *kept ? left : *kept;
    update_on_device(clock, here);
    *kept -= here;
    for (left -= here; left > 0; left -= tile)
        update_tile(clock, tiles, left < tile ? left : tile);
}

/* --- a step --- */

static bool is_empty(const struct dt_clock *clock, size_t u)
{
    return clock->layout->units[u].count == 0;
}

/* As dt_weights_publish. */
static void publish(struct dt_clock *clock, size_t u)
{
    const struct dt_offload *offload = &clock->options->parallel->offload;
    if (is_empty(clock, u))
        return;
    clock->updated[u] = clock->free[DT_ON_DEVICE];
    if (clock->kept.weights == DT_WHOLE && clock->kept.state != DT_WHOLE) {
        clock->places[u].ready = dt_clock_gather(clock, u, 0);
        clock->places[u].on_the_way = true;
    } else if (u < clock->weights_slots.ahead &&
               offload->state == DT_TIER_DEVICE) {
        dt_clock_send_ahead(clock, u);
    }
}

/* Elements of a rank whose state stays on the device. */
static double kept_elements(const struct dt_clock *clock)
{
    const struct dt_offload *offload = &clock->options->parallel->offload;
    double all = (double)clock->layout->count;
    if (offload->state == DT_TIER_DEVICE)
        return all;
    return (1 - offload->ratio) * all / clock->options->world;
}

void dt_clock_update(struct dt_clock *clock)
{
    size_t buffers = clock->options->parallel->offload.buffers;
    struct tiles tiles = {.buffers = buffers < 1              ? 1
                                     : buffers > MOST_BUFFERS ? MOST_BUFFERS
                                                              : buffers};
    double kept = kept_elements(clock);
    take_norm(clock);
    for (size_t i = 0; i < tiles.buffers; i++)
        tiles.written[i] = clock->free[DT_ON_DEVICE];
    for (size_t u = 0; u < clock->layout->unit_count; u++) {
        update_unit(clock, &tiles, &kept, u);
        publish(clock, u);
    }
}

/* --- weights on their way --- */

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
        dt_clock_compute(
            clock, elements * (bytes + (master ? each_bytes(clock) : bytes)) /
                       of[DT_RATE_MEMORY]);
}

/* A share of a group's weights is brought together once a step. */
void dt_clock_fetch_share(struct dt_clock *clock, size_t u)
{
    struct dt_timeline_place *place = &clock->shares[u];
    if (u >= clock->layout->unit_count || clock->kept.weights != DT_SHARE ||
        place->version == clock->version)
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

void dt_clock_need(struct dt_clock *clock, size_t u)
{
    struct dt_timeline_place *place = place_of(clock, u);
    if (is_empty(clock, u) || dt_clock_keeps_weights(clock) ||
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
        dt_clock_need(clock, u);
}

void dt_clock_prefetch(struct dt_clock *clock, size_t u, size_t next)
{
    if (next >= clock->layout->unit_count || dt_clock_keeps_weights(clock) ||
        (!is_empty(clock, u) && place_of(clock, u) == place_of(clock, next)))
        return;
    dt_clock_need(clock, next);
}

void dt_clock_take(struct dt_clock *clock, size_t u)
{
    if (!is_empty(clock, u))
        take_weights(clock, u);
}
