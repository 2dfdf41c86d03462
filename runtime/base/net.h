/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - numeric addresses, and the one that packets to a host leave from */
#ifndef DT_BASE_NET_H
#define DT_BASE_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

enum {
    DT_NET_ADDRESS_BYTES = INET6_ADDRSTRLEN,
};

union dt_net_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

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

#endif /* DT_BASE_NET_H */
