/* SPDX-License-Identifier: Apache-2.0 */
/* jsonl.h - the lines of a JSONL file, and the record in each of them */
#ifndef DT_DATA_JSONL_H
#define DT_DATA_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/chat.h"
#include "data/examples.h"

/* A piece of a file: whole lines (the end of line is in the piece). */
struct dt_part {
    uint64_t begin, end; /* bytes of the file */
    uint64_t line;       /* number of its first line, from 1 */
};

/* Cuts a file into parts of part_bytes or more, the last line of each whole.
 * Only the file decides where. parts(bytes / part_bytes + 1); how many.
 */
size_t dt_jsonl_parts(const char *data, size_t bytes, size_t part_bytes,
                      struct dt_part *parts);

/* The next line at *at < bytes that is not blank: its first byte and, in
 * *length, its bytes without the end (LF or CR LF). *at moves behind it and
 * *line grows by the lines passed. A byte order mark at byte 0 of the file is
 * passed over. NULL: no more.
 */
const char *dt_jsonl_next(const char *data, size_t bytes, size_t *at,
                          uint64_t *line, size_t *length);

/* Messages, and what holds their strings. */
struct dt_turns {
    struct dt_chat_message *messages;
    size_t count;
};

/* What a line says. Of text, prompt with completion, and messages. */
struct dt_record {
    enum dt_layout_kind layout; /* not AUTO */
    const char *text;
    const char *prompt, *completion; /* strings, or else these: */
    struct dt_turns turns; /* of messages; of prompt and completion both */
    size_t prompt_turns;   /* of turns, those of the prompt */
    int32_t *ids;          /* tokenised */
    bool *targets;         /* of each id */
    size_t id_count;
    size_t renamed; /* roles human and gpt that became ours */
    void *json;     /* owns the strings */
};
void dt_record_fini(struct dt_record *record); /* a zeroed one is fine */

/* The layout of a line by its keys (options' names for them). -1: EX_DATAERR,
 * not an object, or keys that no layout has; the text says which were found.
 */
int dt_jsonl_layout(const char *line, size_t length,
                    const struct dt_example_options *options,
                    enum dt_layout_kind *layout, struct dt_error *err);

/* Reads a line as a record of `layout`; ids must be < vocab_size. -1:
 * EX_DATAERR with what is wrong, without the file's name; EX_OSERR.
 */
int dt_jsonl_read(const char *line, size_t length, enum dt_layout_kind layout,
                  const struct dt_example_options *options, size_t vocab_size,
                  struct dt_record *record, struct dt_error *err);

#endif /* DT_DATA_JSONL_H */
