/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guests.h - connections to the leader that have not proved to be a keeper
 *
 * Anybody may connect to a port. A connection that proves nothing within
 * seconds is closed, and the oldest makes room for a new one.
 */
#ifndef DT_KEEPER_GUESTS_H
#define DT_KEEPER_GUESTS_H

#include <poll.h>

#include "base/error.h"
#include "base/handshake.h"

enum {
    DT_GUESTS = 256, /* at most */
    DT_GUESTS_FDS = 1 + DT_GUESTS,
};

struct dt_guest {
    int fd; /* -1: none */
    struct dt_handshake handshake;
    double until;
};

struct dt_guests {
    const struct dt_token *token;
    int listener, id, count;
    struct dt_guest all[DT_GUESTS];
};

/* Listens at every address of this host: at *port, or at one that the kernel
 * chooses if that is 0. Returns the socket; -1: EX_UNAVAILABLE, EX_OSERR.
 */
int dt_guests_listen(unsigned *port, struct dt_error *err);

/* Hears `count` keepers at that socket, which it closes in the end, as keeper
 * `id`. The token stays.
 */
void dt_guests_open(struct dt_guests *guests, const struct dt_token *token,
                    int id, int count, int listener);
void dt_guests_close(struct dt_guests *guests);

/* Fills fds[DT_GUESTS_FDS] for poll. */
void dt_guests_poll(const struct dt_guests *guests, struct pollfd *fds);

/* Goes on after a poll. Returns the id of a keeper that has proved to be one,
 * and its socket, until there is no more: -1.
 */
int dt_guests_serve(struct dt_guests *guests, const struct pollfd *fds,
                    int *fd);

#endif /* DT_KEEPER_GUESTS_H */
