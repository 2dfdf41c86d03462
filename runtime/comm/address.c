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

/* What each rank has put. */
static struct list *exchange(const struct dt_comm_world *world, int timeout_ms,
                             struct dt_error *err)
{
    struct list *lists = calloc((size_t)world->size, sizeof(*lists));
    if (!lists) {
        dt_error_set(err, EX_OSERR, "no memory for %d ranks", world->size);
        return NULL;
    }
    if (list_own(&lists[world->rank], err) < 0 ||
        world->put(world->ctx, hosts_key, &lists[world->rank], sizeof(*lists),
                   err) < 0 ||
        world->fence(world->ctx, timeout_ms, err) < 0)
        goto error;
    for (int r = 0; r < world->size; r++) {
        void *data;
        size_t bytes;
        if (world->get(world->ctx, r, hosts_key, &data, &bytes, err) < 0)
            goto error;
        memcpy(&lists[r], data,
               bytes < sizeof(*lists) ? bytes : sizeof(*lists));
        free(data);
    }
    return lists;
error:
    free(lists);
    return NULL;
}

static bool same_host(const struct dt_comm_world *world, int a, int b)
{
    char name[256];
    snprintf(name, sizeof(name), "%s", world->host(world->ctx, a));
    return !strcmp(name, world->host(world->ctx, b));
}

/* Does any host but that of `rank` have this address? */
static bool elsewhere(const struct dt_comm_world *world,
                      const struct list *lists, int rank, const char *text)
{
    for (int r = 0; r < world->size; r++)
        if (!same_host(world, r, rank) && list_has(&lists[r], text))
            return true;
    return false;
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

static int source_towards_rank(const struct dt_comm_world *world,
                               const struct list *lists, int target,
                               char address[DT_ADDRESS_BYTES],
                               struct dt_error *err)
{
    for (int i = 0; i < ADDRESSES && lists[target].text[i][0]; i++) {
        const char *text = lists[target].text[i];
        if (!elsewhere(world, lists, target, text) &&
            source_towards(text, address) &&
            list_has(&lists[world->rank], address) &&
            !elsewhere(world, lists, world->rank, address))
            return 0;
    }
    return dt_error_set(err, EX_UNAVAILABLE,
                        "%s has no route to rank %d on %s at %s (or any "
                        "other of its addresses): set distributed.interface",
                        world->host(world->ctx, world->rank), target,
                        world->host(world->ctx, target),
                        lists[target].text[0][0] ? lists[target].text[0]
                                                 : "no address");
}

int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      char address[DT_ADDRESS_BYTES], struct dt_error *err)
{
    struct list *lists;
    int other = 0, rc;
    if (options->interface)
        return address_of_interface(options->interface, address, err);
    while (other < world->size && same_host(world, other, 0))
        other++;
    if (other == world->size) {
        strcpy(address, "127.0.0.1");
        return 0;
    }
    lists = exchange(world, options->timeout_ms, err);
    if (!lists)
        return -1;
    rc = source_towards_rank(world, lists,
                             same_host(world, world->rank, 0) ? other : 0,
                             address, err);
    free(lists);
    return rc;
}
