/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - waiting for other ranks, and saying which of them is lost; for
 * comm/ only
 *
 * A rank that gives up tells those that it is connected to why before it closes
 * its connections, and they do the same, so that all of them name the rank with
 * which it began, and not each other.
 * All functions but init and fini belong to one thread.
 */
#ifndef DT_COMM_PEERS_H
#define DT_COMM_PEERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "comm/comm.h"
#include "comm/links.h"
#include "comm/rendezvous.h"
#include "comm/transport.h"

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

#endif /* DT_COMM_PEERS_H */
