/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - one of the two streams of srun, on its way through the console
 *
 * A read that does not fill the buffer ends where a write of srun ended. With
 * --unbuffered that may be within a line: lines of slurmstepd itself come in
 * two pieces where its buffer wraps around.
 */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "console/console_impl.h"

/* --- labels --- */

size_t dt_label_parse(const char *line, size_t len, uint32_t tasks,
                      uint32_t *rank)
{
    uint64_t number = 0;
    size_t width = 1; /* of the highest rank, to which all are padded */
    for (uint32_t rest = tasks > 0 ? (tasks - 1) / 10 : 0; rest > 0; rest /= 10)
        width++;
    if (len < width + 2 || line[width] != ':' || line[width + 1] != ' ')
        return 0;
    size_t i = 0;
    while (i + 1 < width && line[i] == ' ')
        i++;
    for (; i < width; i++) {
        if (line[i] < '0' || line[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(line[i] - '0');
    }
    if (number >= tasks)
        return 0;
    *rank = (uint32_t)number;
    return width + 2;
}

bool dt_label_adds_newline(const char *text, size_t len)
{
    return len == DT_MESSAGE_BYTES + 1 && text[len - 1] == '\n';
}

/* --- the stream --- */

#define HOLD_S 2.0 /* pieces come within a millisecond, if srun has a CPU */

void dt_console_stream_init(struct dt_console_stream *s, int in, int out,
                            bool is_stderr)
{
    s->in = in;
    s->out = out;
    s->is_stderr = is_stderr;
    s->terminal = isatty(out);
    s->dead = s->mid_line = s->full = false;
    s->error = 0;
    s->held = 0;
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

/* Makes room for the next read after the bytes not yet handled. */
static const char *stop_here(struct dt_console_stream *s)
{
    s->used -= s->begin;
    memmove(s->buf, s->buf + s->begin, s->used);
    s->begin = 0;
    return NULL;
}

double dt_console_stream_left(const struct dt_console_stream *s)
{
    return s->held > 0 ? fmax(s->held + HOLD_S - dt_clock_now(), 0) : INFINITY;
}

/* Whether a line without a newline may be a piece of a line that is not shown.
 */
static bool is_held(struct dt_console_stream *s, const char *line, size_t len)
{
    if (!s->is_stderr || s->in < 0 || !dt_console_event_is_piece(line, len))
        return false;
    if (s->held == 0)
        s->held = dt_clock_now();
    return dt_console_stream_left(s) > 0;
}

const char *dt_console_stream_next(struct dt_console_stream *s, size_t *len)
{
    const char *line = s->buf + s->begin;
    size_t left = s->used - s->begin;
    const char *newline = memchr(line, '\n', left);
    if (left == 0 || (!newline && s->full && s->begin > 0) ||
        (!newline && is_held(s, line, left)))
        return stop_here(s);
    s->held = 0;
    *len = newline ? (size_t)(newline + 1 - line) : left;
    s->begin += *len;
    return line;
}

static void reverse_bytes(char *text, size_t len)
{
    for (size_t i = 0; i < len / 2; i++) {
        char byte = text[i];
        text[i] = text[len - 1 - i];
        text[len - 1 - i] = byte;
    }
}

const char *dt_console_stream_put_back(struct dt_console_stream *s, size_t len,
                                       size_t piece)
{
    char *line = s->buf + s->begin - len;
    reverse_bytes(line, piece);
    reverse_bytes(line + piece, len - piece);
    reverse_bytes(line, len);
    s->begin -= piece;
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
        else if (errno != EINTR) {
            s->dead = true;
            s->error = errno == EPIPE ? 0 : errno;
        }
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
