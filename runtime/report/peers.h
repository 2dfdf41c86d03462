/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h - which hosts are connected to a port, as the kernel lists it */
#ifndef DT_REPORT_PEERS_H
#define DT_REPORT_PEERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Zero at first; free addresses at the end. */
struct dt_peers {
    bool listens; /* somebody does, on the port */
    size_t count; /* of different addresses, ever seen */
    size_t size;
    struct in6_addr *addresses; /* IPv4 as ::ffff:a.b.c.d */
};

/* Adds what a table like /proc/net/tcp (or tcp6) says about `port`: the other
 * ends of its connections, of those closed a while ago as well, but not those
 * on the host itself. Lines that are not understood are left out.
 */
void dt_peers_read(struct dt_peers *peers, FILE *table, unsigned port);

/* Whether a connection from that address was seen. */
bool dt_peers_has(const struct dt_peers *peers, const struct in6_addr *address);

#endif /* DT_REPORT_PEERS_H */
