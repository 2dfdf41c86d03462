/* SPDX-License-Identifier: Apache-2.0 */
/* guests.c - connections to the leader that have not proved to be a keeper */
#include "config.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "keeper/guests.h"

enum { GUEST_S = 5 }; /* for a proof */

/* Listens at every address of this host; -1 and errno. */
static int listen_at(unsigned port)
{
    const int yes = 1, no = 0;
    union dt_net_address at = {.v6 = {.sin6_family = AF_INET6,
                                      .sin6_port = htons((uint16_t)port),
                                      .sin6_addr = IN6ADDR_ANY_INIT}};
    socklen_t length = sizeof(at.v6);
    const int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(AF_INET6, kind, 0);
    if (fd < 0) { /* a host without IPv6 */
        at = (union dt_net_address){
            .v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
        length = sizeof(at.v4);
        fd = socket(AF_INET, kind, 0);
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    }
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, &at.any, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int bad = errno;
    close(fd);
    errno = bad;
    return -1;
}

int dt_guests_listen(unsigned *port, struct dt_error *err)
{
    if (*port == 0)
        return dt_net_listen(NULL, port, err);
    int fd = listen_at(*port);
    if (fd >= 0)
        return fd;
    return dt_error_set(err, EX_UNAVAILABLE,
                        "keeper: cannot listen at MASTER_PORT %u: %s; set "
                        "launch.master_port, or launch.keeper: off",
                        *port, strerror(errno));
}

void dt_guests_open(struct dt_guests *guests, const struct dt_token *token,
                    int id, int count, int listener)
{
    *guests = (struct dt_guests){
        .token = token, .id = id, .count = count, .listener = listener};
    for (int i = 0; i < DT_GUESTS; i++)
        guests->all[i].fd = -1;
}

void dt_guests_close(struct dt_guests *guests)
{
    for (int i = 0; i < DT_GUESTS; i++) {
        if (guests->all[i].fd >= 0)
            close(guests->all[i].fd);
        guests->all[i].fd = -1;
    }
    if (guests->listener >= 0)
        close(guests->listener);
    guests->listener = -1;
}

/* A free place, or that of the oldest guest: a keeper in a flood of strangers
 * tries again.
 */
static struct dt_guest *find_place(struct dt_guests *guests)
{
    struct dt_guest *oldest = &guests->all[0];
    for (int i = 0; i < DT_GUESTS; i++) {
        struct dt_guest *g = &guests->all[i];
        if (g->fd < 0)
            return g;
        if (g->until < oldest->until)
            oldest = g;
    }
    close(oldest->fd);
    return oldest;
}

static void accept_guest(struct dt_guests *guests)
{
    const int yes = 1;
    int fd =
        accept4(guests->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    struct dt_guest *g = find_place(guests);
    g->fd = fd;
    g->until = dt_clock_now() + GUEST_S;
    dt_handshake_begin(&g->handshake, guests->token, guests->id, guests->count,
                       -1);
}

void dt_guests_poll(const struct dt_guests *guests, struct pollfd *fds)
{
    fds[0] = (struct pollfd){guests->listener, POLLIN, 0};
    for (int i = 0; i < DT_GUESTS; i++) {
        const struct dt_guest *g = &guests->all[i];
        const bool sends = g->fd >= 0 && dt_handshake_sends(&g->handshake);
        fds[1 + i] = (struct pollfd){g->fd, sends ? POLLOUT : POLLIN, 0};
    }
}

/* Returns whether it has proved to be a keeper. */
static bool continue_guest(struct dt_guest *g)
{
    const int done = dt_handshake_continue(&g->handshake, g->fd);
    if (done < 0 || (done == 0 && dt_clock_now() > g->until)) {
        close(g->fd);
        g->fd = -1;
    }
    return done > 0;
}

int dt_guests_serve(struct dt_guests *guests, const struct pollfd *fds, int *fd)
{
    for (int i = 0; i < DT_GUESTS; i++) {
        struct dt_guest *g = &guests->all[i];
        if (g->fd < 0 || (!fds[1 + i].revents && dt_clock_now() <= g->until) ||
            !continue_guest(g))
            continue;
        *fd = g->fd;
        g->fd = -1;
        return g->handshake.peer;
    }
    if (fds[0].revents)
        accept_guest(guests);
    return -1;
}
