/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline_update.c - norm and AdamW on the virtual clock, wherever the state
 * of the optimizer is
 *
 * Follows parallel/update.c, piece by piece.
 */
#include "config.h"

#include "forecast/timeline_impl.h"

/* Bytes per element: read and written by AdamW without rounded weights; of a
 * gradient; of host memory traffic of AdamW on the host of a GPU, with the
 * copies of gradients and weights.
 */
enum { ADAMW = 28, GRADIENT = 4, ON_HOST = 36 };

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

/* Master, m and v; without a master if the model computes with it. */
static double state_bytes(const struct dt_clock *clock)
{
    const struct dt_parallel_options *parallel = clock->options->parallel;
    bool master = parallel->compute != DT_F32 ||
                  (clock->kept.weights != DT_WHOLE &&
                   parallel->offload.weights != DT_TIER_DEVICE);
    return master ? 12 : 8;
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
    dt_clock_compute(clock, memory_seconds(clock, part * sizeof(float)));
    if (clock->options->world > 1)
        dt_clock_wait(clock, dt_clock_scalars(clock));
}

static void update_on_device(struct dt_clock *clock, double elements)
{
    bool mixed = clock->options->parallel->compute != DT_F32;
    double bytes = ADAMW;
    if (mixed && clock->kept.weights != DT_OWN)
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
                       elements * GRADIENT / of[DT_RATE_PCIE_DOWN]);
    dt_clock_on_stream(
        clock, DT_ON_HOST,
        shared_seconds(clock, DT_RATE_HOST_MEMORY, ON_HOST * elements));
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

/* As dt_weights_publish. */
static void publish(struct dt_clock *clock, size_t u)
{
    const struct dt_offload *offload = &clock->options->parallel->offload;
    clock->updated[u] = clock->free[DT_ON_DEVICE];
    if (clock->kept.weights == DT_WHOLE && clock->kept.state != DT_WHOLE) {
        clock->places[u].ready = dt_clock_gather(clock, u, 0);
        clock->places[u].on_the_way = true;
    } else if (u < DT_UNITS_AHEAD && u + 1 < clock->layout->unit_count &&
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
