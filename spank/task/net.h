/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - which network interface leads to rank 0 */
#ifndef DTSPANK_NET_H
#define DTSPANK_NET_H

#include <net/if.h>
#include <stdbool.h>

#include "base/error.h"

/* Writes the name of the interface on the way to the host called `master`. If
 * that is this node under a loopback address, then on the way to `other`,
 * another node of the step (NULL: master is expected elsewhere). Sends nothing.
 * Fails if a name does not resolve or there is no way but loopback.
 */
int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err);

/* Whether the node has RDMA devices, which are entries of dir,
 * /sys/class/infiniband.
 */
bool dtspank_net_has_rdma(const char *dir);

#endif /* DTSPANK_NET_H */
