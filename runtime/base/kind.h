/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind.h - what a data file holds, by its first bytes and then by its name
 *
 * The one place that decides it: whoever checks, prepares or trains asks here,
 * so that nobody reads a file as something else.
 */
#ifndef DT_BASE_KIND_H
#define DT_BASE_KIND_H

#include "base/choices.h"
#include "base/error.h"

enum dt_kind {
    DT_KIND_TEXT,   /* UTF-8, one document */
    DT_KIND_LINES,  /* a JSON object on each line */
    DT_KIND_TOKENS, /* token ids, of nanoGPT (raw) or llm.c (with a header) */
};

/* What the user says of a file. */
enum dt_kind_asked {
    DT_ASKED_AUTO,
    DT_ASKED_TEXT, /* text, or lines of JSON that hold text */
    DT_ASKED_LINES,
    DT_ASKED_TOKENS,
};

/* What a data.format says of a file. */
enum dt_kind_asked dt_kind_asked_by(enum dt_format format);

/* Sets *kind. Lines of JSON begin with an object, or their name ends in .jsonl
 * or .json; tokens have a header of llm.c, or a name that ends in .bin. -1: as
 * dt_file_peek; EX_DATAERR if the file is empty or holds something that is not
 * read here (compressed, Parquet, CSV, UTF-16, a JSON array, a Git LFS pointer
 * ...), and the text says what to do.
 */
int dt_kind_find(const char *path, enum dt_kind_asked asked, enum dt_kind *kind,
                 struct dt_error *err);

/* "text", "lines of JSON" or "tokens", for messages. */
const char *dt_kind_name(enum dt_kind kind);

#endif /* DT_BASE_KIND_H */
