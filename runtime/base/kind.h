/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kind.h - the content of a data file, by its first bytes and then by its name
 *
 * The one place that decides it: whoever checks, prepares or trains asks here,
 * so that nobody reads a file as something else.
 */
#ifndef DT_BASE_KIND_H
#define DT_BASE_KIND_H

#include "base/choices.h"
#include "base/codec.h"
#include "base/error.h"

enum dt_kind {
    DT_KIND_TEXT,   /* UTF-8, one document */
    DT_KIND_LINES,  /* rows: lines of JSON, or forms that become such lines */
    DT_KIND_TOKENS, /* token ids, of nanoGPT (raw) or llm.c (with a header) */
};

/* How the rows of a file stand in it. */
enum dt_form {
    DT_FORM_PLAIN, /* as they are: text, tokens, a JSON object on each line */
    DT_FORM_ARRAY, /* a JSON array of objects */
    DT_FORM_CSV,   /* a table with a header, separated by commas */
    DT_FORM_TSV,   /* or by tabs */
    DT_FORM_PARQUET,
    DT_FORM_ARROW, /* a file, or a stream as datasets has it */
    DT_FORM_COUNT,
};

/* The content of a file. */
struct dt_found {
    enum dt_kind kind;
    enum dt_form form;   /* of LINES; else PLAIN */
    enum dt_codec codec; /* of LINES that are not columns; else NONE */
};

/* The content that the user asks for. */
enum dt_kind_asked {
    DT_ASKED_AUTO,
    DT_ASKED_TEXT, /* text, or lines of JSON that hold text */
    DT_ASKED_LINES,
    DT_ASKED_TOKENS,
};

/* The content that a data.format asks for. */
enum dt_kind_asked dt_kind_asked_by(enum dt_format format);

/* Sets *found. Lines of JSON begin with an object, or their name ends in .jsonl
 * or .json; an array begins with [ and an object, or has such a name; a table
 * has a name that ends in .csv, .tsv or .tab; tokens have a header of llm.c, or
 * a name that ends in .bin. All rows may be compressed; .gz or .zst after a
 * name does not count. -1: as dt_file_peek; EX_DATAERR if the file is empty or
 * holds something that is not read here (a tar archive, UTF-16, a Git LFS
 * pointer ...) or is called something else (a table as text, JSON as tokens),
 * and the text has advice; EX_CONFIG, a codec that this build lacks.
 */
int dt_kind_find(const char *path, enum dt_kind_asked asked,
                 struct dt_found *found, struct dt_error *err);

/* "text", "tokens", "lines of JSON", "Parquet" and so on, for messages. */
const char *dt_kind_name(const struct dt_found *found);

/* The text between the name of a file and the number of a line, ":", or of a
 * row, ": row ", in messages.
 */
const char *dt_kind_mark(const struct dt_found *found);

#endif /* DT_BASE_KIND_H */
