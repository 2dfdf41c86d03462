/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_kinds.c - Unigram, charsmaps and graphemes */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"
#include "tokenizer/tokenizer_impl.h"

#define UNIGRAM(vocab, more)                                                   \
    "{\"model\": {\"type\": \"Unigram\", \"vocab\": [" vocab "]" more "}}"

static struct dt_tokenizer *try_load(const char *json, struct dt_error *err)
{
    return dt_tokenizer_load(scratch_write("k.json", json, strlen(json)), err);
}

/* Ids of a text as "1@0-3 2@3-4", or the error. */
static const char *encode(const char *json, const char *text)
{
    static char out[1024];
    struct dt_error err = {0};
    struct dt_tokens tokens = {0};
    struct dt_tokenizer *tokenizer = try_load(json, &err);
    if (!tokenizer)
        fail_msg("%s", err.text);
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    size_t n = 0;
    out[0] = '\0';
    if (dt_encode(encoder, text, strlen(text), DT_ENCODE_OFFSETS, &tokens,
                  &err) < 0)
        snprintf(out, sizeof(out), "%s", err.text);
    for (size_t i = 0; i < tokens.count; i++)
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%d@%u-%u",
                              i ? " " : "", (int)tokens.ids[i], tokens.begin[i],
                              tokens.end[i]);
    dt_tokens_fini(&tokens);
    dt_encoder_destroy(encoder);
    dt_tokenizer_destroy(tokenizer);
    return out;
}

#define ABC                                                                    \
    "[\"<unk>\", 0], [\"a\", -1], [\"b\", -1], [\"ab\", -1.5], "               \
    "[\"abc\", -9], [\"c\", -2]"

static void the_best_sum_of_scores_wins(void **state)
{
    (void)state;
    assert_string_equal(encode(UNIGRAM(ABC, ", \"unk_id\": 0"), "abcab"),
                        "3@0-2 5@2-3 3@3-5");
    /* of equal sums, the one with the longer last token */
    assert_string_equal(
        encode(UNIGRAM("[\"x\", 0], [\"a\", -1], [\"aa\", -2]", ""), "aaa"),
        "1@0-1 2@1-3");
}

static void unknown_characters_in_a_row_are_one_token(void **state)
{
    (void)state;
    assert_string_equal(
        encode(UNIGRAM(ABC, ", \"unk_id\": 0"), "a\u00e9\u00e8z b"),
        "1@0-1 0@1-7 2@7-8");
    assert_string_equal(
        encode(UNIGRAM(ABC ", [\"<0xC3>\", 0], [\"<0xA9>\", 0]",
                       ", \"unk_id\": 0, \"byte_fallback\": true"),
               "\u00e9b\u00e8"),
        "6@0-1 7@1-2 2@2-3 0@3-5");
    assert_string_equal(
        encode(UNIGRAM(ABC, ""), "ad"),
        "the text has characters that are not in the vocabulary, which has no "
        "unk_id");
}

#define SPLIT(behavior)                                                        \
    "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": "           \
    "[[\"?\", 0]]}, \"pre_tokenizer\": {\"type\": \"Split\", "                 \
    "\"pattern\": {\"String\": \"-\"}, \"behavior\": \"" behavior              \
    "\", \"invert\": false}}"

/* The example of the documentation of tokenizers. */
static void matches_in_a_row_are_merged_as_tokenizers_does(void **state)
{
    static const char text[] = "the-final--countdown";
    (void)state;
    assert_string_equal(encode(SPLIT("Removed"), text), "0@0-3 0@4-9 0@11-20");
    assert_string_equal(encode(SPLIT("Isolated"), text),
                        "0@0-3 0@3-4 0@4-9 0@9-10 0@10-11 0@11-20");
    assert_string_equal(encode(SPLIT("MergedWithPrevious"), text),
                        "0@0-4 0@4-10 0@10-11 0@11-20");
    assert_string_equal(encode(SPLIT("MergedWithNext"), text),
                        "0@0-3 0@3-9 0@9-10 0@10-20");
    assert_string_equal(encode(SPLIT("Contiguous"), text),
                        "0@0-3 0@3-4 0@4-9 0@9-11 0@11-20");
}

/* A text is cut into these graphemes. */
static void expect_graphemes(const char *text, const size_t *lengths)
{
    for (size_t i = 0; text[i]; i += *lengths++)
        assert_int_equal(dt_tok_grapheme(text + i, strlen(text + i)), *lengths);
}

#define GRAPHEMES(text, ...) expect_graphemes(text, (size_t[]){__VA_ARGS__})

static void text_is_cut_into_graphemes_as_unicode_says(void **state)
{
    (void)state;
    GRAPHEMES("a\r\nb\n", 1, 2, 1, 1);
    GRAPHEMES("e\u0301\u0323a", 5, 1);
    GRAPHEMES("\u1100\u1161\u11a8\u1100\uac00\u11a8\uac01\u1161", 9, 9, 3, 3);
    GRAPHEMES("\u0915\u094d\u0937\u0915\u093c\u0937", 9, 6, 3);
    GRAPHEMES("\U0001f468\u200d\U0001f469x\u200d\U0001f469", 11, 4, 4);
    GRAPHEMES("\U0001f1e6\U0001f1e7\U0001f1e8\U0001f1e9", 8, 8);
    GRAPHEMES("\u0600a\u0600\n", 3, 2, 1);
    GRAPHEMES("\u0b95\u0bbe\u00ad\u0301", 6, 2, 2);
}

/* A table with one entry, "a" -> "x": the root leads by 'a' to a unit whose
 * value is the offset 0 of the texts.
 */
static struct dt_tok_charsmap *make_map(uint32_t value, const char *texts,
                                        size_t bytes, struct dt_error *err)
{
    enum { UNITS = 256 };
    uint32_t units[1 + UNITS] = {UNITS * 4};
    unsigned char data[4 * (1 + UNITS) + 64];
    units[1] = 128u << 10;                            /* of the root: 128 */
    units[1 + (128 ^ 'a')] = 4u << 10 | 1 << 8 | 'a'; /* ends here */
    units[1 + (128 ^ 'a' ^ 4)] = 1u << 31 | value;
    for (size_t i = 0; i < 1 + UNITS; i++)
        for (size_t b = 0; b < 4; b++)
            data[4 * i + b] = (unsigned char)(units[i] >> 8 * b);
    memcpy(data + 4 * (1 + UNITS), texts, bytes);
    return dt_tok_charsmap_create(data, 4 * (1 + UNITS) + bytes, err);
}

static const char *apply_map(const struct dt_tok_charsmap *map,
                             const char *text)
{
    static char out[2048];
    struct dt_error err = {0};
    struct dt_tok_text built = {0};
    struct dt_tok_span span = {.s = text, .n = strlen(text), .first = true};
    if (dt_tok_charsmap_apply(map, &span, &built, &err) < 0)
        snprintf(out, sizeof(out), "%s", err.text);
    else
        snprintf(out, sizeof(out), "%.*s", (int)built.count, built.bytes);
    dt_tok_text_fini(&built);
    return out;
}

static void a_charsmap_replaces_short_graphemes_as_a_whole(void **state)
{
    struct dt_error err = {0};
    struct dt_tok_charsmap *map = make_map(0, "xy", 3, &err);
    (void)state;
    assert_non_null(map);
    assert_string_equal(apply_map(map, "bab"), "bxyb");
    assert_string_equal(apply_map(map, "a\u0301b"), "xyb");
    assert_string_equal(apply_map(map, "a\u0301\u0301\u0301b"),
                        "xy\u0301\u0301\u0301b");
    dt_tok_charsmap_destroy(map);
}

static void a_damaged_charsmap_is_refused(void **state)
{
    struct dt_error err = {0};
    struct dt_tok_charsmap *map = make_map(7, "xy", 3, &err);
    (void)state;
    assert_non_null(map);
    assert_string_equal(
        apply_map(map, "bab"),
        "precompiled_charsmap: an entry is outside of the texts");
    dt_tok_charsmap_destroy(map);
    assert_null(make_map(0, "\xff", 2, &err));
    assert_string_equal(err.text,
                        "precompiled_charsmap: its texts are not UTF-8");
    assert_null(dt_tok_charsmap_create("\x08\0\0\0abcd", 8, &err));
    assert_string_equal(err.text,
                        "precompiled_charsmap: expected the size of an array, "
                        "the array, and texts");
    assert_null(dt_tok_charsmap_base64("CAA?", &err));
    assert_string_equal(err.text, "precompiled_charsmap: expected base64");
}

static const struct {
    const char *json, *text;
} refused[] = {
    {UNIGRAM("[\"a\"]", ""), ": model: vocab: [0]: expected [TEXT, SCORE]"},
    {UNIGRAM("[\"a\", 0], [\"a\", 0]", ""),
     ": model: vocab: [1]: \"a\" has the ids 0 and 1"},
    {UNIGRAM("[\"a\", 0]", ", \"unk_id\": 1"),
     ": model: unk_id: expected an id of the vocabulary"},
    {"{\"model\": {\"type\": \"Unigram\", \"vocab\": {}}}",
     ": model: vocab: of another type, expected an array"},
    {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, "
     "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
     ": pre_tokenizer: ByteLevel: only with BPE"},
    {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]}, "
     "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": "
     "\"AAAA\"}}",
     ": normalizer: precompiled_charsmap: expected the size of an array, the "
     "array, and texts"},
};

static void malformed_models_are_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct dt_error err = {0};
        const char *path = scratch_path("k.json");
        struct dt_tokenizer *t = try_load(refused[i].json, &err);
        dt_tokenizer_destroy(t);
        assert_int_equal(err.status, EX_DATAERR);
        assert_memory_equal(err.text, path, strlen(path));
        assert_string_equal(err.text + strlen(path), refused[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_sum_of_scores_wins),
        cmocka_unit_test(unknown_characters_in_a_row_are_one_token),
        cmocka_unit_test(matches_in_a_row_are_merged_as_tokenizers_does),
        cmocka_unit_test(text_is_cut_into_graphemes_as_unicode_says),
        cmocka_unit_test(a_charsmap_replaces_short_graphemes_as_a_whole),
        cmocka_unit_test(a_damaged_charsmap_is_refused),
        cmocka_unit_test(malformed_models_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
