/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - deadlines, and finding the rank that failed first */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc.h"
#include "comm/peers.h"
#include "comm/rendezvous.h"

int dt_links_init(struct dt_links *links, int rank, int size, bool all,
                  struct dt_error *err)
{
    *links = (struct dt_links){
        .rank = rank,
        .size = size,
        .peers = calloc((size_t)size, sizeof(*links->peers)),
    };
    if (!links->peers)
        return dt_error_set(err, EX_OSERR, "no memory for %d ranks", size);
    bool complete = all || size <= DT_LINKS_ALL;
    for (int r = 0; complete && r < size; r++)
        if (r != rank)
            links->peers[links->count++] = r;
    for (int s = 1; !complete && s < size; s *= 2) {
        int peers[] = {(rank + s) % size, (rank - s + size) % size};
        for (int i = 0; i < 2; i++)
            if (!dt_links_have(links, peers[i]))
                dt_links_add(links, peers[i]);
    }
    return 0;
}

void dt_links_fini(struct dt_links *links)
{
    free(links->peers);
}

/* Compares two int. */
static int by_rank(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

bool dt_links_have(const struct dt_links *links, int peer)
{
    return bsearch(&peer, links->peers, (size_t)links->count,
                   sizeof(*links->peers), by_rank);
}

void dt_links_add(struct dt_links *links, int peer)
{
    int i = links->count++;
    for (; i > 0 && links->peers[i - 1] > peer; i--)
        links->peers[i] = links->peers[i - 1];
    links->peers[i] = peer;
}

/* Do the ranks at these places of a group talk to each other? */
static bool talk(int count, int a, int b)
{
    if (count <= DT_LINKS_ALL)
        return true;
    for (int s = 1; s < count; s *= 2)
        if ((a + s) % count == b || (b + s) % count == a)
            return true;
    return false;
}

int dt_links_missing(const struct dt_links *links, const int *ranks, int count,
                     int self, bool all, int *missing)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        if (i != self && (all || talk(count, self, i)) &&
            !dt_links_have(links, ranks[i]))
            missing[n++] = ranks[i];
    qsort(missing, (size_t)n, sizeof(*missing), by_rank);
    return n;
}

enum {
    FAREWELL_MS = 300,  /* for last words to get out */
    OUTAGE_MS = 15000,  /* by default */
    CONNECT_MS = 60000, /* for a rank that has offered its address */
    SPARE_FILES = 32,   /* for other files of the process */
};

static const uint64_t last_words_slot = UINT64_MAX;
static const char *const address_key = "dt.comm.address";

int dt_peers_about(const struct dt_peers *p, int peer, struct dt_error *err,
                   const char *fmt, ...)
{
    char what[DT_LAST_WORDS_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    dt_error_set(err, EX_UNAVAILABLE, "%srank %d on %s%s",
                 what[0] == ':' ? "lost " : "", peer, p->hosts[peer], what);
    if (err)
        err->lost_rank = peer;
    return -1;
}

static int peer_lost(const struct dt_peers *p, int peer, const char *why,
                     struct dt_error *err)
{
    return dt_peers_about(p, peer, err, ": %s", why);
}

/* The error in the last words of rank r: its own, or of a rank that it lost,
 * with the first who saw it.
 */
static int relay_last_words(const struct dt_peers *p, int r,
                            struct dt_error *err)
{
    const struct dt_last_words *words = &p->others[r];
    if (words->lost_rank == r && words->status != EX_UNAVAILABLE)
        dt_error_set(err, words->status, "rank %d on %s failed: %s", r,
                     p->hosts[r], words->reason);
    else if (words->lost_rank == r || words->status != EX_UNAVAILABLE ||
             strstr(words->reason, " (as seen by rank "))
        dt_error_set(err, words->status, "%s", words->reason);
    else
        dt_error_set(err, words->status, "%s (as seen by rank %d on %s)",
                     words->reason, r, p->hosts[r]);
    if (err)
        err->lost_rank = words->lost_rank;
    return -1;
}

/* The last words of a rank if there are any, otherwise the state of the
 * connection.
 */
int dt_peers_look(struct dt_peers *p, struct dt_error *err)
{
    struct dt_error why;
    int broken = -1;
    char broken_why[DT_LAST_WORDS_BYTES];
    for (int i = 0; i < p->links.count; i++) {
        int r = p->links.peers[i], rc;
        if (p->left[r])
            continue;
        rc = dt_transport_buffer_wait(p->other_buffers[r], DT_RECV, 0, &why);
        if (rc == 1 && p->others[r].reason[0])
            return relay_last_words(p, r, err);
        if (rc == 1)
            p->left[r] = true;
        if (rc == -1 && broken == -1) {
            broken = r;
            memcpy(broken_why, why.text, sizeof(broken_why));
            broken_why[sizeof(broken_why) - 1] = '\0';
        }
    }
    return broken == -1 ? 0 : peer_lost(p, broken, broken_why, err);
}

/* The error for a connection to `peer` that turned out to be broken. */
static int blame(struct dt_peers *p, int peer, const struct dt_error *why,
                 struct dt_error *err)
{
    struct dt_error copy = *why; /* err may be why */
    if (dt_peers_look(p, err) < 0)
        return -1;
    if (p->left[peer])
        return dt_peers_about(p, peer, err,
                              " has exited normally: it started fewer "
                              "operations than this rank");
    return peer_lost(p, peer, copy.text, err);
}

int dt_peers_post(struct dt_peers *p, struct dt_transport_buffer *buffer,
                  enum dt_direction direction, int peer, uint64_t slot,
                  size_t offset, size_t bytes, struct dt_error *err)
{
    struct dt_error why;
    if (dt_transport_buffer_post(buffer, direction, peer, slot, offset, bytes,
                                 &why) < 0)
        return blame(p, peer, &why, err);
    return 0;
}

int dt_peers_wait(struct dt_peers *p, struct dt_transport_buffer *buffer,
                  enum dt_direction direction, int peer, int ms,
                  struct dt_error *err)
{
    struct dt_error why;
    int rc = dt_transport_buffer_wait(buffer, direction, ms, &why);
    if (rc == 1)
        return 1;
    if (rc == -1)
        return blame(p, peer, &why, err);
    if (atomic_load(&p->leaving))
        return dt_peers_about(p, p->rank, err,
                              " has exited in the middle of it");
    return dt_peers_look(p, err);
}

static int ms_until(double deadline)
{
    return (int)((deadline - dt_clock_now()) * 1000);
}

/* Waits until the others have left or said why, too. A connection that is
 * closed before its last bytes were read is reset, and last words that the
 * other has not read yet are lost with it.
 */
static void await_farewells(struct dt_peers *p, double deadline)
{
    for (int i = 0; i < p->links.count && ms_until(deadline) > 0; i++) {
        int r = p->links.peers[i];
        if (!p->left[r] && !p->others[r].reason[0])
            dt_transport_buffer_wait(p->other_buffers[r], DT_RECV,
                                     ms_until(deadline), NULL);
    }
}

void dt_peers_leave(struct dt_peers *p, const struct dt_error *why)
{
    double deadline = dt_clock_now() + FAREWELL_MS / 1000.0;
    int sent = 0, ms;
    if (why) {
        p->own.status = why->status;
        p->own.lost_rank = why->lost_rank < 0 ? p->rank : why->lost_rank;
        snprintf(p->own.reason, sizeof(p->own.reason), "%.*s",
                 (int)sizeof(p->own.reason) - 1, why->text);
    }
    for (int i = 0; i < p->links.count; i++)
        if (dt_transport_buffer_post(p->own_buffer, DT_SEND, p->links.peers[i],
                                     last_words_slot, 0, sizeof(p->own),
                                     NULL) == 0)
            sent++;
    while (sent > 0 && (ms = ms_until(deadline)) > 0 &&
           dt_transport_buffer_wait(p->own_buffer, DT_SEND, ms, NULL) == 1)
        sent--;
    await_farewells(p, deadline);
    dt_transport_close(p->transport);
}

/* Makes room for the sockets of `count` connections more. */
static int allow_connections(int count, struct dt_error *err)
{
    return dt_limits_open_files((size_t)count + SPARE_FILES, err) < 0
               ? dt_error_prefix(err, "connections to %d ranks", count)
               : 0;
}

/* The port is open at once; who connects waits until the token is known. */
static int open_port(struct dt_peers *p, union dt_net_address *at,
                     struct dt_error *err)
{
    p->rendezvous = dt_rendezvous_listen(&p->address, err);
    if (!p->rendezvous)
        return -1;
    *at = p->address;
    at->v4.sin_port = htons((in_port_t)dt_rendezvous_port(p->rendezvous));
    return 0; /* IPv6 has the port in the same place */
}

static int start_listening(struct dt_peers *p, struct dt_error *err)
{
    const struct dt_rendezvous_options options = {
        .token = &p->token,
        .rank = p->rank,
        .size = p->size,
        .keep = true,
        .warn = p->warn,
    };
    return dt_rendezvous_start(p->rendezvous, &options, err);
}

int dt_peers_listen(struct dt_peers *p, int count, union dt_net_address *at,
                    struct dt_error *err)
{
    return allow_connections(count, err) < 0 || open_port(p, at, err) < 0
               ? -1
               : start_listening(p, err);
}

void dt_peers_stop_listening(struct dt_peers *p)
{
    dt_rendezvous_close(p->rendezvous);
    p->rendezvous = NULL;
}

/* Of two ranks one connects, and each to about half of the others. */
static int open_connection(struct dt_peers *p, int peer,
                           const union dt_net_address *at, struct dt_error *err)
{
    const struct dt_reach who = {
        .token = &p->token, .rank = p->rank, .size = p->size, .peer = peer};
    int ms = p->timeout_ms < CONNECT_MS ? p->timeout_ms : CONNECT_MS;
    bool odd = (p->rank + peer) % 2;
    if (odd == (p->rank < peer))
        return dt_reach_peer(&who, at, ms, err);
    return dt_rendezvous_take(p->rendezvous, peer, ms, err);
}

int dt_peers_connect(struct dt_peers *p, int peer,
                     const union dt_net_address *at, struct dt_error *err)
{
    int fd = open_connection(p, peer, at, err);
    if (fd < 0 || dt_transport_add(p->transport, peer, fd, err) < 0)
        return dt_error_prefix(err,
                               "connecting to rank %d on %s "
                               "(distributed.interface chooses the network)",
                               peer, p->hosts[peer]);
    p->other_buffers[peer] = dt_transport_buffer_create(
        p->transport, &p->others[peer], sizeof(p->others[peer]), err);
    if (!p->other_buffers[peer])
        return -1;
    if (!dt_links_have(&p->links, peer))
        dt_links_add(&p->links, peer);
    return dt_peers_post(p, p->other_buffers[peer], DT_RECV, peer,
                         last_words_slot, 0, sizeof(p->others[peer]), err);
}

/* Connects to the ranks of p->links. */
static int connect_links(struct dt_peers *p, const struct dt_comm_world *world,
                         struct dt_error *err)
{
    union dt_net_address at;
    if (open_port(p, &at, err) < 0 ||
        world->put(world->ctx, address_key, &at, sizeof(at), err) < 0 ||
        world->fence(world->ctx, p->timeout_ms, err) < 0 ||
        dt_token_fetch(world, p->secret, &p->token, err) < 0 ||
        start_listening(p, err) < 0)
        return -1;
    for (int i = 0; i < p->links.count; i++)
        if (dt_comm_fetch(world, p->links.peers[i], address_key, &at,
                          sizeof(at), err) < 0 ||
            dt_peers_connect(p, p->links.peers[i], &at, err) < 0)
            return -1;
    dt_peers_stop_listening(p);
    return 0;
}

/* Memory for the last words of all ranks. */
static int allocate(struct dt_peers *p, struct dt_error *err)
{
    size_t n = (size_t)p->size;
    p->others = calloc(n, sizeof(*p->others));
    p->other_buffers = calloc(n, sizeof(struct dt_transport_buffer *));
    p->left = calloc(n, sizeof(*p->left));
    if (!p->others || !p->other_buffers || !p->left)
        return dt_error_set(err, EX_OSERR, "no memory for %d ranks", p->size);
    p->own_buffer =
        dt_transport_buffer_create(p->transport, &p->own, sizeof(p->own), err);
    return p->own_buffer ? 0 : -1;
}

/* All have chosen an address when the links are connected, and knock no more.
 */
static int connect_all(struct dt_peers *p, const struct dt_comm_world *world,
                       const struct dt_comm_options *options,
                       struct dt_error *err)
{
    struct dt_rendezvous *door;
    int outage_ms = options->outage_ms ? options->outage_ms : OUTAGE_MS;
    if (outage_ms > options->timeout_ms)
        outage_ms = options->timeout_ms;
    int rc =
        dt_address_choose(world, options, &p->token, &p->address, &door, err);
    if (rc == 0) {
        p->transport = dt_transport_create(p->rank, p->size, outage_ms, err);
        rc = p->transport && allocate(p, err) == 0
                 ? connect_links(p, world, err)
                 : -1;
    }
    dt_rendezvous_close(door);
    return rc;
}

int dt_peers_init(struct dt_peers *p, const struct dt_comm_world *world,
                  const struct dt_comm_options *options, bool all,
                  struct dt_error *err)
{
    *p = (struct dt_peers){
        .rank = world->rank,
        .size = world->size,
        .timeout_ms = options->timeout_ms,
        .secret = options->secret,
        .warn = options->warn,
        .hosts = calloc((size_t)world->size, sizeof(char *)),
    };
    for (int r = 0; p->hosts && r < p->size; r++)
        if (!(p->hosts[r] = strdup(world->host(world->ctx, r))))
            return dt_error_set(err, EX_OSERR, "no memory");
    if (!p->hosts)
        return dt_error_set(err, EX_OSERR, "no memory");
    /* a rank that has too few files says so before others look for it */
    if (dt_links_init(&p->links, p->rank, p->size, all, err) < 0 ||
        allow_connections(p->links.count, err) < 0 ||
        dt_token_offer(world, options->secret, err) < 0)
        return -1;
    return connect_all(p, world, options, err);
}

void dt_peers_fini(struct dt_peers *p)
{
    dt_peers_stop_listening(p);
    if (p->transport)
        dt_transport_close(p->transport);
    for (int r = 0; p->other_buffers && r < p->size; r++)
        dt_transport_buffer_destroy(p->other_buffers[r]);
    dt_transport_buffer_destroy(p->own_buffer);
    dt_transport_destroy(p->transport);
    for (int r = 0; p->hosts && r < p->size; r++)
        free(p->hosts[r]);
    free(p->hosts);
    free(p->others);
    free(p->other_buffers);
    free(p->left);
    dt_links_fini(&p->links);
}
