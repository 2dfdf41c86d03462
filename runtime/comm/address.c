/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - which of this host's addresses leads to the others */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/net.h"
#include "comm/address.h"

enum {
    ADDRESSES = 16, /* of one host, at most */
};

static const char *const hosts_key = "dt.comm.hosts";

/* Numeric addresses of one host; "" after the last one. */
struct list {
    char text[ADDRESSES][DT_ADDRESS_BYTES];
};

/* Writes the numeric form. False if it is none that other hosts can use. */
static bool to_text(const struct sockaddr *sa, char text[DT_ADDRESS_BYTES])
{
    const struct sockaddr_in *v4 = (const void *)sa;
    const struct sockaddr_in6 *v6 = (const void *)sa;
    if (!sa)
        return false;
    if (sa->sa_family == AF_INET)
        return inet_ntop(AF_INET, &v4->sin_addr, text, DT_ADDRESS_BYTES);
    return sa->sa_family == AF_INET6 &&
           !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) &&
           inet_ntop(AF_INET6, &v6->sin6_addr, text, DT_ADDRESS_BYTES);
}

static int get_interfaces(struct ifaddrs **all, struct dt_error *err)
{
    if (getifaddrs(all) < 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    return 0;
}

static int address_of_interface(const char *name,
                                char address[DT_ADDRESS_BYTES],
                                struct dt_error *err)
{
    struct ifaddrs *all;
    char names[256] = "";
    if (get_interfaces(&all, err) < 0)
        return -1;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[DT_ADDRESS_BYTES];
        size_t used = strlen(names);
        if (!to_text(i->ifa_addr, text))
            continue;
        if (!strcmp(i->ifa_name, name)) {
            strcpy(address, text);
            freeifaddrs(all);
            return 0;
        }
        snprintf(names + used, sizeof(names) - used, " %s", i->ifa_name);
    }
    freeifaddrs(all);
    return dt_error_set(err, EX_CONFIG,
                        "distributed.interface: there is no interface \"%s\" "
                        "with an address on this host; there are:%s",
                        name, names);
}

static int list_own(struct list *own, struct dt_error *err)
{
    struct ifaddrs *all;
    int n = 0;
    memset(own, 0, sizeof(*own));
    if (get_interfaces(&all, err) < 0)
        return -1;
    for (struct ifaddrs *i = all; i && n < ADDRESSES; i = i->ifa_next)
        if (i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK) &&
            to_text(i->ifa_addr, own->text[n]))
            n++;
    freeifaddrs(all);
    return 0;
}

static bool list_has(const struct list *list, const char *text)
{
    for (int i = 0; i < ADDRESSES; i++)
        if (!strcmp(list->text[i], text))
            return true;
    return false;
}

static bool same_host(const struct dt_comm_world *world, int a, int b)
{
    char name[256];
    snprintf(name, sizeof(name), "%s", world->host(world->ctx, a));
    return !strcmp(name, world->host(world->ctx, b));
}

/* Two hosts at least: ranks on that of rank 0 look for `other`, the first rank
 * elsewhere, and all others for rank 0. Nobody reads the lists of more.
 */
static int exchange(const struct dt_comm_world *world, int timeout_ms,
                    int other, int target, struct list *own,
                    struct list *theirs, struct dt_error *err)
{
    void *data;
    size_t bytes;
    if (list_own(own, err) < 0)
        return -1;
    if ((world->rank == 0 || world->rank == other) &&
        world->put(world->ctx, hosts_key, own, sizeof(*own), err) < 0)
        return -1;
    if (world->fence(world->ctx, timeout_ms, err) < 0 ||
        world->get(world->ctx, target, hosts_key, &data, &bytes, err) < 0)
        return -1;
    memset(theirs, 0, sizeof(*theirs));
    memcpy(theirs, data, bytes < sizeof(*theirs) ? bytes : sizeof(*theirs));
    free(data);
    return 0;
}

/* The source address of packets to `target`. */
static bool source_towards(const char *target, char source[DT_ADDRESS_BYTES])
{
    enum { ANY_PORT = 9 };
    union dt_net_address to, from;
    socklen_t bytes = dt_net_parse(&to, target, ANY_PORT);
    return bytes > 0 && dt_net_source(&to.any, bytes, &from) == 0 &&
           to_text(&from.any, source);
}

static int source_towards_rank(const struct dt_comm_world *world, int target,
                               const struct list *own,
                               const struct list *theirs,
                               char address[DT_ADDRESS_BYTES],
                               struct dt_error *err)
{
    for (int i = 0; i < ADDRESSES && theirs->text[i][0]; i++) {
        const char *text = theirs->text[i];
        if (!list_has(own, text) && source_towards(text, address) &&
            list_has(own, address) && !list_has(theirs, address))
            return 0;
    }
    return dt_error_set(
        err, EX_UNAVAILABLE,
        "%s has no route to rank %d on %s at %s (or any other of its "
        "addresses): set distributed.interface",
        world->host(world->ctx, world->rank), target,
        world->host(world->ctx, target),
        theirs->text[0][0] ? theirs->text[0] : "no address");
}

int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      char address[DT_ADDRESS_BYTES], struct dt_error *err)
{
    struct list own, theirs;
    int other = 0, target;
    if (options->interface)
        return address_of_interface(options->interface, address, err);
    while (other < world->size && same_host(world, other, 0))
        other++;
    if (other == world->size) {
        strcpy(address, "127.0.0.1");
        return 0;
    }
    target = same_host(world, world->rank, 0) ? other : 0;
    if (exchange(world, options->timeout_ms, other, target, &own, &theirs,
                 err) < 0)
        return -1;
    return source_towards_rank(world, target, &own, &theirs, address, err);
}
