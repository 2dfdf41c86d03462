/* SPDX-License-Identifier: Apache-2.0 */
/* connected.h - reads from the kernel's tables which hosts are connected to a
 * port
 */
#ifndef DT_CONSOLE_CONNECTED_H
#define DT_CONSOLE_CONNECTED_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Initialize to zero; free addresses at the end. */
struct dt_connected {
    unsigned listens; /* the port on which a program listens; 0: none */
    size_t count;     /* how many different addresses have been seen */
    size_t size;
    struct in6_addr *addresses; /* IPv4 as ::ffff:a.b.c.d */
};

/* Adds the remote addresses of the connections to ports[count] from a table
 * like /proc/net/tcp (or tcp6), including recently closed connections but not
 * those within the host itself. A port of 0 is none. Skips lines that it cannot
 * parse.
 */
void dt_connected_read(struct dt_connected *connected, FILE *table,
                       const unsigned *ports, size_t count);

/* Whether a connection from that address was seen. */
bool dt_connected_has(const struct dt_connected *connected,
                      const struct in6_addr *address);

#endif /* DT_CONSOLE_CONNECTED_H */
