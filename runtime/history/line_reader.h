/* SPDX-License-Identifier: Apache-2.0 */
/* line_reader.h - lines of a file that may be damaged or still growing */
#ifndef DT_HISTORY_LINE_READER_H
#define DT_HISTORY_LINE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct dt_line_reader {
    int fd; /* -1: there is no file */
    char *buffer;
    size_t size;       /* of the buffer, without the byte behind it */
    size_t begin, end; /* what is read and not yet taken */
    size_t scanned;    /* from begin on: has no line end */
    size_t limit;      /* longest line */
    bool ended, overlong;
    char *path;
};

/* Opens the file; one that is missing has no lines. Release with
 * dt_line_reader_fini, also after a failure: -1, EX_IOERR or EX_OSERR.
 */
int dt_line_reader_init(struct dt_line_reader *reader, const char *path,
                        size_t limit, struct dt_error *err);
void dt_line_reader_fini(struct dt_line_reader *reader);

enum dt_line_kind {
    DT_LINE_NONE,    /* there are no more */
    DT_LINE_WHOLE,   /* it ended with LF */
    DT_LINE_TORN,    /* the last one, without LF */
    DT_LINE_TOO_LONG /* text is NULL */
};

/* The next line, with NUL in place of LF, until the next call. -1: EX_IOERR,
 * EX_OSERR.
 */
int dt_line_reader_next(struct dt_line_reader *reader, enum dt_line_kind *kind,
                        const char **text, size_t *bytes, struct dt_error *err);

#endif /* DT_HISTORY_LINE_READER_H */
