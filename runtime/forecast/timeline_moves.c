/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_moves.c - work and collectives on the virtual clock */
#include "config.h"

#include "comm/comm.h"
#include "forecast/timeline_impl.h"

/* Of the CPUs, by collectives: passes always go on. */
#define MOST_TAKEN 0.9

static double later(double a, double b)
{
    return a > b ? a : b;
}

double dt_clock_work(struct dt_clock *clock, enum dt_resource on, double after,
                     double seconds)
{
    double end = later(clock->free[on], after) + seconds;
    clock->free[on] = end;
    clock->total.busy[on] += seconds;
    return end;
}

/* Collectives that CPUs make take them from passes meanwhile. */
void dt_clock_compute(struct dt_clock *clock, double seconds)
{
    double left = seconds, now = clock->free[DT_ON_DEVICE];
    for (; clock->taken_first < clock->taken_end; clock->taken_first++) {
        const struct dt_clock_taken *taken =
            &clock->taken[clock->taken_first % DT_CLOCK_TAKEN];
        double before = later(taken->start - now, 0);
        double within = later(taken->end - later(taken->start, now), 0);
        if (left <= before)
            break;
        if (left - before < within * (1 - taken->part)) {
            now += before + (left - before) / (1 - taken->part);
            left = 0;
            break;
        }
        left -= before + within * (1 - taken->part);
        now += before + within;
    }
    clock->total.busy[DT_ON_DEVICE] += seconds;
    clock->free[DT_ON_DEVICE] = now + left;
}

/* From `start` to `end` a collective has so many seconds of the CPUs. The
 * oldest is forgotten if there are too many: passes that are so far behind
 * would wait for it.
 */
static void take_cpus(struct dt_clock *clock, double start, double end,
                      double cpu)
{
    if (cpu <= 0)
        return;
    if (clock->taken_end - clock->taken_first == DT_CLOCK_TAKEN)
        clock->taken_first++;
    clock->taken[clock->taken_end++ % DT_CLOCK_TAKEN] = (struct dt_clock_taken){
        .start = start,
        .end = end,
        .part =
            cpu < MOST_TAKEN * (end - start) ? cpu / (end - start) : MOST_TAKEN,
    };
}

void dt_clock_wait(struct dt_clock *clock, double until)
{
    clock->free[DT_ON_DEVICE] = later(clock->free[DT_ON_DEVICE], until);
}

double dt_clock_on_stream(struct dt_clock *clock, enum dt_resource on,
                          double seconds)
{
    double end = dt_clock_work(clock, on, clock->free[DT_ON_DEVICE], seconds);
    dt_clock_wait(clock, end);
    return end;
}

/* Makes one collective, after all earlier ones of any group. It follows the
 * stream.
 */
static double move(struct dt_clock *clock, const struct dt_traffic_cost *cost,
                   double after, const struct dt_timeline_move *what)
{
    const struct dt_timeline_options *options = clock->options;
    struct dt_timeline_move done = *what;
    double start =
        later(later(clock->free[DT_ON_DEVICE], after), clock->free[DT_ON_NODE]);
    bool leaves = cost->out_of_node > 0;
    if (leaves)
        start = later(start, clock->free[DT_ON_NETWORK]);
    done.start = start;
    done.end = start + cost->seconds;
    clock->free[DT_ON_NODE] = done.end;
    clock->total.busy[DT_ON_NODE] += cost->seconds;
    if (leaves) {
        clock->free[DT_ON_NETWORK] = done.end;
        clock->total.busy[DT_ON_NETWORK] += cost->seconds;
    }
    take_cpus(clock, start, done.end, cost->cpu);
    clock->total.in_node += cost->in_node;
    clock->total.out_of_node += cost->out_of_node;
    if (options->seen)
        options->seen(options->ctx, &done);
    return done.end;
}

static double weights_bytes(const struct dt_clock *clock, size_t count)
{
    return (double)count *
           (double)dt_dtype_bytes(clock->options->parallel->compute);
}

static double grads_bytes(const struct dt_clock *clock, size_t count)
{
    return (double)count *
           (double)dt_dtype_bytes(clock->options->parallel->wire);
}

/* A gather of `count` elements in all, of `bytes`, over groups or in one. */
static double gather(struct dt_clock *clock, size_t count, double bytes,
                     bool across, double after)
{
    const struct dt_traffic_group *group =
        across ? &clock->across : &clock->group;
    size_t each = across ? count / (size_t)clock->group.size : count;
    const struct dt_timeline_move what = {
        .kind = DT_MOVE_GATHER, .count = each, .between = across};
    if (group->size == 1)
        return after;
    struct dt_traffic_cost cost = dt_traffic_cost(
        clock->options->rates, group,
        across ? bytes / clock->group.size : bytes, clock->options->rings);
    return move(clock, &cost, after, &what);
}

double dt_clock_gather_share(struct dt_clock *clock, size_t u, double after)
{
    size_t count = clock->layout->units[u].count;
    return gather(clock, count, weights_bytes(clock, count), true, after);
}

double dt_clock_gather_group(struct dt_clock *clock, size_t u, double after)
{
    size_t count = clock->layout->units[u].count;
    return gather(clock, count, weights_bytes(clock, count), false, after);
}

double dt_clock_gather(struct dt_clock *clock, size_t u, double after)
{
    return dt_clock_gather_group(clock, u,
                                 dt_clock_gather_share(clock, u, after));
}

double dt_clock_gather_sums(struct dt_clock *clock, size_t count)
{
    /* sums of 8 bits are fp32, whatever the type that is sent otherwise */
    const struct dt_parallel_options *parallel = clock->options->parallel;
    double kept = (double)count * (double)dt_dtype_bytes(parallel->grads);
    double bytes = parallel->int8 || parallel->grads != DT_F32
                       ? kept
                       : grads_bytes(clock, count);
    double end = gather(clock, count, bytes, true, 0);
    return gather(clock, count, bytes, false, end);
}

/* NCCL's sums of bf16 are made by the ranks that own the parts. */
static bool sums_in_rings(const struct dt_clock *clock)
{
    return clock->options->rings && clock->options->parallel->wire == DT_F32;
}

/* Cost of a share as int8.c sends it: a byte per element and a scale per block,
 * from each rank to the owner of each part.
 */
static struct dt_traffic_cost int8_cost(const struct dt_clock *clock,
                                        size_t count)
{
    double bytes = (double)count * (1 + sizeof(float) / (double)DT_INT8_BLOCK);
    return dt_traffic_cost(clock->options->rates, &clock->across, bytes, false);
}

static double sum(struct dt_clock *clock, size_t count, bool across)
{
    const struct dt_traffic_group *group =
        across ? &clock->across : &clock->group;
    size_t each = across ? count / (size_t)clock->group.size : count;
    const struct dt_timeline_move what = {
        .kind = DT_MOVE_SCATTER, .count = each, .between = across};
    if (group->size == 1)
        return 0;
    struct dt_traffic_cost cost =
        across && clock->options->parallel->int8
            ? int8_cost(clock, each)
            : dt_traffic_cost(clock->options->rates, group,
                              grads_bytes(clock, each), sums_in_rings(clock));
    return move(clock, &cost, 0, &what);
}

double dt_clock_sum_share(struct dt_clock *clock, size_t count)
{
    return sum(clock, count, false);
}

double dt_clock_sum_across(struct dt_clock *clock, size_t count)
{
    return sum(clock, count, true);
}

double dt_clock_sum_own(struct dt_clock *clock, size_t count)
{
    double share = sum(clock, count, false);
    return later(share, sum(clock, count, true));
}

/* Sums into parts, and a gather of these. */
static struct dt_traffic_cost both_ways(const struct dt_clock *clock,
                                        const struct dt_traffic_group *group,
                                        double bytes)
{
    bool rings = clock->options->rings;
    struct dt_traffic_cost sum = dt_traffic_cost(clock->options->rates, group,
                                                 bytes, sums_in_rings(clock));
    struct dt_traffic_cost gather =
        dt_traffic_cost(clock->options->rates, group, bytes, rings);
    double call =
        dt_traffic_cost(clock->options->rates, group, 0, rings).seconds;
    return (struct dt_traffic_cost){
        .in_node = sum.in_node + gather.in_node,
        .out_of_node = sum.out_of_node + gather.out_of_node,
        .seconds = sum.seconds + gather.seconds - call,
        .cpu = sum.cpu + gather.cpu,
    };
}

double dt_clock_sum_all(struct dt_clock *clock, size_t count)
{
    const struct dt_timeline_move what = {.kind = DT_MOVE_ALL, .count = count};
    if (clock->across.size == 1) {
        struct dt_traffic_cost cost =
            both_ways(clock, &clock->group, grads_bytes(clock, count));
        return move(clock, &cost, 0, &what);
    }
    dt_clock_sum_own(clock, count);
    return dt_clock_gather_sums(clock, count);
}

double dt_clock_scalars(struct dt_clock *clock)
{
    const struct dt_timeline_move what = {.kind = DT_MOVE_SCALARS};
    const struct dt_traffic_group all =
        dt_traffic_neighbors(clock->options->world, clock->options->node_size);
    struct dt_traffic_cost cost =
        dt_traffic_cost(clock->options->rates, &all, 0, false);
    return move(clock, &cost, 0, &what);
}

/* --- the bytes and seconds of a collective --- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

struct dt_traffic_group dt_traffic_neighbors(int size, int node_size)
{
    int on_node = smaller(size, node_size);
    return (struct dt_traffic_group){size, on_node, node_size / on_node};
}

struct dt_traffic_group dt_traffic_rail(int stride, int world, int node_size)
{
    int size = world / stride;
    int on_node = stride < node_size ? smaller(size, node_size / stride) : 1;
    return (struct dt_traffic_group){size, on_node, node_size / on_node};
}

/* A rank sends 1 - 1/size of the bytes in any case. In a ring each of the rings
 * that share a node leaves it once.
 */
struct dt_traffic_cost dt_traffic_cost(const struct dt_rates *rates,
                                       const struct dt_traffic_group *group,
                                       double bytes, bool ring)
{
    const double *of = rates->of;
    double size = group->size, on_node = group->on_node;
    double sharing = group->sharing, part = bytes / size;
    bool leaves = group->size > group->on_node;
    struct dt_traffic_cost cost = {0};
    if (group->size == 1)
        return cost;
    if (ring) {
        cost.in_node = group->on_node > 1 ? (size - 1) * part : 0;
        cost.out_of_node = leaves ? sharing * (size - 1) * part : 0;
    } else {
        cost.in_node = (on_node - 1) * part;
        cost.out_of_node = sharing * on_node * (size - on_node) * part;
    }
    double node = cost.in_node / of[DT_RATE_NODE];
    double network = leaves ? cost.out_of_node / of[DT_RATE_NETWORK] : 0;
    if (of[DT_RATE_SENDING] > 0)
        cost.cpu = (size - 1) * part / of[DT_RATE_SENDING];
    cost.seconds = of[leaves ? DT_RATE_NETWORK_CALL : DT_RATE_NODE_CALL] +
                   (node > network ? node : network);
    return cost;
}
