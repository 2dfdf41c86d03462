/* SPDX-License-Identifier: Apache-2.0 */
/* chat_impl.h - a chat template in parts (private to tokenizer/chat/) */
#ifndef DT_TOKENIZER_CHAT_CHAT_IMPL_H
#define DT_TOKENIZER_CHAT_CHAT_IMPL_H

#include "tokenizer/chat/chat.h"

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

/* Renders the first `count` of `messages` with a template; uses the flags
 * PROMPT and TRAINING only.
 */
int dt_chat_apply(const struct dt_chat *chat,
                  const struct dt_template *template,
                  const struct dt_chat_input *input, const json_t *messages,
                  size_t count, unsigned flags, struct dt_template_text *out,
                  struct dt_error *err);

#endif /* DT_TOKENIZER_CHAT_CHAT_IMPL_H */
