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

/* The kernel sends a first packet again after 1, 3 and 7 s. */
static const struct dt_reach_times times = {.answer_ms = 10000,
                                            .prefer_ms = 1500};

static const char *const hosts_key = "dt.comm.hosts";

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

void dt_address_list(const struct ifaddrs *all, const char *first,
                     struct dt_address_list *list)
{
    const struct {
        enum dt_net_reach reach;
        bool preferred;
    } order[] = {
        {DT_NET_ROUTED, true},
        {DT_NET_ROUTED, false},
        {DT_NET_LINK, true},
        {DT_NET_LINK, false},
    };
    int n = 0;
    memset(list, 0, sizeof(*list));
    for (size_t k = 0; k < sizeof(order) / sizeof(*order); k++)
        for (const struct ifaddrs *i = all; i && n < DT_ADDRESSES;
             i = i->ifa_next)
            if (i->ifa_flags & IFF_UP &&
                dt_net_reach(i->ifa_addr) == order[k].reach &&
                (first && !strcmp(i->ifa_name, first)) == order[k].preferred &&
                to_text(i->ifa_addr, list->text[n]))
                n++;
}

static int get_interfaces(struct ifaddrs **all, struct dt_error *err)
{
    if (getifaddrs(all) < 0)
        return dt_error_set(err, EX_OSERR, "getifaddrs: %s", strerror(errno));
    return 0;
}

/* The address of the interface that leads farthest: 127.0.0.1 of lo only if
 * that has no other.
 */
static int address_of_interface(const char *name,
                                char address[DT_ADDRESS_BYTES],
                                struct dt_error *err)
{
    struct ifaddrs *all;
    char names[256] = "";
    int best = -1;
    if (get_interfaces(&all, err) < 0)
        return -1;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[DT_ADDRESS_BYTES];
        size_t used = strlen(names);
        int reach = (int)dt_net_reach(i->ifa_addr);
        if (!to_text(i->ifa_addr, text))
            continue;
        if (!strcmp(i->ifa_name, name) && reach > best) {
            strcpy(address, text);
            best = reach;
        }
        snprintf(names + used, sizeof(names) - used, " %s", i->ifa_name);
    }
    freeifaddrs(all);
    if (best >= 0)
        return 0;
    return dt_error_set(err, EX_CONFIG,
                        "distributed.interface: there is no interface \"%s\" "
                        "with an address on this host; there are:%s",
                        name, names);
}

static int list_own(struct dt_address_list *own, struct dt_error *err)
{
    struct ifaddrs *all;
    if (get_interfaces(&all, err) < 0)
        return -1;
    dt_address_list(all, getenv("GLOO_SOCKET_IFNAME"), own);
    freeifaddrs(all);
    return 0;
}

static bool list_has(const struct dt_address_list *list, const char *text)
{
    for (int i = 0; i < DT_ADDRESSES; i++)
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

/* Two hosts at least: ranks on that of rank 0 knock at `other`, the first rank
 * elsewhere, and all others at rank 0. Nobody reads the lists of more.
 */
static int exchange(const struct dt_comm_world *world, int timeout_ms,
                    int other, int target, struct dt_address_list *own,
                    struct dt_address_list *theirs, struct dt_door **door,
                    struct dt_error *err)
{
    void *data;
    size_t bytes;
    if (list_own(own, err) < 0)
        return -1;
    if (world->rank == 0 || world->rank == other) {
        *door = dt_door_open(&own->port, err);
        if (!*door ||
            world->put(world->ctx, hosts_key, own, sizeof(*own), err) < 0)
            return -1;
    }
    if (world->fence(world->ctx, timeout_ms, err) < 0 ||
        world->get(world->ctx, target, hosts_key, &data, &bytes, err) < 0)
        return -1;
    memset(theirs, 0, sizeof(*theirs));
    memcpy(theirs, data, bytes < sizeof(*theirs) ? bytes : sizeof(*theirs));
    free(data);
    return 0;
}

/* Is there a route to `target`, from an address that its host does not have? */
static bool has_route(const union dt_net_address *target,
                      const struct dt_address_list *own,
                      const struct dt_address_list *theirs)
{
    char source[DT_ADDRESS_BYTES];
    union dt_net_address from;
    socklen_t bytes = target->any.sa_family == AF_INET6 ? sizeof(target->v6)
                                                        : sizeof(target->v4);
    return dt_net_source(&target->any, bytes, &from) == 0 &&
           to_text(&from.any, source) && list_has(own, source) &&
           !list_has(theirs, source);
}

/* The source address of packets to the first address of `target` that answers.
 */
static int source_towards(const struct dt_comm_world *world, int target,
                          const struct dt_address_list *own,
                          const struct dt_address_list *theirs, int timeout_ms,
                          char address[DT_ADDRESS_BYTES], struct dt_error *err)
{
    union dt_net_address doors[DT_ADDRESSES], source;
    struct dt_reach_times wait = times;
    char host[256];
    int count = 0;
    snprintf(host, sizeof(host), "%s", world->host(world->ctx, world->rank));
    for (int i = 0; i < DT_ADDRESSES && theirs->text[i][0]; i++)
        if (!list_has(own, theirs->text[i]) &&
            dt_net_parse(&doors[count], theirs->text[i], theirs->port) > 0 &&
            has_route(&doors[count], own, theirs))
            count++;
    if (count == 0)
        return dt_error_set(
            err, EX_UNAVAILABLE,
            "%s has no route to rank %d on %s at %s (or any other of its "
            "addresses): set distributed.interface",
            host, target, world->host(world->ctx, target),
            theirs->text[0][0] ? theirs->text[0] : "no address");
    if (timeout_ms < wait.answer_ms)
        wait.answer_ms = timeout_ms;
    if (dt_reach_first(doors, count, &wait, &source, err) < 0)
        return dt_error_prefix(
            err, "%s does not reach rank %d on %s: set distributed.interface",
            host, target, world->host(world->ctx, target));
    dt_net_print(&source, address);
    return 0;
}

int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      char address[DT_ADDRESS_BYTES], struct dt_door **door,
                      struct dt_error *err)
{
    struct dt_address_list own, theirs;
    int other = 0, target;
    *door = NULL;
    if (options->interface)
        return address_of_interface(options->interface, address, err);
    while (other < world->size && same_host(world, other, 0))
        other++;
    if (other == world->size) {
        strcpy(address, "127.0.0.1");
        return 0;
    }
    target = same_host(world, world->rank, 0) ? other : 0;
    if (exchange(world, options->timeout_ms, other, target, &own, &theirs, door,
                 err) < 0)
        return -1;
    return source_towards(world, target, &own, &theirs, options->timeout_ms,
                          address, err);
}
