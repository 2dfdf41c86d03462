/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - chooses the chat template for a name or a tokenizer */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_style.h"

void dt_chat_text_fini(struct dt_chat_text *out)
{
    free(out->text);
    free(out->pieces);
    *out = (struct dt_chat_text){0};
}

/* Copies the text of a special token; empty if there is none. */
static void special_text(const struct dt_tokenizer *tokenizer,
                         enum dt_token_role role, char *out)
{
    struct dt_detokenizer state = {.tokenizer = tokenizer};
    int32_t id = dt_tokenizer_special(tokenizer, role);
    out[0] = '\0';
    if (id >= 0)
        dt_detokenize(&state, id, out, DT_CHAT_SPECIAL_BYTES);
}

/* The requested style, or NULL and err. */
static const struct dt_chat_style *choose_style(
    const char *name, const struct dt_tokenizer *tokenizer,
    struct dt_error *err)
{
    const struct dt_chat_style *named = dt_chat_style_named(name);
    const char *jinja = dt_tokenizer_chat_template(tokenizer);
    if (named)
        return named;
    if (strcmp(name, "auto") == 0 && jinja)
        return dt_chat_style_of(jinja, err);
    if (strcmp(name, "auto") == 0)
        dt_error_set(
            err, EX_CONFIG,
            "messages need a chat template, and the tokenizer has none: name "
            "one (data.chat_template, --chat-template) of " DT_CHAT_NAMES);
    else
        dt_error_set(err, EX_CONFIG,
                     "no chat template '%s'; there are " DT_CHAT_NAMES, name);
    return NULL;
}

static void set_warning(struct dt_chat *chat,
                        const struct dt_tokenizer *tokenizer)
{
    const char *const *control = chat->style.control;
    char missing[256] = "";
    size_t n = 0, most = sizeof(chat->style.control) / sizeof(*control);
    for (size_t i = 0; i < most && control[i]; i++)
        if (dt_tokenizer_id(tokenizer, control[i]) < 0)
            n += (size_t)snprintf(missing + n, sizeof(missing) - n, "%s%s",
                                  n ? ", " : "", control[i]);
    if (n > 0)
        dt_error_add(&chat->warning, EX_DATAERR,
                     "the tokenizer has no single token for %s, which the chat "
                     "template %s writes: each becomes several tokens",
                     missing, chat->style.name);
    if (chat->style.today)
        dt_error_add(&chat->warning, EX_DATAERR,
                     "the chat template writes the date of today; here it is "
                     "always 26 Jul 2024, so that a run can be repeated");
}

struct dt_chat *dt_chat_create(const char *name,
                               const struct dt_tokenizer *tokenizer,
                               struct dt_error *err)
{
    const struct dt_chat_style *style = choose_style(name, tokenizer, err);
    if (!style)
        return NULL;
    struct dt_chat *chat = calloc(1, sizeof(*chat));
    if (!chat) {
        dt_error_set(err, EX_OSERR, "chat: out of memory");
        return NULL;
    }
    chat->style = *style;
    special_text(tokenizer, DT_TOKEN_BOS, chat->bos);
    special_text(tokenizer, DT_TOKEN_EOS, chat->eos);
    set_warning(chat, tokenizer);
    bool needs_eos = style->family == DT_LLAMA2 || style->family == DT_MISTRAL;
    if (!needs_eos || chat->eos[0])
        return chat;
    dt_error_set(err, EX_CONFIG,
                 "the chat template %s ends answers with EOS, and the "
                 "tokenizer names none",
                 style->name);
    dt_chat_destroy(chat);
    return NULL;
}

void dt_chat_destroy(struct dt_chat *chat)
{
    free(chat);
}

const char *dt_chat_name(const struct dt_chat *chat)
{
    return chat->style.name;
}

const char *dt_chat_warning(const struct dt_chat *chat)
{
    return chat->warning.text[0] ? chat->warning.text : NULL;
}
