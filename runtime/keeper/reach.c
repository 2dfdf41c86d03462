/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c - how a keeper finds the leader */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/answer.h"
#include "base/clock.h"
#include "base/net.h"
#include "keeper/reach.h"
#include "keeper/roster.h"

enum {
    RETRY_MS = 50, /* between two tries */
    TRY_MS = 5000, /* for a connection, and for the proof of a first leader */
};

void dt_keeper_token(const char *secret, struct dt_token *token)
{
    static const uint8_t word[DT_SIPHASH_BYTES] = "dt.keeper";
    dt_siphash(word, secret, strlen(secret), token->key);
}

double dt_keeper_lost_at(const struct dt_keeper_options *options, double heard)
{
    return fmin(dt_clock_now(), heard + options->beat_ms / 1e3);
}

struct seeker {
    struct dt_token token;
    int id, count;
    int leader; /* its id */
    int signals;
    double until;   /* for all tries */
    double proof_s; /* for a proof, once there is a connection */
};

/* Waits for the socket until then. 1; 0 and errno: ETIMEDOUT, or EINTR for a
 * signal.
 */
static int wait_for(const struct seeker *s, int fd, short events, double until)
{
    struct pollfd fds[] = {{fd, events, 0}, {s->signals, POLLIN, 0}};
    const double left = until - dt_clock_now();
    const int n = left <= 0 ? 0 : poll(fds, 2, (int)(left * 1e3) + 1);
    errno = n > 0 && fds[1].revents ? EINTR : ETIMEDOUT;
    return n > 0 && !fds[1].revents;
}

/* -1 and errno. */
static int prove(const struct seeker *s, int fd, double until)
{
    struct dt_handshake handshake;
    int done;
    dt_handshake_begin(&handshake, &s->token, s->id, s->count, s->leader);
    while ((done = dt_handshake_continue(&handshake, fd)) == 0)
        if (!wait_for(s, fd, dt_handshake_sends(&handshake) ? POLLOUT : POLLIN,
                      until))
            return -1;
    return done > 0 ? 0 : -1;
}

/* -1 and errno. */
static int finish_connect(const struct seeker *s, int fd, double until)
{
    int bad = 0;
    socklen_t length = sizeof(bad);
    if (!wait_for(s, fd, POLLOUT, until))
        return -1;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &bad, &length) < 0)
        return -1;
    errno = bad;
    const double proof = dt_clock_now() + s->proof_s;
    return bad ? -1 : prove(s, fd, proof < s->until ? proof : s->until);
}

/* Connects to one address of the leader. Returns the socket; -1 and errno. */
static int try_address(const struct seeker *s, const struct addrinfo *at)
{
    const double until = dt_clock_now() + TRY_MS / 1e3;
    const int yes = 1;
    int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    if ((connect(fd, at->ai_addr, at->ai_addrlen) == 0 ||
         errno == EINPROGRESS) &&
        finish_connect(s, fd, until < s->until ? until : s->until) == 0)
        return fd;
    const int bad = errno;
    close(fd);
    errno = bad;
    return -1;
}

/* Tries all addresses until one leads to the leader; -1 and errno. */
static int try_all(const struct seeker *s, const struct addrinfo *all)
{
    for (;;) {
        for (const struct addrinfo *at = all; at; at = at->ai_next) {
            int fd = try_address(s, at);
            if (fd >= 0 || errno == EINTR)
                return fd;
        }
        const int bad = errno;
        const double next = dt_clock_now() + RETRY_MS / 1e3;
        wait_for(s, -1, 0, next);
        if (errno == EINTR)
            return -1;
        errno = bad;
        if (next > s->until)
            return -1;
    }
}

int dt_reach_leader(const struct dt_keeper_options *options, int id, int count,
                    int signals, struct dt_error *err)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct seeker s = {
        .id = id, .count = count, .signals = signals, .proof_s = TRY_MS / 1e3};
    struct addrinfo *all = NULL;
    int bad = getaddrinfo(host, port, &wanted, &all);
    if (bad)
        return dt_error_set(err, EX_UNAVAILABLE, "keeper: MASTER_ADDR=%s: %s",
                            host, gai_strerror(bad));
    s.until = dt_clock_now() + options->timeout_ms / 1e3;
    dt_keeper_token(options->secret, &s.token);
    int fd = try_all(&s, all);
    bad = errno;
    freeaddrinfo(all);
    if (fd >= 0)
        return fd;
    if (bad == EINTR)
        return dt_error_set(err, EX_TEMPFAIL,
                            "stopped by a signal before the first step");
    return dt_error_set(err, EX_UNAVAILABLE,
                        "keeper: task %d cannot reach that of task 0 at %s:%s "
                        "within %d ms: %s",
                        id, host, port, options->timeout_ms,
                        dt_handshake_error(bad));
}

int dt_reach_next(const struct dt_keeper_options *options,
                  const struct dt_roster *roster, int leader, int id,
                  int signals, struct dt_error *err)
{
    /* it answers once its worker has ended, which may take two outages */
    const double outage = options->outage_s;
    const struct dt_wire_row *row = &roster->rows[leader];
    union dt_net_address at;
    struct addrinfo info = {.ai_addr = &at.any};
    struct seeker s = {.id = id,
                       .count = roster->count,
                       .leader = leader,
                       .signals = signals,
                       .until = dt_clock_now() + 4 * outage,
                       .proof_s = 3 * outage};
    info.ai_addrlen = dt_net_parse(&at, row->address, row->hello.port);
    info.ai_family = at.any.sa_family;
    dt_keeper_token(options->secret, &s.token);
    int fd = info.ai_addrlen > 0 ? try_address(&s, &info) : -1;
    if (fd >= 0)
        return fd;
    return dt_error_set(err, errno == EINTR ? EX_TEMPFAIL : EX_UNAVAILABLE,
                        "keeper: cannot reach %s at %s:%u: %s",
                        roster->hosts[leader], row->address, row->hello.port,
                        dt_handshake_error(errno));
}

/* Asks srun's host, where no keeper listens. */
static bool answers_for_srun(const struct dt_keeper_options *options)
{
    struct dt_wire_row row = {.hello.port = DT_ANSWER_PORT};
    snprintf(row.address, sizeof(row.address), "%s", options->srun_address);
    return !dt_host_is_silent(&row);
}

void dt_reach_hear_srun(const struct dt_keeper_options *options,
                        struct dt_roster *roster)
{
    roster->hears_srun = options->srun_node && options->srun_address &&
                         answers_for_srun(options);
}

/* Whether the step has keepers on this host, or has had them. */
static bool has_host(const struct dt_roster *roster, const char *host)
{
    for (int i = 0; i < roster->count; i++)
        if (strcmp(roster->hosts[i], host) == 0)
            return true;
    return false;
}

bool dt_reach_lost_srun(const struct dt_keeper_options *options,
                        const struct dt_roster *roster)
{
    const char *node = options->srun_node;
    if (!node)
        return false;
    if (!has_host(roster, node))
        return roster->hears_srun && !answers_for_srun(options);
    const int lost = dt_roster_find_lost(roster, node);
    return lost >= 0 && dt_host_is_silent(&roster->rows[lost]);
}

bool dt_reach_misses_srun(const struct dt_keeper_options *options,
                          const struct dt_roster *roster)
{
    const char *node = options->srun_node;
    for (int i = 0; node && i < roster->count; i++)
        if (dt_roster_has(roster, i) && strcmp(roster->hosts[i], node) == 0)
            return false;
    return node;
}

enum dt_answer dt_reach_srun(const struct dt_keeper_options *options,
                             const struct dt_roster *roster)
{
    if (!options->srun_address || options->srun_port == 0 ||
        !dt_reach_misses_srun(options, roster))
        return DT_ANSWER_OPEN;
    return dt_host_ask(options->srun_address, (unsigned)options->srun_port);
}
