/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat.h - renders conversations as the text that a model expects
 *
 * A chat template makes the text, as in transformers' apply_chat_template: the
 * template in the tokenizer's files, one in another file, or a built-in one.
 */
#ifndef DT_TOKENIZER_CHAT_CHAT_H
#define DT_TOKENIZER_CHAT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/error.h"
#include "template/template.h"
#include "tokenizer/tokenizer.h"

/* The names of built-in templates, for a message: "chatml, qwen2.5, ...". */
#define DT_CHAT_NAMES DT_CHAT_FIRST ", " DT_CHAT_OTHERS
#define DT_CHAT_FIRST "chatml, qwen2.5, qwen3"
#define DT_CHAT_OTHERS "llama2, llama3, llama3.1, mistral, llava, llava-plain"

struct dt_chat; /* a template with its variables; read-only */

/* Creates a template: "auto" for that of the tokenizer's files, one of
 * DT_CHAT_NAMES, or the path of a file with a Jinja template, which has a slash
 * or ends with ".jinja". `variables` (NULL: none) is a JSON object of further
 * variables for templates, such as {"enable_thinking": false}. NULL and err:
 * EX_OSERR, EX_CONFIG (no such name; "auto" but the files have no template; the
 * template is malformed; its text lacks the messages; it needs an EOS and the
 * tokenizer has none; variables that a conversation sets), EX_NOINPUT (no such
 * file), EX_DATAERR (the file is a pointer of git-lfs).
 */
struct dt_chat *dt_chat_create(const char *name, const char *variables,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err);
void dt_chat_destroy(struct dt_chat *chat); /* NULL is fine */

/* A warning to show the user once: the tokenizer lacks control tokens, or the
 * template writes a fixed date. NULL if there is none.
 */
const char *dt_chat_warning(const struct dt_chat *chat);

/* The text of the template. */
const char *dt_chat_source(const struct dt_chat *chat);

/* The token that ends the assistant's answers, such as <|im_end|>; -1: there is
 * none, or it is not known.
 */
int32_t dt_chat_end(const struct dt_chat *chat);

/* A hash of everything that texts depend on, except the conversations. */
uint64_t dt_chat_hash(const struct dt_chat *chat);

/* A conversation to render; the caller owns it. */
struct dt_chat_input {
    const json_t *messages;  /* objects with role and content, as data/turns.h
                                reads them */
    size_t count;            /* how many of them, from the first; at least 1 */
    const json_t *tools;     /* an array, or NULL */
    const json_t *variables; /* an object, or NULL: further variables, which
                                win over those of dt_chat_create */
};

enum dt_chat_flags {
    DT_CHAT_PROMPT = 1,   /* end with the header of the assistant's answer */
    DT_CHAT_TRAINING = 2, /* the form for training with assistant-only loss, if
                             the template has another: qwen3 keeps the reasoning
                             of every answer */
    DT_CHAT_TRAINED = 4,  /* find the bytes that the assistant wrote */
    DT_CHAT_OWNERS = 8,   /* and the message of each span of them, also with
                             {% generation %} */
};

/* Bytes that the assistant wrote. */
struct dt_chat_span {
    size_t begin, end;
    size_t message; /* number of the message from 0; with {% generation %} only
                       if DT_CHAT_OWNERS asks for it */
};

/* A rendered conversation. Starts zeroed and may be reused. */
struct dt_chat_text {
    struct dt_template_text whole; /* the text */
    struct dt_chat_span *trained;  /* in order, with DT_CHAT_TRAINED */
    size_t trained_count, trained_capacity;
    struct dt_template_text other; /* to compare with */
};
void dt_chat_text_fini(struct dt_chat_text *out); /* frees and zeroes */

/* Renders a conversation to *out, replacing its content. -1: EX_OSERR;
 * EX_DATAERR: the template refuses the conversation or does not render its
 * tools, or the assistant's part of the text is ambiguous.
 */
int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *out, struct dt_error *err);

#endif /* DT_TOKENIZER_CHAT_CHAT_H */
