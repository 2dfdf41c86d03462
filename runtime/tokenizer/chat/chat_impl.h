/* SPDX-License-Identifier: Apache-2.0 */
/* chat_impl.h - what the files chat*.c share */
#ifndef DT_TOKENIZER_CHAT_CHAT_IMPL_H
#define DT_TOKENIZER_CHAT_CHAT_IMPL_H

#include "tokenizer/chat/chat.h"

/* A template of our own. */
struct dt_chat_named {
    const char *name;
    const char *text;       /* Jinja; it knows the variable "training" */
    const char *control[4]; /* texts that must be single tokens */
    bool needs_eos;
};

/* The one with this name, or NULL. */
const struct dt_chat_named *dt_chat_named(const char *name);

/* The one that is the form for training of a published template, as in TRL;
 * NULL: none.
 */
const struct dt_chat_named *dt_chat_training_form(const char *source);

enum { DT_CHAT_SPECIALS = 4 };

struct dt_chat {
    struct dt_template *template;
    struct dt_template *with_tools; /* for conversations with tools, or NULL */
    struct dt_template *training;   /* the form for training, or NULL */
    json_t *specials;               /* bos_token and so on */
    json_t *variables;              /* an object, or NULL */
    bool ours;                      /* template has the variable "training" */
    int32_t end;                    /* the token that ends answers, or -1 */
    struct dt_error warning;        /* empty text: none */
};

/* Renders the first `count` of `messages` with a template; of the flags, PROMPT
 * and TRAINING count.
 */
int dt_chat_apply(const struct dt_chat *chat,
                  const struct dt_template *template,
                  const struct dt_chat_input *input, const json_t *messages,
                  size_t count, unsigned flags, struct dt_template_text *out,
                  struct dt_error *err);

/* Finds chat->end, and warns of control tokens that the tokenizer lacks; `name`
 * is the template's for messages. -1: EX_CONFIG, it ignores the messages.
 */
int dt_chat_probe(struct dt_chat *chat, const char *name,
                  const struct dt_tokenizer *tokenizer, struct dt_error *err);

/* Fills out->trained for the text out->whole of all messages: by the marks of
 * the template, else by comparing renderings.
 */
int dt_chat_find_trained(const struct dt_chat *chat,
                         const struct dt_template *template,
                         const struct dt_chat_input *input, unsigned flags,
                         struct dt_chat_text *out, struct dt_error *err);

#endif /* DT_TOKENIZER_CHAT_CHAT_IMPL_H */
