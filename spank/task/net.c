/* SPDX-License-Identifier: Apache-2.0 */
/* net.c - asks the kernel for its route, and whose address that starts from */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spank/task/net.h"

/* Connecting a datagram socket chooses the route, and sends nothing. Returns 0
 * or an errno.
 */
static int find_source(const struct addrinfo *to,
                       struct sockaddr_storage *source)
{
    socklen_t size = sizeof(*source);
    int status = 0;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)source, &size) != 0)
        status = errno;
    close(fd);
    return status;
}

/* The address from which this node reaches host. A name server that is silent
 * must not hold up the task.
 */
static int source_towards(const char *host, struct sockaddr_storage *source,
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
        status = find_source(to, source);
    freeaddrinfo(list);
    if (status != 0)
        return dt_error_set(err, EX_NOHOST, "%.64s: %s", host,
                            strerror(status));
    return 0;
}

static bool is_same(const struct sockaddr *a, const struct sockaddr_storage *b)
{
    if (!a || a->sa_family != b->ss_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr,
                  sizeof(struct in6_addr)) == 0;
}

/* Writes the name of the interface that has the address; an empty name if it is
 * loopback, or none.
 */
static int find_owner(const struct sockaddr_storage *source,
                      char name[IF_NAMESIZE], struct dt_error *err)
{
    struct ifaddrs *list = NULL;
    name[0] = '\0';
    if (getifaddrs(&list) != 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    for (struct ifaddrs *i = list; i; i = i->ifa_next)
        if (is_same(i->ifa_addr, source) && !(i->ifa_flags & IFF_LOOPBACK)) {
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
    struct sockaddr_storage source;
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
                            "%.64s: the name leads back to this node", master);
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
