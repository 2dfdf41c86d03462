/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - what a worker prints, when srun may not be there to take it */
#include "config.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/relay.h"

enum {
    TURNS = 32, /* reads at a time: more than a pipe holds */
    WAIT_MS = 50,
    LINE_BYTES = 512,
};

void dt_relay_close(struct dt_relay *relay)
{
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++) {
        close(relay->streams[i].from);
        close(relay->streams[i].to);
    }
    relay->on = false;
}

/* Writes of this process do not wait from now on; a worker has a pipe of which
 * it knows nothing, and may wait.
 */
int dt_relay_open(struct dt_relay *relay)
{
    int ends[DT_RELAY_STREAMS][2];
    if (relay->on)
        return 0;
    if (pipe2(ends[0], O_CLOEXEC) < 0)
        return -1;
    if (pipe2(ends[1], O_CLOEXEC) < 0) {
        close(ends[0][0]);
        close(ends[0][1]);
        return -1;
    }
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        const int fd = STDOUT_FILENO + i;
        fcntl(ends[i][0], F_SETFL, O_NONBLOCK);
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        relay->streams[i].from = ends[i][0];
        relay->streams[i].to = ends[i][1];
    }
    relay->on = true;
    return 0;
}

/* Whether srun has taken nothing for so long that it may not be there. */
static bool is_deaf(const struct dt_relay_stream *s)
{
    return s->refused > 0 && dt_clock_now() - s->refused >= DT_RELAY_PATIENCE_S;
}

void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds)
{
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        const struct dt_relay_stream *s = &relay->streams[i];
        fds[i] = (struct pollfd){relay->on ? s->from : -1, POLLIN, 0};
        if (relay->on && s->refused > 0 && !is_deaf(s))
            fds[i] = (struct pollfd){STDOUT_FILENO + i, POLLOUT, 0};
    }
}

double dt_relay_due(const struct dt_relay *relay)
{
    double due = INFINITY;
    for (int i = 0; i < DT_RELAY_STREAMS; i++) {
        const struct dt_relay_stream *s = &relay->streams[i];
        if (s->refused > 0 && !is_deaf(s))
            due = fmin(due, s->refused + DT_RELAY_PATIENCE_S);
    }
    return due;
}

void dt_relay_take(const struct dt_relay *relay)
{
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++)
        dup2(relay->streams[i].to, STDOUT_FILENO + i);
}

/* Passes on the first bytes that wait. A pipe takes so few all at once, or
 * none; then they wait on, and the worker with them, until srun is deaf. False:
 * they wait.
 */
static bool pass(struct dt_relay *relay, int i, size_t bytes)
{
    struct dt_relay_stream *s = &relay->streams[i];
    if (write(STDOUT_FILENO + i, s->text, bytes) == (ssize_t)bytes) {
        s->refused = 0;
    } else {
        if (s->refused == 0)
            s->refused = dt_clock_now();
        if (!is_deaf(s))
            return false;
        for (size_t k = 0; k < bytes; k++)
            relay->lost += s->text[k] == '\n';
    }
    s->used -= bytes;
    memmove(s->text, s->text + bytes, s->used);
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

/* Passes on what a stream has. False: it waits for srun. */
static bool serve_stream(struct dt_relay *relay, int i)
{
    struct dt_relay_stream *s = &relay->streams[i];
    for (int turn = 0; turn < TURNS; turn++) {
        const size_t whole = count_whole(s);
        if (whole > 0 && !pass(relay, i, whole))
            return false;
        const ssize_t n =
            read(s->from, s->text + s->used, sizeof(s->text) - s->used);
        if (n <= 0)
            return true;
        s->used += (size_t)n;
    }
    return true;
}

void dt_relay_serve(struct dt_relay *relay)
{
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++)
        serve_stream(relay, i);
}

/* Passes on all that a stream has. The keeper is not away for longer than
 * srun is patient with a worker.
 */
static void drain(struct dt_relay *relay, int i)
{
    struct dt_relay_stream *s = &relay->streams[i];
    struct pollfd srun = {STDOUT_FILENO + i, POLLOUT, 0};
    while (!serve_stream(relay, i))
        poll(&srun, 1, WAIT_MS);
    while (s->used > 0 && !pass(relay, i, s->used))
        poll(&srun, 1, WAIT_MS);
}

void dt_relay_finish(struct dt_relay *relay, int rank, const char *host)
{
    char line[LINE_BYTES];
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++)
        drain(relay, i);
    if (relay->lost == 0)
        return;
    const int bytes = snprintf(line, sizeof(line),
                               "disttrain: rank %d on %s: srun did not take "
                               "%ld lines, which are lost\n",
                               rank, host, relay->lost);
    if (write(STDERR_FILENO, line, (size_t)bytes) == bytes)
        relay->lost = 0; /* else the next worker's end says it */
}
