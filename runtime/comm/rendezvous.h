/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous.h - how ranks find and believe each other, until they are
 * connected (private to comm/)
 */
#ifndef DT_COMM_RENDEZVOUS_H
#define DT_COMM_RENDEZVOUS_H

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "base/net.h"
#include "base/handshake.h"
#include "comm/comm.h"

/* --- token.c: how the token of a run (base/handshake.h) reaches its ranks ---
 *
 * Rank 0 draws it, and the launcher brings it to the others, as it does
 * addresses. A PMIx server that listens on TCP believes anybody who claims to
 * be the user; so a secret that srun has put into the environment is mixed into
 * it.
 */

/* Copies the `bytes` bytes that `rank` has put as `key` before the last fence.
 * -1: an error of the launcher, or EX_SOFTWARE for another number of bytes.
 */
int dt_comm_fetch(const struct dt_comm_world *world, int rank, const char *key,
                  void *into, size_t bytes, struct dt_error *err);

/* Draws the token on rank 0, and offers it: all have it after the next fence.
 * -1: EX_OSERR, or an error of the launcher.
 */
int dt_token_offer(const struct dt_comm_world *world, const char *secret,
                   struct dt_error *err);

/* Fetches the token, after a fence, and mixes `secret` into it, if rank 0 has
 * one (NULL: none). -1: an error of the launcher; EX_SOFTWARE, that is no
 * token; EX_CONFIG, only rank 0 has a secret.
 */
int dt_token_fetch(const struct dt_comm_world *world, const char *secret,
                   struct dt_token *token, struct dt_error *err);

/* --- rendezvous.c: where a rank listens ---
 *
 * Anybody may connect to a port. So a thread accepts connections, asks each for
 * a proof, and keeps those of ranks. Any other one costs a line: it is closed
 * when it says something wrong, proves nothing in GUEST_MS, or has to make
 * room, as the oldest, for a newer one. A rank that is closed with the others
 * in a flood tries again.
 */

enum {
    DT_RENDEZVOUS_GUESTS = 256, /* that have proved nothing yet */
    DT_RENDEZVOUS_GUEST_MS = 5000,
};

struct dt_rendezvous;

/* Listens at the address `at` on a port that the kernel chooses; NULL: at all
 * addresses. Connections wait until the start. NULL: EX_OSERR.
 */
struct dt_rendezvous *dt_rendezvous_listen(const union dt_net_address *at,
                                           struct dt_error *err);

/* The port. */
unsigned dt_rendezvous_port(const struct dt_rendezvous *rendezvous);

/* The rank that listens, and the connections that it expects. */
struct dt_rendezvous_options {
    const struct dt_token *token;
    int rank, size;
    bool keep; /* connections of ranks, for dt_rendezvous_take; otherwise the
                  proof is all that they come for */
    void (*warn)(const char *line); /* of strangers: see dt_comm_options */
};

/* Accepts connections from now on. -1: EX_OSERR. */
int dt_rendezvous_start(struct dt_rendezvous *rendezvous,
                        const struct dt_rendezvous_options *options,
                        struct dt_error *err);

/* Waits up to `ms` for the connection of `peer`. Returns the socket, which does
 * not block and is the caller's. -1: EX_UNAVAILABLE.
 */
int dt_rendezvous_take(struct dt_rendezvous *rendezvous, int peer, int ms,
                       struct dt_error *err);

/* Stops listening, and closes connections that were not taken; NULL is fine. */
void dt_rendezvous_close(struct dt_rendezvous *rendezvous);

/* --- address.c: connections to where another rank listens ---
 *
 * That there is a route to an address says little: a network may end at the
 * next switch, or swallow packets. So who does not know which address of a host
 * leads to a rank tries all of them at the same time.
 */

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
 * not block and is the caller's. -1: EX_UNAVAILABLE, with the answer of each.
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

/* --- address.c: where the other ranks reach this one --- */

enum {
    DT_ADDRESS_BYTES = INET6_ADDRSTRLEN,
    DT_ADDRESSES = DT_REACH_ADDRESSES, /* of one host, at most */
};

/* Numeric addresses of one host; "" after the last one. */
struct dt_address_list {
    char text[DT_ADDRESSES][DT_ADDRESS_BYTES];
    unsigned port; /* of the host's door, see below */
};

/* Fills the list with those addresses of the interfaces `all` that other hosts
 * may reach: the ones of the largest reach first, among them those of the
 * interface `first` (NULL: none is preferred). Addresses that name no interface
 * of the other host, such as fe80::1, are left out.
 */
void dt_address_list(const struct ifaddrs *all, const char *first,
                     struct dt_address_list *list);

/* Writes the address of this host that the others shall use, without a port:
 * the loopback address if all ranks are on one host, that of
 * options->interface, or the source address of packets to rank 0's host (for
 * the ranks there: to the first other host). No names are resolved: hosts tell
 * each other their addresses, that of the interface in GLOO_SOCKET_IFNAME
 * first, which the plugin has set to the one towards MASTER_ADDR; the first
 * where the rank proves to be one counts. An address that both hosts have (a
 * bridge of containers) is never used. If it takes that, fetches the token,
 * which rank 0 has offered, and opens a door where others knock, *door (or
 * NULL): the caller closes it once all ranks have chosen, also on failure. -1:
 * EX_CONFIG if there is no such interface, EX_UNAVAILABLE if there is no way,
 * EX_OSERR.
 */
int dt_address_choose(const struct dt_comm_world *world,
                      const struct dt_comm_options *options,
                      struct dt_token *token, union dt_net_address *address,
                      struct dt_rendezvous **door, struct dt_error *err);

#endif /* DT_COMM_RENDEZVOUS_H */
