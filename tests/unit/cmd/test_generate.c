/* SPDX-License-Identifier: Apache-2.0 */
/* test_generate.c - what `disttrain generate` prints, and refuses */
#include "config.h"

#include <sysexits.h>

#include "cmd/cmd_impl.h"
#include "tests/unit/bytes_tokenizer.h"
#include "tests/unit/cmd/generate_scene.h"
#include "tokenizer/tokenizer.h"

static void a_prompt_is_continued_until_the_text_ends(void **state)
{
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    assert_int_equal(RUN("--model", scratch_root, "--prompt",
                         "say: ", "--max-tokens", "12", "--temperature", "0"),
                     0);
    assert_string_equal(output, "say: xxxxxxxxxxxx\n");
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "", "--device",
                         "CPU", "--max-tokens", "1", "--temperature", "0"),
                     0);
    assert_string_equal(output, "x\n");
    write_model(DT_BYTE_VOCAB, DT_BYTE_EOT);
    assert_int_equal(
        RUN("--model", scratch_root, "--prompt", "end", "--temperature", "0"),
        0);
    assert_string_equal(output, "end\n");
}

static void a_language_model_gives_no_scores(void **state)
{
    (void)state;
    assert_int_equal(RUN("--model", scratch_root, "--score", "lines.jsonl"),
                     EX_DATAERR);
    assert_non_null(strstr(output, "a language model: --score needs a reward "
                                   "model, as algorithm rm trains it\n"));
}

static void the_seed_decides_what_is_sampled(void **state)
{
    char first[sizeof(output)];
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    for (int i = 0; i < 2; i++) {
        strcpy(first, output);
        assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                             "--max-tokens", "30", "--temperature", "5"),
                         0);
    }
    assert_string_equal(output, first);
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                         "--max-tokens", "30", "--temperature", "5", "--seed",
                         "1"),
                     0);
    assert_string_not_equal(output, first);
}

static void a_prompt_may_be_given_as_token_ids(void **state)
{
    (void)state;
    write_model(300, 299);
    assert_int_equal(RUN("--model", scratch_root, "--tokens", "1,2,297",
                         "--max-tokens", "3", "--top-k", "1"),
                     0);
    assert_string_equal(output, "299 299 299\n");
    scratch_write("generation_config.json", "{\"eos_token_id\": 299}", 21);
    assert_int_equal(
        RUN("--model", scratch_root, "--tokens", "1", "--top-k", "1"), 0);
    assert_string_equal(output, "\n"); /* what ends a text is not of it */
    assert_int_equal(unlink(scratch_path("generation_config.json")), 0);
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a"), EX_USAGE);
    assert_non_null(strstr(output, "the model has 300 tokens and no "
                                   "tokenizer.json: let transformers write "
                                   "one, AutoTokenizer.from_pretrained(DIR)"
                                   ".save_pretrained(DIR), or give the prompt "
                                   "as ids with --tokens"));
    assert_int_equal(RUN("--model", scratch_root, "--tokens", "1,300"),
                     EX_USAGE);
    assert_non_null(strstr(output, "--tokens: expected ids from 0 to 299 with "
                                   "commas between them, got '300'"));
    assert_int_equal(RUN("--model", scratch_root, "--tokens", "1,,2"),
                     EX_USAGE);
    assert_non_null(strstr(output, "got ',2'"));
}

static void a_text_ends_where_positions_run_out(void **state)
{
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "0123456789",
                         "--temperature", "0"),
                     0);
    assert_non_null(
        strstr(output, "0123456789xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n"));
    assert_non_null(strstr(output, "the text fills the model's 40 "
                                   "positions"));
}

/* What generation_config.json calls the end of a text ends it. */
static void end_tokens_of_the_model_end_the_text(void **state)
{
    static const char one[] = "{\"eos_token_id\": 120}";
    static const char list[] =
        "{\"eos_token_id\": [7, 120, 100000, 99999999999999999999]}";
    static const char bad[] = "{\"eos_token_id\": ";
    static const char *const texts[] = {one, list};
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    for (int i = 0; i < 2; i++) {
        scratch_write("generation_config.json", texts[i], strlen(texts[i]));
        assert_int_equal(
            RUN("--model", scratch_root, "--prompt", "a", "--temperature", "0"),
            0);
        assert_string_equal(output, "a\n");
    }
    scratch_write("generation_config.json", bad, strlen(bad));
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a"), EX_DATAERR);
    assert_non_null(strstr(output, "generation_config.json:1:17: "));
    assert_int_equal(unlink(scratch_path("generation_config.json")), 0);
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                         "--temperature", "0", "--stop", ""),
                     EX_USAGE);
    assert_non_null(strstr(output, "--stop: expected a token or a text"));
}

/* Text may end anywhere in a token; it is printed, as those before it. */
static void a_stop_may_be_any_text(void **state)
{
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                         "--temperature", "0", "--stop", "xxx"),
                     0);
    assert_string_equal(output, "axxx\n");
}

static void every_data_type_generates_the_same_text(void **state)
{
    static const char *const types[] = {"fp32", "bf16", "fp16"};
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    for (int i = 0; i < 3; i++) {
        assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                             "--max-tokens", "3", "--temperature", "0",
                             "--dtype", types[i]),
                         0);
        assert_string_equal(output, "axxx\n");
    }
}

/* Lines come back in order with what was made of each, the same whatever the
 * batch.
 */
static void prompts_of_a_file_come_back_in_order(void **state)
{
    static const char lines[] = "{\"prompt\": \"a\", \"id\": 1}\n\n"
                                "{\"prompt\": \"longer than the others\"}\n"
                                "{\"prompt\": \"\"}\n";
    char first[sizeof(output)] = "";
    static const char *const batches[] = {"1", "2", "8"};
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    char path[512];
    strcpy(path, scratch_write("p.jsonl", lines, sizeof(lines) - 1));
    assert_int_equal(RUN("--model", scratch_root, "--prompts", path,
                         "--max-tokens", "2", "--temperature", "0"),
                     0);
    assert_string_equal(output,
                        "{\"prompt\":\"a\",\"id\":1,\"completion\":\"xx\"}\n"
                        "{\"prompt\":\"longer than the others\","
                        "\"completion\":\"xx\"}\n"
                        "{\"prompt\":\"\",\"completion\":\"xx\"}\n");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(RUN("--model", scratch_root, "--prompts", path,
                             "--max-tokens", "9", "--temperature", "9",
                             "--batch", batches[i]),
                         0);
        if (i > 0)
            assert_string_equal(output, first);
        strcpy(first, output);
    }
    write_model(DT_BYTE_VOCAB, 0); /* a byte that ends strings */
    assert_int_equal(RUN("--model", scratch_root, "--prompts", path,
                         "--max-tokens", "2", "--temperature", "0"),
                     0);
    assert_non_null(strstr(output, "\"completion\":\"\\u0000\\u0000\"}\n"));
}

/* A character like others, though it ends strings in C: the positions that are
 * left tell that what is behind it counts.
 */
static void u0000_is_a_character_of_a_prompt(void **state)
{
    static const char template[] = "{{ messages[0].content }}";
    static const char lines[] =
        "{\"prompt\": \"\\u000012345678901234567890123456789012345\", "
        "\"completion\": \"\\u0000\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": "
        "\"\\u0000123456789012345678901234567890123456\"}]}\n";
    char path[512];
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    strcpy(path, scratch_write("p.jsonl", lines, sizeof(lines) - 1));
    assert_int_equal(
        RUN("--model", scratch_root, "--prompts", path, "--max-tokens", "9",
            "--temperature", "0", "--chat-template",
            scratch_write("t.jinja", template, sizeof(template) - 1)),
        0);
    if (!strstr(output, "\"completion\":\"xxxx\"}\n") ||
        !strstr(output, "\"completion\":\"xxx\"}\n"))
        fail_msg("%s", output);
}

/* A token that was added to the tokenizer and not to the model. */
static void a_prompt_beyond_the_vocabulary_names_the_tokenizer(void **state)
{
    char text[1024];
    (void)state;
    write_model(80, 1);
    dt_tokenizer_destroy(bytes_tokenizer(".", NULL, NULL, NULL));
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "z"), EX_DATAERR);
    snprintf(text, sizeof(text),
             "disttrain: E120 the tokenizer %s has a token 122, but the "
             "model's vocab_size is 80: is it the tokenizer of this model?\n",
             scratch_root);
    assert_string_equal(output, text);
    unlink(scratch_path("tokenizer.json"));
    unlink(scratch_path("tokenizer_config.json"));
}

/* A tokenizer of bytes has none of a template's control tokens: said once. */
static void missing_control_tokens_are_reported_once(void **state)
{
    static const char lines[] =
        "{\"prompt\": \"a\"}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"c\"}]}\n";
    static const char chatml[] =
        "disttrain: warning: the tokenizer has no single token for "
        "<|im_start|>, <|im_end|>, which the chat template chatml writes: each "
        "becomes several tokens\n";
    char path[512];
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    strcpy(path, scratch_write("p.jsonl", lines, sizeof(lines) - 1));
    const char *const *runs[] = {
        (const char *const[]){"--model", scratch_root, "--chat", "--prompt",
                              "a", "--max-tokens", "1", "--chat-template",
                              "chatml", NULL},
        (const char *const[]){"--model", scratch_root, "--prompts", path,
                              "--max-tokens", "1", "--chat-template", "chatml",
                              NULL},
    };
    for (size_t i = 0; i < 2; i++) {
        run(runs[i]);
        const char *at = strstr(output, chatml);
        assert_non_null(at);
        assert_null(strstr(at + strlen(chatml), "warning"));
    }
}

static void a_bad_file_of_prompts_is_refused(void **state)
{
    static const struct {
        const char *lines, *text;
    } cases[] = {
        {"{\"prompt\": \"a\"}\n{", ":2: string or '}' expected"},
        {"{\"text\": \"a\"}\n", ":1: expected an object with prompt or "
                                "messages"},
        {"{\"messages\": []}\n", ":1: messages need a chat template, and the "
                                 "tokenizer has none: name a file"},
        {"{\"prompt\": \"0123456789012345678901234567890123456789\"}\n",
         "a prompt of 40 tokens leaves no room: the model has 40 positions"},
    };
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path =
            scratch_write("bad.jsonl", cases[i].lines, strlen(cases[i].lines));
        assert_int_equal(RUN("--model", scratch_root, "--prompts", path),
                         EX_DATAERR);
        if (!strstr(output, cases[i].text))
            fail_msg("expected '%s' in '%s'", cases[i].text, output);
    }
}

static void a_message_needs_role_and_content(void **state)
{
    static const char *const messages[][2] = {
        {"{\"role\": \"user\"}", "content: expected a string, got nothing"},
        {"{\"content\": \"a\"}", "role: expected a string, got nothing"},
        {"{\"role\": \"user\", \"content\": 1}",
         "content: expected a string, got a number"},
        {"{\"role\": \"user\\u0000\", \"content\": \"a\"}",
         "role 'user': expected system, developer"}};
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        char line[128];
        int n = snprintf(line, sizeof(line), "{\"messages\": [%s]}\n",
                         messages[i][0]);
        assert_int_equal(RUN("--model", scratch_root, "--chat-template",
                             "chatml", "--prompts",
                             scratch_write("m.jsonl", line, (size_t)n)),
                         EX_DATAERR);
        assert_non_null(strstr(output, "m.jsonl:1: messages: message 1: "));
        assert_non_null(strstr(output, messages[i][1]));
    }
}

static void the_limits_of_a_number_are_accepted(void **state)
{
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    assert_int_equal(RUN("--model", scratch_root, "--prompt", "a",
                         "--max-tokens", "1", "--top-p", "1", "--batch", "1"),
                     0);
}

static void invalid_arguments_are_refused(void **state)
{
    static const struct {
        const char *args[7], *text;
        int status;
    } cases[] = {
        {{"--prompt", "a"}, "--model DIR is missing", EX_USAGE},
        {{"--model", "d"},
         "one of --prompt, --prompts, --tokens and --score",
         EX_USAGE},
        {{"--model"}, "'--model' needs a value", EX_USAGE},
        {{"--modle", "d"}, "unknown option '--modle'", EX_USAGE},
        {{"d"}, "unexpected 'd'", EX_USAGE},
        {{"--top-k", "1.5"},
         "--top-k: expected an integer from 0 to 1000000, got '1.5'",
         EX_USAGE},
        {{"--temperature", "hot"},
         "--temperature: expected a number from 0 to 100, got 'hot'",
         EX_USAGE},
        {{"--max-tokens", "0"},
         "--max-tokens: expected an integer from 1 to 1000000, got '0'",
         EX_USAGE},
        {{"--top-p", "0"},
         "--top-p: expected a number from 1e-06 to 1, got '0'",
         EX_USAGE},
        {{"--dtype", "int8"}, "expected fp32, bf16 or fp16", EX_USAGE},
        {{"--model", "d", "--tokens", "1", "--chat"},
         "--chat needs --prompt",
         EX_USAGE},
        {{"--seed", "-1"}, "--seed: expected an integer from 0", EX_USAGE},
        {{"--model", "/nowhere", "--prompt", "a"},
         "/nowhere: neither a model nor the run.output_dir",
         EX_NOINPUT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run(cases[i].args), cases[i].status);
        if (!strstr(output, cases[i].text))
            fail_msg("expected '%s' in '%s'", cases[i].text, output);
    }
    const char *stops[18] = {0};
    for (size_t i = 0; i < 17; i++)
        stops[i] = "--stop=a";
    assert_int_equal(run(stops), EX_USAGE);
    assert_non_null(strstr(output, "--stop: more than 16 of them"));
    assert_int_equal(RUN("--help"), 0);
    assert_non_null(strstr(output, "usage: disttrain generate --model DIR"));
}

static void what_was_there_can_be_made_unlikely(void **state)
{
    (void)state;
    write_model(DT_BYTE_VOCAB, 'x');
    assert_int_equal(RUN("--model", scratch_root, "--tokens", "1",
                         "--max-tokens", "2", "--temperature", "0",
                         "--repetition-penalty", "100", "--min-p", "0.5"),
                     0);
    assert_memory_equal(output, "120 ", 4);
    assert_null(strstr(output + 4, "120"));
}

static void unprintable_bytes_are_shown_as_replacements(void **state)
{
#define FFFD "\xef\xbf\xbd"
    static const struct {
        const char *bytes, *shown;
    } cases[] = {
        {"a\tb\n", "a\tb\n"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8d",
         "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x8c\x8d"},
        {"\xff"
         "a",
         FFFD "a"},
        {"\x80\x80", FFFD FFFD},
        {"\xe2\x82"
         "a",
         FFFD "a"},
        {"\xe2\x82\xc3\xa4", FFFD "\xc3\xa4"},
        {"\xc0\xaf", FFFD},
        {"\xed\xa0\x80", FFFD},
        {"\x1b[2J\r\x7f", FFFD "[2J" FFFD FFFD},
        {"\xc2\x9b", FFFD},
        {"a\xe2\x82", "a" FFFD},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text;
        size_t bytes;
        struct dt_text_out out = {.file = open_memstream(&text, &bytes)};
        for (const char *p = cases[i].bytes; *p; p++)
            dt_text_out_byte(&out, (unsigned char)*p);
        dt_text_out_end(&out);
        fclose(out.file);
        assert_string_equal(text, cases[i].shown);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_is_continued_until_the_text_ends),
        cmocka_unit_test(a_language_model_gives_no_scores),
        cmocka_unit_test(the_seed_decides_what_is_sampled),
        cmocka_unit_test(a_prompt_may_be_given_as_token_ids),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(what_was_there_can_be_made_unlikely),
        cmocka_unit_test(unprintable_bytes_are_shown_as_replacements),
        cmocka_unit_test(a_text_ends_where_positions_run_out),
        cmocka_unit_test(every_data_type_generates_the_same_text),
        cmocka_unit_test(u0000_is_a_character_of_a_prompt),
        cmocka_unit_test(a_prompt_beyond_the_vocabulary_names_the_tokenizer),
        cmocka_unit_test(missing_control_tokens_are_reported_once),
        cmocka_unit_test(prompts_of_a_file_come_back_in_order),
        cmocka_unit_test(a_bad_file_of_prompts_is_refused),
        cmocka_unit_test(a_message_needs_role_and_content),
        cmocka_unit_test(the_limits_of_a_number_are_accepted),
        cmocka_unit_test(end_tokens_of_the_model_end_the_text),
        cmocka_unit_test(a_stop_may_be_any_text),
    };
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
