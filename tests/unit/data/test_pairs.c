/* SPDX-License-Identifier: Apache-2.0 */
/* test_pairs.c - preference pairs in a cache: tokens, targets, bad lines */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/example.h"
#include "tests/unit/data/examples_file.h"

static struct dt_example_options pairs(void)
{
    struct dt_example_options options = usual();
    options.format = DT_FORMAT_PREFERENCE;
    return options;
}

/* Both sides of pair i, as `shown` writes examples, with a bar between. */
static const char *shown_pair(const struct dt_examples *examples, size_t i)
{
    static char text[4096];
    struct dt_pair pair = {0};
    size_t count, n = 0;
    const uint32_t *example = dt_example(examples, i, &count);
    assert_true(dt_pair_find(example, count, &pair));
    for (int side = 0; side < DT_SIDES; side++) {
        bool target = false;
        for (size_t t = 0; t < pair.count[side]; t++) {
            uint32_t token = pair.tokens[side][t], id = token & ~DT_TARGET_BIT;
            assert_true(!target || token & DT_TARGET_BIT); /* up to the end */
            if (!target && token & DT_TARGET_BIT)
                text[n++] = '[';
            target = token & DT_TARGET_BIT;
            text[n++] = id < 256 ? (char)id : id == 257 ? '$' : '#';
        }
        text[n++] = side == DT_CHOSEN ? '|' : '\0';
    }
    return text;
}

/* A message without the directory of the files. */
static const char *plain(const char *text)
{
    static char out[4096];
    const size_t root = strlen(scratch_root) + 1;
    size_t n = 0;
    while (*text && n + 1 < sizeof(out)) {
        if (strncmp(text, scratch_root, root - 1) == 0)
            text += root;
        else
            out[n++] = *text++;
    }
    out[n] = '\0';
    return out;
}

static void check_line(const char *line,
                       const struct dt_example_options *options,
                       const char *want)
{
    struct dt_examples *examples =
        open_good(scratch_write("line.jsonl", line, strlen(line)), options);
    assert_int_equal(dt_examples_count(examples), 1);
    assert_string_equal(shown_pair(examples, 0), want);
    dt_examples_close(examples);
}

static const char *refusal(const char *text,
                           const struct dt_example_options *options, int status)
{
    static struct dt_error err;
    err = (struct dt_error){0};
    assert_null(open_file(scratch_write("bad.jsonl", text, strlen(text)),
                          options, &err));
    assert_int_equal(err.status, status);
    return plain(err.text);
}

static void completions_are_targets_and_text_ends(void **state)
{
    struct dt_example_options options = pairs();
    (void)state;
    check_line("{\"prompt\": \"ab\", \"chosen\": \"cd\", \"rejected\": \"e\"}",
               &options, "ab[cd$|ab[e$");
    check_line("{\"chosen\": \"abc\", \"rejected\": \"abd</s>\"}", &options,
               "ab[c$|ab[d$");
    check_line("{\"chosen\": \"x\", \"rejected\": \"y\"}", &options, "[x$|[y$");
    check_line("{\"prompt_ids\": [97], \"chosen_ids\": [98, 257], "
               "\"rejected_ids\": [99]}",
               &options, "a[b$|a[c");
    options.parse_special = false;
    check_line("{\"prompt\": \"a\", \"chosen\": \"</s>\", \"rejected\": \"b\"}",
               &options, "a[</s>$|a[b$");
}

static void conversations_are_written_by_the_chat_template(void **state)
{
    static const char line[] =
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], \"chosen\": "
        "[{\"role\": \"assistant\", \"content\": \"a\"}], \"rejected\": "
        "[{\"role\": \"assistant\", \"content\": \"b\"}]}";
    struct dt_example_options options = pairs();
    (void)state;
    check_line(line, &options,
               "#user\nq#\n#assistant\n[a#\n|#user\nq#\n#assistant\n[b#\n");
    options.chat_template = "none";
    assert_string_equal(
        refusal(line, &options, EX_CONFIG),
        "bad.jsonl:1: messages need a chat template, and data.chat_template is "
        "none; it may be auto, a file, or one of chatml, qwen2.5, qwen3, "
        "llama2, llama3, llama3.1, mistral, llava, llava-plain");
}

/* "<|im_" and "end|>" are one token together. The prompt then ends before it,
 * on both sides, however they are spelled.
 */
static void a_prompt_ends_where_tokens_of_a_side_differ(void **state)
{
    struct dt_example_options options = pairs();
    (void)state;
    check_line("{\"prompt\": \"a<|im_\", \"chosen\": \"end|>\", "
               "\"rejected\": \"x\"}",
               &options, "a[#$|a[<|im_x$");
    assert_non_null(strstr(plain(notes),
                           "line.jsonl: in 1 of 1 lines the end of the prompt "
                           "has other tokens when a completion follows"));
    check_line("{\"chosen\": \"a<|im_end|>\", \"rejected\": \"a<|im_x\"}",
               &options, "a[#$|a[<|im_x$");
    assert_null(strstr(notes, "the end of the prompt"));
}

static void counts_are_of_tokens_and_margins_are_kept(void **state)
{
    static const char text[] =
        "{\"prompt\": \"ab\", \"chosen\": \"cd\", \"rejected\": \"e\", "
        "\"margin\": -1.5}\n"
        "{\"prompt\": \"ab\", \"chosen\": \"c\", \"rejected\": \"e\"}\n";
    struct dt_example_options options = pairs();
    struct dt_examples *examples =
        open_good(scratch_write("two.jsonl", text, sizeof(text) - 1), &options);
    struct dt_pair pair = {0};
    size_t count;
    (void)state;
    assert_true(made);
    assert_int_equal(dt_examples_count(examples), 2);
    assert_int_equal(dt_examples_tokens(examples), 5 + 4 + 4 + 4);
    assert_int_equal(dt_examples_targets(examples), 3 + 2 + 2 + 2);
    const uint32_t *example = dt_example(examples, 0, &count);
    assert_true(dt_pair_find(example, count, &pair));
    assert_true(pair.margin == -1.5f);
    example = dt_example(examples, 1, &count);
    assert_true(dt_pair_find(example, count, &pair));
    assert_true(pair.margin == 0.0f);
    dt_examples_close(examples);
}

/* The same settings find it again, and the names of columns are settings. */
static void a_cache_is_for_pairs_of_these_columns(void **state)
{
    static const char text[] = "{\"chosen\": \"ab\", \"rejected\": \"ac\", "
                               "\"good\": \"x\"}";
    struct dt_example_options options = pairs();
    const char *path = scratch_write("again.jsonl", text, sizeof(text) - 1);
    (void)state;
    dt_examples_close(open_good(path, &options));
    assert_true(made);
    dt_examples_close(open_good(path, &options));
    assert_false(made);
    options.chosen_key = "chosen"; /* the usual one */
    dt_examples_close(open_good(path, &options));
    assert_false(made);
    options.chosen_key = "good";
    struct dt_examples *examples = open_good(path, &options);
    assert_true(made);
    assert_string_equal(shown_pair(examples, 0), "[x$|[ac$");
    dt_examples_close(examples);
}

static void bad_lines_are_named_by_file_and_line(void **state)
{
    static const char text[] = "{\"chosen\": \"ab\", \"rejected\": \"ac\"}\n"
                               "\n"
                               "{\"chosen\": \"a\", \"rejected\": \"a\"}\n"
                               "{\"chosen\": \"b\"}\n"
                               "{\"chosen\": \"ab\", \"rejected\": \"ad\"}\n";
    struct dt_example_options options = pairs();
    (void)state;
    assert_string_equal(
        refusal(text, &options, EX_DATAERR),
        "1 bad line of bad.jsonl is already more than the 0 % allowed "
        "(data.bad_lines); bad.jsonl:3: chosen and rejected are the same");
    options.bad_limit = 0.5;
    struct dt_examples *examples =
        open_good(scratch_path("bad.jsonl"), &options);
    assert_int_equal(dt_examples_count(examples), 2);
    assert_int_equal(dt_examples_bad_lines(examples), 2);
    assert_string_equal(
        plain(notes),
        "bad.jsonl:3: chosen and rejected are the same\n"
        "bad.jsonl:4: rejected is missing: a pair needs chosen and "
        "rejected\n");
    assert_string_equal(shown_pair(examples, 1), "a[b$|a[d$");
    dt_examples_close(examples);
}

static void a_loss_on_other_tokens_is_refused(void **state)
{
    struct dt_example_options options = pairs();
    (void)state;
    options.loss_on = DT_LOSS_FULL;
    assert_string_equal(
        refusal("{\"chosen\": \"ab\", \"rejected\": \"ac\"}", &options,
                EX_DATAERR),
        "bad.jsonl: data.loss_on: preference pairs are compared by their "
        "completions: leave it out");
}

static void what_is_no_pair_in_a_cache_is_noticed(void **state)
{
    const uint32_t example[] = {0, 3, 1, 2, 3};
    struct dt_pair pair = {0};
    (void)state;
    assert_true(dt_pair_find(example, 5, &pair));
    assert_int_equal(pair.count[DT_REJECTED], 0);
    assert_false(dt_pair_find(example, 4, &pair));
    assert_false(dt_pair_find(example, 1, &pair));
    assert_false(dt_pair_find(example, 0, &pair));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_targets_and_text_ends),
        cmocka_unit_test(conversations_are_written_by_the_chat_template),
        cmocka_unit_test(a_prompt_ends_where_tokens_of_a_side_differ),
        cmocka_unit_test(counts_are_of_tokens_and_margins_are_kept),
        cmocka_unit_test(a_cache_is_for_pairs_of_these_columns),
        cmocka_unit_test(bad_lines_are_named_by_file_and_line),
        cmocka_unit_test(a_loss_on_other_tokens_is_refused),
        cmocka_unit_test(what_is_no_pair_in_a_cache_is_noticed),
    };
    return cmocka_run_group_tests_name("pairs", tests, setup, teardown);
}
