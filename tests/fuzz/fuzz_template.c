/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_template.c - any text as a chat template, and conversations through it
 *
 * What follows the first zero byte is the content of an answer.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error is one line of text. */
static void check_error(const struct dt_error *err)
{
    if (!err->text[0] || strpbrk(err->text, "\n\r\x1b"))
        abort();
}

/* Marks are in order, and within the text. */
static void check_text(const struct dt_template_text *out)
{
    size_t at = 0;
    if (strlen(out->text) > out->bytes)
        abort();
    for (size_t i = 0; i < out->span_count; i++) {
        if (out->spans[i].begin > out->spans[i].end ||
            out->spans[i].end > out->bytes)
            abort();
        at = out->spans[i].begin < at ? at : out->spans[i].begin;
    }
}

static json_t *make_messages(const char *content, size_t bytes)
{
    json_t *messages = json_pack(
        "[{ss, ss}, {ss, s[{ss, ss}]}, {ss, s[{s{ss, s{si, sf}}}]}]", "role",
        "system", "content", " S \u00e9\n", "role", "user", "content", "type",
        "text", "text", "u", "role", "assistant", "tool_calls", "function",
        "name", "f", "arguments", "a", 1, "b", 0.5);
    json_t *text = json_stringn(content, bytes); /* NULL: not UTF-8 */
    json_array_append_new(messages,
                          json_pack("{ss, so}", "role", "assistant", "content",
                                    text ? text : json_string("x")));
    return messages;
}

static void render(const struct dt_template *template, const char *content,
                   size_t bytes)
{
    struct dt_template_text out = {0};
    struct dt_error err = {0};
    json_t *messages = make_messages(content, bytes);
    const struct dt_template_variable variables[] = {
        {"messages", messages},
        {"tools", messages},
        {"bos_token", json_array_get(messages, 9)},
        {"add_generation_prompt", json_true()},
    };
    for (int i = 0; i < 2; i++)
        if (dt_template_render(template, variables, 4, &out, &err) < 0)
            check_error(&err);
        else
            check_text(&out);
    dt_template_text_fini(&out);
    json_decref(messages);
}

/* Templates are given as UTF-8. */
static int is_text(const uint8_t *data, size_t size)
{
    json_t *text = json_stringn((const char *)data, size);
    json_decref(text);
    return text != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_error err = {0};
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t bytes = zero ? (size_t)(zero - data) : size;
    if (!is_text(data, bytes))
        return 0;
    struct dt_template *template =
        dt_template_create("t", (const char *)data, bytes, &err);
    if (!template) {
        check_error(&err);
        return 0;
    }
    render(template, (const char *)data + bytes + (zero ? 1 : 0),
           zero ? size - bytes - 1 : 0);
    dt_template_destroy(template);
    return 0;
}
