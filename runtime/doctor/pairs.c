/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - addresses of nodes, and connections from every node to every other
 * one at the same time
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "doctor/doctor_impl.h"

/* --- addresses --- */

enum {
    RESOLVE_MS = 2000,
};

bool dt_doctor_interface(const union dt_net_address *address, char *name,
                         size_t size)
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next)
        if (dt_net_same_host(address, i->ifa_addr)) {
            snprintf(name, size, "%s", i->ifa_name);
            found = true;
        }
    freeifaddrs(list);
    return found;
}

/* A question to the resolver, which may take minutes. Both the thread and the
 * caller that waits for it hold the question; the last holder frees it.
 */
struct question {
    pthread_mutex_t mutex;
    int holders;
    char *name;
    int rc;
    union dt_net_address address;
};

static void question_drop(struct question *q)
{
    pthread_mutex_lock(&q->mutex);
    bool last = --q->holders == 0;
    pthread_mutex_unlock(&q->mutex);
    if (!last)
        return;
    pthread_mutex_destroy(&q->mutex);
    free(q->name);
    free(q);
}

static void *question_ask(void *arg)
{
    struct question *q = arg;
    struct addrinfo *list = NULL;
    struct addrinfo want = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    q->rc = getaddrinfo(q->name, NULL, &want, &list);
    if (q->rc != 0) {
        want.ai_family = AF_INET6;
        q->rc = getaddrinfo(q->name, NULL, &want, &list);
    }
    const struct addrinfo *best = list;
    for (const struct addrinfo *i = list; i; i = i->ai_next)
        if (dt_net_reach(i->ai_addr) > dt_net_reach(best->ai_addr))
            best = i;
    if (best)
        memcpy(&q->address, best->ai_addr, best->ai_addrlen);
    if (list)
        freeaddrinfo(list);
    question_drop(q);
    return NULL;
}

static struct question *question_create(const char *name)
{
    struct question *q = calloc(1, sizeof(*q));
    if (!q)
        return NULL;
    q->name = strdup(name);
    q->holders = 2;
    pthread_mutex_init(&q->mutex, NULL);
    if (q->name)
        return q;
    q->holders = 1;
    question_drop(q);
    return NULL;
}

bool dt_doctor_resolve(const char *name, int timeout_ms,
                       union dt_net_address *address, const char **why)
{
    struct timespec until = dt_clock_in(CLOCK_REALTIME, timeout_ms);
    struct question *q = question_create(name);
    pthread_t thread;
    *why = "out of memory";
    if (!q)
        return false;
    if (pthread_create(&thread, NULL, question_ask, q) != 0) {
        question_drop(q);
        question_drop(q);
        return false;
    }
    if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
        pthread_detach(thread);
        question_drop(q);
        *why = "the name service does not answer";
        return false;
    }
    bool found = q->rc == 0;
    *address = q->address;
    *why = found ? NULL : gai_strerror(q->rc);
    question_drop(q);
    return found;
}

/* Finds the source address of packets to `launcher`. */
static bool source_towards(const char *launcher, union dt_net_address *address)
{
    enum { ANY_PORT = 9 };
    union dt_net_address to;
    socklen_t length = dt_net_parse(&to, launcher, ANY_PORT);
    return length > 0 && dt_net_source(&to.any, length, address) == 0;
}

void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_NET_ADDRESS_BYTES])
{
    union dt_net_address address;
    char interface[64];
    const char *why;
    if (dt_doctor_resolve(name, RESOLVE_MS, &address, &why)) {
        dt_net_print(&address, text);
        if (dt_net_reach(&address.any) == DT_NET_HOST)
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s there, where no other "
                          "node reaches it: correct /etc/hosts",
                          text);
        else if (!dt_doctor_interface(&address, interface, sizeof(interface)))
            dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                          "its own name resolves to %s, which is not one of "
                          "its addresses: correct /etc/hosts or DNS",
                          text);
        else
            return;
    } else {
        dt_doctor_bad(notes, DT_DOCTOR_INTERFACE,
                      "its own name does not resolve there (%s): correct "
                      "/etc/hosts or DNS",
                      why);
    }
    if (launcher && source_towards(launcher, &address))
        dt_net_print(&address, text);
    else
        snprintf(text, DT_NET_ADDRESS_BYTES, "127.0.0.1");
}

/* --- pairs --- */

enum {
    ROUNDS = 8, /* exchanges with the lowest node; the fastest counts */
    REASON_BYTES = 160,
};

#define MAGIC UINT32_C(0x64746472) /* "dtdr" */

struct message {
    uint64_t from; /* MAGIC and the number of the node, big-endian */
    uint64_t ns;   /* its CLOCK_REALTIME, big-endian */
};

/* One end of a connection, with the incoming message. */
struct end {
    int fd; /* -1: closed */
    size_t have;
    struct message in;
};

struct peer {
    int node;
    union dt_net_address address;
    socklen_t address_bytes;
    struct end end;
    enum { CONNECTING, ASKING, REACHED, MISSED } state;
    char reason[REASON_BYTES];
    int rounds; /* exchanges left to do */
    int64_t asked_ns;
    double round_trip_s; /* of the fastest exchange */
    double ahead_s;      /* our clock minus the peer's in that exchange */
};

struct dt_doctor_pairs {
    int node;
    int listener;
    unsigned port; /* on which it listens */
    struct peer *peers;
    size_t peer_count;
    struct end *guests; /* nodes that connected to this one */
    size_t guest_count;
    struct pollfd *polls; /* one for each peer and guest, and two others */
};

struct dt_doctor_pairs *dt_doctor_pairs_create(int node, struct dt_error *err)
{
    struct dt_doctor_pairs *p = calloc(1, sizeof(*p));
    if (!p) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    p->node = node;
    p->listener = dt_net_listen(NULL, &p->port, err);
    if (p->listener < 0) {
        dt_doctor_pairs_destroy(p);
        return NULL;
    }
    return p;
}

static void end_close(struct end *end)
{
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
}

void dt_doctor_pairs_destroy(struct dt_doctor_pairs *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->peer_count; i++)
        end_close(&p->peers[i].end);
    for (size_t i = 0; i < p->guest_count; i++)
        end_close(&p->guests[i]);
    if (p->listener >= 0)
        close(p->listener);
    free(p->peers);
    free(p->guests);
    free(p->polls);
    free(p);
}

unsigned dt_doctor_pairs_port(const struct dt_doctor_pairs *p)
{
    return p->port;
}

int dt_doctor_pairs_add(struct dt_doctor_pairs *p, int node,
                        const char *address, unsigned port,
                        struct dt_error *err)
{
    struct peer peer = {.node = node, .end.fd = -1, .rounds = 1};
    if (node == p->node)
        return 0;
    peer.address_bytes = dt_net_parse(&peer.address, address, port);
    if (peer.address_bytes == 0)
        return dt_error_set(err, EX_PROTOCOL,
                            "node %d is at \"%.64s\", which is no "
                            "address",
                            node, address);
    struct peer *peers =
        realloc(p->peers, (p->peer_count + 1) * sizeof(*peers));
    if (!peers)
        return dt_error_set(err, EX_OSERR, "out of memory");
    peers[p->peer_count++] = peer;
    p->peers = peers;
    return 0;
}

static bool end_send(const struct end *end, int node, int64_t ns)
{
    struct message m = {
        .from = htobe64((uint64_t)MAGIC << 32 | (uint32_t)node),
        .ns = htobe64((uint64_t)ns),
    };
    return send(end->fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof(m);
}

/* Reads a part of a message. True: the message is complete. False with errno
 * EAGAIN: not yet; with any other errno, or 0 if the peer has closed: never.
 */
static bool end_receive(struct end *end)
{
    ssize_t n = recv(end->fd, (char *)&end->in + end->have,
                     sizeof(end->in) - end->have, MSG_DONTWAIT);
    if (n <= 0) {
        errno = n == 0 ? 0 : errno;
        return false;
    }
    end->have += (size_t)n;
    if (end->have < sizeof(end->in)) {
        errno = EAGAIN;
        return false;
    }
    end->have = 0;
    return true;
}

static void mark_missed(struct peer *peer, int error)
{
    char at[DT_NET_ADDRESS_BYTES];
    dt_net_print(&peer->address, at);
    end_close(&peer->end);
    peer->state = MISSED;
    if (error == EHOSTUNREACH || error == ENETUNREACH || error == EINVAL)
        snprintf(peer->reason, REASON_BYTES, "no route to %s", at);
    else if (error == ECONNREFUSED)
        snprintf(peer->reason, REASON_BYTES, "%s refuses the connection", at);
    else if (error == ETIMEDOUT)
        snprintf(peer->reason, REASON_BYTES,
                 "no answer from %s: is there a firewall?", at);
    else if (error == 0)
        snprintf(peer->reason, REASON_BYTES, "another program answers at %s",
                 at);
    else
        snprintf(peer->reason, REASON_BYTES, "%s: %s", at, strerror(error));
}

static void peer_connect(struct peer *peer)
{
    peer->end.fd = socket(peer->address.any.sa_family,
                          SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (peer->end.fd < 0 ||
        (connect(peer->end.fd, &peer->address.any, peer->address_bytes) != 0 &&
         errno != EINPROGRESS))
        mark_missed(peer, errno);
}

static void peer_ask(const struct dt_doctor_pairs *p, struct peer *peer)
{
    peer->state = ASKING;
    peer->asked_ns = dt_clock_ns(CLOCK_REALTIME);
    if (!end_send(&peer->end, p->node, peer->asked_ns))
        mark_missed(peer, errno);
}

static void peer_answered(const struct dt_doctor_pairs *p, struct peer *peer)
{
    int64_t now = dt_clock_ns(CLOCK_REALTIME);
    uint64_t from = be64toh(peer->end.in.from);
    if (from >> 32 != MAGIC || (int)(uint32_t)from != peer->node) {
        mark_missed(peer, 0);
        return;
    }
    double trip = (double)(now - peer->asked_ns) / 1e9;
    if (peer->round_trip_s == 0 || trip < peer->round_trip_s) {
        int64_t middle = peer->asked_ns + (now - peer->asked_ns) / 2;
        peer->round_trip_s = trip;
        peer->ahead_s =
            (double)(middle - (int64_t)be64toh(peer->end.in.ns)) / 1e9;
    }
    if (--peer->rounds > 0)
        peer_ask(p, peer);
    else
        peer->state = REACHED;
}

static void peer_event(const struct dt_doctor_pairs *p, struct peer *peer)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (peer->state == CONNECTING) {
        getsockopt(peer->end.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
        if (error != 0)
            mark_missed(peer, error);
        else
            peer_ask(p, peer);
    } else if (end_receive(&peer->end)) {
        peer_answered(p, peer);
    } else if (errno != EAGAIN && errno != EINTR) {
        mark_missed(peer, errno);
    }
}

static void accept_guests(struct dt_doctor_pairs *p)
{
    for (;;) {
        int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
        struct end *guests =
            fd >= 0 ? realloc(p->guests, (p->guest_count + 1) * sizeof(*guests))
                    : NULL;
        if (!guests) {
            if (fd >= 0)
                close(fd);
            return;
        }
        guests[p->guest_count++] = (struct end){.fd = fd};
        p->guests = guests;
    }
}

static void guest_event(const struct dt_doctor_pairs *p, struct end *guest)
{
    if (end_receive(guest)
            ? !end_send(guest, p->node, dt_clock_ns(CLOCK_REALTIME))
            : errno != EAGAIN && errno != EINTR)
        end_close(guest);
}

/* Waits for events once, also on fd, and handles them. Returns false once fd
 * (-1: none) is readable.
 */
static bool handle_events(struct dt_doctor_pairs *p, int fd, int wait_ms)
{
    size_t guests = p->guest_count;
    size_t room = 2 + guests + p->peer_count;
    struct pollfd *polls = realloc(p->polls, room * sizeof(*polls));
    if (!polls)
        return false;
    p->polls = polls;
    polls[0] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = fd, .events = POLLIN};
    struct pollfd *of_guests = polls + 2;
    struct pollfd *of_peers = of_guests + guests;
    for (size_t i = 0; i < guests; i++)
        of_guests[i] = (struct pollfd){.fd = p->guests[i].fd, .events = POLLIN};
    for (size_t i = 0; i < p->peer_count; i++)
        of_peers[i] = (struct pollfd){
            .fd = p->peers[i].state <= ASKING ? p->peers[i].end.fd : -1,
            .events = p->peers[i].state == CONNECTING ? POLLOUT : POLLIN};
    if (poll(polls, room, wait_ms) <= 0)
        return true;
    for (size_t i = 0; i < guests; i++)
        if (of_guests[i].revents)
            guest_event(p, &p->guests[i]);
    for (size_t i = 0; i < p->peer_count; i++)
        if (of_peers[i].revents)
            peer_event(p, &p->peers[i]);
    if (polls[0].revents)
        accept_guests(p);
    return polls[1].revents == 0;
}

static struct peer *find_lowest(const struct dt_doctor_pairs *p)
{
    struct peer *found = NULL;
    for (size_t i = 0; i < p->peer_count; i++)
        if (p->peers[i].node < (found ? found->node : p->node))
            found = &p->peers[i];
    return found;
}

static bool any_open(const struct dt_doctor_pairs *p)
{
    for (size_t i = 0; i < p->peer_count; i++)
        if (p->peers[i].state <= ASKING)
            return true;
    return false;
}

static void write_results(const struct dt_doctor_pairs *p,
                          const struct dt_doctor_notes *notes)
{
    const struct peer *reference = find_lowest(p);
    char interface[64] = "-";
    size_t reached = 0;
    for (size_t i = 0; i < p->peer_count; i++) {
        const struct peer *peer = &p->peers[i];
        union dt_net_address self = {0};
        socklen_t bytes = sizeof(self);
        if (peer->state != REACHED) {
            fprintf(notes->file, "%d miss %d %s\n", notes->node, peer->node,
                    peer->reason);
        } else if (reached++ == 0 &&
                   getsockname(peer->end.fd, &self.any, &bytes) == 0) {
            dt_doctor_interface(&self, interface, sizeof(interface));
        }
    }
    if (!reference)
        fprintf(notes->file, "%d clock 0 0\n", notes->node);
    else if (reference->state == REACHED)
        fprintf(notes->file, "%d clock %.6f %.6f\n", notes->node,
                reference->ahead_s, reference->round_trip_s / 2);
    dt_doctor_cell(notes, DT_DOCTOR_INTERFACE, "%s", interface);
    if (p->peer_count > 0)
        dt_doctor_cell(notes, DT_DOCTOR_PEERS, "%zu/%zu", reached,
                       p->peer_count);
}

void dt_doctor_pairs_probe(struct dt_doctor_pairs *p, int timeout_ms,
                           const struct dt_doctor_notes *notes)
{
    double deadline = dt_clock_now() + timeout_ms / 1e3;
    struct peer *reference = find_lowest(p);
    if (reference)
        reference->rounds = ROUNDS;
    for (size_t i = 0; i < p->peer_count; i++)
        peer_connect(&p->peers[i]);
    while (any_open(p)) {
        double left = deadline - dt_clock_now();
        if (left <= 0)
            break;
        handle_events(p, -1, (int)(left * 1e3) + 1);
    }
    for (size_t i = 0; i < p->peer_count; i++)
        if (p->peers[i].state <= ASKING)
            mark_missed(&p->peers[i], ETIMEDOUT);
    write_results(p, notes);
}

void dt_doctor_pairs_serve(struct dt_doctor_pairs *p, int fd)
{
    while (handle_events(p, fd, -1))
        continue;
}
