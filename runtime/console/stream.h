/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - one of srun's two streams, on its way through the console */
#ifndef DT_CONSOLE_STREAM_H
#define DT_CONSOLE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DT_CONSOLE_STREAM_BYTES = 128 * 1024, /* twice what a pipe holds */
};

struct dt_console_stream {
    int in; /* -1: at its end */
    int out;
    bool is_stderr;
    bool dead;     /* nobody reads what we write, or it cannot be written */
    int error;     /* why not; 0: nobody reads it, as with `| head` */
    bool terminal; /* the bar may be below it */
    bool mid_line; /* the last byte written was not a newline */
    bool full;     /* the last read has filled the buffer */
    double held;   /* since when the last line is held back; 0: it is not */
    size_t begin, used, shown;
    char buf[DT_CONSOLE_STREAM_BYTES]; /* buf[begin..used): to be handled */
    char show[2 * DT_CONSOLE_STREAM_BYTES]; /* to be written */
};

/* Begins to copy `in` to `out`. There is nothing to free. */
void dt_console_stream_init(struct dt_console_stream *s, int in, int out,
                            bool is_stderr);

/* Reads once; at the end of the input, closes it. */
void dt_console_stream_read(struct dt_console_stream *s);

/* Returns the next line to handle, whose length becomes *len; NULL: none. A
 * last line without a newline comes at once, too, unless the read has filled
 * the buffer, or on stderr the rest of the line decides whether it is to be
 * shown: then for a moment we wait for the rest. The line is valid until the
 * next call.
 */
const char *dt_console_stream_next(struct dt_console_stream *s, size_t *len);

/* Makes the line that dt_console_stream_next has just returned, of `len` bytes,
 * begin `piece` bytes later: these are put back, in front of the next line.
 * Returns it; it is valid until the next call.
 */
const char *dt_console_stream_put_back(struct dt_console_stream *s, size_t len,
                                       size_t piece);

/* How many seconds a line may still be held back; INFINITY: none is. */
double dt_console_stream_left(const struct dt_console_stream *s);

/* Reads no more; once is enough. */
void dt_console_stream_close(struct dt_console_stream *s);

/* Adds text that dt_console_stream_flush writes. */
void dt_console_stream_show(struct dt_console_stream *s, const char *text,
                            size_t len);

/* Writes the text to be shown, above the bar. Waits for the reader as long as
 * necessary, as srun would.
 */
void dt_console_stream_flush(struct dt_console_stream *s);

#endif /* DT_CONSOLE_STREAM_H */
