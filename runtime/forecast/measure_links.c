/* SPDX-License-Identifier: Apache-2.0 */
/* measure_links.c - the rates of collectives, PCIe, host memory and a drive */
#include "config.h"

#include <stdlib.h>

#include "base/clock.h"
#include "forecast/measure_impl.h"
#include "forecast/traffic.h"
#include "parallel/swap.h"

enum {
    SENT = 1 << 22,   /* elements: about a block of GPT-2 */
    COPIED = 1 << 27, /* bytes */
    TILES = 8,        /* to the drive */
    TILE_BYTES = 1 << 26,
    TRIAD = 1 << 24,  /* elements of each of three vectors */
    TRIAD_BYTES = 12, /* as STREAM counts */
    WORK_ELEMENTS = 2048,
    WORK_TURNS = 4000, /* about a millisecond */
    LONGER = 4,        /* work goes on so many times as long as an exchange */
};

/* Most seconds of an exchange; and the share of its time that its CPUs are
 * taken to need if no slowdown is measured.
 */
#define MOST_SENDING 0.1
#define LEAST_SENDING 0.01

/* --- collectives --- */

/* A reduce-scatter and a gather of `count` elements. */
static int exchange(const struct dt_measure *measure, struct dt_view all,
                    size_t count, double *seconds, struct dt_error *err)
{
    struct dt_comm *comm = measure->comm;
    struct dt_view v = dt_view_slice(all, 0, count);
    dt_ticket_t ticket;
    if (dt_comm_barrier(comm, err) < 0)
        return -1;
    double start = dt_clock_now();
    if (dt_comm_reduce_scatter(comm, v, DT_SUM, DT_F32, &ticket, err) < 0 ||
        dt_comm_all_gather(comm, v, &ticket, err) < 0 ||
        dt_comm_wait(comm, ticket, err) < 0 ||
        measure->exec->device->stream_wait(measure->exec->stream, err) < 0)
        return -1;
    *seconds = dt_clock_now() - start;
    return 0;
}

static int median_exchange(const struct dt_measure *measure, struct dt_view all,
                           size_t count, double *seconds, struct dt_error *err)
{
    struct dt_stopwatch watch = {.count = 0};
    for (int i = 0; i < DT_MEASURE_ROUNDS; i++) {
        if (exchange(measure, all, count, seconds, err) < 0)
            return -1;
        dt_stopwatch_add(&watch, *seconds);
    }
    *seconds = dt_stopwatch_median(&watch);
    return dt_comm_reduce_scalars(measure->comm, seconds, 1, DT_MAX, err);
}

/* --- CPU time of collectives --- */

/* Seconds of some work in the first cache. */
static double work(void)
{
    double start = dt_clock_now();
#pragma omp parallel
    {
        float x[WORK_ELEMENTS];
        for (int i = 0; i < WORK_ELEMENTS; i++)
            x[i] = (float)i;
        for (int turn = 0; turn < WORK_TURNS; turn++) {
#pragma omp simd
            for (int i = 0; i < WORK_ELEMENTS; i++)
                x[i] = x[i] * 0.999f + 0.5f;
            __asm__ volatile("" : : "r"(x) : "memory");
        }
    }
    return dt_clock_now() - start;
}

/* Measures how much longer work takes that starts together with an exchange,
 * which takes `exchange` seconds by itself, and ends long after it.
 */
static int time_sending(const struct dt_measure *measure, struct dt_view v,
                        double exchange, double *seconds, struct dt_error *err)
{
    struct dt_stopwatch alone = {.count = 0};
    double left = 0, start, each;
    dt_ticket_t ticket;
    for (int i = 0; i < DT_MEASURE_ROUNDS; i++)
        dt_stopwatch_add(&alone, work());
    each = dt_stopwatch_median(&alone);
    if (dt_comm_barrier(measure->comm, err) < 0)
        return -1;
    start = dt_clock_now();
    if (dt_comm_reduce_scatter(measure->comm, v, DT_SUM, DT_F32, &ticket, err) <
            0 ||
        dt_comm_all_gather(measure->comm, v, &ticket, err) < 0)
        return -1;
    for (; left < LONGER * exchange; left += each)
        work();
    *seconds = dt_clock_now() - start - left;
    return dt_comm_wait(measure->comm, ticket, err);
}

/* Only where the ranks' own CPUs send. */
static int measure_sending(const struct dt_measure *measure, struct dt_view v,
                           double exchange, struct dt_rates *rates,
                           struct dt_error *err)
{
    struct dt_stopwatch watch = {.count = 0};
    double size = dt_comm_size(measure->comm), seconds;
    double bytes = 2 * (size - 1) / size * (double)v.count * sizeof(float);
    if (!measure->exec->device->is_host)
        return 0;
    for (int i = 0; i < DT_MEASURE_ROUNDS; i++) {
        if (time_sending(measure, v, exchange, &seconds, err) < 0)
            return -1;
        dt_stopwatch_add(&watch, seconds);
    }
    seconds = dt_stopwatch_median(&watch);
    if (seconds < LEAST_SENDING * exchange)
        seconds = LEAST_SENDING * exchange;
    return dt_measure_set(measure, rates, DT_RATE_SENDING, bytes, seconds, err);
}

/* --- collectives, and these --- */

/* Sets the rates of collectives. Two collectives of `few` elements cost two
 * calls; those of `many` cost in addition the bytes on the slower path.
 */
static int set_collectives(const struct dt_measure *measure,
                           struct dt_rates *rates, double few, double many,
                           size_t count)
{
    int size = dt_comm_size(measure->comm);
    bool rings = !measure->exec->device->is_host;
    const struct dt_traffic_group all =
        dt_traffic_neighbors(size, measure->local_size);
    const struct dt_rates each = {
        .of = {[DT_RATE_NODE] = 1, [DT_RATE_NETWORK] = 1}};
    struct dt_traffic_cost cost =
        dt_traffic_cost(&each, &all, (double)count * sizeof(float), rings);
    bool leaves = cost.out_of_node > 0;
    double bytes = leaves ? cost.out_of_node : cost.in_node;
    double seconds = many > few ? many - few : many;
    rates->of[leaves ? DT_RATE_NETWORK : DT_RATE_NODE] = 2 * bytes / seconds;
    rates->of[leaves ? DT_RATE_NETWORK_CALL : DT_RATE_NODE_CALL] = few / 2;
    return 0;
}

static int measure_collectives(const struct dt_measure *measure,
                               struct dt_rates *rates, struct dt_error *err)
{
    size_t ranks = (size_t)dt_comm_size(measure->comm);
    size_t least = ranks * 16, most = (SENT + least - 1) / least * least;
    double few = 0, many = 0;
    if (ranks == 1)
        return 0;
    struct dt_buffer *buf = dt_buffer_create(
        measure->exec->device, most * sizeof(float), "measuring", err);
    if (!buf)
        return -1;
    struct dt_view all = dt_view_of(buf, DT_F32);
    int rc = median_exchange(measure, all, least, &few, err);
    if (rc == 0)
        rc = median_exchange(measure, all, most, &many, err);
    if (rc == 0)
        rc = set_collectives(measure, rates, few, many, most);
    /* no long wait for slow links: only the cost per byte matters */
    double part = many > MOST_SENDING ? MOST_SENDING / many : 1;
    size_t sent = (size_t)(part * (double)most) / least * least;
    if (rc == 0)
        rc = measure_sending(measure,
                             dt_view_slice(all, 0, sent > least ? sent : least),
                             part * many, rates, err);
    dt_comm_forget_memory(measure->comm);
    dt_buffer_destroy(buf);
    return rc;
}

/* --- PCIe --- */

static int time_copy(const struct dt_exec *exec, void *to, const void *from,
                     double *seconds, struct dt_error *err)
{
    struct dt_stopwatch watch = {.count = 0};
    for (int i = 0; i < DT_MEASURE_ROUNDS; i++) {
        double start = dt_clock_now();
        if (exec->device->copy(exec->stream, to, from, COPIED, err) < 0 ||
            exec->device->stream_wait(exec->stream, err) < 0)
            return -1;
        dt_stopwatch_add(&watch, dt_clock_now() - start);
    }
    *seconds = dt_stopwatch_median(&watch);
    return 0;
}

static int measure_copies(const struct dt_measure *measure,
                          struct dt_rates *rates, struct dt_error *err)
{
    const struct dt_exec *exec = measure->exec;
    double up, down;
    void *host;
    if (exec->device->is_host)
        return 0;
    struct dt_buffer *buf =
        dt_buffer_create(exec->device, COPIED, "measuring", err);
    if (!buf)
        return -1;
    int rc = exec->device->allocate_staging(COPIED, &host, err);
    if (rc == 0) {
        if (time_copy(exec, buf->data, host, &up, err) < 0 ||
            time_copy(exec, host, buf->data, &down, err) < 0 ||
            dt_measure_set(measure, rates, DT_RATE_PCIE_UP, COPIED, up, err) <
                0 ||
            dt_measure_set(measure, rates, DT_RATE_PCIE_DOWN, COPIED, down,
                           err) < 0)
            rc = -1;
        exec->device->release_staging(host, COPIED);
    }
    dt_buffer_destroy(buf);
    return rc;
}

/* --- host memory --- */

/* Seconds of a[i] = b[i] + s c[i] (McCalpin, STREAM). */
static double triad(float *restrict a, const float *restrict b,
                    const float *restrict c)
{
    double start = dt_clock_now();
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < TRIAD; i++)
        a[i] = b[i] + 3.0f * c[i];
    return dt_clock_now() - start;
}

/* Measures host memory with all ranks of a node at once, as in an update. */
static int measure_host(const struct dt_measure *measure,
                        struct dt_rates *rates, struct dt_error *err)
{
    struct dt_stopwatch watch = {.count = 0};
    struct dt_buffer *buf = dt_buffer_create(
        &dt_cpu, (size_t)3 * TRIAD * sizeof(float), "measuring", err);
    if (!buf)
        return -1;
    float *x = buf->data;
    for (int i = 0; i < DT_MEASURE_ROUNDS; i++)
        dt_stopwatch_add(&watch, triad(x, x + TRIAD, x + (size_t)2 * TRIAD));
    dt_buffer_destroy(buf);
    return dt_measure_set(measure, rates, DT_RATE_HOST_MEMORY,
                          (double)TRIAD_BYTES * TRIAD * measure->local_size,
                          dt_stopwatch_median(&watch), err);
}

/* --- the drive --- */

/* Writes and reads all tiles. */
static int move_tiles(struct dt_swap *swap, struct dt_error *err)
{
    dt_swap_ticket_t ticket = 0;
    for (int read = 0; read < 2; read++) {
        for (size_t i = 0; i < TILES; i++)
            if ((read ? dt_swap_start_read
                      : dt_swap_start_write)(swap, i, i % 3, &ticket, err) < 0)
                return -1;
        for (dt_swap_ticket_t t = ticket - TILES + 1; t <= ticket; t++)
            if (dt_swap_wait(swap, t, err) < 0)
                return -1;
    }
    return 0;
}

/* One rank of each node has the drive for itself. */
static int time_drive(const struct dt_measure *measure,
                      struct dt_swap_stats *stats, struct dt_error *err)
{
    const struct dt_swap_options options = {
        .tile_bytes = TILE_BYTES, .tile_count = TILES, .buffer_count = 3};
    struct dt_swap *swap = dt_swap_create(measure->drive, &options, err);
    if (!swap)
        return -1;
    int rc = move_tiles(swap, err);
    *stats = dt_swap_get_stats(swap);
    dt_swap_destroy(swap);
    return rc;
}

static int measure_drive(const struct dt_measure *measure,
                         struct dt_rates *rates, struct dt_error *err)
{
    struct dt_swap_stats stats = {0};
    double bytes = (double)TILES * TILE_BYTES;
    if (!measure->drive)
        return 0;
    if (measure->local_rank == 0 && time_drive(measure, &stats, err) < 0)
        return -1;
    if (dt_measure_set(measure, rates, DT_RATE_DRIVE_READ, bytes,
                       stats.read_seconds, err) < 0)
        return -1;
    return dt_measure_set(measure, rates, DT_RATE_DRIVE_WRITE, bytes,
                          stats.write_seconds, err);
}

int dt_measure_links(const struct dt_measure *measure, struct dt_rates *rates,
                     struct dt_error *err)
{
    if (measure_collectives(measure, rates, err) < 0 ||
        measure_copies(measure, rates, err) < 0 ||
        measure_host(measure, rates, err) < 0)
        return -1;
    return measure_drive(measure, rates, err);
}
