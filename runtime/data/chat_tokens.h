/* SPDX-License-Identifier: Apache-2.0 */
/* chat_tokens.h - the tokens of a conversation */
#ifndef DT_DATA_CHAT_TOKENS_H
#define DT_DATA_CHAT_TOKENS_H

#include <stdbool.h>

#include "base/error.h"
#include "tokenizer/chat/chat.h"
#include "tokenizer/tokenizer.h"

/* What conversations are encoded with. */
struct dt_chat_coder {
    const struct dt_tokenizer *tokenizer;
    const struct dt_chat *chat;
    struct dt_encoder *encoder;
    bool parse_special; /* text of messages that spells a control token becomes
                           it; else only the template's own does */
    struct dt_tokens part; /* scratch */
};

/* Renders a conversation to *text and encodes it to *out, with DT_CHAT_TRAINED
 * with offsets in text->whole. -1: EX_OSERR; EX_DATAERR as dt_chat_render.
 */
int dt_chat_encode(struct dt_chat_coder *coder,
                   const struct dt_chat_input *input, unsigned flags,
                   struct dt_chat_text *text, struct dt_tokens *out,
                   struct dt_error *err);

#endif /* DT_DATA_CHAT_TOKENS_H */
