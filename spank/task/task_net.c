/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task_net.c - finds the network interface by which the kernel routes to a host
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>

#include "base/net.h"
#include "spank/task/task_net.h"

static int cannot_find(const char *host, const char *why, struct dt_error *err)
{
    return dt_error_set(err, EX_NOHOST,
                        "this node cannot find MASTER_ADDR: %.64s: %s", host,
                        why);
}

/* The address from which this node reaches host: of several the one with the
 * largest reach. A name server that is silent must not hold up the task.
 */
static int source_towards(const char *host, union dt_net_address *source,
                          struct dt_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    union dt_net_address from;
    int status = EHOSTUNREACH;
    bool found = false;
    if (res_init() == 0) {
        _res.retrans = 1; /* seconds */
        _res.retry = 1;
    }
    int rc = getaddrinfo(host, "9", &hints, &list);
    if (rc != 0)
        return cannot_find(
            host, rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc), err);
    for (struct addrinfo *to = list; to; to = to->ai_next) {
        status = dt_net_source(to->ai_addr, to->ai_addrlen, &from);
        if (status != 0 ||
            (found && dt_net_reach(&from.any) <= dt_net_reach(&source->any)))
            continue;
        *source = from;
        found = true;
    }
    freeaddrinfo(list);
    return found ? 0 : cannot_find(host, strerror(status), err);
}

int dtspank_net_owner(const struct ifaddrs *list,
                      const union dt_net_address *source,
                      char name[IF_NAMESIZE], struct dt_error *err)
{
    const struct ifaddrs *owner = list, *first = list;
    union dt_net_address other = {0};
    char text[DT_NET_ADDRESS_BYTES], taken[DT_NET_ADDRESS_BYTES];
    name[0] = '\0';
    while (owner && !dt_net_same_host(source, owner->ifa_addr))
        owner = owner->ifa_next;
    if (!owner || dt_net_reach(&source->any) == DT_NET_HOST)
        return 0;
    while (strcmp(first->ifa_name, owner->ifa_name) != 0 || !first->ifa_addr ||
           (first->ifa_addr->sa_family != AF_INET &&
            first->ifa_addr->sa_family != AF_INET6))
        first = first->ifa_next;
    if (dt_net_reach(first->ifa_addr) >= dt_net_reach(&source->any)) {
        strncpy(name, owner->ifa_name, IF_NAMESIZE - 1);
        name[IF_NAMESIZE - 1] = '\0';
        return 0;
    }
    dt_net_print(source, text);
    if (first->ifa_addr->sa_family == AF_INET)
        memcpy(&other.v4, first->ifa_addr, sizeof(other.v4));
    else
        memcpy(&other.v6, first->ifa_addr, sizeof(other.v6));
    dt_net_print(&other, taken);
    return dt_error_set(err, EX_NOHOST,
                        "this node has the address %s on %s, where %s comes "
                        "first, and libraries would use that",
                        text, owner->ifa_name, taken);
}

static int interface_towards(const char *host, char name[IF_NAMESIZE],
                             struct dt_error *err)
{
    union dt_net_address source;
    struct ifaddrs *list = NULL;
    if (source_towards(host, &source, err) != 0)
        return -1;
    if (getifaddrs(&list) != 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    int rc = dtspank_net_owner(list, &source, name, err);
    freeifaddrs(list);
    return rc;
}

int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err)
{
    if (interface_towards(master, name, err) != 0)
        return -1;
    if (name[0] == '\0' && other && interface_towards(other, name, err) != 0)
        return -1;
    if (name[0] == '\0')
        return cannot_find(master, "the name resolves to this node itself",
                           err);
    return 0;
}

bool dtspank_net_has_rdma(const char *path)
{
    bool found = false;
    DIR *dir = opendir(path);
    for (struct dirent *entry; !found && dir && (entry = readdir(dir));)
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}
