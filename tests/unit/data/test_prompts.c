/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_prompts.c - lines of prompts, what rewards see of them, and their stream
 *
 * Lines are written with ' in place of ".
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/prompts.h"
#include "tests/unit/bytes_tokenizer.h"

static struct dt_tokenizer *tokenizer; /* EOS </s>, no BOS, CHATML */
static char notes[2000];

static void keep_note(void *ctx, const char *text)
{
    size_t n = strlen(notes);
    (void)ctx;
    snprintf(notes + n, sizeof(notes) - n, "%s\n", text);
}

static struct dt_prompts_options usual(void)
{
    return (struct dt_prompts_options){
        .lines = {.chat_template = "auto",
                  .parse_special = true,
                  .note = keep_note},
        .max_length = 100,
        .vocab_size = 300,
    };
}

/* Opens a file of these lines, a.jsonl in the test's directory. */
static struct dt_prompts *open_lines(const char *lines,
                                     const struct dt_prompts_options *options,
                                     struct dt_error *err)
{
    char text[4000];
    size_t n = strlen(lines);
    for (size_t i = 0; i <= n; i++)
        text[i] = lines[i] == '\'' ? '"' : lines[i];
    const char *path = scratch_write("a.jsonl", text, n);
    notes[0] = '\0';
    return dt_prompts_open(&path, 1, tokenizer, options, err);
}

static struct dt_prompts *open_good(const char *lines,
                                    const struct dt_prompts_options *options)
{
    struct dt_error err;
    struct dt_prompts *prompts = open_lines(lines, options, &err);
    if (!prompts)
        fail_msg("%s", err.text);
    return prompts;
}

/* The tokens of prompt p: bytes as they are, control tokens as #. */
static const char *shown(const struct dt_prompts *prompts, uint64_t p)
{
    static char text[200];
    size_t count;
    const int32_t *ids = dt_prompts_ids(prompts, p, &count);
    assert_true(count < sizeof(text));
    for (size_t i = 0; i < count; i++)
        text[i] = ids[i] < 256 ? (char)ids[i] : '#';
    text[count] = '\0';
    return text;
}

static void a_string_is_a_prompt_and_other_keys_are_columns(void **state)
{
    struct dt_prompts_options options = usual();
    struct dt_prompt_line line;
    struct dt_error err;
    (void)state;
    struct dt_prompts *prompts =
        open_good("{'prompt': '3+4=', 'answer': 7}\n", &options);
    assert_string_equal(shown(prompts, 0), "3+4=");
    assert_int_equal(dt_prompts_read(prompts, 0, &line, &err), 0);
    assert_string_equal(line.text, "3+4=");
    assert_int_equal(line.bytes, 4);
    assert_null(line.messages);
    assert_int_equal(json_object_size(line.columns), 1);
    assert_int_equal(
        json_integer_value(json_object_get(line.columns, "answer")), 7);
    dt_prompt_line_fini(&line);
    dt_prompts_close(prompts);
}

static void messages_are_rendered_up_to_the_answer(void **state)
{
    static const char *const lines[] = {
        "{'prompt': [{'role': 'user', 'content': 'hi'}], 'a': 1}\n",
        "{'messages': [{'role': 'user', 'content': 'hi'}], 'a': 1}\n"};
    struct dt_prompts_options options = usual();
    struct dt_prompt_line line;
    struct dt_error err;
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct dt_prompts *prompts = open_good(lines[i], &options);
        assert_string_equal(shown(prompts, 0), "#user\nhi#\n#assistant\n");
        assert_int_equal(dt_prompts_read(prompts, 0, &line, &err), 0);
        assert_string_equal(line.text, "<|im_start|>user\nhi<|im_end|>\n"
                                       "<|im_start|>assistant\n");
        assert_int_equal(json_array_size(line.messages), 1);
        assert_int_equal(json_object_size(line.columns), 1);
        dt_prompt_line_fini(&line);
        dt_prompts_close(prompts);
    }
}

static void a_long_prompt_is_left_out_or_keeps_its_end(void **state)
{
    struct dt_prompts_options options = usual();
    (void)state;
    options.max_length = 3;
    struct dt_prompts *prompts =
        open_good("{'prompt': 'abcde'}\n{'prompt': 'xyz'}\n", &options);
    assert_int_equal(dt_prompts_stats(prompts).count, 1);
    assert_int_equal(dt_prompts_stats(prompts).dropped, 1);
    assert_int_equal(dt_prompts_stats(prompts).longest, 3);
    assert_string_equal(shown(prompts, 0), "xyz");
    dt_prompts_close(prompts);
    options.keep_end = true;
    prompts = open_good("{'prompt': 'abcde'}\n{'prompt': 'xyz'}\n", &options);
    assert_int_equal(dt_prompts_stats(prompts).count, 2);
    assert_int_equal(dt_prompts_stats(prompts).cut, 1);
    assert_string_equal(shown(prompts, 0), "cde");
    dt_prompts_close(prompts);
}

static void an_empty_prompt_is_the_token_that_begins_texts(void **state)
{
    struct dt_prompts_options options = usual();
    (void)state;
    struct dt_prompts *prompts = open_good("{'prompt': ''}\n", &options);
    assert_string_equal(shown(prompts, 0), "#");
    dt_prompts_close(prompts);
}

/* A text that spells a control token, where the data must not have any. */
static void data_cannot_spell_control_tokens_unless_asked(void **state)
{
    struct dt_prompts_options options = usual();
    (void)state;
    options.lines.parse_special = false;
    struct dt_prompts *prompts = open_good("{'prompt': 'a</s>'}\n", &options);
    assert_string_equal(shown(prompts, 0), "a</s>");
    dt_prompts_close(prompts);
}

enum { MANY = 7 };

/* Seven lines, "a" to "g", of which each epoch has all once. */
static void epochs_are_permutations_of_the_seed(void **state)
{
    struct dt_prompts_options options = usual();
    char lines[MANY * 20 + 1] = "", orders[2][3 * MANY];
    (void)state;
    for (int i = 0; i < MANY; i++)
        snprintf(lines + strlen(lines), 20, "{'prompt': '%c'}\n", 'a' + i);
    options.shuffle = true;
    for (int run = 0; run < 2; run++) {
        options.seed = 5;
        struct dt_prompts *prompts = open_good(lines, &options);
        for (uint64_t p = 0; p < (uint64_t)(3 * MANY); p++)
            orders[run][p] = shown(prompts, p)[0];
        dt_prompts_close(prompts);
    }
    assert_memory_equal(orders[0], orders[1], sizeof(orders[0]));
    assert_memory_not_equal(orders[0], orders[0] + MANY, MANY);
    for (int epoch = 0; epoch < 3; epoch++) {
        unsigned seen = 0;
        for (int i = 0; i < MANY; i++)
            seen |= 1u << (orders[0][epoch * MANY + i] - 'a');
        assert_int_equal(seen, (1u << MANY) - 1);
    }
}

static void the_hash_is_of_prompts_columns_and_ids(void **state)
{
    static const char *const lines[] = {
        "{'prompt': 'a', 'answer': 1}\n", "{'prompt': 'a', 'answer': 2}\n",
        "{'prompt': 'b', 'answer': 1}\n", "{'prompt': 'a</s>'}\n",
        "{'prompt': 'a</s>'}\n"};
    struct dt_prompts_options options = usual();
    uint64_t hash[5];
    (void)state;
    for (int i = 0; i < 5; i++) {
        options.lines.parse_special = i < 4;
        struct dt_prompts *prompts = open_good(lines[i], &options);
        hash[i] = dt_prompts_hash(prompts);
        dt_prompts_close(prompts);
    }
    assert_int_not_equal(hash[0], hash[1]);
    assert_int_not_equal(hash[0], hash[2]);
    assert_int_not_equal(hash[3], hash[4]);
}

static void lines_that_are_no_prompt_are_refused(void **state)
{
    static const struct {
        const char *lines, *why;
        enum { DATA = EX_DATAERR } status;
    } cases[] = {
        {"{'question': 'a', 'answer': 'b'}\n",
         "a.jsonl:1: expected a prompt, \"prompt\" with a string or messages "
         "or \"messages\" with messages, but the keys are: question, answer",
         DATA},
        {"{'prompt': 'a'}\n[1]\n", "a.jsonl:2: expected an object", DATA},
        {"{'prompt': 7}\n", "a.jsonl:1: expected a prompt", DATA},
        {"{'prompt': []}\n", "a.jsonl:1: prompt: no messages", DATA},
        {"{'prompt': [{'role': 'user', 'content': 'a'}, {'role': "
         "'assistant', 'content': 'b'}]}\n",
         "a.jsonl:1: message 2: the last one is the assistant's, so nothing "
         "is left to answer",
         DATA},
        {"{'prompt': 'a', 'images': ['b.png']}\n",
         "a.jsonl:1: images: the model sees only text: leave it out, or train "
         "a model with a vision tower",
         DATA},
        {"{'prompt': 'a', 'videos': ['b.mp4']}\n",
         "a.jsonl:1: videos: only text and images are trained on: leave it out",
         DATA},
        {"{'prompt': [{'role': 'user', 'content': [{'type': 'image'}]}]}\n",
         "a part of type image: only text is trained on", DATA},
        {"{'prompt': 'a', 'system': 's'}\n",
         "a.jsonl:1: system: a text has no place for it", DATA},
        {"{}\n{'prompt': 'a', 'images': ['b.png']}\n",
         "a.jsonl:1: expected a prompt", DATA},
        {"\n", "a.jsonl: no prompt in it", DATA},
        {"{'prompt': 'abcdefghijk'}\n",
         "a.jsonl: all 1 prompts are longer than 10 tokens", DATA},
    };
    struct dt_prompts_options options = usual();
    struct dt_error err;
    (void)state;
    options.max_length = 10;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_null(open_lines(cases[i].lines, &options, &err));
        if (!strstr(err.text, cases[i].why))
            fail_msg("%s", err.text);
        assert_int_equal(err.status, cases[i].status);
    }
    options.vocab_size = 'b';
    assert_null(open_lines("{'prompt': 'b'}\n", &options, &err));
    assert_non_null(strstr(err.text, "token id 98, but the model's"));
}

static void few_bad_lines_are_noted_if_allowed(void **state)
{
    struct dt_prompts_options options = usual();
    (void)state;
    options.lines.bad_limit = 0.5;
    struct dt_prompts *prompts =
        open_good("{'prompt': 'a'}\n{}\n{'prompt': 'b'}\n", &options);
    assert_int_equal(dt_prompts_stats(prompts).bad, 1);
    assert_int_equal(dt_prompts_stats(prompts).count, 2);
    assert_non_null(strstr(notes, "a.jsonl:2: expected a prompt"));
    dt_prompts_close(prompts);
}

static void prompts_behind_one_bad_line_too_many_are_left_alone(void **state)
{
    static const char lines[] = "{'prompt': 'a'}\n{}\n{}\n"
                                "[1]\n";
    struct dt_prompts_options options = usual();
    struct dt_error err;
    (void)state;
    options.lines.bad_limit = 0.4;
    assert_null(open_lines(lines, &options, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "a.jsonl:2: expected a prompt"));
    assert_non_null(strstr(err.text, "; 2 of the first 3 lines are no prompt"));
    options.lines.bad_limit = 0.75;
    dt_prompts_close(open_good(lines, &options));
}

static bool always(void)
{
    return true;
}

static void reading_prompts_ends_when_it_is_told_to(void **state)
{
    struct dt_prompts_options options = usual();
    struct dt_error err;
    (void)state;
    options.lines.stop = always;
    assert_null(open_lines("{'prompt': 'a'}\n", &options, &err));
    assert_int_equal(err.status, EX_TEMPFAIL);
    assert_non_null(strstr(err.text, "a.jsonl: stopped by a signal"));
}

static void shares_of_the_prompts_are_apart(void **state)
{
    static const char lines[] = "{'prompt': 'a'}\n{'prompt': 'b'}\n"
                                "{'prompt': 'c'}\n{'prompt': 'd'}\n";
    struct dt_prompts_options options = usual();
    struct dt_error err;
    (void)state;
    options.end = 0.75;
    struct dt_prompts *prompts = open_good(lines, &options);
    assert_int_equal(dt_prompts_stats(prompts).count, 3);
    assert_string_equal(shown(prompts, 2), "c");
    assert_string_equal(shown(prompts, 3), "a");
    dt_prompts_close(prompts);
    options.begin = 0.75;
    options.end = 1;
    prompts = open_good(lines, &options);
    assert_int_equal(dt_prompts_stats(prompts).count, 1);
    assert_string_equal(shown(prompts, 0), "d");
    dt_prompts_close(prompts);
    options.begin = 0.9;
    options.end = 0.95;
    assert_null(open_lines(lines, &options, &err));
    assert_non_null(strstr(err.text, "4 prompts are too few to divide them"));
}

static int setup(void **state)
{
    (void)state;
    tokenizer = bytes_tokenizer("tokenizer", NULL, "</s>", CHATML);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dt_tokenizer_destroy(tokenizer);
    return 0;
}

static void what_a_chat_template_lacks_is_noted(void **state)
{
    struct dt_prompts_options options = usual();
    (void)state;
    options.lines.chat_template = "llama3";
    dt_prompts_close(open_good("{'prompt': 'a'}\n", &options));
    assert_string_equal(notes, "");
    struct dt_tokenizer *usual_one = tokenizer;
    tokenizer = dt_tokenizer_load("byte", NULL);
    dt_prompts_close(open_good("{'prompt': 'a'}\n", &options));
    assert_non_null(strstr(notes, "the tokenizer has no single token for "
                                  "<|start_header_id|>"));
    dt_tokenizer_destroy(tokenizer);
    tokenizer = usual_one;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_string_is_a_prompt_and_other_keys_are_columns),
        cmocka_unit_test(messages_are_rendered_up_to_the_answer),
        cmocka_unit_test(a_long_prompt_is_left_out_or_keeps_its_end),
        cmocka_unit_test(an_empty_prompt_is_the_token_that_begins_texts),
        cmocka_unit_test(data_cannot_spell_control_tokens_unless_asked),
        cmocka_unit_test(epochs_are_permutations_of_the_seed),
        cmocka_unit_test(the_hash_is_of_prompts_columns_and_ids),
        cmocka_unit_test(lines_that_are_no_prompt_are_refused),
        cmocka_unit_test(few_bad_lines_are_noted_if_allowed),
        cmocka_unit_test(prompts_behind_one_bad_line_too_many_are_left_alone),
        cmocka_unit_test(reading_prompts_ends_when_it_is_told_to),
        cmocka_unit_test(shares_of_the_prompts_are_apart),
        cmocka_unit_test(what_a_chat_template_lacks_is_noted),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
