/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h - conversations as the text that a model was made for
 *
 * There is no Jinja here: a model's chat_template is known if its text is that
 * of a published one, and rendered by code. chat_known.c has their list; any
 * other template is refused, and the user names one.
 */
#ifndef DT_DATA_CHAT_H
#define DT_DATA_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

/* The names of dt_chat_create, for a message: "chatml, qwen2.5, ...". */
#define DT_CHAT_NAMES                                                          \
    "chatml, qwen2.5, qwen3, llama2, llama3, llama3.1, mistral"

struct dt_chat; /* a template with a tokenizer's BOS and EOS; read-only */

/* One of DT_CHAT_NAMES, or "auto": that of the tokenizer's files. NULL and err:
 * EX_OSERR, EX_CONFIG (no such name; auto, and there is no template or an
 * unknown one; the template needs an EOS and the tokenizer has none).
 */
struct dt_chat *dt_chat_create(const char *name,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err);
void dt_chat_destroy(struct dt_chat *chat); /* NULL is fine */

/* Of what is rendered, one of DT_CHAT_NAMES. */
const char *dt_chat_name(const struct dt_chat *chat);

/* What to warn a user of, once: control tokens that the tokenizer lacks, or a
 * date that is not today's. NULL if there is nothing.
 */
const char *dt_chat_warning(const struct dt_chat *chat);

struct dt_chat_message {
    const char *role; /* system, user, assistant, tool */
    const char *content;
    const char *reasoning; /* of an assistant's message, or NULL */
};

enum dt_chat_flags {
    DT_CHAT_PROMPT = 1,   /* end with the header of the assistant's answer */
    DT_CHAT_TRAINING = 2, /* the form that assistant-only loss is taken on:
                             qwen3 keeps the reasoning of every answer */
};

/* What a piece of text is. */
enum dt_chat_kind {
    DT_CHAT_CONTROL = 1, /* exactly one control token, on purpose */
    DT_CHAT_CONTENT = 2, /* the user's own words */
    DT_CHAT_TRAINED = 4, /* what assistant-only loss is taken on */
};

/* Text from the end of the piece before it to `end`. */
struct dt_chat_piece {
    size_t end;
    unsigned kind; /* of enum dt_chat_kind */
};

/* What was rendered. Zero it first. */
struct dt_chat_text {
    char *text; /* NUL-terminated; BOS is in it where the template has it */
    size_t bytes, capacity;
    struct dt_chat_piece *pieces;
    size_t piece_count, piece_capacity;
};
void dt_chat_text_fini(struct dt_chat_text *out); /* and zeroes it */

/* Replaces *out by the conversation, count >= 1. -1: EX_OSERR, EX_DATAERR (a
 * role or an order of roles that the template has no place for).
 */
int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_message *messages, size_t count,
                   unsigned flags, struct dt_chat_text *out,
                   struct dt_error *err);

#endif /* DT_DATA_CHAT_H */
