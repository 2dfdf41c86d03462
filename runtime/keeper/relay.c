/* SPDX-License-Identifier: Apache-2.0 */
/* relay.c - what a worker prints, when srun may not be there to take it */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "keeper/relay.h"

enum { TURNS = 32 /* reads at a time: more than a pipe holds */ };

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

void dt_relay_poll(const struct dt_relay *relay, struct pollfd *fds)
{
    for (int i = 0; i < DT_RELAY_STREAMS; i++)
        fds[i] =
            (struct pollfd){relay->on ? relay->streams[i].from : -1, POLLIN, 0};
}

void dt_relay_take(const struct dt_relay *relay)
{
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++)
        dup2(relay->streams[i].to, STDOUT_FILENO + i);
}

/* Passes on the first bytes that wait. A pipe takes so few all at once, or
 * none.
 */
static void pass(struct dt_relay *relay, int i, size_t bytes)
{
    struct dt_relay_stream *s = &relay->streams[i];
    if (write(STDOUT_FILENO + i, s->text, bytes) != (ssize_t)bytes)
        for (size_t k = 0; k < bytes; k++)
            relay->lost += s->text[k] == '\n';
    s->used -= bytes;
    memmove(s->text, s->text + bytes, s->used);
}

/* The bytes of all whole lines that wait, or of one that is too long. */
static size_t count_whole(const struct dt_relay_stream *s)
{
    const char *end = memrchr(s->text, '\n', s->used);
    return end                          ? (size_t)(end + 1 - s->text)
           : s->used == sizeof(s->text) ? s->used
                                        : 0;
}

void dt_relay_serve(struct dt_relay *relay)
{
    for (int i = 0; relay->on && i < DT_RELAY_STREAMS; i++) {
        struct dt_relay_stream *s = &relay->streams[i];
        for (int turn = 0; turn < TURNS; turn++) {
            const ssize_t n =
                read(s->from, s->text + s->used, sizeof(s->text) - s->used);
            if (n <= 0)
                break;
            s->used += (size_t)n;
            const size_t whole = count_whole(s);
            if (whole > 0)
                pass(relay, i, whole);
        }
    }
}

void dt_relay_finish(struct dt_relay *relay, int rank, const char *host)
{
    dt_relay_serve(relay);
    for (int i = 0; i < DT_RELAY_STREAMS; i++)
        if (relay->streams[i].used > 0)
            pass(relay, i, relay->streams[i].used);
    if (relay->lost > 0)
        fprintf(stderr,
                "disttrain: rank %d on %s: srun did not take %ld lines, which "
                "are lost\n",
                rank, host, relay->lost);
    relay->lost = 0;
}
