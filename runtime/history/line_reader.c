/* SPDX-License-Identifier: Apache-2.0 */
/* line_reader.c - lines of a file that may be damaged or still growing */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "history/line_reader.h"

enum { FIRST_BYTES = 1 << 18 };

int dt_line_reader_init(struct dt_line_reader *reader, const char *path,
                        size_t limit, struct dt_error *err)
{
    struct dt_error why;
    *reader = (struct dt_line_reader){.fd = -1, .limit = limit};
    reader->size = limit < FIRST_BYTES ? limit : FIRST_BYTES;
    reader->path = strdup(path);
    reader->buffer = malloc(reader->size + 1);
    if (!reader->path || !reader->buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", path);
    reader->fd = dt_file_open(path, &why);
    if (reader->fd >= 0 || why.status == EX_NOINPUT)
        return 0;
    return dt_error_set(err, why.status, "%s", why.text);
}

void dt_line_reader_fini(struct dt_line_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    free(reader->path);
    *reader = (struct dt_line_reader){.fd = -1};
}

/* Makes room in the buffer: what is left moves to its front; if that fills it,
 * it grows up to the limit, beyond which the line is dropped.
 */
static int reader_make_room(struct dt_line_reader *reader, struct dt_error *err)
{
    const size_t left = reader->end - reader->begin;
    memmove(reader->buffer, reader->buffer + reader->begin, left);
    reader->begin = 0;
    reader->end = left;
    if (left < reader->size)
        return 0;
    if (reader->size == reader->limit) {
        reader->overlong = true;
        reader->end = reader->scanned = 0;
        return 0;
    }
    size_t size =
        reader->size < reader->limit / 2 ? 2 * reader->size : reader->limit;
    char *buffer = realloc(reader->buffer, size + 1);
    if (!buffer)
        return dt_error_set(err, EX_OSERR, "%s: out of memory", reader->path);
    reader->buffer = buffer;
    reader->size = size;
    return 0;
}

static int reader_fill(struct dt_line_reader *reader, struct dt_error *err)
{
    if (reader_make_room(reader, err) < 0)
        return -1;
    ssize_t n;
    do
        n = read(reader->fd, reader->buffer + reader->end,
                 reader->size - reader->end);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return dt_error_set(err, EX_IOERR, "%s: cannot read: %s", reader->path,
                            strerror(errno));
    reader->ended = n == 0;
    reader->end += (size_t)n;
    return 0;
}

/* Takes `bytes` of a line and the line end behind them. */
static enum dt_line_kind reader_take(struct dt_line_reader *reader,
                                     size_t bytes, bool whole,
                                     const char **text)
{
    char *line = reader->buffer + reader->begin;
    const bool overlong = reader->overlong;
    line[bytes] = '\0';
    reader->begin += bytes + whole;
    reader->scanned = 0;
    reader->overlong = false;
    *text = overlong ? NULL : line;
    if (overlong)
        return DT_LINE_TOO_LONG;
    return whole ? DT_LINE_WHOLE : DT_LINE_TORN;
}

int dt_line_reader_next(struct dt_line_reader *reader, enum dt_line_kind *kind,
                        const char **text, size_t *bytes, struct dt_error *err)
{
    *kind = DT_LINE_NONE;
    while (reader->fd >= 0) {
        char *from = reader->buffer + reader->begin;
        size_t left = reader->end - reader->begin;
        char *lf = memchr(from + reader->scanned, '\n', left - reader->scanned);
        if (lf || (reader->ended && (left > 0 || reader->overlong))) {
            *bytes = lf ? (size_t)(lf - from) : left;
            *kind = reader_take(reader, *bytes, lf, text);
            return 0;
        }
        if (reader->ended)
            return 0;
        reader->scanned = left;
        if (reader_fill(reader, err) < 0)
            return -1;
    }
    return 0;
}
