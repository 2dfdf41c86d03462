/* SPDX-License-Identifier: Apache-2.0 */
/*
 * examples.h - the tokenised examples of a file, from a memory-mapped cache
 *
 * One file becomes one cache: a header with a hash of everything that its
 * content depends on (the file's bytes, the tokenizer, the options), an array
 * of offsets, and the tokens. A file with the size, inode and times that it had
 * when its cache was made is not read again. A token is a u32: the id, with
 * DT_TARGET_BIT set if the model is to learn to predict it; the first token of
 * an example has the bit, too, and a batch where it is first must leave it out.
 *
 * dt_kind_find tells lines of JSON, and text, which is one example, apart.
 */
#ifndef DT_DATA_EXAMPLES_H
#define DT_DATA_EXAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

#define DT_TARGET_BIT UINT32_C(0x80000000)

/* Lines of a JSONL file. AUTO: by the keys of the first one. MESSAGES: also
 * {"conversations": [{"from", "value"}]}. TOKENS: {"input_ids": [..], and
 * perhaps "labels": [..]}.
 */
enum dt_layout_kind {
    DT_LINES_AUTO,
    DT_LINES_TEXT,
    DT_LINES_PROMPT_COMPLETION,
    DT_LINES_MESSAGES,
    DT_LINES_TOKENS,
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
    /* Names of keys; NULL: those above. */
    const char *text_key, *prompt_key, *completion_key, *messages_key;
    const char *chat_template; /* a name of chat.h, "auto" or "none" */
    bool parse_special;        /* text that spells a control token becomes it */
    double bad_limit; /* more than this share of bad lines is an error */
    int threads;
    const char *cache_dir; /* NULL: beside the file, in .disttrain-cache */
    /* Bytes done, from any thread but one at a time; may be NULL. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    /* A bad line, or what was taken for something else; may be NULL. */
    void (*note)(void *ctx, const char *text);
    void *ctx;
};

/* The layout of the first lines of JSON of `path`. -1: EX_NOINPUT, EX_DATAERR. */
int dt_examples_layout(const char *path,
                       const struct dt_example_options *options,
                       enum dt_layout_kind *layout, struct dt_error *err);

struct dt_examples; /* an open cache */

/* Makes or finds the cache of `path` and opens it. Several processes may do so
 * at a time, on a shared file system too: one makes it, whole or not at all
 * (temporary file, rename); one that was killed goes on from its last finished
 * part. *made: false if a fitting cache was there. NULL and err: EX_NOINPUT,
 * EX_DATAERR (file:line: what, of the first bad lines, when more than
 * bad_limit are bad; more than 1 % of the prompts do not join their completions
 * in tokens; the loss asked for does not fit the layout), EX_CONFIG (the chat
 * template is unknown), EX_CANTCREAT, EX_IOERR.
 */
struct dt_examples *dt_examples_open(const char *path,
                                     const struct dt_tokenizer *tokenizer,
                                     const struct dt_example_options *options,
                                     bool *made, struct dt_error *err);
void dt_examples_close(struct dt_examples *examples); /* NULL is fine */

/* Examples, and lines that gave none because they were bad. */
size_t dt_examples_count(const struct dt_examples *examples);
uint64_t dt_examples_bad_lines(const struct dt_examples *examples);

uint64_t dt_examples_tokens(const struct dt_examples *examples);  /* in all */
uint64_t dt_examples_targets(const struct dt_examples *examples); /* of them */
uint64_t dt_examples_hash(const struct dt_examples *examples);    /* the key */

/* Tokens of example i < count; valid until close. Untruncated. They are in the
 * mapped cache: to be read in dt_guard_run, and ids are to be checked.
 */
const uint32_t *dt_example(const struct dt_examples *examples, size_t i,
                           size_t *count);

#endif /* DT_DATA_EXAMPLES_H */
