/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - numeric addresses: how far they lead, which one packets leave from */
#ifndef DT_BASE_NET_H
#define DT_BASE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"

enum {
    DT_NET_ADDRESS_BYTES = INET6_ADDRSTRLEN,
};

union dt_net_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Which hosts an address leads from to this one, the more the larger. */
enum dt_net_reach {
    DT_NET_HOST, /* this one: 127.0.0.0/8, ::1, or no address at all */
    DT_NET_LINK, /* those on the same network: 169.254.0.0/16, fe80::/10 */
    DT_NET_ROUTED,
};

/* The reach of an IPv4 or IPv6 address; NULL, as in a list of interfaces, and
 * other families are no address.
 */
enum dt_net_reach dt_net_reach(const struct sockaddr *address);

/* From numeric text and a port. Returns its length, or 0 if text is not
 * numeric.
 */
socklen_t dt_net_parse(union dt_net_address *address, const char *text,
                       unsigned port);

/* The numeric address without the port; "" if it is not IPv4 or IPv6. */
void dt_net_print(const union dt_net_address *address,
                  char text[DT_NET_ADDRESS_BYTES]);

/* True if `other` is the same IPv4 or IPv6 address, whatever the ports. NULL,
 * as in a list of interfaces, is no address.
 */
bool dt_net_same_host(const union dt_net_address *address,
                      const struct sockaddr *other);

/* Finds the address of this host that packets to `to` leave from; sends none.
 * Returns 0 or an errno.
 */
int dt_net_source(const struct sockaddr *to, socklen_t length,
                  union dt_net_address *source);

/* Listens on a port that the kernel chooses, at this address; NULL: at every
 * one of this host. Returns the socket, which does not block; -1: EX_OSERR.
 */
int dt_net_listen(const union dt_net_address *at, unsigned *port,
                  struct dt_error *err);

#endif /* DT_BASE_NET_H */
