/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - the chat template that a name, or a tokenizer, asks for */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "data/chat.h"
#include "data/chat_style.h"

void dt_chat_text_fini(struct dt_chat_text *out)
{
    free(out->text);
    free(out->pieces);
    *out = (struct dt_chat_text){0};
}

/* The text of a special token; empty if there is none. */
static void special_text(const struct dt_tokenizer *tokenizer,
                         enum dt_token_role role, char *out)
{
    struct dt_detokenizer state = {.tokenizer = tokenizer};
    int32_t id = dt_tokenizer_special(tokenizer, role);
    out[0] = '\0';
    if (id >= 0)
        dt_detokenize(&state, id, out, DT_CHAT_SPECIAL_BYTES);
}

/* The style asked for. */
static int choose_style(struct dt_chat_style *style, const char *name,
                        const struct dt_tokenizer *tokenizer,
                        struct dt_error *err)
{
    const struct dt_chat_style *named = dt_chat_style_named(name);
    const char *jinja = dt_tokenizer_chat_template(tokenizer);
    if (named) {
        *style = *named;
        return 0;
    }
    if (strcmp(name, "auto") != 0)
        return dt_error_set(err, EX_CONFIG,
                            "no chat template '%s'; there are " DT_CHAT_NAMES,
                            name);
    if (!jinja)
        return dt_error_set(
            err, EX_CONFIG,
            "messages need a chat template, and the tokenizer has none: name "
            "one (data.chat_template, --chat-template) of " DT_CHAT_NAMES);
    if (!dt_chat_style_of(jinja, style))
        return dt_error_set(
            err, EX_CONFIG,
            "the tokenizer's chat template is not one of those "
            "known here: name the one that it is like "
            "(data.chat_template, --chat-template) of " DT_CHAT_NAMES
            ", or give the conversations as rendered text");
    return 0;
}

struct dt_chat *dt_chat_create(const char *name,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err)
{
    struct dt_chat *chat = calloc(1, sizeof(*chat));
    if (!chat) {
        dt_error_set(err, EX_OSERR, "chat: out of memory");
        return NULL;
    }
    bool ok = choose_style(&chat->style, name, tokenizer, err) == 0;
    special_text(tokenizer, DT_TOKEN_BOS, chat->bos);
    special_text(tokenizer, DT_TOKEN_EOS, chat->eos);
    bool needs_eos =
        chat->style.family == DT_LLAMA2 || chat->style.family == DT_MISTRAL;
    if (ok && needs_eos && !chat->eos[0]) {
        dt_error_set(err, EX_CONFIG,
                     "the chat template %s ends answers with EOS, and the "
                     "tokenizer names none",
                     chat->style.name);
        ok = false;
    }
    if (!ok) {
        dt_chat_destroy(chat);
        return NULL;
    }
    return chat;
}

void dt_chat_destroy(struct dt_chat *chat)
{
    free(chat);
}

const char *dt_chat_name(const struct dt_chat *chat)
{
    return chat->style.name;
}
