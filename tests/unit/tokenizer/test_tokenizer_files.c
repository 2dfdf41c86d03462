/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_files.c - what stands beside tokenizer.json, and is wrong */
#include "config.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/bytes_tokenizer.h"

/* Loads the tokenizer with this file in place of its own. NULL: err. */
static struct dt_tokenizer *load_with(const char *name, const char *text,
                                      struct dt_error *err)
{
    char path[128];
    snprintf(path, sizeof(path), "files/%s", name);
    scratch_write(path, text, strlen(text));
    *err = (struct dt_error){0};
    return dt_tokenizer_load(scratch_path("files"), err);
}

static void check_refused(const char *config, const char *expected)
{
    struct dt_error err;
    char text[700];
    snprintf(text, sizeof(text), "%s/tokenizer_config.json: %s",
             scratch_path("files"), expected);
    assert_null(load_with("tokenizer_config.json", config, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_string_equal(err.text, text);
}

static void a_begin_or_an_end_that_is_no_token_is_refused(void **state)
{
    (void)state;
    check_refused("{\"eos_token\": \"<|nope|>\"}",
                  "eos_token \"<|nope|>\" is not in the vocabulary of the "
                  "tokenizer: name one that is, or null");
    check_refused("{\"bos_token\": {\"content\": \"<a>\"}, \"eos_token\": "
                  "\"</s>\"}",
                  "bos_token \"<a>\" is not in the vocabulary of the "
                  "tokenizer: name one that is, or null");
    check_refused("{\"eos_token\": \"\"}",
                  "eos_token \"\" is not in the vocabulary of the tokenizer: "
                  "name one that is, or null");
}

/* As in published models: Qwen has no BOS, and many have no token to pad. */
static void tokens_that_are_not_named_or_not_used_are_no_mistake(void **state)
{
    static const char *const good[] = {
        "{\"bos_token\": null, \"eos_token\": \"<|im_end|>\"}",
        "{\"eos_token\": \"</s>\", \"pad_token\": \"[PAD]\"}",
        "{\"bos_token\": \"<new>\", \"eos_token\": \"</s>\", "
        "\"added_tokens_decoder\": {\"270\": {\"content\": \"<new>\", "
        "\"special\": true}}}",
        "{}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct dt_error err;
        struct dt_tokenizer *tokenizer =
            load_with("tokenizer_config.json", good[i], &err);
        if (!tokenizer)
            fail_msg("%s: %s", good[i], err.text);
        dt_tokenizer_destroy(tokenizer);
    }
}

/* Only what the file that counts more says is wrong. */
static void a_name_that_another_file_replaces_is_no_mistake(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *tokenizer;
    (void)state;
    tokenizer =
        load_with("tokenizer_config.json", "{\"eos_token\": \"</s>\"}", &err);
    dt_tokenizer_destroy(tokenizer);
    tokenizer = load_with("special_tokens_map.json",
                          "{\"eos_token\": \"<old>\"}", &err);
    assert_non_null(tokenizer);
    assert_int_equal(dt_tokenizer_special(tokenizer, DT_TOKEN_EOS), 257);
    dt_tokenizer_destroy(tokenizer);
    assert_null(load_with("tokenizer_config.json", "{}", &err));
    assert_non_null(strstr(err.text, "files/special_tokens_map.json: "
                                     "eos_token \"<old>\" is not in"));
    unlink(scratch_path("files/special_tokens_map.json"));
}

/* Ids of the texts, "270 -1", of tokens that are special; 1000 is added to
 * those of others.
 */
static void check_ids_of(const char *config, const char *map,
                         const char *const texts[2], const char *wanted)
{
    struct dt_error err;
    char found[64];
    long ids[2];
    scratch_write("files/special_tokens_map.json", map, strlen(map));
    struct dt_tokenizer *t = load_with("tokenizer_config.json", config, &err);
    if (!t)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        ids[i] = dt_tokenizer_id(t, texts[i]);
        if (ids[i] >= 0 && !dt_tokenizer_is_special(t, (int32_t)ids[i]))
            ids[i] += 1000;
    }
    snprintf(found, sizeof(found), "%ld %ld", ids[0], ids[1]);
    assert_string_equal(found, wanted);
    dt_tokenizer_destroy(t);
    unlink(scratch_path("files/special_tokens_map.json"));
}

/* As transformers 5.24 does. */
static void special_tokens_that_are_only_named_are_appended(void **state)
{
    static const char *const tools[] = {"<tool>", "</tool>"};
    static const char *const others[] = {"a", "[PAD]"};
    (void)state;
    check_ids_of("{}", "{}", tools, "-1 -1");
    check_ids_of("{\"additional_special_tokens\": [\"<tool>\", {\"content\": "
                 "\"</tool>\", \"lstrip\": true}, \"<tool>\"]}",
                 "{}", tools, "270 271");
    check_ids_of("{\"extra_special_tokens\": [\"</tool>\", \"<tool>\"]}", "{}",
                 tools, "271 270");
    check_ids_of("{\"extra_special_tokens\": {\"image\": \"<tool>\"}}",
                 "{\"additional_special_tokens\": [\"</tool>\"]}", tools,
                 "270 271");
    /* that file is old: the list of the other one is whole */
    check_ids_of("{\"added_tokens_decoder\": {\"270\": {\"content\": "
                 "\"<tool>\"}}}",
                 "{\"additional_special_tokens\": [\"</tool>\"]}", tools,
                 "1270 -1");
    /* what has a role is special, but not appended */
    check_ids_of("{\"cls_token\": \"a\", \"pad_token\": \"[PAD]\"}", "{}",
                 others, "97 -1");
    check_refused("{\"extra_special_tokens\": [7]}",
                  "extra_special_tokens: expected a string, or an object with "
                  "\"content\"");
}

static size_t looked_up;

/* Takes the place of jansson's, and counts. */
json_t *json_object_get(const json_t *object, const char *key)
{
    static json_t *(*real)(const json_t *object, const char *key);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "json_object_get");
    looked_up++;
    return real(object, key);
}

/* Writes a tokenizer whose two files have the same `count` added tokens, and
 * returns how often a key of an object is looked up to load it.
 */
static size_t lookups_of(int count)
{
    struct dt_error err;
    json_t *root =
        json_pack("{s[], s{ss, s{si}, s[], ss}}", "added_tokens", "model",
                  "type", "BPE", "vocab", "a", 0, "merges", "unk_token", "a");
    json_t *decoder = json_object();
    for (int i = 1; i <= count; i++) {
        char id[20], text[100];
        snprintf(id, sizeof(id), "%d", i);
        snprintf(text, sizeof(text), "<%060d>", i);
        json_t *token = json_pack("{ss, sb}", "content", text, "special", 1);
        json_object_set_new(decoder, id, json_deep_copy(token));
        json_object_set_new(token, "id", json_integer(i));
        json_array_append_new(json_object_get(root, "added_tokens"), token);
    }
    json_t *config = json_pack("{so}", "added_tokens_decoder", decoder);
    mkdir(scratch_path("many"), 0700);
    assert_int_equal(
        json_dump_file(root, scratch_path("many/tokenizer.json"), 0), 0);
    assert_int_equal(
        json_dump_file(config, scratch_path("many/tokenizer_config.json"), 0),
        0);
    json_decref(root);
    json_decref(config);
    looked_up = 0;
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(scratch_path("many"), &err);
    assert_non_null(tokenizer);
    assert_int_equal(dt_tokenizer_vocab_size(tokenizer), count + 1);
    dt_tokenizer_destroy(tokenizer);
    return looked_up;
}

static void the_work_of_loading_grows_with_the_tokens_alone(void **state)
{
    (void)state;
    const size_t few = lookups_of(500), many = lookups_of(1500);
    if (few < 500 || many > 3 * few)
        fail_msg("%zu look-ups for 500 tokens, %zu for 1500", few, many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_begin_or_an_end_that_is_no_token_is_refused),
        cmocka_unit_test(tokens_that_are_not_named_or_not_used_are_no_mistake),
        cmocka_unit_test(a_name_that_another_file_replaces_is_no_mistake),
        cmocka_unit_test(special_tokens_that_are_only_named_are_appended),
        cmocka_unit_test(the_work_of_loading_grows_with_the_tokens_alone),
    };
    dt_tokenizer_destroy(bytes_tokenizer("files", NULL, "</s>", NULL));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
