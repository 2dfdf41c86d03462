/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_template.c - any text as a chat template, and conversations through it
 *
 * What follows the first zero byte is the content of an answer. After a first
 * byte of 1, each byte opens a statement, ends the last one or is something to
 * write, so that any input is a template of statements in each other.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* Marks are in order, apart, and within the text. */
static void check_text(const struct dt_template_text *out)
{
    size_t at = 0;
    if (strlen(out->text) > out->bytes)
        abort();
    for (size_t i = 0; i < out->span_count; i++) {
        if (out->spans[i].begin < at ||
            out->spans[i].begin > out->spans[i].end ||
            out->spans[i].end > out->bytes)
            abort();
        at = out->spans[i].end;
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

/* --- statements in each other --- */

enum { NESTED_BYTES = 1 << 12, NESTED = 12 };

static const struct {
    const char *begin, *end;
} statements[] = {
    {"{% for m in [1, 2] %}", "{% endfor %}"},
    {"{% for m in [] %}{% else %}", "{% endfor %}"},
    {"{% for m in [1, 2, 3] if m != 2 %}", "{% endfor %}"},
    {"{% if m %}", "{% endif %}"},
    {"{% if q %}{% else %}", "{% endif %}"},
    {"{% set x %}", "{% endset %}{{ x }}"},
    {"{% set y | upper %}", "{% endset %}{{ y }}"},
    {"{% filter trim | upper %}", "{% endfilter %}"},
    {"{% macro f(a) %}", "{% endmacro %}{{ f(1) }}"},
    {"{% macro g() %}{{ caller(2) }}{% endmacro %}{% call(b) g() %}",
     "{% endcall %}"},
    {"{% with z = x %}", "{% endwith %}"},
    {"{% generation %}", "{% endgeneration %}"},
};
static const char *const leaves[] = {
    "text",        "{{ m }}{{ x }}{{ z }}", "{% set x = 1 %}",
    "{% break %}", "{% continue %}",        "{{ loop.index }}",
};

/* The template that bytes stand for; the caller frees. */
static char *make_nested(const uint8_t *data, size_t size)
{
    enum {
        COUNT = sizeof(statements) / sizeof(statements[0]),
        LEAVES = sizeof(leaves) / sizeof(leaves[0]),
    };
    size_t open[NESTED], depth = 0, bytes;
    char *source;
    FILE *f = open_memstream(&source, &bytes);
    for (size_t i = 0; i < size && ftell(f) < NESTED_BYTES; i++) {
        const size_t which = data[i] % (COUNT + LEAVES + 1);
        if (which < COUNT && depth < NESTED)
            fputs(statements[open[depth++] = which].begin, f);
        else if (which == COUNT && depth > 0)
            fputs(statements[open[--depth]].end, f);
        else if (which > COUNT)
            fputs(leaves[which - COUNT - 1], f);
    }
    while (depth > 0)
        fputs(statements[open[--depth]].end, f);
    fclose(f);
    return source;
}

/* --- the target --- */

/* Templates are given as UTF-8. */
static int is_text(const uint8_t *data, size_t size)
{
    json_t *text = json_stringn((const char *)data, size);
    json_decref(text);
    return text != NULL;
}

static void try_template(const uint8_t *data, size_t size)
{
    struct dt_error err = {0};
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    size_t bytes = zero ? (size_t)(zero - data) : size;
    if (!is_text(data, bytes))
        return;
    struct dt_template *template =
        dt_template_create("t", (const char *)data, bytes, &err);
    if (!template) {
        check_error(&err);
        return;
    }
    render(template, (const char *)data + bytes + (zero ? 1 : 0),
           zero ? size - bytes - 1 : 0);
    dt_template_destroy(template);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] != 1) {
        try_template(data, size);
        return 0;
    }
    char *source = make_nested(data + 1, size - 1);
    try_template((const uint8_t *)source, strlen(source));
    free(source);
    return 0;
}
