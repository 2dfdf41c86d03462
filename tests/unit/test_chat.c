/* SPDX-License-Identifier: Apache-2.0 */
/* test_chat.c - which chat template is taken, and what is refused */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/bytes_tokenizer.h"
#include "tokenizer/chat.h"

/* The published one of Llama 3: in pieces, and by the hash of all of them. */
static const char llama3[] =
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
    "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

/* The name that "auto" finds for a Jinja template, or the error's text. */
static const char *found(const char *jinja)
{
    static char text[DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", "</s>", jinja);
    struct dt_chat *chat = dt_chat_create("auto", tokenizer, &err);
    snprintf(text, sizeof(text), "%s", chat ? dt_chat_name(chat) : err.text);
    if (!chat)
        assert_int_equal(err.status, EX_CONFIG);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    return text;
}

/* `text` with the first `old` as `new`. */
static const char *changed(const char *text, const char *old, const char *new)
{
    static char out[2048];
    const char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, new,
             at + strlen(old));
    return out;
}

/* Only what Jinja does not see may differ: how lines end, and the last end. */
static void known_templates_may_differ_only_in_line_ends(void **state)
{
    (void)state;
    assert_string_equal(found(CHATML), "chatml");
    assert_string_equal(found(llama3), "llama3");
    assert_string_equal(found(changed(llama3, "\n\n", "\r\n\r")), "llama3");
    assert_string_equal(found(changed(CHATML, "assistant\\n' }}{% endif %}",
                                      "assistant\\n' }}{% endif %}\n\n")),
                        "chatml");
}

#define CHOOSE                                                                 \
    " with data.chat_template (--chat-template), of chatml, qwen2.5, qwen3, "  \
    "llama2, llama3, llama3.1, mistral, or give the conversations as "         \
    "rendered "                                                                \
    "text"
#define DIFFERS(where)                                                         \
    "the tokenizer's chat template is unknown: it first differs from that "    \
    "of " where ". Choose one" CHOOSE

/* Templates that look like a known one, and would be rendered differently. */
static void an_altered_template_is_refused_where_it_differs(void **state)
{
    static const struct {
        const char *text, *old, *new, *error;
    } cases[] = {
        {CHATML, "{% for", "{{ bos_token }}{% for",
         DIFFERS("ChatML at line 1, column 1, where this one has: "
                 "{{ bos_token }}")},
        {CHATML, "{% endfor %}", "{% endfor %}{{ eos_token }}",
         DIFFERS("ChatML at line 1, column 128, where this one has: "
                 "{{ eos_token }}")},
        {CHATML, " + '\\n'}}{% endfor", "}}{% endfor",
         DIFFERS("ChatML at line 1, column 30, where this one has: "
                 "{{'<|im_start|>' + message['role'] + '\\n' + "
                 "message['content'] + '<|im_end|>'}}")},
        {CHATML, "message['content']", "message['content'] | trim",
         DIFFERS("ChatML at line 1, column 30, where this one has: "
                 "{{'<|im_start|>' + message['role'] + '\\n' + "
                 "message['content'] | trim + '<|im_end|>' + '\\n'}}")},
        {llama3, " | trim", "",
         DIFFERS("Llama 3 at line 3, column 1, where this one has: "
                 "'+ message['content'] + '<|eot_id|>' %}")},
        {llama3, "assistant<", "Assistant<",
         DIFFERS("Llama 3 at line 3, column 177, where this one has: "
                 "{{ '<|start_header_id|>Assistant<|end_header_id|>")},
        {CHATML,
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
         "}}{% endif %}",
         "", DIFFERS("ChatML at line 1, column 128, where this one ends")},
        {CHATML, "assistant\\n' }}{% endif %}",
         "assistant\\n' }}{% endif %}\n ",
         DIFFERS("ChatML at line 1, column 189, where this one has: "
                 "{% endif %}")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(
            found(changed(cases[i].text, cases[i].old, cases[i].new)),
            cases[i].error);
}

static void an_unknown_or_missing_template_is_refused(void **state)
{
    static const char *const templates[] = {
        "",
        "<|im_start|> <|im_end|> message",
        "<|start_header_id|> <|end_header_id|> <|eot_id|> trim",
        "bos_token eos_token '[INST]' '[/INST]'",
        "<start_of_turn>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        assert_string_equal(
            found(templates[i]),
            "the tokenizer's chat template is unknown: choose one" CHOOSE);
    assert_string_equal(
        found(NULL),
        "messages need a chat template, and the tokenizer has none: name one "
        "(data.chat_template, --chat-template) of chatml, qwen2.5, qwen3, "
        "llama2, llama3, "
        "llama3.1, mistral");
}

/* What is warned of, with a tokenizer of bytes and control_tokens. */
static void missing_control_tokens_are_warned_of(void **state)
{
    static const char *const names[] = {"chatml", "llama3", "mistral"};
    struct dt_error err;
    struct dt_tokenizer *few = dt_tokenizer_load("byte", &err);
    struct dt_tokenizer *all = bytes_tokenizer("all", "<s>", "</s>", NULL);
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dt_chat *chat = dt_chat_create(names[i], all, &err);
        assert_null(dt_chat_warning(chat));
        dt_chat_destroy(chat);
    }
    struct dt_chat *chat = dt_chat_create("qwen3", few, &err);
    assert_string_equal(
        dt_chat_warning(chat),
        "the tokenizer has no single token for <|im_start|>, <|im_end|>, "
        "<think>, </think>, which the chat template qwen3 writes: each becomes "
        "several tokens");
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(few);
    dt_tokenizer_destroy(all);
}

static void unknown_names_and_missing_end_tokens_are_refused(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", NULL, NULL);
    (void)state;
    assert_null(dt_chat_create("llama4", tokenizer, &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text,
                        "no chat template 'llama4'; there are chatml, qwen2.5, "
                        "qwen3, llama2, llama3, llama3.1, mistral");
    assert_null(dt_chat_create("mistral", tokenizer, &err));
    assert_string_equal(err.text, "the chat template mistral ends answers with "
                                  "EOS, and the tokenizer names none");
    dt_tokenizer_destroy(tokenizer);
}

/* Renders with a template of that name; the text, or the error's. */
static const char *rendered(const char *name,
                            const struct dt_chat_message *messages,
                            size_t count, unsigned flags)
{
    static char text[DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    struct dt_chat_text out = {0};
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", "</s>", NULL);
    struct dt_chat *chat = dt_chat_create(name, tokenizer, &err);
    assert_non_null(chat);
    int rc = dt_chat_render(chat, messages, count, flags, &out, &err);
    if (rc < 0)
        assert_int_equal(err.status, EX_DATAERR);
    snprintf(text, sizeof(text), "%s", rc < 0 ? err.text : out.text);
    dt_chat_text_fini(&out);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    return text;
}

static void roles_out_of_turn_are_refused(void **state)
{
    static const struct dt_chat_message messages[] = {
        {.role = "system", .content = "s"},
        {.role = "user", .content = "u"},
        {.role = "user", .content = "v"},
        {.role = "tool", .content = "t"},
    };
    (void)state;
    assert_string_equal(
        rendered("mistral", messages, 3, 0),
        "message 3 is of role user: the chat template mistral wants user and "
        "assistant in turns, after at most one system message");
    assert_non_null(strstr(rendered("llama2", messages + 3, 1, 0),
                           "message 1 is of role tool: the chat template "
                           "llama2"));
    assert_string_equal(rendered("llama2", messages, 1, 0), "");
    assert_string_equal(rendered("mistral", messages, 1, 0), "<s>");
}

/* The field is taken as it is, and shown only in the last answer. */
static void reasoning_since_the_last_question_is_shown(void **state)
{
    static const struct dt_chat_message messages[] = {
        {.role = "user", .content = "u"},
        {.role = "assistant", .content = "</think>a", .reasoning = "\nr\n"},
        {.role = "user", .content = "<tool_response>v</tool_response>"},
        {.role = "assistant", .content = "b", .reasoning = ""},
    };
    (void)state;
    assert_string_equal(
        rendered("qwen3", messages, 4, 0),
        "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<think>\nr\n"
        "</think>\n\n</think>a<|im_end|>\n<|im_start|>user\n<tool_response>v"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n"
        "</think>\n\nb<|im_end|>\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_templates_may_differ_only_in_line_ends),
        cmocka_unit_test(an_altered_template_is_refused_where_it_differs),
        cmocka_unit_test(an_unknown_or_missing_template_is_refused),
        cmocka_unit_test(missing_control_tokens_are_warned_of),
        cmocka_unit_test(unknown_names_and_missing_end_tokens_are_refused),
        cmocka_unit_test(roles_out_of_turn_are_refused),
        cmocka_unit_test(reasoning_since_the_last_question_is_shown),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
