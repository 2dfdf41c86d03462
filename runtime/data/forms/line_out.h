/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_out.h - where readers of other forms write their rows: lines of JSON
 *
 * A failure is kept until the end of a row, so that the functions in between
 * return nothing.
 */
#ifndef DT_DATA_FORMS_LINE_OUT_H
#define DT_DATA_FORMS_LINE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "data/forms/stop.h"

struct dt_line_out {
    const char *path; /* what is read, for messages */
    int fd;
    uint64_t line; /* number of the line that is written, from 1 */
    uint64_t most; /* lines that are wanted; 0: all */
    char *buffer;
    size_t count;         /* bytes in it */
    uint64_t bytes;       /* all of them */
    uint64_t began;       /* where the line begins */
    struct dt_stop *stop; /* NULL: nobody stops it */
    bool failed;
    int cause; /* errno of the failure */
};

/* Writes the rows of `path` to a file without a name in `dir`, or NULL: to
 * memory. -1: EX_CANTCREAT, EX_OSERR.
 */
int dt_line_out_init(struct dt_line_out *out, const char *path, const char *dir,
                     uint64_t most, struct dt_error *err);
void dt_line_out_fini(struct dt_line_out *out); /* a zeroed one is fine */

/* Bytes as they are, and a string with quotes and escapes. */
void dt_line_out_put(struct dt_line_out *out, const void *bytes, size_t count);
void dt_line_out_string(struct dt_line_out *out, const char *text,
                        size_t count);

/* Writes empty lines until that of this number is next. */
void dt_line_out_skip(struct dt_line_out *out, uint64_t line);

/* Checks that a line does not grow beyond 256 MiB, for whoever writes it in
 * loops. -1: EX_DATAERR.
 */
int dt_line_out_check(const struct dt_line_out *out, struct dt_error *err);

/* Ends a line. 0: go on; 1: as many as wanted are there; -1: EX_IOERR, no room;
 * as dt_stop_check.
 */
int dt_line_out_end(struct dt_line_out *out, struct dt_error *err);

/* Maps all that was written; nothing more can be. -1: EX_IOERR. */
int dt_line_out_map(struct dt_line_out *out, struct dt_map *map,
                    struct dt_error *err);

#endif /* DT_DATA_FORMS_LINE_OUT_H */
