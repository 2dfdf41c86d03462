/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.c - the bytes and seconds of a collective */
#include "config.h"

#include "forecast/traffic.h"

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
