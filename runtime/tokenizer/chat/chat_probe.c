/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_probe.c - tries a chat template with conversations of our own
 *
 * What a template does is seen best in what it renders: whether it writes the
 * messages at all, and what it ends answers with. Headers such as <|user|> are
 * plain text in many published models, so that nothing follows from these
 * alone; an end of several tokens is one that the model does not stop at.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tokenizer/chat/chat_impl.h"

enum {
    FORMS = 4,          /* of a conversation */
    LITERAL_BYTES = 64, /* of a control token */
};

static const char answer[] = "An answer.";

/* A message; `parts`: its content is a list. */
static json_t *make_message(const char *role, const char *content, bool parts)
{
    return parts ? json_pack("{ss, s[{ss, ss}]}", "role", role, "content",
                             "type", "text", "text", content)
                 : json_pack("{ss, ss}", "role", role, "content", content);
}

/* Renders a question and its answer in one of the forms. False: the template
 * refuses it.
 */
static bool render_form(const struct dt_chat *chat, int form,
                        const char *question, const char *reply,
                        struct dt_template_text *out)
{
    const bool parts = form & 1, system = form & 2;
    json_t *messages = json_array();
    struct dt_error err;
    if (system)
        json_array_append_new(messages,
                              make_message("system", question, parts));
    json_array_append_new(messages, make_message("user", question, parts));
    json_array_append_new(messages, make_message("assistant", reply, parts));
    const struct dt_chat_input input = {.messages = messages,
                                        .count = json_array_size(messages)};
    int rc = dt_chat_apply(chat, chat->template, &input, messages, input.count,
                           0, out, &err);
    json_decref(messages);
    return rc == 0;
}

/* --- control tokens --- */

/* The <...> at the beginning of a text; false: there is none. */
static bool read_literal(const char *text, char literal[LITERAL_BYTES])
{
    if (text[0] != '<')
        return false;
    size_t n = strcspn(text + 1, "< \t\r\n>") + 2;
    if (text[n - 1] != '>' || n >= LITERAL_BYTES)
        return false;
    memcpy(literal, text, n);
    literal[n] = '\0';
    return true;
}

/* Where in a rendering the end of the last answer begins; NULL: unknown. */
static const char *find_end(const char *text)
{
    const char *end = NULL;
    for (const char *at = text; (at = strstr(at, answer)); at++)
        end = at + strlen(answer);
    return end ? end + strspn(end, " \t\r\n") : NULL;
}

/* Names what looks like a control token, or is the end, but is none. */
static void warn_missing(struct dt_chat *chat, const char *name,
                         const char *text, const char *end,
                         const struct dt_tokenizer *tokenizer)
{
    char missing[256] = "", literal[LITERAL_BYTES];
    size_t n = 0;
    for (const char *at = text; (at = strchr(at, '<')); at++)
        if (read_literal(at, literal) && (at == end || at[1] == '|') &&
            dt_tokenizer_id(tokenizer, literal) < 0 &&
            !strstr(missing, literal) &&
            n + strlen(literal) + 2 < sizeof(missing))
            n += (size_t)snprintf(missing + n, sizeof(missing) - n, "%s%s",
                                  n ? ", " : "", literal);
    dt_error_add(&chat->warning, EX_DATAERR,
                 "the tokenizer has no single token for %s, which the chat "
                 "template %s writes: each becomes several tokens",
                 missing, name);
}

static void look_at_end(struct dt_chat *chat, const char *name,
                        const char *text, const struct dt_tokenizer *tokenizer)
{
    const char *end = find_end(text);
    char literal[LITERAL_BYTES];
    if (!end || !read_literal(end, literal))
        return;
    chat->end = dt_tokenizer_id(tokenizer, literal);
    if (chat->end < 0 && !chat->ours)
        warn_missing(chat, name, text, end, tokenizer);
}

/* --- all of it --- */

int dt_chat_probe(struct dt_chat *chat, const char *name,
                  const struct dt_tokenizer *tokenizer, struct dt_error *err)
{
    struct dt_template_text one = {0}, other = {0};
    int form = 0, same = 0;
    bool found = false;
    chat->end = -1;
    for (; form < FORMS && !found; form++) {
        if (!render_form(chat, form, "A question?", answer, &one) ||
            !render_form(chat, form, "Why?", "So.", &other))
            continue;
        found = strcmp(one.text, other.text) != 0;
        same += !found;
    }
    if (found)
        look_at_end(chat, name, one.text, tokenizer);
    dt_template_text_fini(&one);
    dt_template_text_fini(&other);
    return same < FORMS
               ? 0
               : dt_error_set(err, EX_CONFIG,
                              "%s: the chat template writes nothing of the "
                              "messages: is it one, and does it go over "
                              "\"messages\"?",
                              name);
}
