/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonl.h - a file of JSON lines that a run appends to
 *
 * The file has whole lines whatever happens. A line that cannot be written is
 * lost, with one warning for a series of them, since a disk that is full for an
 * hour is not worth ending a run. A file that was removed is created again.
 */
#ifndef DT_REPORT_JSONL_H
#define DT_REPORT_JSONL_H

#include <stdio.h>

#include "base/error.h"

struct dt_jsonl;

/* Opens `path` to append. Lines after the last whole one whose "step" is at
 * most `last` are removed: a crashed run wrote them after its checkpoint, and
 * they will be written again. Damaged lines before it stay, with a warning.
 * NULL and err: EX_CANTCREAT, EX_IOERR.
 */
struct dt_jsonl *dt_jsonl_open(const char *path, long last,
                               struct dt_error *err);
void dt_jsonl_close(struct dt_jsonl *jsonl); /* NULL is fine */

/* Where to print the next line to, with its newline. NULL: it is lost. */
FILE *dt_jsonl_begin(struct dt_jsonl *jsonl);

/* Flushes the line that was printed. */
void dt_jsonl_end(struct dt_jsonl *jsonl);

/* Syncs the file to disk. -1: EX_IOERR. */
int dt_jsonl_sync(struct dt_jsonl *jsonl, struct dt_error *err);

#endif /* DT_REPORT_JSONL_H */
