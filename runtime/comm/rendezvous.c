/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous.c - where a rank listens, until its connections are made */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "comm/rendezvous.h"

enum {
    AT_ONCE = 32, /* accepted before guests are looked at again */
    LISTENER = 0, /* places in the list of polled files */
    WAKE = 1,
    FIRST_GUEST = 2,
};

/* Who has proved nothing yet. */
struct guest {
    int fd;
    double deadline;
    union dt_net_address from;
    struct dt_handshake handshake;
};

/* The connection of a rank that nobody has taken yet. */
struct arrival {
    int rank, fd;
};

struct dt_rendezvous {
    int listener, wake;
    unsigned port;
    struct dt_token token;
    struct dt_rendezvous_options options;
    bool runs;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the next three */
    pthread_cond_t arrived;
    struct arrival *arrivals;
    size_t arrival_count;
    /* of the thread alone */
    struct guest guests[DT_RENDEZVOUS_GUESTS]; /* the oldest first */
    int guest_count;
    int strangers;
};

struct dt_rendezvous *dt_rendezvous_listen(const union dt_net_address *at,
                                           struct dt_error *err)
{
    struct dt_rendezvous *r = calloc(1, sizeof(*r));
    pthread_condattr_t attr;
    if (!r) {
        dt_error_set(err, EX_OSERR, "no memory");
        return NULL;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->arrived, &attr);
    pthread_condattr_destroy(&attr);
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->listener = dt_net_listen(at, &r->port, err);
    if (r->wake >= 0 && r->listener >= 0)
        return r;
    if (r->wake < 0)
        dt_error_set(err, EX_OSERR, "eventfd: %s", strerror(errno));
    dt_rendezvous_close(r);
    return NULL;
}

unsigned dt_rendezvous_port(const struct dt_rendezvous *r)
{
    return r->port;
}

/* Takes a guest off the list; its socket stays open. */
static void guest_remove(struct dt_rendezvous *r, int i)
{
    r->guest_count--;
    memmove(&r->guests[i], &r->guests[i + 1],
            (size_t)(r->guest_count - i) * sizeof(r->guests[0]));
}

static void warn(const struct dt_rendezvous *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void warn(const struct dt_rendezvous *r, const char *fmt, ...)
{
    char line[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (r->options.warn)
        r->options.warn(line);
}

/* The first stranger is reported at once, the others together at the end. */
static void guest_refuse(struct dt_rendezvous *r, int i, const char *why)
{
    char from[DT_NET_ADDRESS_BYTES];
    dt_net_print(&r->guests[i].from, from);
    if (r->strangers++ == 0)
        warn(r,
             "closed a connection from %s port %u, which is no rank of this "
             "run: %s",
             from, (unsigned)ntohs(r->guests[i].from.v4.sin_port), why);
    close(r->guests[i].fd);
    guest_remove(r, i);
}

/* A rank that comes again has lost its first connection on the way. */
static void keep_arrival(struct dt_rendezvous *r, int rank, int fd)
{
    struct arrival *arrivals;
    size_t i = 0;
    pthread_mutex_lock(&r->mutex);
    while (i < r->arrival_count && r->arrivals[i].rank != rank)
        i++;
    if (i < r->arrival_count) {
        close(r->arrivals[i].fd);
        r->arrivals[i].fd = fd;
    } else if ((arrivals =
                    reallocarray(r->arrivals, i + 1, sizeof(*arrivals)))) {
        arrivals[i] = (struct arrival){rank, fd};
        r->arrivals = arrivals;
        r->arrival_count++;
    } else {
        close(fd); /* the wait for it will say that it did not come */
    }
    pthread_cond_broadcast(&r->arrived);
    pthread_mutex_unlock(&r->mutex);
}

static void guest_event(struct dt_rendezvous *r, int i)
{
    struct guest *guest = &r->guests[i];
    int rc = dt_handshake_continue(&guest->handshake, guest->fd);
    if (rc == 0)
        return;
    /* a rank that knocks goes once it is let in elsewhere */
    if (rc < 0 && errno == ECONNRESET && !r->options.keep) {
        close(guest->fd);
        guest_remove(r, i);
        return;
    }
    if (rc < 0) {
        guest_refuse(r, i, dt_handshake_error(errno));
        return;
    }
    if (r->options.keep)
        keep_arrival(r, guest->handshake.peer, guest->fd);
    else
        close(guest->fd);
    guest_remove(r, i);
}

/* Makes room: the first to go is one that has not even said who it is. */
static void refuse_oldest(struct dt_rendezvous *r)
{
    int i = 0;
    while (i < r->guest_count && r->guests[i].handshake.turn > 0)
        i++;
    if (r->guest_count > 0)
        guest_refuse(r, i < r->guest_count ? i : 0,
                     "it has proved nothing, and more have come");
}

static void accept_guests(struct dt_rendezvous *r)
{
    for (int n = 0; n < AT_ONCE; n++) {
        union dt_net_address from = {0};
        socklen_t bytes = sizeof(from);
        int fd = accept4(r->listener, &from.any, &bytes,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED) {
            refuse_oldest(r); /* too many files are open */
            dt_clock_sleep(0.001);
        }
        if (fd < 0)
            return;
        if (r->guest_count == DT_RENDEZVOUS_GUESTS)
            refuse_oldest(r);
        struct guest *guest = &r->guests[r->guest_count++];
        *guest = (struct guest){
            .fd = fd,
            .deadline = dt_clock_now() + DT_RENDEZVOUS_GUEST_MS / 1e3,
            .from = from,
        };
        dt_handshake_begin(&guest->handshake, &r->token, r->options.rank,
                           r->options.size, -1);
        guest_event(r, r->guest_count - 1);
    }
}

/* How long the thread may wait for events, in ms: -1 is for ever. */
static int refuse_late_guests(struct dt_rendezvous *r)
{
    double now = dt_clock_now();
    while (r->guest_count > 0 && r->guests[0].deadline <= now)
        guest_refuse(r, 0, "it has proved nothing in time");
    return r->guest_count > 0 ? (int)((r->guests[0].deadline - now) * 1e3) + 1
                              : -1;
}

static void *rendezvous_main(void *arg)
{
    struct dt_rendezvous *r = arg;
    struct pollfd polls[FIRST_GUEST + DT_RENDEZVOUS_GUESTS];
    polls[LISTENER] = (struct pollfd){.fd = r->listener, .events = POLLIN};
    polls[WAKE] = (struct pollfd){.fd = r->wake, .events = POLLIN};
    for (;;) {
        int ms = refuse_late_guests(r), guests = r->guest_count;
        for (int i = 0; i < guests; i++)
            polls[FIRST_GUEST + i] = (struct pollfd){
                .fd = r->guests[i].fd,
                .events = dt_handshake_sends(&r->guests[i].handshake) ? POLLOUT
                                                                      : POLLIN};
        if (poll(polls, (nfds_t)(FIRST_GUEST + guests), ms) <= 0)
            continue;
        if (polls[WAKE].revents)
            return NULL;
        for (int i = guests - 1; i >= 0; i--) /* some leave the list */
            if (polls[FIRST_GUEST + i].revents)
                guest_event(r, i);
        if (polls[LISTENER].revents)
            accept_guests(r);
    }
}

int dt_rendezvous_start(struct dt_rendezvous *r,
                        const struct dt_rendezvous_options *options,
                        struct dt_error *err)
{
    r->options = *options;
    r->token = *options->token;
    int rc = dt_thread_start(&r->thread, "rendezvous", rendezvous_main, r);
    if (rc != 0)
        return dt_error_set(err, EX_OSERR, "cannot start a thread: %s",
                            strerror(rc));
    r->runs = true;
    return 0;
}

/* The socket of an arrival, which leaves the list; -1: it has not come. */
static int take(struct dt_rendezvous *r, int peer)
{
    for (size_t i = 0; i < r->arrival_count; i++)
        if (r->arrivals[i].rank == peer) {
            int fd = r->arrivals[i].fd;
            r->arrivals[i] = r->arrivals[--r->arrival_count];
            return fd;
        }
    return -1;
}

int dt_rendezvous_take(struct dt_rendezvous *r, int peer, int ms,
                       struct dt_error *err)
{
    struct timespec deadline = dt_clock_in(CLOCK_MONOTONIC, ms);
    int fd, rc = 0;
    pthread_mutex_lock(&r->mutex);
    while ((fd = take(r, peer)) < 0 && rc == 0)
        rc = pthread_cond_timedwait(&r->arrived, &r->mutex, &deadline);
    pthread_mutex_unlock(&r->mutex);
    if (fd < 0)
        dt_error_set(err, EX_UNAVAILABLE, "it has not connected within %d ms",
                     ms);
    return fd;
}

void dt_rendezvous_close(struct dt_rendezvous *r)
{
    if (!r)
        return;
    if (r->runs) {
        eventfd_write(r->wake, 1);
        pthread_join(r->thread, NULL);
    }
    if (r->strangers > 1)
        warn(r,
             "closed %d more connections of strangers until all ranks were "
             "connected",
             r->strangers - 1);
    for (int i = 0; i < r->guest_count; i++)
        close(r->guests[i].fd);
    for (size_t i = 0; i < r->arrival_count; i++)
        close(r->arrivals[i].fd);
    if (r->listener >= 0)
        close(r->listener);
    if (r->wake >= 0)
        close(r->wake);
    free(r->arrivals);
    pthread_cond_destroy(&r->arrived);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}
