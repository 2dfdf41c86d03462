/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - numeric addresses: how far they lead, which one packets leave from */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/net.h"

static enum dt_net_reach reach_v4(uint32_t address)
{
    if (address >> 24 == IN_LOOPBACKNET || address == INADDR_ANY)
        return DT_NET_HOST;
    return address >> 16 == 0xa9fe ? DT_NET_LINK : DT_NET_ROUTED;
}

enum dt_net_reach dt_net_reach(const struct sockaddr *address)
{
    union dt_net_address a;
    if (address && address->sa_family == AF_INET) {
        memcpy(&a.v4, address, sizeof(a.v4));
        return reach_v4(ntohl(a.v4.sin_addr.s_addr));
    }
    if (!address || address->sa_family != AF_INET6)
        return DT_NET_HOST;
    memcpy(&a.v6, address, sizeof(a.v6));
    if (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)) {
        uint32_t v4;
        memcpy(&v4, a.v6.sin6_addr.s6_addr + 12, sizeof(v4));
        return reach_v4(ntohl(v4));
    }
    if (IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr) ||
        IN6_IS_ADDR_UNSPECIFIED(&a.v6.sin6_addr))
        return DT_NET_HOST;
    return IN6_IS_ADDR_LINKLOCAL(&a.v6.sin6_addr) ? DT_NET_LINK : DT_NET_ROUTED;
}

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

static int open_listener(const union dt_net_address *at)
{
    const int off = 0;
    const int family = at->any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, &at->any,
             family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4)) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    int status = errno;
    close(fd);
    errno = status;
    return -1;
}

int dt_net_listen(const union dt_net_address *at, unsigned *port,
                  struct dt_error *err)
{
    const union dt_net_address any_v6 = {.v6.sin6_family = AF_INET6};
    const union dt_net_address any_v4 = {.v4.sin_family = AF_INET};
    union dt_net_address own = {0};
    socklen_t bytes = sizeof(own);
    int fd = open_listener(at ? at : &any_v6);
    if (fd < 0 && !at) /* a kernel without IPv6 */
        fd = open_listener(&any_v4);
    if (fd < 0 || getsockname(fd, &own.any, &bytes) != 0) {
        dt_error_set(err, EX_OSERR, "cannot listen: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = ntohs(own.v4.sin_port); /* IPv6 has it in the same place */
    return fd;
}
