/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.c - which addresses lead to other ranks: a choice, and connections to
 * them
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/rendezvous.h"

enum {
    AGAIN_MS = 20, /* before another attempt */
};

/* A connection to one address. */
struct attempt {
    int fd;    /* -1: it has failed */
    int error; /* an errno */
    bool connected, proved;
    struct dt_handshake handshake;
};

static void attempt_end(struct attempt *a, int error)
{
    a->error = error;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static void attempt_begin(struct attempt *a, const struct dt_reach *who,
                          const union dt_net_address *at)
{
    socklen_t bytes =
        at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
    *a = (struct attempt){
        .fd = socket(at->any.sa_family,
                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    dt_handshake_begin(&a->handshake, who->token, who->rank, who->size,
                       who->peer);
    if (a->fd < 0 ||
        (connect(a->fd, &at->any, bytes) != 0 && errno != EINPROGRESS))
        attempt_end(a, errno);
}

static void attempt_event(struct attempt *a)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (!a->connected)
        getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error) {
        attempt_end(a, error);
        return;
    }
    a->connected = true;
    int rc = dt_handshake_continue(&a->handshake, a->fd);
    if (rc < 0)
        attempt_end(a, errno);
    a->proved = rc > 0;
}

static struct pollfd wait_of(const struct attempt *a)
{
    bool sends = !a->connected || dt_handshake_sends(&a->handshake);
    return (struct pollfd){.fd = a->proved ? -1 : a->fd,
                           .events = sends ? POLLOUT : POLLIN};
}

/* Waits for events of those before `end` that are under way. */
static void await_events(struct attempt *attempts, int end, int ms)
{
    struct pollfd polls[DT_REACH_ADDRESSES];
    for (int i = 0; i < end; i++)
        polls[i] = wait_of(&attempts[i]);
    if (poll(polls, (nfds_t)end, ms) <= 0)
        return;
    for (int i = 0; i < end; i++)
        if (polls[i].revents)
            attempt_event(&attempts[i]);
}

/* Returns the first that has succeeded, or `count`; *waits: may one before that
 * still succeed?
 */
static int first_proved(const struct attempt *attempts, int count, bool *waits)
{
    int i = 0;
    *waits = false;
    for (; i < count && !attempts[i].proved; i++)
        *waits |= attempts[i].fd >= 0;
    return i;
}

/* Runs the attempts until no better one can succeed. Returns the best, or
 * `count`.
 */
static int run_attempts(struct attempt *attempts, int count,
                        const struct dt_reach_times *times)
{
    double deadline = dt_clock_now() + times->answer_ms / 1e3;
    int found = count;
    for (;;) {
        bool waits;
        int first = first_proved(attempts, count, &waits);
        double now = dt_clock_now();
        if (first < found && now + times->prefer_ms / 1e3 < deadline)
            deadline = now + times->prefer_ms / 1e3;
        found = first;
        if (!waits || now >= deadline)
            return found;
        await_events(attempts, found, (int)((deadline - now) * 1e3) + 1);
    }
}

static int describe(const union dt_net_address *addresses,
                    const struct attempt *attempts, int count, int answer_ms,
                    struct dt_error *err)
{
    struct dt_error all = {.text = ""};
    for (int i = 0; i < count; i++) {
        const struct attempt *a = &attempts[i];
        char at[DT_NET_ADDRESS_BYTES], late[64];
        dt_net_print(&addresses[i], at);
        snprintf(late, sizeof(late), "no %s within %d ms",
                 a->connected ? "proof" : "answer", answer_ms);
        dt_error_add(&all, EX_UNAVAILABLE, "%s port %u: %s", at,
                     (unsigned)ntohs(addresses[i].v4.sin_port),
                     a->fd >= 0 ? late : dt_handshake_error(a->error));
    }
    return dt_error_set(err, EX_UNAVAILABLE, "%s", all.text);
}

int dt_reach_first(const struct dt_reach *who,
                   const union dt_net_address *addresses, int count,
                   const struct dt_reach_times *times, int *fd,
                   struct dt_error *err)
{
    struct attempt attempts[DT_REACH_ADDRESSES];
    for (int i = 0; i < count; i++)
        attempt_begin(&attempts[i], who, &addresses[i]);
    int found = run_attempts(attempts, count, times), rc = found;
    if (found < count) {
        *fd = attempts[found].fd;
        attempts[found].fd = -1;
    } else {
        rc = describe(addresses, attempts, count, times->answer_ms, err);
    }
    for (int i = 0; i < count; i++)
        attempt_end(&attempts[i], 0);
    return rc;
}

int dt_reach_peer(const struct dt_reach *who,
                  const union dt_net_address *address, int ms,
                  struct dt_error *err)
{
    double deadline = dt_clock_now() + ms / 1e3;
    struct attempt attempt;
    for (;;) {
        const struct dt_reach_times left = {
            .answer_ms = (int)((deadline - dt_clock_now()) * 1e3)};
        attempt_begin(&attempt, who, address);
        if (run_attempts(&attempt, 1, &left) == 0)
            return attempt.fd;
        /* it listens, but closed this one */
        if (attempt.error != ECONNRESET || dt_clock_now() >= deadline)
            break;
        dt_clock_sleep(AGAIN_MS / 1e3);
    }
    describe(address, &attempt, 1, ms, err);
    attempt_end(&attempt, 0);
    return -1;
}

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
static int address_of_interface(const char *name, union dt_net_address *address,
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
            dt_net_parse(address, text, 0);
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
struct choice {
    const struct dt_comm_world *world;
    int other, target; /* at whom this rank knocks */
    const struct dt_comm_options *options;
    struct dt_address_list own, theirs;
    struct dt_token *token;
    struct dt_rendezvous *door;
};

static int open_door(struct choice *c, struct dt_error *err)
{
    const struct dt_comm_world *world = c->world;
    c->door = dt_rendezvous_listen(NULL, err);
    if (!c->door)
        return -1;
    c->own.port = dt_rendezvous_port(c->door);
    return world->put(world->ctx, hosts_key, &c->own, sizeof(c->own), err);
}

static int start_door(struct choice *c, struct dt_error *err)
{
    const struct dt_rendezvous_options options = {
        .token = c->token,
        .rank = c->world->rank,
        .size = c->world->size,
        .warn = c->options->warn,
    };
    return dt_rendezvous_start(c->door, &options, err);
}

static int exchange(struct choice *c, struct dt_error *err)
{
    const struct dt_comm_world *world = c->world;
    bool opens = world->rank == 0 || world->rank == c->other;
    if (list_own(&c->own, err) < 0 || (opens && open_door(c, err) < 0) ||
        world->fence(world->ctx, c->options->timeout_ms, err) < 0 ||
        dt_token_fetch(world, c->options->secret, c->token, err) < 0 ||
        (opens && start_door(c, err) < 0))
        return -1;
    return dt_comm_fetch(world, c->target, hosts_key, &c->theirs,
                         sizeof(c->theirs), err);
}

/* Is there a route to the target at `at`, from an address that its host does
 * not have?
 */
static bool has_route(const struct choice *c, const union dt_net_address *at)
{
    char source[DT_ADDRESS_BYTES];
    union dt_net_address from;
    socklen_t bytes =
        at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
    return dt_net_source(&at->any, bytes, &from) == 0 &&
           to_text(&from.any, source) && list_has(&c->own, source) &&
           !list_has(&c->theirs, source);
}

/* The address of this end of a connection, without its port. */
static int address_of_socket(int fd, union dt_net_address *address,
                             struct dt_error *err)
{
    socklen_t bytes = sizeof(*address);
    if (getsockname(fd, &address->any, &bytes) < 0)
        return dt_error_set(err, EX_OSERR, "getsockname: %s", strerror(errno));
    address->v4.sin_port = 0; /* IPv6 has it in the same place */
    return 0;
}

/* The source address of packets to the first address of the target at which it
 * proves to be it.
 */
static int knock(const struct choice *c, union dt_net_address *address,
                 struct dt_error *err)
{
    const struct dt_comm_world *world = c->world;
    const struct dt_reach who = {.token = c->token,
                                 .rank = world->rank,
                                 .size = world->size,
                                 .peer = c->target};
    struct dt_reach_times wait = times;
    union dt_net_address doors[DT_ADDRESSES];
    char host[256];
    int count = 0, fd;
    snprintf(host, sizeof(host), "%s", world->host(world->ctx, world->rank));
    for (int i = 0; i < DT_ADDRESSES && c->theirs.text[i][0]; i++)
        if (!list_has(&c->own, c->theirs.text[i]) &&
            dt_net_parse(&doors[count], c->theirs.text[i], c->theirs.port) >
                0 &&
            has_route(c, &doors[count]))
            count++;
    if (count == 0)
        return dt_error_set(
            err, EX_UNAVAILABLE,
            "%s has no route to rank %d on %s at %s (or any other of its "
            "addresses): set distributed.interface",
            host, c->target, world->host(world->ctx, c->target),
            c->theirs.text[0][0] ? c->theirs.text[0] : "no address");
    if (c->options->timeout_ms < wait.answer_ms)
        wait.answer_ms = c->options->timeout_ms;
    if (dt_reach_first(&who, doors, count, &wait, &fd, err) < 0)
        return dt_error_prefix(
            err, "%s does not reach rank %d on %s: set distributed.interface",
            host, c->target, world->host(world->ctx, c->target));
    int rc = address_of_socket(fd, address, err);
    close(fd);
    return rc;
}

int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      struct dt_token *token, union dt_net_address *address,
                      struct dt_rendezvous **door, struct dt_error *err)
{
    struct choice c = {.world = world, .options = options, .token = token};
    *door = NULL;
    if (options->interface)
        return address_of_interface(options->interface, address, err);
    while (c.other < world->size && same_host(world, c.other, 0))
        c.other++;
    if (c.other == world->size) {
        dt_net_parse(address, "127.0.0.1", 0);
        return 0;
    }
    c.target = same_host(world, world->rank, 0) ? c.other : 0;
    int rc = exchange(&c, err) < 0 ? -1 : knock(&c, address, err);
    *door = c.door;
    return rc;
}
