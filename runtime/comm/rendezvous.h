/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rendezvous.h - where a rank listens, until its connections are made; for
 * comm/ only
 *
 * Anybody may connect to a port. So a thread accepts connections, asks each for
 * a proof (handshake.h), and keeps those of ranks. Any other one costs a line:
 * it is closed when it says something wrong, proves nothing in GUEST_MS, or has
 * to make room, as the oldest, for a newer one. A rank that is closed with the
 * others in a flood tries again.
 */
#ifndef DT_COMM_RENDEZVOUS_H
#define DT_COMM_RENDEZVOUS_H

#include "base/net.h"
#include "comm/handshake.h"

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

/* Who listens, and for what. */
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

/* Stops listening, and closes what was not taken; NULL is fine. */
void dt_rendezvous_close(struct dt_rendezvous *rendezvous);

#endif /* DT_COMM_RENDEZVOUS_H */
