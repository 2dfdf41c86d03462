/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - finds the network interface that leads to rank 0 */
#ifndef DTSPANK_NET_H
#define DTSPANK_NET_H

#include <net/if.h>
#include <stdbool.h>

#include "base/error.h"

/* Writes the name of the interface on the route to the host `master`. If that
 * is this node under a loopback address, uses the route to `other`, another
 * node of the step; NULL if master should be elsewhere. Sends nothing. Fails if
 * a name does not resolve or the only route is loopback.
 */
int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err);

/* Whether the node has RDMA devices, which are entries of the directory
 * (/sys/class/infiniband).
 */
bool dtspank_net_has_rdma(const char *dir);

#endif /* DTSPANK_NET_H */
