/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - the bytes and seconds of a collective; for forecast/ only */
#ifndef DT_FORECAST_TRAFFIC_H
#define DT_FORECAST_TRAFFIC_H

#include "forecast/rates.h"

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

#endif /* DT_FORECAST_TRAFFIC_H */
