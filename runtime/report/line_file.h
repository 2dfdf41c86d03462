/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_file.h - a file of JSON lines that a run appends to
 *
 * The file has whole lines whatever happens. A line that cannot be written is
 * lost, with one warning for a series of them, since a disk that is full for an
 * hour is not worth ending a run. A file that was removed is created again.
 */
#ifndef DT_REPORT_LINE_FILE_H
#define DT_REPORT_LINE_FILE_H

#include <stdio.h>

#include "base/error.h"

struct dt_line_file;

/* Opens `path` to append. Removes the lines whose "step" is above `last`, which
 * a crashed run wrote after its checkpoint and will write again, and damaged
 * lines after the last whole line that stays; damaged lines before it stay.
 * Lost and damaged lines get a warning. NULL and err: EX_CANTCREAT, EX_IOERR.
 */
struct dt_line_file *dt_line_file_open(const char *path, long last,
                                       struct dt_error *err);
void dt_line_file_close(struct dt_line_file *file); /* NULL is fine */

/* The stream for the next line, with its newline. NULL: the line is lost. */
FILE *dt_line_file_begin(struct dt_line_file *file);

/* Flushes the line that was printed. */
void dt_line_file_end(struct dt_line_file *file);

/* Syncs the file to disk. -1: EX_IOERR. */
int dt_line_file_sync(struct dt_line_file *file, struct dt_error *err);

#endif /* DT_REPORT_LINE_FILE_H */
