/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - what a keeper and its worker print, when srun may not take it */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/relay.h"

enum {
    OWN = DT_RELAY_STREAMS - 1, /* the stream of this process */
    TURNS = 32,                 /* reads at a time: more than a pipe holds */
    WAIT_MS = 50,
};

/* --- where everybody prints --- */

/* Returns a way to what `fd` leads to on which writes of this process do not
 * wait, while those of others on `fd` still do. What cannot be opened again, as
 * a socket, is shared with them; a file takes everything at once.
 */
static int open_again(int fd)
{
    char path[32];
    struct stat st;
    int again = -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        again = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int dt_relay_init(struct dt_relay *relay, bool (*is_gone)(const void *context),
                  const void *context, struct dt_error *err)
{
    int ends[2];
    *relay = (struct dt_relay){.is_gone = is_gone, .context = context};
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        relay->streams[i].from = relay->streams[i].end = -1;
        relay->streams[i].to =
            open_again(i == 0 ? STDOUT_FILENO : STDERR_FILENO);
    }
    relay->worker_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return dt_error_set(err, EX_OSERR, "keeper: pipe: %s", strerror(errno));
    relay->streams[OWN].from = ends[0];
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    return 0;
}

int dt_relay_open(struct dt_relay *relay)
{
    for (int i = 0; i < OWN; i++) {
        struct dt_relay_stream *s = &relay->streams[i];
        int ends[2];
        if (s->from >= 0)
            continue;
        if (pipe2(ends, O_CLOEXEC) < 0)
            return -1;
        fcntl(ends[0], F_SETFL, O_NONBLOCK); /* the other end may wait */
        s->from = ends[0];
        s->end = ends[1];
    }
    return 0;
}

void dt_relay_take(const struct dt_relay *relay)
{
    dup2(relay->worker_stderr, STDERR_FILENO);
    for (int i = 0; i < OWN; i++)
        if (relay->streams[i].end >= 0)
            dup2(relay->streams[i].end, STDOUT_FILENO + i);
}

/* --- srun --- */

/* Whether lines of a worker are lost, as srun takes nothing. It is asked again
 * now and then, as it may only be slow at first.
 */
static bool is_deaf(struct dt_relay *relay, const struct dt_relay_stream *s)
{
    const double now = dt_clock_now();
    if (!relay->gone && now - s->refused >= DT_RELAY_PATIENCE_S &&
        now - relay->asked >= DT_RELAY_PATIENCE_S) {
        relay->gone = relay->is_gone(relay->context);
        relay->asked = dt_clock_now();
    }
    return relay->gone;
}

/* Whether what has come waits for srun. Our own lines always do. */
static bool waits(const struct dt_relay *relay, int i)
{
    return relay->streams[i].refused > 0 && (i == OWN || !relay->gone);
}

void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds)
{
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        const struct dt_relay_stream *s = &relay->streams[i];
        fds[i] = waits(relay, i) ? (struct pollfd){s->to, POLLOUT, 0}
                                 : (struct pollfd){s->from, POLLIN, 0};
    }
}

double dt_relay_due(const struct dt_relay *relay)
{
    double due = INFINITY;
    for (int i = 0; i < OWN; i++)
        if (waits(relay, i))
            due = fmin(due, fmax(relay->streams[i].refused, relay->asked) +
                                DT_RELAY_PATIENCE_S);
    return due;
}

/* Takes away the first bytes that wait. */
static void drop(struct dt_relay_stream *s, size_t bytes)
{
    s->used -= bytes;
    memmove(s->text, s->text + bytes, s->used);
}

/* Takes away lines that nobody gets. */
static void lose(struct dt_relay *relay, int i, size_t bytes)
{
    struct dt_relay_stream *s = &relay->streams[i];
    for (size_t k = 0; k < bytes && i != OWN; k++)
        relay->lost += s->text[k] == '\n';
    drop(s, bytes);
}

/* Passes on the first bytes that wait. A pipe takes so few all at once, or
 * none; then they wait on, and the worker with them, unless srun is gone. What
 * slurmstepd or a full disk never takes is lost at once. False: they wait.
 */
static bool pass(struct dt_relay *relay, int i, size_t bytes)
{
    struct dt_relay_stream *s = &relay->streams[i];
    const ssize_t n = write(s->to, s->text, bytes);
    const bool never = n < 0 && errno != EAGAIN && errno != EINTR;
    if (n > 0) {
        drop(s, (size_t)n);
        bytes -= (size_t)n;
        relay->gone = false;
    }
    if (n > 0 || never)
        s->refused = 0;
    if (bytes == 0)
        return true;
    if (!never && s->refused == 0)
        s->refused = dt_clock_now();
    if (!never && (i == OWN || !is_deaf(relay, s)))
        return false;
    lose(relay, i, bytes);
    return true;
}

/* The bytes of all whole lines that wait, or of one that is too long. */
static size_t count_whole(const struct dt_relay_stream *s)
{
    const char *end = memrchr(s->text, '\n', s->used);
    return end                          ? (size_t)(end + 1 - s->text)
           : s->used == sizeof(s->text) ? s->used
                                        : 0;
}

/* Reads more of a stream. False: there is none now. */
static bool take(struct dt_relay_stream *s)
{
    const ssize_t n =
        read(s->from, s->text + s->used, sizeof(s->text) - s->used);
    if (n > 0)
        s->used += (size_t)n;
    return n > 0;
}

/* Passes on what a stream has. False: it waits for srun. */
static bool serve_stream(struct dt_relay *relay, int i)
{
    struct dt_relay_stream *s = &relay->streams[i];
    for (int turn = 0; s->from >= 0 && turn < TURNS; turn++) {
        const size_t whole = count_whole(s);
        if (whole > 0 && !pass(relay, i, whole))
            return false;
        if (!take(s))
            return true;
    }
    return true;
}

void dt_relay_serve(struct dt_relay *relay)
{
    for (int i = 0; i < DT_RELAY_STREAMS; i++)
        serve_stream(relay, i);
}

/* Passes on a line without an end, too, as nothing comes after it. */
static void serve_rest(struct dt_relay *relay, int i)
{
    const struct dt_relay_stream *s = &relay->streams[i];
    if (serve_stream(relay, i) && s->used > 0)
        pass(relay, i, s->used);
}

/* Says how much is lost. */
static void account(struct dt_relay *relay)
{
    if (relay->lost > 0)
        fprintf(stderr,
                "disttrain: rank %d on %s: srun did not take %ld lines, which "
                "are lost\n",
                relay->rank, relay->host, relay->lost);
    relay->lost = 0;
}

void dt_relay_finish(struct dt_relay *relay, int rank, const char *host)
{
    relay->rank = rank;
    relay->host = host;
    for (int i = 0; i < OWN; i++)
        serve_rest(relay, i);
    account(relay);
}

/* --- the end --- */

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Whether there is anything that srun may still take. */
static bool has_rest(const struct dt_relay_stream *s)
{
    struct pollfd p = {s->from, POLLIN, 0};
    return s->used > 0 ||
           (s->from >= 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLIN) != 0);
}

/* Takes what srun has not taken in time. */
static void lose_rest(struct dt_relay *relay, int i)
{
    struct dt_relay_stream *s = &relay->streams[i];
    do
        lose(relay, i, s->used);
    while (take(s));
}

void dt_relay_fini(struct dt_relay *relay, double seconds)
{
    const double until = dt_clock_now() + seconds;
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        struct dt_relay_stream *s = &relay->streams[i];
        struct pollfd srun = {s->to, POLLOUT, 0};
        if (i == OWN)
            account(relay);
        serve_rest(relay, i);
        while (has_rest(s) && dt_clock_now() < until) {
            poll(&srun, 1, WAIT_MS);
            serve_rest(relay, i);
        }
        lose_rest(relay, i);
    }
    if (relay->streams[OWN].from >= 0)
        dup2(relay->worker_stderr, STDERR_FILENO);
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        close_if_open(relay->streams[i].from);
        close_if_open(relay->streams[i].end);
        close_if_open(relay->streams[i].to);
    }
    close_if_open(relay->worker_stderr);
}
