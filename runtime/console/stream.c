/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - one of srun's two streams, on its way through the console */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/footer.h"
#include "console/stream.h"

void dt_console_stream_init(struct dt_console_stream *s, int in, int out,
                            bool is_stderr)
{
    s->in = in;
    s->out = out;
    s->is_stderr = is_stderr;
    s->terminal = isatty(out);
    s->dead = s->mid_line = s->full = false;
    s->begin = s->used = s->shown = 0;
}

void dt_console_stream_close(struct dt_console_stream *s)
{
    if (s->in >= 0)
        close(s->in);
    s->in = -1;
}

void dt_console_stream_read(struct dt_console_stream *s)
{
    size_t room = sizeof(s->buf) - s->used;
    ssize_t n = read(s->in, s->buf + s->used, room);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        dt_console_stream_close(s);
    s->full = n == (ssize_t)room;
    s->used += n > 0 ? (size_t)n : 0;
}

/* Makes room for the next read behind what is not yet handled. */
static const char *stop_here(struct dt_console_stream *s)
{
    s->used -= s->begin;
    memmove(s->buf, s->buf + s->begin, s->used);
    s->begin = 0;
    return NULL;
}

const char *dt_console_stream_next(struct dt_console_stream *s, size_t *len)
{
    const char *line = s->buf + s->begin;
    size_t left = s->used - s->begin;
    const char *newline = memchr(line, '\n', left);
    if (left == 0 || (!newline && s->full && s->begin > 0))
        return stop_here(s);
    *len = newline ? (size_t)(newline + 1 - line) : left;
    s->begin += *len;
    return line;
}

static void write_all(struct dt_console_stream *s)
{
    size_t done = 0;
    while (done < s->shown && !s->dead) {
        ssize_t n = write(s->out, s->show + done, s->shown - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno == EAGAIN)
            poll(&(struct pollfd){.fd = s->out, .events = POLLOUT}, 1, -1);
        else
            s->dead = errno != EINTR;
    }
    s->shown = 0;
}

void dt_console_stream_flush(struct dt_console_stream *s)
{
    if (s->shown == 0)
        return;
    s->mid_line = s->show[s->shown - 1] != '\n';
    if (!s->terminal) {
        write_all(s);
        return;
    }
    dt_footer_lift();
    write_all(s);
    dt_footer_drop(s->mid_line);
}

void dt_console_stream_show(struct dt_console_stream *s, const char *text,
                            size_t len)
{
    if (s->shown + len > sizeof(s->show))
        dt_console_stream_flush(s);
    memcpy(s->show + s->shown, text, len);
    s->shown += len;
}
