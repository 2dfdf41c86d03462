/* SPDX-License-Identifier: Apache-2.0 */
/*
 * examples.h - the tokenised examples of a file, from a memory-mapped cache
 *
 * One JSONL file (or UTF-8 text) becomes one cache: a header with a hash of
 * everything that its content depends on (the file's bytes, the tokenizer, the
 * options), an array of offsets, and the tokens. A token is a u32: the id, with
 * DT_TARGET_BIT set if the model is to learn to predict it.
 */
#ifndef DT_DATA_EXAMPLES_H
#define DT_DATA_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "data/tokenizer.h"

#define DT_TARGET_BIT UINT32_C(0x80000000)

enum dt_layout_kind { /* of the lines of a JSONL file */
    DT_LINES_AUTO,    /* by the keys of the first line */
    DT_LINES_TEXT,
    DT_LINES_PROMPT_COMPLETION,
    DT_LINES_MESSAGES, /* also {"conversations": [{"from", "value"}]} */
    DT_LINES_TOKENS,   /* {"input_ids": [..], "labels": [..]?} */
};

enum dt_loss_on {
    DT_LOSS_AUTO, /* completion for prompt/completion, else full */
    DT_LOSS_FULL,
    DT_LOSS_COMPLETION,
    DT_LOSS_ASSISTANT,
};

struct dt_example_options {
    enum dt_layout_kind layout;
    enum dt_loss_on loss_on;
    const char *text_key, *prompt_key, *completion_key, *messages_key;
                               /* NULL: the names above */
    const char *chat_template; /* a name of chat.h, "auto" or "none" */
    bool parse_special;  /* text that spells a control token becomes it */
    double bad_limit;    /* more than this share of bad lines is an error */
    int threads;
    const char *cache_dir; /* NULL: beside the file, in .disttrain-cache */
    void (*progress)(void *ctx, uint64_t done, uint64_t total); /* bytes; may
                                                                   be NULL */
    void (*note)(void *ctx, const char *text); /* a bad line; may be NULL */
    void *ctx;
};

struct dt_examples; /* an open cache */

/* Makes or finds the cache of `path` and opens it. Several processes may do so
 * at a time, on a shared file system too: one makes it, whole or not at all
 * (temporary file, rename); one that was killed goes on from its last finished
 * part. *made: false if a fitting cache was there. NULL and err: EX_NOINPUT,
 * EX_DATAERR (file:line: what, of the first bad lines, when more than
 * bad_limit are bad, or the loss asked for does not fit the layout),
 * EX_CANTCREAT.
 */
struct dt_examples *dt_examples_open(const char *path,
                                     const struct dt_tokenizer *tokenizer,
                                     const struct dt_example_options *options,
                                     bool *made, struct dt_error *err);
void dt_examples_close(struct dt_examples *examples); /* NULL is fine */

size_t dt_examples_count(const struct dt_examples *examples);
uint64_t dt_examples_tokens(const struct dt_examples *examples);  /* in all */
uint64_t dt_examples_targets(const struct dt_examples *examples); /* of them */
uint64_t dt_examples_hash(const struct dt_examples *examples); /* the key */

/* Tokens of example i < count; valid until close. Untruncated. */
const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count);

#endif /* DT_DATA_EXAMPLES_H */
