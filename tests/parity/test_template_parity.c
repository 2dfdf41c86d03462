/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_template_parity.c - templates render what transformers renders
 *
 * make_template_reference.py has written template_reference.json, and
 * make_nesting_reference.py nesting.json.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "data/turns.h"
#include "tests/unit/bytes_tokenizer.h"

/* A file of the folder of this test. */
static const char *file_here(const char *name)
{
    static char path[4096];
    const char *root = getenv("DT_SRCDIR");
    snprintf(path, sizeof(path), "%s/tests/parity/%s", root ? root : ".", name);
    return path;
}

static json_t *load_reference(const char *name)
{
    json_error_t at;
    json_t *reference = json_load_file(file_here(name), 0, &at);
    if (!reference)
        fail_msg("%s:%d: %s", name, at.line, at.text);
    return reference;
}

/* --- whole conversations --- */

/* As the script writes it: the hash of the text and what is marked. */
static void describe(const struct dt_chat_text *out, char *to, size_t room)
{
    const struct dt_template_text *whole = &out->whole;
    size_t n = (size_t)snprintf(to, room, "%016" PRIx64,
                                XXH3_64bits(whole->text, whole->bytes));
    for (size_t i = 0; i < whole->span_count; i++)
        n += (size_t)snprintf(to + n, room - n, " +%zu-%zu",
                              whole->spans[i].begin, whole->spans[i].end);
}

/* Renders a conversation. False: there are tools, and the template has none. */
static bool render(const struct dt_chat *chat, const json_t *conversation,
                   struct dt_chat_text *out, char *to, size_t room)
{
    struct dt_turns turns = {0};
    struct dt_error err = {0};
    json_t *tools = json_object_get(conversation, "tools");
    bool prompt = json_is_true(json_object_get(conversation, "prompt"));
    assert_int_equal(dt_turns_add(&turns,
                                  json_object_get(conversation, "messages"),
                                  "messages", &err),
                     0);
    turns.tools = json_is_array(tools) ? json_incref(tools) : NULL;
    turns.variables = json_incref(json_object_get(conversation, "variables"));
    const struct dt_chat_input input = dt_turns_input(&turns, turns.count);
    int rc =
        dt_chat_render(chat, &input, prompt ? DT_CHAT_PROMPT : 0, out, &err);
    if (rc == 0)
        describe(out, to, room);
    else
        snprintf(to, room, "refused");
    dt_turns_fini(&turns);
    return rc == 0 || !strstr(err.text, "does not render them");
}

static void check_template(const char *name, const json_t *expected,
                           const json_t *conversations,
                           const struct dt_tokenizer *tokenizer,
                           size_t *without_tools)
{
    struct dt_chat_text out = {0};
    struct dt_error err = {0};
    char file[200], found[512];
    const json_t *conversation;
    size_t i;
    snprintf(file, sizeof(file), "templates/%s.jinja", name);
    struct dt_chat *chat =
        dt_chat_create(file_here(file), NULL, tokenizer, &err);
    if (!chat)
        fail_msg("%s", err.text);
    json_array_foreach(conversations, i, conversation)
    {
        const char *wanted = json_string_value(json_array_get(expected, i));
        if (!render(chat, conversation, &out, found, sizeof(found)))
            ++*without_tools;
        else if (strcmp(found, wanted) != 0)
            fail_msg("%s, conversation %zu: %s, not %s: %s", name, i, found,
                     wanted, strcmp(found, "refused") ? out.whole.text : "");
    }
    dt_chat_text_fini(&out);
    dt_chat_destroy(chat);
}

static void conversations_are_rendered_as_by_transformers(void **state)
{
    json_t *reference = load_reference("template_reference.json");
    json_t *results = json_object_get(reference, "results"), *expected;
    const json_t *conversations = json_object_get(reference, "conversations");
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", "</s>", NULL);
    const char *name;
    size_t templates = 0, without_tools = 0;
    (void)state;
    assert_in_range(json_array_size(conversations), 40, 1000);
    json_object_foreach(results, name, expected)
    {
        assert_int_equal(json_array_size(expected),
                         json_array_size(conversations));
        check_template(name, expected, conversations, tokenizer,
                       &without_tools);
        templates++;
    }
    assert_in_range(templates, 60, 1000);
    /* the eleven conversations with tools, where the template has none */
    assert_in_range(without_tools, 1, 12 * templates);
    dt_tokenizer_destroy(tokenizer);
    json_decref(reference);
}

/* --- snippets --- */

enum { VARIABLES = 32 };

static void check_snippet(const char *source, const char *expected,
                          const struct dt_template_variable *variables,
                          size_t count)
{
    struct dt_template_text out = {0};
    struct dt_error err = {0};
    struct dt_template *template =
        dt_template_create("t", source, strlen(source), &err);
    bool done = template &&
                dt_template_render(template, variables, count, &out, &err) == 0;
    if (done && !expected)
        fail_msg("%s: expected an error, got '%s'", source, out.text);
    if (!done && expected)
        fail_msg("%s: %s", source, err.text);
    if (done && strcmp(out.text, expected) != 0)
        fail_msg("%s: expected '%s', got '%s'", source, expected, out.text);
    if (!done && !strstr(err.text, "t:1:"))
        fail_msg("%s: no place in the error: %s", source, err.text);
    dt_template_text_fini(&out);
    dt_template_destroy(template);
}

static void expressions_and_statements_mean_what_jinja_says(void **state)
{
    json_t *reference = load_reference("template_reference.json"), *value;
    const json_t *snippets = json_object_get(reference, "snippets"), *snippet;
    struct dt_template_variable variables[VARIABLES];
    const char *name;
    size_t count = 0, i;
    (void)state;
    json_object_foreach(json_object_get(reference, "variables"), name, value)
    {
        assert_in_range(count, 0, VARIABLES - 1);
        variables[count++] = (struct dt_template_variable){name, value};
    }
    assert_in_range(json_array_size(snippets), 120, 10000);
    json_array_foreach(snippets, i, snippet) check_snippet(
        json_string_value(json_array_get(snippet, 0)),
        json_string_value(json_array_get(snippet, 1)), variables, count);
    json_decref(reference);
}

/* --- statements in each other --- */

enum { NESTED_BYTES = 1000 };

/* Puts a text in place of each @ of a source. */
static void put_in(char *source, const char *text)
{
    char old[NESTED_BYTES], *to = source;
    strcpy(old, source);
    for (const char *s = old; *s; s++)
        to += snprintf(to, (size_t)(source + NESTED_BYTES - to), "%.*s",
                       *s == '@' ? NESTED_BYTES : 1, *s == '@' ? text : s);
}

/* Adds to a hash what a source renders, as the script writes it. */
static void hash_rendered(const char *source, struct dt_template_text *out,
                          XXH3_state_t *hash)
{
    json_t *n = json_integer(5), *z = json_integer(0);
    const struct dt_template_variable variables[] = {{"n", n}, {"z", z}};
    struct dt_template *template =
        dt_template_create("t", source, strlen(source), NULL);
    bool done =
        template && dt_template_render(template, variables, 2, out, NULL) == 0;
    char mark[60];
    XXH3_64bits_update(hash, done ? out->text : "refused",
                       done ? out->bytes : strlen("refused"));
    for (size_t i = 0, begin = 0; done && i < out->span_count; i++) {
        const struct dt_template_span *span = &out->spans[i];
        const bool first = i == 0 || span[-1].end < span->begin;
        const bool last = i + 1 == out->span_count || span->end < span[1].begin;
        begin = first ? span->begin : begin;
        snprintf(mark, sizeof(mark), " +%zu-%zu", begin, span->end);
        if (last)
            XXH3_64bits_update(hash, mark, strlen(mark));
    }
    XXH3_64bits_update(hash, "\n", 1);
    dt_template_destroy(template);
    json_decref(n);
    json_decref(z);
}

static void check_pair(const json_t *reference, const char *a, const char *b,
                       struct dt_template_text *out)
{
    json_t *statements = json_object_get(reference, "statements"), *inner;
    const json_t *leaves = json_object_get(reference, "leaves"), *leaf;
    char source[NESTED_BYTES], found[17], pair[60];
    XXH3_state_t *hash = XXH3_createState();
    const char *name;
    size_t i;
    XXH3_64bits_reset(hash);
    json_object_foreach(statements, name, inner)
    {
        json_array_foreach(leaves, i, leaf)
        {
            strcpy(source, "<@>{{ x }}{{ z }}");
            put_in(source, json_string_value(json_object_get(statements, a)));
            put_in(source, json_string_value(json_object_get(statements, b)));
            put_in(source, json_string_value(inner));
            put_in(source, json_string_value(leaf));
            hash_rendered(source, out, hash);
        }
    }
    snprintf(found, sizeof(found), "%016" PRIx64, XXH3_64bits_digest(hash));
    snprintf(pair, sizeof(pair), "%s %s", a, b);
    XXH3_freeState(hash);
    const char *expected = json_string_value(
        json_object_get(json_object_get(reference, "results"), pair));
    if (strcmp(found, expected) != 0)
        fail_msg("something in '%s' in '%s' is not rendered as by jinja2", b,
                 a);
}

static void statements_nest_as_in_jinja(void **state)
{
    json_t *reference = load_reference("nesting.json"), *unused;
    json_t *statements = json_object_get(reference, "statements");
    struct dt_template_text out = {0};
    const char *a, *b;
    (void)state;
    assert_in_range(json_object_size(statements), 11, 100);
    json_object_foreach(statements, a, unused)
    {
        json_object_foreach(statements, b, unused)
            check_pair(reference, a, b, &out);
    }
    dt_template_text_fini(&out);
    json_decref(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_are_rendered_as_by_transformers),
        cmocka_unit_test(expressions_and_statements_mean_what_jinja_says),
        cmocka_unit_test(statements_nest_as_in_jinja),
    };
    return cmocka_run_group_tests_name("template parity", tests, NULL, NULL);
}
