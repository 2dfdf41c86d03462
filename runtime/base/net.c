/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - numeric addresses, and the one that packets to a host leave from */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/net.h"

socklen_t dt_net_parse(union dt_net_address *address, const char *text,
                       unsigned port)
{
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((in_port_t)port);
        return sizeof(address->v4);
    }
    if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons((in_port_t)port);
        return sizeof(address->v6);
    }
    return 0;
}

void dt_net_print(const union dt_net_address *address,
                  char text[DT_NET_ADDRESS_BYTES])
{
    const void *bytes = address->any.sa_family == AF_INET6
                            ? (const void *)&address->v6.sin6_addr
                            : (const void *)&address->v4.sin_addr;
    text[0] = '\0';
    inet_ntop(address->any.sa_family, bytes, text, DT_NET_ADDRESS_BYTES);
}

bool dt_net_same_host(const union dt_net_address *address,
                      const struct sockaddr *other)
{
    union dt_net_address b;
    if (!other || other->sa_family != address->any.sa_family)
        return false;
    if (other->sa_family == AF_INET) {
        memcpy(&b.v4, other, sizeof(b.v4));
        return address->v4.sin_addr.s_addr == b.v4.sin_addr.s_addr;
    }
    if (other->sa_family != AF_INET6)
        return false;
    memcpy(&b.v6, other, sizeof(b.v6));
    return IN6_ARE_ADDR_EQUAL(&address->v6.sin6_addr, &b.v6.sin6_addr);
}

/* Connecting a datagram socket chooses the route, and sends nothing. */
int dt_net_source(const struct sockaddr *to, socklen_t length,
                  union dt_net_address *source)
{
    socklen_t size = sizeof(*source);
    int status = 0;
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, to, length) != 0 ||
        getsockname(fd, &source->any, &size) != 0)
        status = errno;
    close(fd);
    return status;
}
