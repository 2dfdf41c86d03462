/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - where the other ranks reach this one; for comm/ only */
#ifndef DT_COMM_ADDRESS_H
#define DT_COMM_ADDRESS_H

#include <ifaddrs.h>
#include <netinet/in.h>

#include "comm/comm.h"
#include "comm/reach.h"
#include "comm/rendezvous.h"

enum {
    DT_ADDRESS_BYTES = INET6_ADDRSTRLEN,
    DT_ADDRESSES = DT_REACH_ADDRESSES, /* of one host, at most */
};

/* Numeric addresses of one host; "" after the last one. */
struct dt_address_list {
    char text[DT_ADDRESSES][DT_ADDRESS_BYTES];
    unsigned port; /* of the host's door, see below */
};

/* Fills the list with what other hosts may reach of the interfaces `all`: those
 * of the largest reach first, among them those of the interface `first` (NULL:
 * none is preferred). Addresses that name no interface of the other host, such
 * as fe80::1, are left out.
 */
void dt_address_list(const struct ifaddrs *all, const char *first,
                     struct dt_address_list *list);

/* Writes the address of this host that the others shall use, without a port:
 * the loopback address if all ranks are on one host, that of
 * options->interface, or the source address of packets to rank 0's host (for
 * the ranks there: to the first other host). No names are resolved: hosts tell
 * each other their addresses, that of the interface in GLOO_SOCKET_IFNAME
 * first, which the plugin has set to the one towards MASTER_ADDR; the first
 * where the rank proves to be one counts. An address that both hosts have (a
 * bridge of containers) is never used. If it takes that, fetches the token,
 * which rank 0 has offered, and opens a door where others knock, *door (or
 * NULL): the caller closes it once all ranks have chosen, also on failure. -1:
 * EX_CONFIG if there is no such interface, EX_UNAVAILABLE if there is no way,
 * EX_OSERR.
 */
int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      struct dt_token *token, union dt_net_address *address,
                      struct dt_rendezvous **door, struct dt_error *err);

#endif /* DT_COMM_ADDRESS_H */
