/* SPDX-License-Identifier: Apache-2.0 */
/* test_chat.c - which chat template is taken, what it gets, what is trained */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "data/turns.h"
#include "tests/unit/bytes_tokenizer.h"

/* A conversation in short: 'u' and so on for a role, then its content. */
static json_t *conversation(const char *const *texts)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    json_t *messages = json_array();
    for (; *texts; texts++)
        for (size_t i = 0; i < 4; i++)
            if (roles[i][0] == **texts)
                json_array_append_new(messages,
                                      json_pack("{ss, ss}", "role", roles[i],
                                                "content", *texts + 2));
    return messages;
}
#define TURNS(...) conversation((const char *const[]){__VA_ARGS__, NULL})

/* What a template makes of messages, which are released, or the error's text;
 * what is trained on stands in [ ].
 */
static const char *rendered(const char *name, const char *jinja,
                            const char *variables, json_t *messages,
                            unsigned flags)
{
    static char text[8192];
    struct dt_error err = {0};
    struct dt_chat_text out = {0};
    struct dt_turns turns = {0};
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", "</s>", jinja);
    struct dt_chat *chat = dt_chat_create(name, variables, tokenizer, &err);
    int rc = chat ? dt_turns_add(&turns, messages, "messages", &err) : -1;
    const struct dt_chat_input input = dt_turns_input(&turns, turns.count);
    if (rc == 0)
        rc = dt_chat_render(chat, &input, flags, &out, &err);
    size_t n = 0, from = 0;
    for (size_t i = 0; rc == 0 && i < out.trained_count; i++) {
        const struct dt_chat_span *span = &out.trained[i];
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s[%.*s]",
                              (int)(span->begin - from), out.whole.text + from,
                              (int)(span->end - span->begin),
                              out.whole.text + span->begin);
        from = span->end;
    }
    snprintf(text + n, sizeof(text) - n, "%s",
             rc < 0 ? err.text : out.whole.text + from);
    dt_chat_text_fini(&out);
    dt_turns_fini(&turns);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    json_decref(messages);
    return text;
}

/* The same with a template in the tokenizer's files. */
static const char *made(const char *jinja, json_t *messages, unsigned flags)
{
    return rendered("auto", jinja, NULL, messages, flags);
}

static void the_template_of_the_files_is_rendered(void **state)
{
    (void)state;
    assert_string_equal(
        made(CHATML, TURNS("u a", "a b"), DT_CHAT_PROMPT),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>assistant\n");
    assert_string_equal(made("{{ bos_token }}{{ eos_token }}{{ pad_token }}"
                             "{{ tools }}{{ documents }}"
                             "{{ messages[0].content }}",
                             TURNS("u a"), 0),
                        "<s></s>NoneNonea");
}

/* A list of templates: that for tools is taken where there are tools. */
static void named_templates_are_chosen_by_tools(void **state)
{
    static const char config[] =
        "{\"chat_template\": [{\"name\": \"default\", \"template\": "
        "\"{{ messages[0].content }}\"}, "
        "{\"name\": \"rag\", \"template\": \"rag\"}, {\"name\": "
        "\"tool_use\", \"template\": \"{{ tools|length }} tools\"}]}";
    struct dt_error err = {0};
    struct dt_chat_text out = {0};
    json_t *messages = TURNS("u a"), *tools = json_pack("[{ss}]", "name", "f");
    struct dt_chat_input input = {.messages = messages, .count = 1};
    (void)state;
    dt_tokenizer_destroy(bytes_tokenizer("named", NULL, NULL, NULL));
    scratch_write("named/tokenizer_config.json", config, sizeof(config) - 1);
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(scratch_path("named"), &err);
    struct dt_chat *chat = dt_chat_create("auto", NULL, tokenizer, &err);
    assert_non_null(chat);
    assert_int_equal(dt_chat_render(chat, &input, 0, &out, &err), 0);
    assert_string_equal(out.whole.text, "a");
    input.tools = tools;
    assert_int_equal(dt_chat_render(chat, &input, 0, &out, &err), 0);
    assert_string_equal(out.whole.text, "1 tools");
    dt_chat_text_fini(&out);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    json_decref(messages);
    json_decref(tools);
}

/* Templates in files of their own hide all of tokenizer_config.json. */
static void templates_in_files_are_chosen_by_tools(void **state)
{
    static const char config[] =
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"no\"}, "
        "{\"name\": \"tool_use\", \"template\": \"old {{ tools|length }}\"}]}";
    static const char *const files[][2] = {
        {"filed/chat_template.jinja", "{{ messages[0].content }}"},
        {"filed/additional_chat_templates/rag.jinja", "rag"},
        {"filed/additional_chat_templates/tool_use.jinja",
         "{{ tools|length }} tools"}};
    static const char *const wanted[] = {"a", "1 tools"};
    struct dt_error err = {0};
    json_t *messages = TURNS("u a"), *tools = json_pack("[{ss}]", "name", "f");
    struct dt_chat_input input = {.messages = messages, .count = 1};
    (void)state;
    dt_tokenizer_destroy(bytes_tokenizer("filed", NULL, NULL, NULL));
    scratch_write("filed/tokenizer_config.json", config, sizeof(config) - 1);
    mkdir(scratch_path("filed/additional_chat_templates"), 0777);
    for (int i = 0; i < 3; i++)
        scratch_write(files[i][0], files[i][1], strlen(files[i][1]));
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(scratch_path("filed"), &err);
    struct dt_chat *chat = dt_chat_create("auto", NULL, tokenizer, &err);
    assert_non_null(chat);
    for (int i = 0; i < 2; i++) {
        struct dt_chat_text out = {0};
        input.tools = i > 0 ? tools : NULL;
        assert_int_equal(dt_chat_render(chat, &input, 0, &out, &err), 0);
        assert_string_equal(out.whole.text, wanted[i]);
        dt_chat_text_fini(&out);
    }
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    /* its place is that of its own file */
    scratch_write(files[2][0], "{% if %}", 8);
    tokenizer = dt_tokenizer_load(scratch_path("filed"), &err);
    assert_null(dt_chat_create("auto", NULL, tokenizer, &err));
    assert_non_null(strstr(err.text, "/additional_chat_templates/"
                                     "tool_use.jinja:1:7: expected an "));
    dt_tokenizer_destroy(tokenizer);
    json_decref(messages);
    json_decref(tools);
}

static void malformed_templates_are_refused_with_their_place(void **state)
{
    char file[600], expected[800];
    (void)state;
    snprintf(file, sizeof(file), "%s/tokenizer_config.json (chat_template)",
             scratch_path("tokenizer"));
    snprintf(expected, sizeof(expected),
             "%s:2:7: expected an expression, got %%}", file);
    assert_string_equal(made("a\n{% if %}", TURNS("u a"), 0), expected);
    snprintf(expected, sizeof(expected), "%s:1:20: 'x' is not defined", file);
    assert_string_equal(made("{{ messages }}{{ x.y }}", TURNS("u a"), 0),
                        expected);
    snprintf(expected, sizeof(expected),
             "%s:1:4: the chat template refuses this conversation: no", file);
    assert_string_equal(made("{{ raise_exception('no') }}", TURNS("u a"), 0),
                        expected);
}

static void files_and_names_are_templates(void **state)
{
    char path[600];
    (void)state;
    strcpy(path,
           scratch_write("own.jinja", "x{{ messages[0].content }}\n", 27));
    assert_string_equal(rendered(path, NULL, NULL, TURNS("u a"), 0), "xa");
    assert_non_null(strstr(
        rendered("missing.jinja", NULL, NULL, TURNS("u a"), 0), "missing.j"));
    assert_string_equal(
        rendered("llama4", NULL, NULL, TURNS("u a"), 0),
        "no chat template 'llama4': expected a file (with a slash, or ending "
        "with .jinja) or one of chatml, qwen2.5, qwen3, llama2, llama3, "
        "llama3.1, mistral, llava, llava-plain");
    assert_string_equal(
        made(NULL, TURNS("u a"), 0),
        "messages need a chat template, and the tokenizer has none: name a "
        "file with one (data.chat_template, --chat-template), or one of "
        "chatml, qwen2.5, qwen3, llama2, llama3, llama3.1, mistral, llava, "
        "llava-plain");
}

static void variables_are_the_templates(void **state)
{
    static const char jinja[] = "{{ enable_thinking is defined }}"
                                "{{ enable_thinking }}{{ n + 1 }}"
                                "{{ messages[0].content }}";
    (void)state;
    assert_string_equal(rendered("auto", jinja,
                                 "{\"enable_thinking\": false, \"n\": 1}",
                                 TURNS("u a"), 0),
                        "TrueFalse2a");
    assert_string_equal(
        rendered("auto", jinja, "{\"messages\": 1}", TURNS("u a"), 0),
        "chat_template_kwargs: messages is set by each conversation");
    assert_string_equal(rendered("auto", jinja, "[]", TURNS("u a"), 0),
                        "chat_template_kwargs: expected an object: []");
}

/* What is warned of, with a tokenizer of bytes and control_tokens. */
static void missing_control_tokens_and_dates_are_warned_of(void **state)
{
    static const char *const names[] = {"chatml", "llama3", "mistral"};
    struct dt_error err;
    struct dt_tokenizer *few = dt_tokenizer_load("byte", &err);
    struct dt_tokenizer *all = bytes_tokenizer(
        "all", "<s>", "</s>", "{{ strftime_now('%d %b %Y') }}{{ messages }}");
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct dt_chat *chat = dt_chat_create(names[i], NULL, all, &err);
        assert_null(dt_chat_warning(chat));
        dt_chat_destroy(chat);
    }
    struct dt_chat *chat = dt_chat_create("qwen3", NULL, few, &err);
    assert_string_equal(
        dt_chat_warning(chat),
        "the tokenizer has no single token for <|im_start|>, <|im_end|>, "
        "<think>, </think>, which the chat template qwen3 writes: each becomes "
        "several tokens");
    dt_chat_destroy(chat);
    chat = dt_chat_create("auto", NULL, all, &err);
    assert_string_equal(
        dt_chat_warning(chat),
        "the chat template writes the date of today; here it is always 26 Jul "
        "2024, so that a run can be repeated");
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(few);
    dt_tokenizer_destroy(all);
}

/* The warning for a template of the tokenizer's files, and the token that ends
 * its answers.
 */
static const char *warned(const char *jinja, int32_t *end)
{
    static char text[DT_ERROR_TEXT_BYTES];
    struct dt_error err;
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("warned", "<s>", "</s>", jinja);
    struct dt_chat *chat = dt_chat_create("auto", NULL, tokenizer, &err);
    if (!chat)
        fail_msg("%s", err.text);
    const char *warning = dt_chat_warning(chat);
    snprintf(text, sizeof(text), "%s", warning ? warning : "");
    *end = dt_chat_end(chat);
    dt_chat_destroy(chat);
    dt_tokenizer_destroy(tokenizer);
    return text;
}

#define EACH(text) "{% for m in messages %}" text "{% endfor %}"

/* Whatever a template is called; headers alone are text in many models. */
static void an_end_of_answers_that_is_no_token_is_warned_of(void **state)
{
    static const struct {
        const char *jinja;
        int32_t end;
    } good[] = {
        {CHATML, 259},
        {EACH("<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n"), 257},
        {EACH("<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
              "{{ m.content }}<|eot_id|>"),
         264},
        {EACH("{{ m.role }}: {{ m.content }}\n"), -1},
        {EACH("[INST] {{ m.content }} [/INST]"), -1},
        {"<tools></tools><|x|>" EACH("{{ m.content[0].text }} </s>"), 257},
        {"{% if messages[0].role == 'system' %}" EACH(
             "{{ m.content }}</s>") "{% endif %}",
         257},
        {"{{ raise_exception('no') }}", -1},
    };
    char expected[1024];
    int32_t end;
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const char *text = warned(good[i].jinja, &end);
        if (text[0] || end != good[i].end)
            fail_msg("%zu: %d, \"%s\"", i, end, text);
    }
    snprintf(
        expected, sizeof(expected),
        "the tokenizer has no single token for <|start|>, <|sep|>, <stop>, "
        "which the chat template %s/tokenizer_config.json (chat_template) "
        "writes: each becomes several tokens",
        scratch_path("warned"));
    assert_string_equal(
        warned("<s><think>" EACH("<|start|>{{ m.role }}<|sep|><b>"
                                 "{{ m.content }}<stop>\n"),
               &end),
        expected);
    assert_int_equal(end, -1);
}

static void templates_that_ignore_the_messages_are_refused(void **state)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:abc\nsize 12\n";
    static const char *const ignore[] = {
        "hello",
        "{% for m in message %}{{ m.content }}{% endfor %}",
        "{{ messages|length }}",
    };
    char path[600];
    (void)state;
    for (size_t i = 0; i < sizeof(ignore) / sizeof(ignore[0]); i++)
        assert_non_null(strstr(
            made(ignore[i], TURNS("u a"), 0),
            "tokenizer_config.json (chat_template): the chat template writes "
            "nothing of the messages: is it one, and does it go over "
            "\"messages\"?"));
    strcpy(path, scratch_write("ptr.jinja", pointer, sizeof(pointer) - 1));
    assert_non_null(strstr(rendered(path, NULL, NULL, TURNS("u a"), 0),
                           "/ptr.jinja: a pointer of git-lfs, not the file "
                           "itself: run 'git lfs pull' in its repository"));
    assert_non_null(strstr(made(pointer, TURNS("u a"), 0),
                           "(chat_template): a pointer of git-lfs"));
}

static void missing_end_tokens_are_refused(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *tokenizer =
        bytes_tokenizer("tokenizer", "<s>", NULL, NULL);
    (void)state;
    assert_null(dt_chat_create("mistral", NULL, tokenizer, &err));
    assert_int_equal(err.status, EX_CONFIG);
    assert_string_equal(err.text, "the chat template mistral ends answers with "
                                  "EOS, and the tokenizer names none");
    dt_tokenizer_destroy(tokenizer);
}

static void roles_out_of_turn_are_refused(void **state)
{
    (void)state;
    assert_non_null(
        strstr(rendered("mistral", NULL, NULL, TURNS("s s", "u u", "u v"), 0),
               "the chat template refuses this conversation: a message is of "
               "role user: user and assistant write in turns, after at most "
               "one system message"));
    assert_non_null(strstr(rendered("llama2", NULL, NULL, TURNS("t t"), 0),
                           "a message is of role tool"));
    assert_string_equal(rendered("llama2", NULL, NULL, TURNS("s s"), 0), "");
    assert_string_equal(rendered("mistral", NULL, NULL, TURNS("s s"), 0),
                        "<s>");
}

/* As LLaVA's conversation "v1" with a question of text, and its "plain". */
static void conversations_of_llava_read_as_its_program_writes_them(void **state)
{
    const unsigned trained = DT_CHAT_TRAINED;
    (void)state;
    assert_string_equal(
        rendered("llava", NULL, NULL,
                 TURNS("s Be brief.", "u Why? ", "a So.", "u a", "a b"),
                 trained),
        "<s>Be brief. USER: Why? ASSISTANT: [So.</s>]USER: a ASSISTANT: "
        "[b</s>]");
    assert_string_equal(
        rendered("llava", NULL, NULL, TURNS("u Why?"), DT_CHAT_PROMPT),
        "<s>A chat between a curious user and an artificial intelligence "
        "assistant. The assistant gives helpful, detailed, and polite answers "
        "to the user's questions. USER: Why? ASSISTANT:");
    assert_non_null(strstr(rendered("llava", NULL, NULL, TURNS("a a"), 0),
                           "a message is of role assistant: user and "
                           "assistant write in turns"));
    assert_non_null(
        strstr(rendered("llava-plain", NULL, NULL, TURNS("u a", "a b"), 0),
               "expected an image of the user and its caption by the "
               "assistant, without other messages"));
}

/* The field is taken as it is, and shown only in the last answer. */
static void reasoning_since_the_last_question_is_shown(void **state)
{
    json_t *messages = TURNS("u u", "a </think>a",
                             "u <tool_response>v</tool_response>", "a b");
    (void)state;
    json_object_set_new(json_array_get(messages, 1), "reasoning_content",
                        json_string("\nr\n"));
    json_object_set_new(json_array_get(messages, 3), "reasoning",
                        json_string(""));
    assert_string_equal(
        rendered("qwen3", NULL, NULL, messages, 0),
        "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<think>\nr\n"
        "</think>\n\n</think>a<|im_end|>\n<|im_start|>user\n<tool_response>v"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n"
        "</think>\n\nb<|im_end|>\n");
    assert_string_equal(
        rendered("qwen3", NULL, "{\"enable_thinking\": false}", TURNS("u u"),
                 DT_CHAT_PROMPT),
        "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<think>\n\n"
        "</think>\n\n");
}

/* A conversation with two answers. */
#define TWO TURNS("u q", "a  x ", "u r", "a y\n")

/* Templates without marks; what stands in [ ] is trained on. */
static void answers_are_found_by_comparing_renderings(void **state)
{
    static const struct {
        const char *jinja, *expected;
    } cases[] = {
        {CHATML, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[ x "
                 "<|im_end|>\n]<|im_start|>user\nr<|im_end|>\n<|im_start|>"
                 "assistant\n[y\n<|im_end|>\n]"},
        {"{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</s>"
         "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
         "<user>q</s><assistant>[x</s>]<user>r</s><assistant>[y</s>]"},
        /* as Phi 3: what is behind the last answer is not behind others */
        {"{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}<|end|>\n"
         "{% endfor %}{% if add_generation_prompt %}<assistant>{% else %}"
         "<|endoftext|>{% endif %}",
         "<user>q<|end|>\n<assistant>[x<|end|>\n]<user>r<|end|>\n<assistant>"
         "[y<|end|>\n<|endoftext|>]"},
        /* as Mistral: without a header; the content begins with a blank */
        {"<s>{% for m in messages %}{{ '[INST]' ~ m.content ~ '[/INST]' if "
         "m.role == 'user' else ' ' ~ m.content|trim ~ '</s>' }}{% endfor %}",
         "<s>[INST]q[/INST][ x</s>][INST]r[/INST] [y</s>]"},
        /* as Qwen 3: the last answer has more than the others */
        {"{% for m in messages %}<{{ m.role }}>{{ '<think></think>' if "
         "loop.last }}{{ m.content }}</s>{% endfor %}"
         "{{ '<assistant>' if add_generation_prompt }}",
         "<user>q</s><assistant>[ x </s>]<user>r</s><assistant>[<think></think>"
         "y\n</s>]"},
        /* the header is that of a question, too */
        {"{% for m in messages %}<turn>{{ m.content }}</s>{% endfor %}"
         "{{ '<turn>' if add_generation_prompt }}",
         "<turn>q</s><turn>[ x </s>]<turn>r</s><turn>[y\n</s>]"},
        {"{% for m in messages %}{% if m.role == 'assistant' %}A "
         "{% generation %}{{ m.content }};{% endgeneration %}{% else %}"
         "{{ m.content }}{% endif %}{% endfor %}",
         "qA [ x ;]rA [y\n;]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(made(cases[i].jinja, TWO, DT_CHAT_TRAINED),
                            cases[i].expected);
}

/* Nothing precedes the first message. */
static void first_answers_are_found_by_the_header_of_others(void **state)
{
    (void)state;
    assert_string_equal(
        made(CHATML, TURNS("a x", "u y", "a z"), DT_CHAT_TRAINED),
        "<|im_start|>assistant\n[x<|im_end|>\n]<|im_start|>user\ny<|im_end|>\n"
        "<|im_start|>assistant\n[z<|im_end|>\n]");
}

/* A call of a tool has no content to mark. */
static void calls_of_tools_are_found_by_what_comes_before(void **state)
{
    json_t *messages = TURNS("u q", "a ", "t r", "a y");
    (void)state;
    json_object_set_new(json_array_get(messages, 1), "tool_calls",
                        json_pack("[{ss}]", "name", "f"));
    assert_string_equal(
        made("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in "
             "m.tool_calls %}{{ c.name }}(){% endfor %}</s>{% endfor %}"
             "{{ '<assistant>' if add_generation_prompt }}",
             messages, DT_CHAT_TRAINED),
        "<user>q</s><assistant>[f()</s>]<tool>r</s><assistant>[y</s>]");
}

static void ambiguous_answers_are_refused(void **state)
{
    static const struct {
        const char *jinja, *reason;
    } cases[] = {
        {"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
         "{{ 'assistant: ' if add_generation_prompt }}",
         "message 2: in what the chat template makes of it, it is ambiguous "
         "what the assistant wrote: nothing ends the answer, so that the model "
         "would not learn to stop. Use a template that marks it with {% "
         "generation %} (data.chat_template), or train on everything "
         "(data.loss_on: full)"},
        {"{% for m in messages %}{{ m.role }}={{ m.content|upper }};"
         "{% endfor %}",
         "nothing marks its beginning"},
        {"{% for m in messages %}{{ m.content|length }};{% endfor %}",
         "nothing marks its beginning"},
        {"{% for m in messages %}<{{ m.role }}>{{ messages[-1].content }}</s>"
         "{% endfor %}{{ '<assistant>' if add_generation_prompt }}",
         "the text before and behind it depends on the messages that follow"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = made(cases[i].jinja, TWO, DT_CHAT_TRAINED);
        if (!strstr(text, cases[i].reason))
            fail_msg("%zu: %s", i, text);
    }
    json_t *messages = TURNS("a ", "u y");
    json_object_set_new(json_array_get(messages, 0), "tool_calls",
                        json_pack("[{ss}]", "name", "f"));
    assert_non_null(strstr(
        made("{{ messages[0].tool_calls }}{{ messages[-1].content }}</s>",
             messages, DT_CHAT_TRAINED),
        "message 1: in what the chat template makes of it, "
        "it is ambiguous what the assistant wrote: no "
        "message precedes it"));
}

static void tools_that_are_not_rendered_are_refused(void **state)
{
    json_t *messages = TURNS("u q", "a ");
    (void)state;
    json_object_set_new(json_array_get(messages, 1), "tool_calls",
                        json_pack("[{ss}]", "name", "f"));
    assert_string_equal(made(CHATML, messages, 0),
                        "tool_calls: the chat template does not render them: "
                        "choose one that does, or leave them out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_template_of_the_files_is_rendered),
        cmocka_unit_test(named_templates_are_chosen_by_tools),
        cmocka_unit_test(templates_in_files_are_chosen_by_tools),
        cmocka_unit_test(malformed_templates_are_refused_with_their_place),
        cmocka_unit_test(files_and_names_are_templates),
        cmocka_unit_test(variables_are_the_templates),
        cmocka_unit_test(missing_control_tokens_and_dates_are_warned_of),
        cmocka_unit_test(an_end_of_answers_that_is_no_token_is_warned_of),
        cmocka_unit_test(templates_that_ignore_the_messages_are_refused),
        cmocka_unit_test(missing_end_tokens_are_refused),
        cmocka_unit_test(roles_out_of_turn_are_refused),
        cmocka_unit_test(
            conversations_of_llava_read_as_its_program_writes_them),
        cmocka_unit_test(reasoning_since_the_last_question_is_shown),
        cmocka_unit_test(answers_are_found_by_comparing_renderings),
        cmocka_unit_test(first_answers_are_found_by_the_header_of_others),
        cmocka_unit_test(calls_of_tools_are_found_by_what_comes_before),
        cmocka_unit_test(ambiguous_answers_are_refused),
        cmocka_unit_test(tools_that_are_not_rendered_are_refused),
    };
    return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
