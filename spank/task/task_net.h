/* SPDX-License-Identifier: Apache-2.0 */
/* task_net.h - finds the network interface that leads to rank 0 */
#ifndef DTSPANK_TASK_NET_H
#define DTSPANK_TASK_NET_H

#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>

#include "base/net.h"

/* Writes the name of the interface of the list that has the address `source`;
 * "" if nobody else reaches that, or no interface has it. Who is told a name
 * takes the first address of that interface: -1 if that does not lead as far,
 * as on lo, where 127.0.0.1 comes before a node's own address.
 */
int dtspank_net_owner(const struct ifaddrs *list,
                      const union dt_net_address *source,
                      char name[IF_NAMESIZE], struct dt_error *err);

/* Writes the name of the interface on the route to the host `master`. If that
 * is this node under a loopback address, uses the route to `other`, another
 * node of the step; NULL if master should be elsewhere. Sends nothing. Fails if
 * a name does not resolve, the only route is loopback, or the interface is none
 * to be told (see above).
 */
int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err);

/* Whether the node has RDMA devices, which are entries of the directory
 * (/sys/class/infiniband).
 */
bool dtspank_net_has_rdma(const char *dir);

#endif /* DTSPANK_TASK_NET_H */
