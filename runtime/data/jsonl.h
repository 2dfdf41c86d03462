/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl.h - splits JSONL files into lines and reads lines as records */
#ifndef DT_DATA_JSONL_H
#define DT_DATA_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "data/example.h"
#include "data/turns.h"

/* A piece of a file: whole lines with their line ends. */
struct dt_part {
    uint64_t begin, end; /* byte offsets in the file */
    uint64_t line;       /* number of its first line, counted from 1 */
};

/* Cuts a file into parts of at least part_bytes (except the last), each
 * extended to the end of a line. The cuts depend only on the file and on
 * part_bytes. `parts` needs room for bytes / part_bytes + 1. Returns the number
 * of parts.
 */
size_t dt_jsonl_parts(const char *data, size_t bytes, size_t part_bytes,
                      struct dt_part *parts);

/* Counts the lines, blank ones too. */
uint64_t dt_jsonl_count(const char *data, size_t bytes);

/* The next line from offset *at on that is not blank. Returns its first byte
 * and its *length without the line end (LF or CR LF), moves *at past it and
 * adds the number of lines passed to *line. Skips a byte order mark at offset
 * 0. NULL: no more lines.
 */
const char *dt_jsonl_next(const char *data, size_t bytes, size_t *at,
                          uint64_t *line, size_t *length);

/* The content of a line. Which fields are set depends on the layout. */
struct dt_record {
    enum dt_format format; /* not AUTO */
    const char *text;
    const char *prompt, *completion; /* NULL if they are lists of messages */
    size_t completion_bytes; /* what a model has written may have NULs */
    struct dt_turns turns;   /* messages, or those of prompt and completion */
    size_t prompt_turns;     /* number of turns that are the prompt */
    int32_t *ids;            /* TOKENS: the ids */
    bool *targets;           /* whether each id is a target */
    size_t id_count;
    bool answered;  /* a model has written the completion, or the turns behind
                       the prompt: what they spell is text */
    bool cut;       /* the completion is a text that has not ended: without EOS
                     */
    json_t *images; /* values of images in their order, as in row_images.h; NULL
                       if options have no images */
    void *json;     /* owns the strings */
};
void dt_record_fini(struct dt_record *record); /* a zeroed one is fine */

/* The format of a line by its keys (options' names for them). -1: EX_DATAERR,
 * not an object, or keys that no format has; the text says which were found.
 */
int dt_jsonl_format(const char *line, size_t length,
                    const struct dt_example_options *options,
                    enum dt_format *format, struct dt_error *err);

/* Reads a line as a record of `format`; ids must be < vocab_size. -1:
 * EX_DATAERR with the cause, without the file's name; EX_OSERR.
 */
int dt_jsonl_read(const char *line, size_t length, enum dt_format format,
                  const struct dt_example_options *options, size_t vocab_size,
                  struct dt_record *record, struct dt_error *err);

#endif /* DT_DATA_JSONL_H */
