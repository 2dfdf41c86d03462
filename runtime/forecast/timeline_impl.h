/* SPDX-License-Identifier: Apache-2.0 */
/* timeline_impl.h - the state of the virtual clock; for forecast/ only */
#ifndef DT_FORECAST_TIMELINE_IMPL_H
#define DT_FORECAST_TIMELINE_IMPL_H

#include "forecast/rates.h"
#include "forecast/timeline.h"

/* Ranks that combine data. */
struct dt_traffic_group {
    int size;
    int on_node; /* of these, on one node */
    int sharing; /* groups that have ranks on one node */
};

/* The group of `size` neighbors on nodes of `node_size` ranks, and that of
 * every stride-th rank of a world.
 */
struct dt_traffic_group dt_traffic_neighbors(int size, int node_size);
struct dt_traffic_group dt_traffic_rail(int stride, int world, int node_size);

/* Cost of a collective. */
struct dt_traffic_cost {
    double in_node;     /* bytes a rank sends to ranks of its node */
    double out_of_node; /* bytes that leave a node */
    double seconds;
    double cpu; /* seconds of a rank's CPUs, among these */
};

/* A gather or a reduce-scatter of so many bytes in all parts together; `ring`:
 * every rank passes on to the next one what it gets.
 */
struct dt_traffic_cost dt_traffic_cost(const struct dt_rates *rates,
                                       const struct dt_traffic_group *group,
                                       double bytes, bool ring);

/* A place of weights, and a slot of gradients: see parallel_impl.h. */
struct dt_timeline_place {
    size_t unit;
    uint64_t version; /* 0: nothing yet */
    double ready;
    bool on_the_way;
};

struct dt_timeline_sum {
    size_t unit;
    double ready;
    bool open, first, final;
};

/* The part of the CPUs that a collective has. */
struct dt_clock_taken {
    double start, end, part;
};

enum { DT_CLOCK_TAKEN = 1024 };

struct dt_clock {
    const struct dt_timeline_options *options;
    const struct dt_layout *layout;
    struct dt_kept kept;
    struct dt_traffic_group group, across; /* across of one: there is none */
    double share, own; /* of a unit: a rank's share of its group's, and the part
                          that it updates if it does not update all */

    struct dt_slots weights_slots, grads_slots; /* if not whole */
    struct dt_timeline_place *places;           /* one for each unit, or slot */
    struct dt_timeline_sum *sums;               /* one for each slot */
    struct dt_timeline_place *shares; /* (unit_count) of a group's weights */
    double *updated; /* (unit_count) when the weights of a unit are new */
    uint64_t version;
    bool first, final; /* micro-batch */
    size_t bucket;     /* ddp: elements that are ready and not started */
    double reduced;    /* when the newest sums of gradients are there */
    double earlier;    /* the stream, one unit before */

    struct dt_clock_taken taken[DT_CLOCK_TAKEN]; /* a ring, one after another */
    size_t taken_first, taken_end;

    double free[DT_RESOURCES]; /* when it is free */
    struct dt_timeline total;  /* since the beginning */
};

/* Does work of so many seconds on a resource, not before `after`. Returns its
 * end.
 */
double dt_clock_work(struct dt_clock *clock, enum dt_resource on, double after,
                     double seconds);

/* Work on the stream; and the stream waits. */
void dt_clock_compute(struct dt_clock *clock, double seconds);
void dt_clock_wait(struct dt_clock *clock, double until);

/* Work on a resource that the stream waits for before it goes on. Returns its
 * end.
 */
double dt_clock_on_stream(struct dt_clock *clock, enum dt_resource on,
                          double seconds);

/* Start to bring weights of unit u together, not before `after`: the share of
 * this rank from other groups; a unit from the ranks of its group; both. Return
 * when they are there.
 */
double dt_clock_gather_share(struct dt_clock *clock, size_t u, double after);
double dt_clock_gather_group(struct dt_clock *clock, size_t u, double after);
double dt_clock_gather(struct dt_clock *clock, size_t u, double after);

/* Start to sum `count` gradients over the group, into shares; those shares over
 * groups, into own parts; both; and all that, with everything brought together
 * again. Return when they are there.
 */
double dt_clock_sum_share(struct dt_clock *clock, size_t count);
double dt_clock_sum_across(struct dt_clock *clock, size_t count);
double dt_clock_sum_own(struct dt_clock *clock, size_t count);
double dt_clock_sum_all(struct dt_clock *clock, size_t count);

/* Brings sums of `count` gradients together. Returns when they are there. */
double dt_clock_gather_sums(struct dt_clock *clock, size_t count);

/* Whether weights are whole. */
bool dt_clock_keeps_weights(const struct dt_clock *clock);

/* As dt_weights_need, _prefetch and _take in parallel/parallel_impl.h; a share
 * of a group's weights, which is brought together once a step; and the weights
 * of the updated unit u, if in slots, on their way to the next step.
 */
void dt_clock_need(struct dt_clock *clock, size_t u);
void dt_clock_prefetch(struct dt_clock *clock, size_t u, size_t next);
void dt_clock_take(struct dt_clock *clock, size_t u);
void dt_clock_fetch_share(struct dt_clock *clock, size_t u);
void dt_clock_send_ahead(struct dt_clock *clock, size_t u);

/* The sum of the scalars of a step. */
double dt_clock_scalars(struct dt_clock *clock);

/* The norm, the update of the parts this rank owns, and their way to the ranks
 * that need them.
 */
void dt_clock_update(struct dt_clock *clock);

#endif /* DT_FORECAST_TIMELINE_IMPL_H */
