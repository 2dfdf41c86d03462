/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_moves.c - work and collectives on the virtual clock */
#include "config.h"

#include "forecast/timeline_impl.h"

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

void dt_clock_compute(struct dt_clock *clock, double seconds)
{
    dt_clock_work(clock, DT_ON_DEVICE, 0, seconds);
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

/* One collective, behind those before it. It follows the stream. */
static double move(struct dt_clock *clock, const struct dt_traffic_cost *cost,
                   double after, const struct dt_timeline_move *what)
{
    const struct dt_timeline_options *options = clock->options;
    enum dt_resource lane = what->between ? DT_ON_NETWORK : DT_ON_NODE;
    struct dt_timeline_move done = *what;
    double start =
        later(later(clock->free[DT_ON_DEVICE], after), clock->free[lane]);
    bool leaves = cost->out_of_node > 0;
    if (leaves)
        start = later(start, clock->free[DT_ON_NETWORK]);
    done.start = start;
    done.end = start + cost->seconds;
    clock->free[lane] = done.end;
    clock->total.busy[lane] += cost->seconds;
    if (leaves && !what->between) {
        clock->free[DT_ON_NETWORK] = done.end;
        clock->total.busy[DT_ON_NETWORK] += cost->seconds;
    }
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

double dt_clock_gather(struct dt_clock *clock, size_t u, double after)
{
    size_t count = clock->layout->units[u].count;
    const struct dt_timeline_move what = {.kind = DT_MOVE_GATHER,
                                          .count = count};
    struct dt_traffic_cost cost =
        dt_traffic_cost(clock->options->rates, &clock->inner,
                        weights_bytes(clock, count), clock->options->rings);
    return move(clock, &cost, after, &what);
}

/* The part of a unit that the ranks of `inner` have, from the other nodes. */
static double gather_between(struct dt_clock *clock, size_t count, double after)
{
    const struct dt_timeline_move what = {
        .kind = DT_MOVE_GATHER, .count = count, .between = true};
    struct dt_traffic_cost cost = dt_traffic_cost(
        clock->options->rates, &clock->outer,
        weights_bytes(clock, count) / clock->inner.size, clock->options->rings);
    return move(clock, &cost, after, &what);
}

double dt_clock_gather_new(struct dt_clock *clock, size_t u, double after)
{
    size_t count = clock->layout->units[u].count;
    if (clock->outer.size > 1)
        after = gather_between(clock, count, after);
    if (clock->whole.weights || !clock->hybrid)
        after = dt_clock_gather(clock, u, after);
    return after;
}

/* NCCL's sums of bf16 are made by the ranks that own the parts. */
static bool sums_in_rings(const struct dt_clock *clock)
{
    return clock->options->rings && clock->options->parallel->wire == DT_F32;
}

double dt_clock_scatter(struct dt_clock *clock, size_t count, bool last)
{
    struct dt_timeline_move what = {.kind = DT_MOVE_SCATTER, .count = count};
    bool ring = sums_in_rings(clock);
    struct dt_traffic_cost cost = dt_traffic_cost(
        clock->options->rates, &clock->inner, grads_bytes(clock, count), ring);
    double end = move(clock, &cost, 0, &what);
    if (clock->outer.size == 1 || (clock->hybrid && !last))
        return end;
    cost = dt_traffic_cost(clock->options->rates, &clock->outer,
                           grads_bytes(clock, count) / clock->inner.size, ring);
    what.between = true;
    return move(clock, &cost, end, &what);
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
    };
}

double dt_clock_sum_all(struct dt_clock *clock, size_t count)
{
    struct dt_timeline_move what = {.kind = DT_MOVE_ALL, .count = count};
    double bytes = grads_bytes(clock, count);
    struct dt_traffic_cost cost = both_ways(clock, &clock->inner, bytes);
    if (clock->outer.size == 1)
        return move(clock, &cost, 0, &what);
    double end = dt_clock_scatter(clock, count, true);
    what = (struct dt_timeline_move){
        .kind = DT_MOVE_GATHER, .count = count, .between = true};
    cost = dt_traffic_cost(clock->options->rates, &clock->outer,
                           bytes / clock->inner.size, clock->options->rings);
    end = move(clock, &cost, end, &what);
    what.between = false;
    cost = dt_traffic_cost(clock->options->rates, &clock->inner, bytes,
                           clock->options->rings);
    return move(clock, &cost, end, &what);
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
