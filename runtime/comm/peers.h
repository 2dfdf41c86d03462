/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - waiting for other ranks, and saying which of them is lost (private
 * to comm/)
 *
 * A rank that gives up tells those that it is connected to why before it closes
 * its connections, and they do the same, so that all of them name the rank with
 * which it began, and not each other.
 */
#ifndef DT_COMM_PEERS_H
#define DT_COMM_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "comm/comm.h"
#include "comm/rendezvous.h"
#include "comm/transport.h"

/* --- which ranks are connected ---
 *
 * In a small world each rank is connected to all others. In a large one, where
 * that would be W * W connections, it is connected to the ranks before and
 * after it by a power of two, around the world: collectives use these
 * (comm_gloo.h), and so does the news of a loss, which reaches every rank over
 * at most log2 W others. A group adds the connections that it lacks, by the
 * same rule (comm_gloo.c). So 128 nodes of 8 ranks, with a group for each node
 * and each rail, take 38 connections a rank.
 */

enum {
    DT_LINKS_ALL = 16, /* most ranks that are all connected to each other */
};

struct dt_links {
    int rank, size; /* of the world */
    int count;
    int *peers; /* [count], ascending */
};

/* The connections of `rank` in a world of `size`; with `all`, to everybody
 * however large the world is. -1: EX_OSERR.
 */
int dt_links_init(struct dt_links *links, int rank, int size, bool all,
                  struct dt_error *err);
void dt_links_fini(struct dt_links *links); /* zeroed is fine */

/* Is there a connection to `peer`? */
bool dt_links_have(const struct dt_links *links, int peer);

/* Writes to missing[links->size] the ranks, ascending, that this rank has to
 * talk to in a group, and is not connected to: ranks[count] is the group, and
 * `self` the place of this rank in it. With `all` it talks to everybody there.
 * Returns how many there are.
 */
int dt_links_missing(const struct dt_links *links, const int *ranks, int count,
                     int self, bool all, int *missing);

/* Adds a connection that there was not. */
void dt_links_add(struct dt_links *links, int peer);

/* --- the peers: all functions but init and fini belong to one thread --- */

enum {
    DT_LAST_WORDS_BYTES = 512,
};

struct dt_last_words {
    int status, lost_rank;            /* as in struct dt_error; a rank that
                                         failed itself names itself */
    uint64_t started;                 /* operations so far, if counted */
    char reason[DT_LAST_WORDS_BYTES]; /* "": left in order */
};

struct dt_peers {
    struct dt_transport *transport;
    struct dt_token token;
    const char *secret;               /* of the caller, during init */
    union dt_net_address address;     /* of this rank, without a port */
    struct dt_rendezvous *rendezvous; /* NULL: nobody is to connect now */
    struct dt_links links; /* the ranks that are connected to this one */
    int rank, size;
    int timeout_ms;
    void (*warn)(const char *line); /* see dt_comm_options */
    char **hosts;                   /* [size], for messages */
    atomic_bool leaving;            /* set by another thread: stop waiting */

    struct dt_last_words own, *others; /* [size] */
    struct dt_transport_buffer *own_buffer;
    struct dt_transport_buffer **other_buffers; /* [size]; NULL: no link */
    bool *left; /* [size]: it has told us that it leaves in order */
};

/* Connects to the ranks of dt_links_init. -1:
 * EX_UNAVAILABLE, EX_CONFIG or EX_OSERR.
 */
int dt_peers_init(struct dt_peers *peers, const struct dt_comm_world *world,
                  const struct dt_comm_options *options, bool all,
                  struct dt_error *err);
void dt_peers_fini(struct dt_peers *peers); /* zeroed is fine */

/* Listens for connections of `count` ranks, and writes where to *at. -1:
 * EX_OSERR, with no more open files too.
 */
int dt_peers_listen(struct dt_peers *peers, int count, union dt_net_address *at,
                    struct dt_error *err);

/* Connects to `peer`, which listens at this address and does the same. -1:
 * EX_UNAVAILABLE or EX_OSERR.
 */
int dt_peers_connect(struct dt_peers *peers, int peer,
                     const union dt_net_address *at, struct dt_error *err);

/* Stops listening, once all are connected. */
void dt_peers_stop_listening(struct dt_peers *peers);

/* Posts a message, see dt_transport_buffer_post. -1: which rank is lost, and
 * why. */
int dt_peers_post(struct dt_peers *peers, struct dt_transport_buffer *buffer,
                  enum dt_direction direction, int peer, uint64_t slot,
                  size_t offset, size_t bytes, struct dt_error *err);

/* Waits up to `ms` for the end of one message with `peer`: 1, or 0 if it has
 * not ended. -1: any rank is lost, or this rank is leaving.
 */
int dt_peers_wait(struct dt_peers *peers, struct dt_transport_buffer *buffer,
                  enum dt_direction direction, int peer, int ms,
                  struct dt_error *err);

/* Has a rank failed, or is its process or host gone? -1: which, and why. For a
 * backend whose operations are not messages of the transport.
 */
int dt_peers_look(struct dt_peers *peers, struct dt_error *err);

/* The error "rank <peer> on <host><fmt...>", or "lost rank <peer> on <host>:
 * .." for a text that begins with a colon, with `peer` as lost_rank: always -1.
 */
int dt_peers_about(const struct dt_peers *peers, int peer, struct dt_error *err,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Tells all that are connected that this one leaves, and why (NULL: in order),
 * and closes the connections; takes a fraction of a second at most.
 */
void dt_peers_leave(struct dt_peers *peers, const struct dt_error *why);

/* --- arrivals.c: which ranks have come to an operation, and which have not ---
 *
 * An operation between GPUs does not say whose part is missing, and in one of a
 * group whoever is late may wait for a rank outside of it. So a rank that has
 * waited for a while announces to all others the operation in which it
 * waits, and they answer as soon as they wait in it as well. A rank that has
 * announced nothing when the time is over is the one to blame. In a large world
 * without GPUs, a rank waits for one that may itself be waiting, so it
 * announces the same to those that it is connected to. Operations are counted
 * from 1, on every rank alike. All functions belong to the thread of the peers.
 */

/* An announcement. */
struct dt_arrival {
    uint64_t place; /* the operation in which it waits; 0: none yet */
    char what[56];  /* its description */
};

/* To and from one other rank. */
struct dt_arrivals_peer {
    struct dt_arrival sent;     /* the last one, perhaps still being sent */
    struct dt_arrival incoming; /* where the next one is received */
    struct dt_arrival latest;   /* the newest one received */
    uint64_t sent_count, received_count;
    struct dt_transport_buffer *send, *receive; /* of sent and incoming */
    bool sending;
};

struct dt_arrivals {
    struct dt_peers *peers;
    uint64_t announced;             /* newest place that all were told */
    struct dt_arrivals_peer *ranks; /* [size] */
};

/* Prepares to receive from all that are connected. -1: EX_OSERR. */
int dt_arrivals_init(struct dt_arrivals *arrivals, struct dt_peers *peers,
                     struct dt_error *err);

/* Prepares to receive from a rank that has been connected since. -1: as init.
 */
int dt_arrivals_open(struct dt_arrivals *arrivals, int rank,
                     struct dt_error *err);

/* After the transport is closed; zeroed is fine. */
void dt_arrivals_fini(struct dt_arrivals *arrivals);

/* Reads the announcements received so far. True if another rank waits in
 * operation `place` or a later one.
 */
bool dt_arrivals_receive(struct dt_arrivals *arrivals, uint64_t place);

/* Tells all that are connected that this rank waits in operation `place`, once.
 */
void dt_arrivals_announce(struct dt_arrivals *arrivals, uint64_t place,
                          const char *what);

/* The error for an operation that did not end within `timeout_ms`: which rank
 * has not come to it, or does something else instead. In an operation of a
 * group whoever is missing may himself wait for others: so it names the ranks
 * that were seen to wait longest ago, or never. Always -1.
 */
int dt_arrivals_missing(struct dt_arrivals *arrivals, uint64_t place,
                        const char *what, bool in_group, int timeout_ms,
                        struct dt_error *err);

/* Whether dt_arrivals_missing would name a rank. */
bool dt_arrivals_any_missing(struct dt_arrivals *arrivals, uint64_t place);

/* How long a rank waits before it announces where. */
int dt_arrivals_silence_ms(int timeout_ms);

#endif /* DT_COMM_PEERS_H */
