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

#include "data/chat.h"
#include "tests/unit/bytes_tokenizer.h"

/* As several models have it. */
static const char chatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

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

static void test_known(void **state)
{
    char text[sizeof(chatml) + 8];
    (void)state;
    assert_string_equal(found(chatml), "chatml");
    snprintf(text, sizeof(text), "%s\n \n", chatml);
    assert_string_equal(found(text), "chatml");
}

static void test_unknown(void **state)
{
    static const char *const templates[] = {
        "",
        "{{ 'You are' }}<|im_start|> <|im_end|> message",
        "<|im_start|> <|im_end|> message system",
        "<|start_header_id|> <|end_header_id|> <|eot_id|> trim tools",
        "bos_token eos_token [INST] [/INST]", /* in no quotes */
        "bos_token eos_token '[INST]'",
        "bos_token eos_token '[INST]' '[/INST]' <<SYS>>",
        "eos_token '[INST]' '[/INST]'",
        "<start_of_turn>",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        assert_string_equal(
            found(templates[i]),
            "the tokenizer's chat template is not one of those known here: "
            "name the one that it is like (data.chat_template, "
            "--chat-template) of chatml, qwen2.5, qwen3, llama2, llama3, "
            "llama3.1, mistral, or give the "
            "conversations as rendered text");
    assert_string_equal(
        found(NULL),
        "messages need a chat template, and the tokenizer has none: name one "
        "(data.chat_template, --chat-template) of chatml, qwen2.5, qwen3, "
        "llama2, llama3, "
        "llama3.1, mistral");
}

static void test_refused(void **state)
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

static void test_turns(void **state)
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
static void test_reasoning(void **state)
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
        cmocka_unit_test(test_known),     cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_turns),
        cmocka_unit_test(test_reasoning),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
