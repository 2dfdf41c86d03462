/* SPDX-License-Identifier: Apache-2.0 */
/* data_impl.h - declarations that files of data/ share (private to data/) */
#ifndef DT_DATA_DATA_IMPL_H
#define DT_DATA_DATA_IMPL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/kind.h"
#include "data/cache.h"
#include "data/example.h"
#include "data/jsonl.h"
#include "data/row_images.h"
#include "tokenizer/chat/chat.h"
#include "tokenizer/tokenizer.h"

/* ---- examples.c, examples_make.c: the cache of a file, in parts ---- */

/* Everything that the content of a cache depends on, and its place. */
struct dt_make {
    const char *path;
    const struct dt_tokenizer *tokenizer;
    const struct dt_example_options *options;
    struct dt_found found;
    struct dt_map map;   /* the file, and its rows as lines of JSON, which may
                            be the same: */
    struct dt_map lines; /* if not, only while the cache is made */
    bool is_text;        /* one document; else lines, with: */
    enum dt_format format;
    enum dt_loss_on loss_on;
    struct dt_chat *chat; /* or NULL, and no_chat says why: */
    struct dt_error no_chat;
    uint64_t stamp; /* of the file now; 0 if it cannot be trusted */
    uint64_t key;
    uint64_t bad_allowed; /* limit of bad lines, while the cache is made */
    char dir[PATH_MAX];   /* the folder that holds: */
    char cache[PATH_MAX], parts_dir[PATH_MAX + 8];
};

/* Opens make->cache if it fits, else makes it and sets *made. One process makes
 * it while the others wait. If they see no progress for half an hour, they
 * continue without the lock. Notes bad lines, renamed roles and seams. -1: as
 * dt_examples_open.
 */
int dt_make_run(struct dt_make *make, struct dt_cache *cache, bool *made,
                struct dt_error *err);

/* Whether the lines are the file itself. */
static inline bool dt_make_is_plain(const struct dt_make *make)
{
    return make->found.form == DT_FORM_PLAIN &&
           make->found.codec == DT_CODEC_NONE;
}

/* Calls read(ctx) in dt_guard_run. -1: EX_IOERR, the file was truncated or its
 * disk failed.
 */
int dt_make_read(const struct dt_make *make, void (*read)(void *ctx), void *ctx,
                 struct dt_error *err);

/* Passes a formatted text to options->note, if that is set. */
void dt_make_note(const struct dt_make *make, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- chat_tokens.c: the tokens of a conversation ---- */

/* The means to encode conversations. */
struct dt_chat_coder {
    const struct dt_tokenizer *tokenizer;
    const struct dt_chat *chat;
    struct dt_encoder *encoder;
    bool parse_special; /* text of messages that spells a control token becomes
                           it; else only the template's own does */
    bool answered; /* a model has written the messages behind the prompt, of so
                      many: they stay text, and marks of images in all */
    size_t prompt_turns;
    bool keep_marks; /* these stay text in any case, in completions, too */
    struct dt_tokens part; /* scratch */
    /* how images become text, and those of the row; NULL: there are none */
    const struct dt_example_images *images;
    const struct dt_row_images *row;
    json_t *line;        /* of the row, or NULL */
    int32_t placeholder; /* its id */
};

/* Renders a conversation to *text and encodes it to *out; with DT_CHAT_TRAINED,
 * with offsets in text->whole. -1: EX_OSERR; EX_DATAERR as dt_chat_render.
 */
int dt_chat_encode(struct dt_chat_coder *coder,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *text, struct dt_tokens *out,
                   struct dt_error *err);

/* ---- image_tokens.c: the tokens of images ---- */

/* Refuses text of messages that would become an image. -1: EX_DATAERR with the
 * number of the message.
 */
int dt_images_check_texts(const struct dt_chat_coder *coder,
                          const json_t *messages, struct dt_error *err);

/* Puts the texts of the first `count` images in the places of their marks in
 * text->whole, and moves text->trained along. -1: EX_DATAERR, there are not as
 * many marks; EX_OSERR.
 */
int dt_images_expand(const struct dt_chat_coder *coder, size_t count,
                     struct dt_chat_text *text, struct dt_error *err);

/* A text with those of images in the places of their marks. */
struct dt_expanded {
    char *text;
    size_t bytes;
    size_t images;              /* whose marks it had */
    struct dt_text_span *spans; /* where special tokens are parsed */
    size_t span_count;
};

/* The same for a text of the row, which may end before the last image. The
 * first `own` of its bytes have the marks; what follows a model has written.
 * Release with dt_expanded_fini. -1: EX_DATAERR, more marks than images;
 * EX_OSERR.
 */
int dt_images_expand_text(const struct dt_chat_coder *coder, const char *text,
                          size_t bytes, size_t own,
                          struct dt_expanded *expanded, struct dt_error *err);
void dt_expanded_fini(struct dt_expanded *expanded); /* a zeroed one is fine */

/* Repeats the placeholder of each picture of the first `count` images. -1:
 * EX_DATAERR, there are not as many placeholders as pictures; EX_OSERR.
 */
int dt_images_repeat(const struct dt_chat_coder *coder, size_t count,
                     struct dt_tokens *tokens, struct dt_error *err);

/* Finds the first token of each picture of all images of the row, for the words
 * of the example: first (pictures), in order. Placeholders are no targets
 * unless options say so. -1: EX_DATAERR, tokens and images differ.
 */
int dt_images_find(const struct dt_chat_coder *coder, uint32_t *tokens,
                   size_t count, uint32_t *first, struct dt_error *err);

#endif /* DT_DATA_DATA_IMPL_H */
