/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chat_reference.c - conversations are the text and tokens of transformers
 *
 * make_chat_reference.py has written chat_reference.json and
 * pair_reference.json.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "data/mask.h"
#include "tests/unit/bytes_tokenizer.h"
#include "tokenizer/chat/chat.h"

static const char *string_of(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

/* The marked bytes, in order, are the spans of the reference. */
static void check_trained(const struct dt_chat_text *out, const json_t *spans)
{
    assert_int_equal(out->trained_count, json_array_size(spans));
    for (size_t i = 0; i < out->trained_count; i++) {
        const struct dt_chat_span *span = &out->trained[i];
        const json_t *expected = json_array_get(spans, i);
        assert_int_equal(span->end - span->begin, json_string_length(expected));
        assert_memory_equal(out->whole.text + span->begin,
                            json_string_value(expected),
                            json_string_length(expected));
    }
}

static void check_case(const json_t *json, const struct dt_chat *chat)
{
    struct dt_turns turns = {0};
    struct dt_chat_text out = {0};
    struct dt_error err;
    const char *training = string_of(json, "training");
    size_t prompt =
        (size_t)json_integer_value(json_object_get(json, "prompt_turns"));
    assert_int_equal(dt_turns_add(&turns, json_object_get(json, "messages"),
                                  "messages", &err),
                     0);
    const struct dt_chat_input input = dt_turns_input(&turns, turns.count);
    const struct dt_chat_input asked = dt_turns_input(&turns, prompt);
    assert_int_equal(dt_chat_render(chat, &input, 0, &out, &err), 0);
    assert_string_equal(out.whole.text, string_of(json, "text"));
    assert_int_equal(dt_chat_render(chat, &asked, DT_CHAT_PROMPT, &out, &err),
                     0);
    assert_string_equal(out.whole.text, string_of(json, "prompt"));
    if (training) {
        assert_int_equal(dt_chat_render(chat, &input,
                                        DT_CHAT_TRAINING | DT_CHAT_TRAINED,
                                        &out, &err),
                         0);
        assert_string_equal(out.whole.text, training);
        check_trained(&out, json_object_get(json, "trained"));
    }
    dt_turns_fini(&turns);
    dt_chat_text_fini(&out);
}

/* A file of the folder of this test. */
static const char *file_here(const char *name)
{
    static char path[4096];
    const char *root = getenv("DT_SRCDIR");
    snprintf(path, sizeof(path), "%s/tests/parity/%s", root ? root : ".", name);
    return path;
}

static json_t *load_cases(const char *name, size_t least)
{
    json_error_t at;
    json_t *cases = json_load_file(file_here(name), 0, &at);
    assert_true(json_array_size(cases) >= least);
    return cases;
}

static void conversations_read_as_transformers_writes_them(void **state)
{
    size_t i;
    json_t *cases = load_cases("chat_reference.json", 50), *json;
    (void)state;
    json_array_foreach(cases, i, json)
    {
        struct dt_error err;
        const char *name = string_of(json, "name");
        const char *bos = string_of(json, "bos");
        struct dt_tokenizer *tokenizer = bytes_tokenizer(
            "tokenizer", bos[0] ? bos : NULL, string_of(json, "eos"), NULL);
        struct dt_chat *chat = dt_chat_create(name, NULL, tokenizer, &err);
        assert_non_null(chat);
        check_case(json, chat);
        dt_chat_destroy(chat);
        dt_tokenizer_destroy(tokenizer);
    }
    json_decref(cases);
}

static void check_tokens(const json_t *json,
                         const struct dt_tokenizer *tokenizer)
{
    struct dt_error err;
    struct dt_marked marked = {0};
    bool seam;
    const json_t *ids = json_object_get(json, "ids");
    const json_t *mask = json_object_get(json, "mask");
    struct dt_record record = {0};
    struct dt_chat *chat =
        dt_chat_create(string_of(json, "name"), NULL, tokenizer, &err);
    struct dt_masker *masker =
        dt_masker_create(tokenizer, chat, &err, DT_LOSS_ASSISTANT, true, &err);
    assert_int_equal(dt_turns_add(&record.turns,
                                  json_object_get(json, "messages"), "messages",
                                  &err),
                     0);
    assert_int_equal(dt_masker_add(masker, &record, &marked, &seam, &err), 0);
    assert_int_equal(marked.count, json_array_size(ids));
    for (size_t i = 0; i < marked.count; i++) {
        assert_int_equal(marked.tokens[i] & ~DT_TARGET_BIT,
                         json_integer_value(json_array_get(ids, i)));
        assert_int_equal(marked.tokens[i] >> 31,
                         json_integer_value(json_array_get(mask, i)));
    }
    free(marked.tokens);
    dt_record_fini(&record);
    dt_masker_destroy(masker);
    dt_chat_destroy(chat);
}

/* With a tokenizer whose words reach over the seams of a template. */
static void tokens_and_targets_of_chats_match_transformers(void **state)
{
    struct dt_error err;
    size_t i, checked = 0;
    json_t *cases = load_cases("chat_reference.json", 50), *json;
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(file_here("chat_tokenizer"), &err);
    (void)state;
    assert_non_null(tokenizer);
    json_array_foreach(cases, i, json)
    {
        if (!json_object_get(json, "ids"))
            continue;
        check_tokens(json, tokenizer);
        checked++;
    }
    assert_in_range(checked, 20, 99);
    dt_tokenizer_destroy(tokenizer);
    json_decref(cases);
}

static void check_pair(const json_t *json, struct dt_masker *masker)
{
    struct dt_error err;
    struct dt_marked marked = {0};
    bool seam;
    const char *completion = string_of(json, "completion");
    const struct dt_record record = {.prompt = string_of(json, "prompt"),
                                     .completion = completion,
                                     .completion_bytes = strlen(completion)};
    const json_t *ids = json_object_get(json, "ids");
    size_t prompt =
        (size_t)json_integer_value(json_object_get(json, "prompt_count"));
    assert_int_equal(dt_masker_add(masker, &record, &marked, &seam, &err), 0);
    assert_int_equal(seam, json_is_true(json_object_get(json, "seam")));
    assert_int_equal(marked.count, json_array_size(ids));
    for (size_t i = 0; i < marked.count; i++) {
        assert_int_equal(marked.tokens[i] & ~DT_TARGET_BIT,
                         json_integer_value(json_array_get(ids, i)));
        assert_int_equal(marked.tokens[i] >> 31, i >= prompt);
    }
    free(marked.tokens);
}

static void tokens_of_pairs_match_transformers(void **state)
{
    struct dt_error err;
    size_t i;
    json_t *cases = load_cases("pair_reference.json", 8), *json;
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(file_here("chat_tokenizer"), &err);
    (void)state;
    assert_non_null(tokenizer);
    struct dt_masker *masker =
        dt_masker_create(tokenizer, NULL, &err, DT_LOSS_COMPLETION, true, &err);
    json_array_foreach(cases, i, json) check_pair(json, masker);
    dt_masker_destroy(masker);
    dt_tokenizer_destroy(tokenizer);
    json_decref(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversations_read_as_transformers_writes_them),
        cmocka_unit_test(tokens_and_targets_of_chats_match_transformers),
        cmocka_unit_test(tokens_of_pairs_match_transformers),
    };
    return cmocka_run_group_tests_name("chat reference", tests, NULL, NULL);
}
