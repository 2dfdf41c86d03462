/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c - connections to where another rank listens */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/reach.h"

enum {
    AGAIN_MS = 20, /* before another attempt */
};

/* A connection to one address. */
struct attempt {
    int fd;    /* -1: it has failed */
    int error; /* an errno */
    bool connected, proved;
    struct dt_handshake handshake;
};

static void attempt_end(struct attempt *a, int error)
{
    a->error = error;
    if (a->fd >= 0)
        close(a->fd);
    a->fd = -1;
}

static void attempt_begin(struct attempt *a, const struct dt_reach *who,
                          const union dt_net_address *at)
{
    socklen_t bytes =
        at->any.sa_family == AF_INET6 ? sizeof(at->v6) : sizeof(at->v4);
    *a = (struct attempt){
        .fd = socket(at->any.sa_family,
                     SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    dt_handshake_begin(&a->handshake, who->token, who->rank, who->size,
                       who->peer);
    if (a->fd < 0 ||
        (connect(a->fd, &at->any, bytes) != 0 && errno != EINPROGRESS))
        attempt_end(a, errno);
}

static void attempt_event(struct attempt *a)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (!a->connected)
        getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error) {
        attempt_end(a, error);
        return;
    }
    a->connected = true;
    int rc = dt_handshake_continue(&a->handshake, a->fd);
    if (rc < 0)
        attempt_end(a, errno);
    a->proved = rc > 0;
}

static struct pollfd wait_of(const struct attempt *a)
{
    bool sends = !a->connected || dt_handshake_sends(&a->handshake);
    return (struct pollfd){.fd = a->proved ? -1 : a->fd,
                           .events = sends ? POLLOUT : POLLIN};
}

/* Waits for events of those before `end` that are under way. */
static void await_events(struct attempt *attempts, int end, int ms)
{
    struct pollfd polls[DT_REACH_ADDRESSES];
    for (int i = 0; i < end; i++)
        polls[i] = wait_of(&attempts[i]);
    if (poll(polls, (nfds_t)end, ms) <= 0)
        return;
    for (int i = 0; i < end; i++)
        if (polls[i].revents)
            attempt_event(&attempts[i]);
}

/* Returns the first that has succeeded, or `count`; *waits: may one before that
 * still succeed?
 */
static int first_proved(const struct attempt *attempts, int count, bool *waits)
{
    int i = 0;
    *waits = false;
    for (; i < count && !attempts[i].proved; i++)
        *waits |= attempts[i].fd >= 0;
    return i;
}

/* Runs the attempts until no better one can succeed. Returns the best, or
 * `count`.
 */
static int run_attempts(struct attempt *attempts, int count,
                        const struct dt_reach_times *times)
{
    double deadline = dt_clock_now() + times->answer_ms / 1e3;
    int found = count;
    for (;;) {
        bool waits;
        int first = first_proved(attempts, count, &waits);
        double now = dt_clock_now();
        if (first < found && now + times->prefer_ms / 1e3 < deadline)
            deadline = now + times->prefer_ms / 1e3;
        found = first;
        if (!waits || now >= deadline)
            return found;
        await_events(attempts, found, (int)((deadline - now) * 1e3) + 1);
    }
}

static int describe(const union dt_net_address *addresses,
                    const struct attempt *attempts, int count, int answer_ms,
                    struct dt_error *err)
{
    struct dt_error all = {.text = ""};
    for (int i = 0; i < count; i++) {
        const struct attempt *a = &attempts[i];
        char at[DT_NET_ADDRESS_BYTES], late[64];
        dt_net_print(&addresses[i], at);
        snprintf(late, sizeof(late), "no %s within %d ms",
                 a->connected ? "proof" : "answer", answer_ms);
        dt_error_add(&all, EX_UNAVAILABLE, "%s port %u: %s", at,
                     (unsigned)ntohs(addresses[i].v4.sin_port),
                     a->fd >= 0 ? late : dt_handshake_error(a->error));
    }
    return dt_error_set(err, EX_UNAVAILABLE, "%s", all.text);
}

int dt_reach_first(const struct dt_reach *who,
                   const union dt_net_address *addresses, int count,
                   const struct dt_reach_times *times, int *fd,
                   struct dt_error *err)
{
    struct attempt attempts[DT_REACH_ADDRESSES];
    for (int i = 0; i < count; i++)
        attempt_begin(&attempts[i], who, &addresses[i]);
    int found = run_attempts(attempts, count, times), rc = found;
    if (found < count) {
        *fd = attempts[found].fd;
        attempts[found].fd = -1;
    } else {
        rc = describe(addresses, attempts, count, times->answer_ms, err);
    }
    for (int i = 0; i < count; i++)
        attempt_end(&attempts[i], 0);
    return rc;
}

int dt_reach_peer(const struct dt_reach *who,
                  const union dt_net_address *address, int ms,
                  struct dt_error *err)
{
    double deadline = dt_clock_now() + ms / 1e3;
    struct attempt attempt;
    for (;;) {
        const struct dt_reach_times left = {
            .answer_ms = (int)((deadline - dt_clock_now()) * 1e3)};
        attempt_begin(&attempt, who, address);
        if (run_attempts(&attempt, 1, &left) == 0)
            return attempt.fd;
        /* it listens, but closed this one */
        if (attempt.error != ECONNRESET || dt_clock_now() >= deadline)
            break;
        dt_clock_sleep(AGAIN_MS / 1e3);
    }
    describe(address, &attempt, 1, ms, err);
    attempt_end(&attempt, 0);
    return -1;
}
