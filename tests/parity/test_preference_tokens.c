/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_preference_tokens.c - the ids of pairs are those that TRL's DPOTrainer
 * makes of the same lines, as make_preference_tokens.py has stored them
 */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "data/examples.h"
#include "data/example.h"
#include "tests/unit/scratch.h"

static const char *file_here(const char *name)
{
    static char path[PATH_MAX];
    const char *srcdir = getenv("srcdir"); /* set by automake's harness */
    snprintf(path, sizeof(path), "%s/tests/parity/%s", srcdir ? srcdir : ".",
             name);
    return path;
}

/* A side is the prompt, which is no target, and its completion, which is. */
static void check_side(const json_t *row, const char *key, const char *line,
                       const uint32_t *tokens, size_t count)
{
    const json_t *ids[] = {json_object_get(row, "prompt_ids"),
                           json_object_get(row, key)};
    const size_t prompt = json_array_size(ids[0]);
    if (count != prompt + json_array_size(ids[1]))
        fail_msg("%s: %s: %zu tokens, not %zu and %zu", line, key, count,
                 prompt, json_array_size(ids[1]));
    for (size_t t = 0; t < count; t++) {
        bool target = t >= prompt;
        json_int_t want = json_integer_value(
            json_array_get(ids[target], target ? t - prompt : t));
        if ((tokens[t] & ~DT_TARGET_BIT) != (uint32_t)want ||
            tokens[t] >> 31 != target)
            fail_msg("%s: %s: token %zu is %u, not %d", line, key, t,
                     (unsigned)(tokens[t] & ~DT_TARGET_BIT), (int)want);
    }
}

static void check_line(const json_t *row, const struct dt_tokenizer *tokenizer)
{
    const struct dt_example_options options = {.format = DT_FORMAT_PREFERENCE,
                                               .chat_template = "chatml",
                                               .parse_special = true,
                                               .threads = 1};
    const char *line = json_string_value(json_object_get(row, "line"));
    struct dt_error err;
    struct dt_pair pair = {0};
    size_t count;
    bool made;
    struct dt_examples *examples =
        dt_examples_open(scratch_write("line.jsonl", line, strlen(line)),
                         tokenizer, &options, &made, &err);
    if (!examples)
        fail_msg("%s: %s", line, err.text);
    const uint32_t *example = dt_example(examples, 0, &count);
    assert_true(dt_pair_find(example, count, &pair));
    check_side(row, "chosen_ids", line, pair.tokens[DT_CHOSEN],
               pair.count[DT_CHOSEN]);
    check_side(row, "rejected_ids", line, pair.tokens[DT_REJECTED],
               pair.count[DT_REJECTED]);
    dt_examples_close(examples);
}

static void tokens_of_pairs_are_those_of_trl(void **state)
{
    struct dt_error err;
    size_t i;
    json_t *row,
        *rows = json_load_file(file_here("preference_tokens.json"), 0, NULL);
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(file_here("chat_tokenizer"), &err);
    (void)state;
    assert_non_null(tokenizer);
    assert_in_range(json_array_size(rows), 14, 99);
    json_array_foreach(rows, i, row) check_line(row, tokenizer);
    dt_tokenizer_destroy(tokenizer);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_of_pairs_are_those_of_trl),
    };
    return cmocka_run_group_tests_name("preference tokens", tests, NULL, NULL);
}
