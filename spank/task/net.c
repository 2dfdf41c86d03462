/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - finds the network interface by which the kernel routes to a host */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>

#include "base/net.h"
#include "spank/task/net.h"

/* The address from which this node reaches host. A name server that is silent
 * must not hold up the task.
 */
static int source_towards(const char *host, union dt_net_address *source,
                          struct dt_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int status = EHOSTUNREACH;
    if (res_init() == 0) {
        _res.retrans = 1; /* seconds */
        _res.retry = 1;
    }
    int rc = getaddrinfo(host, "9", &hints, &list);
    if (rc != 0)
        return dt_error_set(err, EX_NOHOST, "%.64s: %s", host,
                            rc == EAI_SYSTEM ? strerror(errno)
                                             : gai_strerror(rc));
    for (struct addrinfo *to = list; to && status != 0; to = to->ai_next)
        status = dt_net_source(to->ai_addr, to->ai_addrlen, source);
    freeaddrinfo(list);
    if (status != 0)
        return dt_error_set(err, EX_NOHOST, "%.64s: %s", host,
                            strerror(status));
    return 0;
}

/* Writes the name of the interface that has the address; an empty name if it is
 * loopback, or none.
 */
static int find_owner(const union dt_net_address *source,
                      char name[IF_NAMESIZE], struct dt_error *err)
{
    struct ifaddrs *list = NULL;
    name[0] = '\0';
    if (getifaddrs(&list) != 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    for (struct ifaddrs *i = list; i; i = i->ifa_next)
        if (dt_net_same_host(source, i->ifa_addr) &&
            !(i->ifa_flags & IFF_LOOPBACK)) {
            strncpy(name, i->ifa_name, IF_NAMESIZE - 1);
            name[IF_NAMESIZE - 1] = '\0';
            break;
        }
    freeifaddrs(list);
    return 0;
}

static int interface_towards(const char *host, char name[IF_NAMESIZE],
                             struct dt_error *err)
{
    union dt_net_address source;
    if (source_towards(host, &source, err) != 0)
        return -1;
    return find_owner(&source, name, err);
}

int dtspank_net_interface(const char *master, const char *other,
                          char name[IF_NAMESIZE], struct dt_error *err)
{
    if (interface_towards(master, name, err) != 0)
        return -1;
    if (name[0] == '\0' && other && interface_towards(other, name, err) != 0)
        return -1;
    if (name[0] == '\0')
        return dt_error_set(err, EX_NOHOST,
                            "%.64s: the name resolves to this node itself",
                            master);
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
