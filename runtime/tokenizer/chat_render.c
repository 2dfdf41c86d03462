/* SPDX-License-Identifier: Apache-2.0 */
/* chat_render.c - renders conversations as the text of a template */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tokenizer/chat.h"
#include "tokenizer/chat_style.h"

/* A part of a string. */
struct text {
    const char *begin;
    size_t bytes;
};

struct writer {
    const struct dt_chat *chat;
    struct dt_chat_text *out;
    unsigned flags;
    bool failed; /* out of memory */
};

/* --- write text and pieces --- */

static bool make_room(void **array, size_t *capacity, size_t needed,
                      size_t item_bytes)
{
    if (needed <= *capacity)
        return true;
    size_t grown = needed + needed / 2 + 64;
    void *larger = realloc(*array, grown * item_bytes);
    if (!larger)
        return false;
    *array = larger;
    *capacity = grown;
    return true;
}

/* Sets the length of the text and terminates it with NUL. */
static void end_text(struct writer *w, size_t bytes)
{
    void *text = w->out->text;
    w->failed |= !make_room(&text, &w->out->capacity, bytes + 1, 1);
    w->out->text = text;
    if (w->failed)
        return;
    w->out->bytes = bytes;
    w->out->text[bytes] = '\0';
}

static void put_bytes(struct writer *w, unsigned kind, struct text text)
{
    struct dt_chat_text *out = w->out;
    void *pieces = out->pieces;
    size_t at = out->bytes;
    if (text.bytes == 0)
        return;
    end_text(w, at + text.bytes);
    w->failed |= !make_room(&pieces, &out->piece_capacity, out->piece_count + 1,
                            sizeof(*out->pieces));
    out->pieces = pieces;
    if (w->failed)
        return;
    memcpy(out->text + at, text.begin, text.bytes);
    out->pieces[out->piece_count++] =
        (struct dt_chat_piece){.end = out->bytes, .kind = kind};
}

static void put_text(struct writer *w, unsigned kind, const char *string)
{
    put_bytes(w, kind, (struct text){string, strlen(string)});
}

/* --- parts of strings, like Python's methods of the same names --- */

/* The length of the white space character at the start of p, or 0. */
static size_t space_at(const char *p, size_t bytes)
{
    static const char *const spaces[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80",
        "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84",
        "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
        "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
        "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    unsigned char c = bytes > 0 ? (unsigned char)*p : 'x';
    if (c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f))
        return 1;
    for (size_t i = 0; c >= 0x80 && i < sizeof(spaces) / sizeof(spaces[0]); i++)
        if (bytes >= strlen(spaces[i]) &&
            memcmp(p, spaces[i], strlen(spaces[i])) == 0)
            return strlen(spaces[i]);
    return 0;
}

static struct text strip_right(struct text text)
{
    for (size_t n = 1; n <= 3 && n <= text.bytes; n++)
        if (space_at(text.begin + text.bytes - n, n) == n) {
            text.bytes -= n;
            n = 0;
        }
    return text;
}

static struct text strip_text(struct text text)
{
    for (size_t n; (n = space_at(text.begin, text.bytes)) > 0;)
        text = (struct text){text.begin + n, text.bytes - n};
    return strip_right(text);
}

static struct text lstrip_newlines(struct text text)
{
    while (text.bytes > 0 && *text.begin == '\n')
        text = (struct text){text.begin + 1, text.bytes - 1};
    return text;
}

static struct text rstrip_newlines(struct text text)
{
    while (text.bytes > 0 && text.begin[text.bytes - 1] == '\n')
        text.bytes--;
    return text;
}

static struct text whole_text(const char *string)
{
    return (struct text){string, strlen(string)};
}

/* The part of text behind the last `mark`, or all of it. */
static struct text after_last(struct text text, const char *mark)
{
    size_t n = strlen(mark);
    for (size_t at = text.bytes; at >= n; at--)
        if (memcmp(text.begin + at - n, mark, n) == 0)
            return (struct text){text.begin + at, text.bytes - at};
    return text;
}

static bool has_role(const struct dt_chat_message *message, const char *role)
{
    return strcmp(message->role, role) == 0;
}

/* --- ChatML --- */

static void chatml_begin(struct writer *w, const char *role, unsigned newline)
{
    put_text(w, DT_CHAT_CONTROL, "<|im_start|>");
    put_text(w, 0, role);
    put_text(w, newline, "\n");
}

static void chatml_end(struct writer *w, unsigned trained)
{
    put_text(w, DT_CHAT_CONTROL | trained, "<|im_end|>");
    put_text(w, trained, "\n");
}

/* Writes an answer with its reasoning. `shown`: the template keeps the
 * reasoning.
 */
static void put_reasoned(struct writer *w,
                         const struct dt_chat_message *message, bool shown,
                         bool last)
{
    struct text content = whole_text(message->content), reasoning = {"", 0};
    const char *end = strstr(content.begin, "</think>");
    if (message->reasoning) {
        reasoning = whole_text(message->reasoning);
    } else if (end) {
        reasoning = (struct text){content.begin, (size_t)(end - content.begin)};
        reasoning =
            lstrip_newlines(after_last(rstrip_newlines(reasoning), "<think>"));
        content = lstrip_newlines(after_last(content, "</think>"));
    }
    bool training = w->flags & DT_CHAT_TRAINING;
    if (training || (shown && (last || reasoning.bytes > 0))) {
        put_text(w, DT_CHAT_CONTROL | DT_CHAT_TRAINED, "<think>");
        put_text(w, DT_CHAT_TRAINED, "\n");
        put_bytes(w, DT_CHAT_CONTENT | DT_CHAT_TRAINED,
                  rstrip_newlines(lstrip_newlines(reasoning)));
        put_text(w, DT_CHAT_TRAINED, "\n");
        put_text(w, DT_CHAT_CONTROL | DT_CHAT_TRAINED, "</think>");
        put_text(w, DT_CHAT_TRAINED, "\n\n");
        content = lstrip_newlines(content);
    }
    put_bytes(w, DT_CHAT_CONTENT | DT_CHAT_TRAINED, content);
}

/* Whether a user's message only carries the answer of a tool. */
static bool is_tool_response(const char *content)
{
    const char *begin = "<tool_response>", *end = "</tool_response>";
    size_t n = strlen(content);
    return strncmp(content, begin, strlen(begin)) == 0 && n >= strlen(end) &&
           strcmp(content + n - strlen(end), end) == 0;
}

/* The index of the user's last message that is not an answer of a tool. */
static size_t last_question(const struct dt_chat_message *messages,
                            size_t count)
{
    for (size_t i = count; i-- > 0;)
        if (has_role(&messages[i], "user") &&
            !is_tool_response(messages[i].content))
            return i;
    return count - 1;
}

/* Writes the answer of a tool. Consecutive ones share one turn of the user. */
static void put_tool(struct writer *w, const struct dt_chat_message *messages,
                     size_t i, size_t count)
{
    if (i == 0 || !has_role(&messages[i - 1], "tool")) {
        put_text(w, DT_CHAT_CONTROL, "<|im_start|>");
        put_text(w, 0, "user");
    }
    put_text(w, 0, "\n");
    put_text(w, DT_CHAT_CONTROL, "<tool_response>");
    put_text(w, 0, "\n");
    put_text(w, DT_CHAT_CONTENT, messages[i].content);
    put_text(w, 0, "\n");
    put_text(w, DT_CHAT_CONTROL, "</tool_response>");
    if (i + 1 == count || !has_role(&messages[i + 1], "tool"))
        chatml_end(w, 0);
}

static void render_chatml(struct writer *w,
                          const struct dt_chat_message *messages, size_t count)
{
    const struct dt_chat_style *style = &w->chat->style;
    size_t question = last_question(messages, count);
    if (style->system && !has_role(&messages[0], "system")) {
        chatml_begin(w, "system", 0);
        put_text(w, 0, style->system);
        chatml_end(w, 0);
    }
    for (size_t i = 0; i < count; i++) {
        const struct dt_chat_message *message = &messages[i];
        bool answers = has_role(message, "assistant");
        unsigned trained = answers ? DT_CHAT_TRAINED : 0;
        if (style->wraps_tools && has_role(message, "tool")) {
            put_tool(w, messages, i, count);
            continue;
        }
        chatml_begin(w, message->role, style->trains_newline ? trained : 0);
        if (style->reasons && answers)
            put_reasoned(w, message, i > question, i + 1 == count);
        else
            put_text(w, DT_CHAT_CONTENT | trained, message->content);
        chatml_end(w, trained);
    }
    if (w->flags & DT_CHAT_PROMPT)
        chatml_begin(w, "assistant", 0);
}

/* --- Llama 3 --- */

static void llama3_begin(struct writer *w, const char *role)
{
    put_text(w, DT_CHAT_CONTROL, "<|start_header_id|>");
    put_text(w, 0, role);
    put_text(w, DT_CHAT_CONTROL, "<|end_header_id|>");
    put_text(w, 0, "\n\n");
}

/* Writes text as a JSON string, as Llama 3.1 does with the answer of a tool. */
static void put_json(struct writer *w, const char *content)
{
    json_t *value = json_string(content);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    if (text)
        put_text(w, DT_CHAT_CONTENT, text);
    w->failed |= text == NULL;
    free(text);
    json_decref(value);
}

static void render_llama3(struct writer *w,
                          const struct dt_chat_message *messages, size_t count)
{
    bool dated = w->chat->style.dated;
    size_t i = 0;
    put_text(w, DT_CHAT_CONTROL, w->chat->bos);
    if (dated) {
        llama3_begin(w, "system");
        put_text(w, 0,
                 "Cutting Knowledge Date: December 2023\n"
                 "Today Date: 26 Jul 2024\n\n");
        if (has_role(&messages[0], "system"))
            put_bytes(w, DT_CHAT_CONTENT,
                      strip_text(whole_text(messages[i++].content)));
        put_text(w, DT_CHAT_CONTROL, "<|eot_id|>");
    }
    for (; i < count; i++) {
        bool tool = dated && has_role(&messages[i], "tool");
        unsigned trained =
            has_role(&messages[i], "assistant") ? DT_CHAT_TRAINED : 0;
        llama3_begin(w, tool ? "ipython" : messages[i].role);
        if (tool)
            put_json(w, messages[i].content);
        else
            put_bytes(w, DT_CHAT_CONTENT | trained,
                      strip_text(whole_text(messages[i].content)));
        put_text(w, DT_CHAT_CONTROL | trained, "<|eot_id|>");
    }
    if (w->flags & DT_CHAT_PROMPT)
        llama3_begin(w, "assistant");
}

/* --- Llama 2 and Mistral --- */

/* Checks that users and assistants alternate after the system message. */
static int check_turns(const struct dt_chat *chat,
                       const struct dt_chat_message *messages, size_t count,
                       struct dt_error *err)
{
    size_t first = has_role(&messages[0], "system");
    for (size_t i = first; i < count; i++)
        if (!has_role(&messages[i], (i - first) % 2 ? "assistant" : "user"))
            return dt_error_set(
                err, EX_DATAERR,
                "message %zu is of role %s: the chat template %s wants user "
                "and assistant in turns, after at most one system message",
                i + 1, messages[i].role, chat->style.name);
    return 0;
}

static void put_answer(struct writer *w, struct text content, const char *blank)
{
    put_bytes(w, DT_CHAT_CONTENT | DT_CHAT_TRAINED, content);
    put_text(w, DT_CHAT_TRAINED, blank);
    put_text(w, DT_CHAT_CONTROL | DT_CHAT_TRAINED, w->chat->eos);
}

static void render_llama2(struct writer *w,
                          const struct dt_chat_message *messages, size_t count)
{
    size_t first = has_role(&messages[0], "system");
    for (size_t i = first; i < count; i++) {
        struct text content = strip_text(whole_text(messages[i].content));
        if ((i - first) % 2) {
            put_text(w, 0, " ");
            put_answer(w, content, " ");
            continue;
        }
        put_text(w, DT_CHAT_CONTROL, w->chat->bos);
        put_text(w, 0, "[INST] ");
        if (first && i == first) {
            put_text(w, 0, "<<SYS>>\n");
            put_text(w, DT_CHAT_CONTENT, messages[0].content);
            put_text(w, 0, "\n<</SYS>>\n\n");
            content = strip_right(whole_text(messages[i].content));
        }
        put_bytes(w, DT_CHAT_CONTENT, content);
        put_text(w, 0, " [/INST]");
    }
}

/* Whether the system message of a conversation is added to question i. */
static bool has_system(const struct dt_chat_style *style,
                       const struct dt_chat_message *messages, size_t count,
                       size_t i)
{
    switch (style->system_at) {
    case DT_SYSTEM_FIRST:
        return i == 1;
    case DT_SYSTEM_END:
        return i + 1 == count;
    default:
        /* Jinja compares messages by their content. */
        return strcmp(messages[i].content,
                      messages[count - 1 - count % 2].content) == 0;
    }
}

static void render_mistral(struct writer *w,
                           const struct dt_chat_message *messages, size_t count)
{
    const struct dt_chat_style *style = &w->chat->style;
    size_t first = has_role(&messages[0], "system");
    put_text(w, DT_CHAT_CONTROL, w->chat->bos);
    for (size_t i = first; i < count; i++) {
        struct text content = whole_text(messages[i].content);
        if ((i - first) % 2) {
            put_text(w, 0, style->answer);
            put_answer(w, style->trims_answer ? strip_text(content) : content,
                       "");
            put_text(w, 0, style->end);
            continue;
        }
        put_text(w, 0, style->before);
        if (first && has_system(style, messages, count, i)) {
            put_text(w, DT_CHAT_CONTENT, messages[0].content);
            put_text(w, 0, "\n\n");
        }
        put_bytes(w, DT_CHAT_CONTENT, content);
        put_text(w, 0, style->after);
    }
}

/* --- all templates --- */

int dt_chat_render(const struct dt_chat *chat,
                   const struct dt_chat_message *messages, size_t count,
                   unsigned flags, struct dt_chat_text *out,
                   struct dt_error *err)
{
    struct writer w = {.chat = chat, .out = out, .flags = flags};
    assert(count > 0);
    out->piece_count = 0;
    end_text(&w, 0);
    switch (chat->style.family) {
    case DT_CHATML:
        render_chatml(&w, messages, count);
        break;
    case DT_LLAMA3:
        render_llama3(&w, messages, count);
        break;
    default:
        if (check_turns(chat, messages, count, err) < 0)
            return -1;
        if (chat->style.family == DT_LLAMA2)
            render_llama2(&w, messages, count);
        else
            render_mistral(&w, messages, count);
    }
    if (w.failed)
        return dt_error_set(err, EX_OSERR, "chat: out of memory");
    return 0;
}
