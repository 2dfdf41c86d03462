/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - where the other ranks reach this one; for comm/ only */
#ifndef DT_COMM_ADDRESS_H
#define DT_COMM_ADDRESS_H

#include <netinet/in.h>

#include "comm/comm.h"

enum {
    DT_ADDRESS_BYTES = INET6_ADDRSTRLEN,
};

/* Writes the numeric address of this host that the others shall use: the
 * loopback address if all ranks are on one host, that of options->interface,
 * or the source address of packets to rank 0's host (for the ranks there: to
 * the first other host). No names are resolved: hosts tell each other their
 * addresses; one that both hosts have (a bridge of containers) is never used.
 * -1: EX_CONFIG if there is no such interface, EX_UNAVAILABLE if there is no
 * route.
 */
int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      char address[DT_ADDRESS_BYTES], struct dt_error *err);

#endif /* DT_COMM_ADDRESS_H */
