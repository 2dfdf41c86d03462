/* SPDX-License-Identifier: Apache-2.0 */
/* arrivals.c - each rank announces to the others where it waits */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/peers.h"

enum { SAY_MS = 1000 };

/* Each announcement has a slot of its own, below that of the last words. */
static uint64_t slot_of(uint64_t number)
{
    return UINT64_MAX - 1 - number;
}

static int post_receive(struct dt_arrivals *arrivals, int r,
                        struct dt_error *err)
{
    struct dt_arrivals_peer *rank = &arrivals->ranks[r];
    return dt_peers_post(arrivals->peers, rank->receive, DT_RECV, r,
                         slot_of(rank->received_count), 0,
                         sizeof(rank->incoming), err);
}

int dt_arrivals_open(struct dt_arrivals *arrivals, int r, struct dt_error *err)
{
    struct dt_transport *transport = arrivals->peers->transport;
    struct dt_arrivals_peer *rank = &arrivals->ranks[r];
    rank->send = dt_transport_buffer_create(transport, &rank->sent,
                                            sizeof(rank->sent), err);
    if (!rank->send)
        return -1;
    rank->receive = dt_transport_buffer_create(transport, &rank->incoming,
                                               sizeof(rank->incoming), err);
    if (!rank->receive)
        return -1;
    /* who has left by now may do so, if no operation follows */
    post_receive(arrivals, r, NULL);
    return 0;
}

int dt_arrivals_init(struct dt_arrivals *arrivals, struct dt_peers *peers,
                     struct dt_error *err)
{
    arrivals->peers = peers;
    arrivals->announced = 0;
    arrivals->ranks = calloc((size_t)peers->size, sizeof(*arrivals->ranks));
    if (!arrivals->ranks)
        return dt_error_set(err, EX_OSERR, "no memory for %d ranks",
                            peers->size);
    for (int i = 0; i < peers->links.count; i++)
        if (dt_arrivals_open(arrivals, peers->links.peers[i], err) < 0)
            return -1;
    return 0;
}

void dt_arrivals_fini(struct dt_arrivals *arrivals)
{
    for (int r = 0; arrivals->ranks && r < arrivals->peers->size; r++) {
        dt_transport_buffer_destroy(arrivals->ranks[r].send);
        dt_transport_buffer_destroy(arrivals->ranks[r].receive);
    }
    free(arrivals->ranks);
}

bool dt_arrivals_receive(struct dt_arrivals *arrivals, uint64_t place)
{
    bool waits = false;
    for (int i = 0; i < arrivals->peers->links.count; i++) {
        int r = arrivals->peers->links.peers[i];
        struct dt_arrivals_peer *rank = &arrivals->ranks[r];
        /* dt_peers_look reports a broken connection */
        while (dt_transport_buffer_wait(rank->receive, DT_RECV, 0, NULL) == 1) {
            rank->latest = rank->incoming;
            rank->latest.what[sizeof(rank->latest.what) - 1] = '\0';
            rank->received_count++;
            if (post_receive(arrivals, r, NULL) < 0)
                break;
        }
        waits |= rank->latest.place >= place;
    }
    return waits;
}

/* False: the announcement before this one is still being sent. */
static bool announce_to(struct dt_arrivals_peer *rank, int r, uint64_t place,
                        const char *what)
{
    if (rank->sending &&
        dt_transport_buffer_wait(rank->send, DT_SEND, 0, NULL) != 1)
        return false;
    rank->sent.place = place;
    snprintf(rank->sent.what, sizeof(rank->sent.what), "%s", what);
    rank->sending = true;
    dt_transport_buffer_post(rank->send, DT_SEND, r,
                             slot_of(rank->sent_count++), 0, sizeof(rank->sent),
                             NULL);
    return true;
}

void dt_arrivals_announce(struct dt_arrivals *arrivals, uint64_t place,
                          const char *what)
{
    bool all = true;
    if (arrivals->announced >= place)
        return;
    for (int i = 0; i < arrivals->peers->links.count; i++) {
        int r = arrivals->peers->links.peers[i];
        struct dt_arrivals_peer *rank = &arrivals->ranks[r];
        if (rank->sent.place < place)
            all &= announce_to(rank, r, place, what);
    }
    if (all)
        arrivals->announced = place;
}

int dt_arrivals_silence_ms(int timeout_ms)
{
    return timeout_ms / 4 < SAY_MS ? timeout_ms / 4 : SAY_MS;
}

/* The earliest place where a rank was last seen to wait; UINT64_MAX: alone. */
static uint64_t earliest(const struct dt_arrivals *arrivals)
{
    uint64_t place = UINT64_MAX;
    for (int i = 0; i < arrivals->peers->links.count; i++) {
        int r = arrivals->peers->links.peers[i];
        if (arrivals->ranks[r].latest.place < place)
            place = arrivals->ranks[r].latest.place;
    }
    return place;
}

bool dt_arrivals_any_missing(struct dt_arrivals *arrivals, uint64_t place)
{
    dt_arrivals_receive(arrivals, place);
    return earliest(arrivals) < place;
}

int dt_arrivals_missing(struct dt_arrivals *arrivals, uint64_t place,
                        const char *what, bool in_group, int timeout_ms,
                        struct dt_error *err)
{
    const struct dt_peers *p = arrivals->peers;
    int first = -1, count = 0;
    dt_arrivals_receive(arrivals, place);
    uint64_t latest_to_blame = in_group ? earliest(arrivals) : UINT64_MAX;
    for (int i = 0; i < p->links.count; i++) {
        int r = p->links.peers[i];
        const struct dt_arrival *latest = &arrivals->ranks[r].latest;
        if (latest->place > place)
            continue;
        if (latest->place == place) {
            if (strncmp(latest->what, what, sizeof(latest->what) - 1) != 0)
                return dt_peers_about(p, r, err, " does %s instead",
                                      latest->what);
            continue;
        }
        if (latest->place > latest_to_blame)
            continue;
        if (count++ == 0)
            first = r;
    }
    if (count == 1)
        return dt_peers_about(p, first, err, " did not answer within %d ms",
                              timeout_ms);
    if (count > 1)
        return dt_peers_about(p, first, err,
                              " and %d other%s did not answer within %d ms",
                              count - 1, count > 2 ? "s" : "", timeout_ms);
    return dt_error_set(err, EX_UNAVAILABLE,
                        "all ranks have started it, but it did not end "
                        "within %d ms: a GPU or the network between them is "
                        "stuck; with NCCL_DEBUG=INFO the library says more",
                        timeout_ms);
}
