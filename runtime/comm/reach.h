/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reach.h - connections to where another rank listens (rendezvous.h); for comm/
 * only
 *
 * That there is a route to an address says little: a network may end at the
 * next switch, or swallow packets. So who does not know which address of a host
 * leads to a rank tries all of them at the same time.
 */
#ifndef DT_COMM_REACH_H
#define DT_COMM_REACH_H

#include "base/net.h"
#include "comm/handshake.h"

enum {
    DT_REACH_ADDRESSES = 16, /* at most */
};

/* Who looks for whom. */
struct dt_reach {
    const struct dt_token *token;
    int rank, size; /* this one, of the world */
    int peer;
};

/* How long to wait. */
struct dt_reach_times {
    int answer_ms; /* for any answer */
    int prefer_ms; /* for a better one, after the first */
};

/* Connects to the first of addresses[count] at which the peer proves to be one,
 * in the order of the array. Returns its place, and the socket *fd, which does
 * not block and is the caller's. -1: EX_UNAVAILABLE, with what came from each.
 */
int dt_reach_first(const struct dt_reach *who,
                   const union dt_net_address *addresses, int count,
                   const struct dt_reach_times *times, int *fd,
                   struct dt_error *err);

/* Connects to the address of the peer within `ms`, and tries again if it was
 * closed in a flood of others. Returns the socket, as above. -1:
 * EX_UNAVAILABLE.
 */
int dt_reach_peer(const struct dt_reach *who,
                  const union dt_net_address *address, int ms,
                  struct dt_error *err);

#endif /* DT_COMM_REACH_H */
