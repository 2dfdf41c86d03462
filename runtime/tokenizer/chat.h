/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h - renders conversations as the text that a model expects
 *
 * There is no Jinja interpreter. If a model's chat_template has the text of a
 * published template, C code renders it; chat_known.c lists those. Any other
 * template is refused, and the user chooses one by name.
 */
#ifndef DT_TOKENIZER_CHAT_H
#define DT_TOKENIZER_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"

/* The names of dt_chat_create, for a message: "chatml, qwen2.5, ...". */
#define DT_CHAT_NAMES                                                          \
    "chatml, qwen2.5, qwen3, llama2, llama3, llama3.1, mistral"

struct dt_chat; /* a template with a tokenizer's BOS and EOS; read-only */

/* Creates the template `name`: one of DT_CHAT_NAMES, or "auto" for that of the
 * tokenizer's files. NULL and err: EX_OSERR, EX_CONFIG (no such name; "auto"
 * but the files have no template or an unknown one; the template needs an EOS
 * and the tokenizer has none).
 */
struct dt_chat *dt_chat_create(const char *name,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err);
void dt_chat_destroy(struct dt_chat *chat); /* NULL is fine */

/* The name of the template, one of DT_CHAT_NAMES. */
const char *dt_chat_name(const struct dt_chat *chat);

/* A warning to show the user once: the tokenizer lacks control tokens, or the
 * template writes a fixed date. NULL if there is none.
 */
const char *dt_chat_warning(const struct dt_chat *chat);

struct dt_chat_message {
    const char *role; /* system, user, assistant, tool */
    const char *content;
    const char *reasoning; /* of an assistant's message, or NULL */
};

enum dt_chat_flags {
    DT_CHAT_PROMPT = 1,   /* end with the header of the assistant's answer */
    DT_CHAT_TRAINING = 2, /* the form for training with assistant-only loss:
                             qwen3 keeps the reasoning of every answer */
};

/* Flags of a piece of text. */
enum dt_chat_kind {
    DT_CHAT_CONTROL = 1, /* exactly one control token, from the template */
    DT_CHAT_CONTENT = 2, /* text of a message, as the data has it */
    DT_CHAT_TRAINED = 4, /* trained on with assistant-only loss */
};

/* A piece of text, from the end of the piece before it to `end`. */
struct dt_chat_piece {
    size_t end;
    unsigned kind; /* of enum dt_chat_kind */
};

/* The rendered conversation. Starts zeroed. */
struct dt_chat_text {
    char *text; /* NUL-terminated; with BOS if the template has it */
    size_t bytes, capacity;
    struct dt_chat_piece *pieces;
    size_t piece_count, piece_capacity;
};
void dt_chat_text_fini(struct dt_chat_text *out); /* frees and zeroes */

/* Renders a conversation of count >= 1 messages to *out, replacing its content.
 * -1: EX_OSERR, EX_DATAERR (the template does not support a role or the order
 * of roles).
 */
int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_message *messages, size_t count,
                   unsigned flags, struct dt_chat_text *out,
                   struct dt_error *err);

#endif /* DT_TOKENIZER_CHAT_H */
