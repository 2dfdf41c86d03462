/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_update.c - norm and AdamW on the virtual clock, wherever the state
 * of the optimizer is
 */
#include "config.h"

#include "forecast/timeline_impl.h"

/* Bytes of an element: what AdamW reads and writes on the device without and
 * with rounded weights; master, m and v on their way, each way; what AdamW on
 * the host takes of its memory, with the copies of gradients and weights.
 */
enum { ADAMW = 28, STATE = 12, ON_HOST = 36, GRADIENT = 4 };

enum { DEVICE_TILES = 2, HOST_TILES = 3 };

/* What happens to one tile after the other. */
struct tiles {
    double down[DEVICE_TILES], written[HOST_TILES];
    size_t count;
};

static double memory_seconds(const struct dt_clock *clock, double bytes)
{
    return bytes / clock->options->rates->of[DT_RATE_MEMORY];
}

static double weight_bytes(const struct dt_clock *clock)
{
    return (double)dt_dtype_bytes(clock->options->parallel->compute);
}

/* Elements of unit u that this rank updates. */
static double own_elements(const struct dt_clock *clock, size_t u)
{
    double count = (double)clock->layout->units[u].count;
    return clock->whole.optimizer ? count : count / clock->options->world;
}

/* Every rank squares only its own parts. */
static void take_norm(struct dt_clock *clock)
{
    double part = (double)clock->layout->count / clock->options->world;
    dt_clock_compute(clock, memory_seconds(clock, part * sizeof(float)));
    if (clock->options->world > 1)
        dt_clock_wait(clock, dt_clock_scalars(clock));
}

static double update_on_device(struct dt_clock *clock, size_t u)
{
    bool mixed = clock->options->parallel->compute != DT_F32;
    double bytes = ADAMW;
    if (mixed && clock->whole.weights)
        bytes += weight_bytes(clock);
    dt_clock_compute(clock,
                     memory_seconds(clock, own_elements(clock, u) * bytes));
    return clock->free[DT_ON_DEVICE];
}

/* Seconds of a resource that the ranks of a node share. */
static double shared_seconds(const struct dt_clock *clock, enum dt_rate rate,
                             double bytes)
{
    return bytes * clock->options->node_size / clock->options->rates->of[rate];
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* State on its way: PCIe in one direction, host memory in both at once. */
static double way_seconds(const struct dt_clock *clock, enum dt_rate pcie,
                          double elements)
{
    double way = elements * STATE / clock->options->rates->of[pcie];
    return larger(
        way, shared_seconds(clock, DT_RATE_HOST_MEMORY, 2 * STATE * elements));
}

static double read_tile(struct dt_clock *clock, const struct tiles *tiles,
                        double elements)
{
    double bytes = STATE * elements;
    if (!clock->options->state_on_drive)
        return 0;
    clock->total.drive_read += bytes * clock->options->node_size;
    return dt_clock_work(clock, DT_ON_DRIVE_READ,
                         larger(clock->free[DT_ON_DEVICE],
                                tiles->written[tiles->count % HOST_TILES]),
                         shared_seconds(clock, DT_RATE_DRIVE_READ, bytes));
}

static void write_tile(struct dt_clock *clock, struct tiles *tiles,
                       double elements, double after)
{
    double bytes = STATE * elements;
    if (!clock->options->state_on_drive)
        return;
    clock->total.drive_written += bytes * clock->options->node_size;
    tiles->written[tiles->count % HOST_TILES] =
        dt_clock_work(clock, DT_ON_DRIVE_WRITE, after,
                      shared_seconds(clock, DT_RATE_DRIVE_WRITE, bytes));
}

/* Up, the update, which is short beside it, and down again. */
static double stream_tile(struct dt_clock *clock, struct tiles *tiles,
                          double elements)
{
    double *down = &tiles->down[tiles->count % DEVICE_TILES];
    double after = larger(read_tile(clock, tiles, elements),
                          larger(*down, clock->free[DT_ON_DEVICE]));
    double up = dt_clock_work(clock, DT_ON_PCIE_UP, after,
                              way_seconds(clock, DT_RATE_PCIE_UP, elements));
    *down = dt_clock_work(clock, DT_ON_PCIE_DOWN, up,
                          way_seconds(clock, DT_RATE_PCIE_DOWN, elements));
    write_tile(clock, tiles, elements, *down);
    tiles->count++;
    return up;
}

/* Gradients down, the update by the CPUs of the node, weights up. */
static double host_tile(struct dt_clock *clock, struct tiles *tiles,
                        double elements)
{
    const double *of = clock->options->rates->of;
    double read = read_tile(clock, tiles, elements);
    double down =
        dt_clock_work(clock, DT_ON_PCIE_DOWN, clock->free[DT_ON_DEVICE],
                      elements * GRADIENT / of[DT_RATE_PCIE_DOWN]);
    double updated = dt_clock_work(
        clock, DT_ON_HOST, larger(read, down),
        shared_seconds(clock, DT_RATE_HOST_MEMORY, ON_HOST * elements));
    write_tile(clock, tiles, elements, updated);
    tiles->count++;
    return dt_clock_work(clock, DT_ON_PCIE_UP, updated,
                         elements * weight_bytes(clock) / of[DT_RATE_PCIE_UP]);
}

/* Returns when the last tile of unit u is updated. */
static double update_in_tiles(struct dt_clock *clock, struct tiles *tiles,
                              size_t u)
{
    double left = own_elements(clock, u), done = 0;
    double tile = (double)clock->options->tile;
    bool stream = clock->options->state == DT_STATE_STREAMED;
    for (; left > 0; left -= tile) {
        double elements = left < tile ? left : tile;
        done = stream ? stream_tile(clock, tiles, elements)
                      : host_tile(clock, tiles, elements);
    }
    return done;
}

/* What dt_parallel_publish does, and hybrid sharding between nodes. */
static void publish(struct dt_clock *clock, size_t u)
{
    bool in_slots = !clock->whole.weights;
    if (clock->whole.optimizer || (in_slots && !clock->hybrid))
        return;
    double ready = dt_clock_gather_new(clock, u, clock->updated[u]);
    if (in_slots) {
        clock->updated[u] = ready;
    } else {
        clock->places[u].ready = ready;
        clock->places[u].on_the_way = true;
    }
}

void dt_clock_update(struct dt_clock *clock)
{
    struct tiles tiles = {.count = 0};
    take_norm(clock);
    for (size_t u = 0; u < clock->layout->unit_count; u++) {
        clock->updated[u] = clock->options->state == DT_STATE_ON_DEVICE
                                ? update_on_device(clock, u)
                                : update_in_tiles(clock, &tiles, u);
        publish(clock, u);
    }
}
