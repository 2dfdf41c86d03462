/* SPDX-License-Identifier: Apache-2.0 */
/* test_cut.c - a text cut into pieces has the tokens of the whole */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/bytes_tokenizer.h"
#include "tokenizer/tokenizer.h"

static const char text[] =
    "It's a line,\nand\r\nanother one \n  with 12345 words\n\n\n\tof any'S\n"
    "kind: \u00e9t\u00e9\n\u5143\u65e6\nx\n\u0301y\n <|im_end|>a\n\nb.\n\n"
    "'re\n's\nend";

/* A file of the source tree. */
static const char *source(const char *name)
{
    static char path[4096];
    const char *root = getenv("DT_SRCDIR");
    snprintf(path, sizeof(path), "%s/%s", root ? root : ".", name);
    return path;
}

/* Encodes pieces, each of at least `least` bytes; how many. */
static size_t encode_pieces(const struct dt_tokenizer *tokenizer,
                            struct dt_encoder *encoder, const char *s,
                            size_t bytes, size_t least, int32_t *ids,
                            size_t *count)
{
    struct dt_tokens tokens = {0};
    struct dt_error err;
    size_t pieces = 0;
    *count = 0;
    for (size_t begin = 0, end; begin < bytes; begin = end, pieces++) {
        end = dt_tokenizer_cut(tokenizer, s, bytes, begin + least);
        assert_true(end > begin && end <= bytes);
        assert_int_equal(dt_encode(encoder, s + begin, end - begin,
                                   DT_ENCODE_SPECIAL, &tokens, &err),
                         0);
        memcpy(ids + *count, tokens.ids, tokens.count * sizeof(*ids));
        *count += tokens.count;
    }
    dt_tokens_fini(&tokens);
    return pieces;
}

static void check_pieces(const struct dt_tokenizer *tokenizer, const char *s,
                         size_t bytes, size_t least, size_t pieces)
{
    struct dt_error err;
    struct dt_tokens whole = {0};
    struct dt_encoder *encoder = dt_encoder_create(tokenizer, &err);
    int32_t *ids = malloc(bytes * sizeof(*ids));
    size_t count;
    assert_int_equal(
        dt_encode(encoder, s, bytes, DT_ENCODE_SPECIAL, &whole, &err), 0);
    assert_true(encode_pieces(tokenizer, encoder, s, bytes, least, ids,
                              &count) >= pieces);
    assert_int_equal(count, whole.count);
    assert_memory_equal(ids, whole.ids, count * sizeof(*ids));
    free(ids);
    dt_tokens_fini(&whole);
    dt_encoder_destroy(encoder);
}

static void pieces_have_the_tokens_of_the_whole_text(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *tokenizers[] = {
        dt_tokenizer_load(source("tests/parity/chat_tokenizer"), &err),
        bytes_tokenizer("tokenizer", NULL, "</s>", NULL),
    };
    struct dt_map map;
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_non_null(tokenizers[i]);
        for (size_t least = 1; least < sizeof(text); least++)
            check_pieces(tokenizers[i], text, sizeof(text) - 1, least,
                         least == 1 ? 7 : 1);
        assert_int_equal(
            dt_map_init(&map, source("man/spank_disttrain.8"), &err), 0);
        check_pieces(tokenizers[i], map.data, map.bytes, 1, 50);
        check_pieces(tokenizers[i], map.data, map.bytes, 1000, 5);
        dt_map_fini(&map);
        dt_tokenizer_destroy(tokenizers[i]);
    }
}

/* The tokenizer of the tree with another value at `path`: an object's key in
 * the first of the added tokens, or of the file.
 */
static size_t cut_of(const char *key, json_t *value, bool of_token)
{
    struct dt_error err;
    char path[600];
    json_error_t at;
    json_t *file = json_load_file(
        source("tests/parity/chat_tokenizer/tokenizer.json"), 0, &at);
    json_t *tokens = json_object_get(file, "added_tokens");
    json_object_set_new(of_token ? json_array_get(tokens, 0) : file, key,
                        value);
    dt_file_mkdirs(scratch_path("changed"), NULL);
    snprintf(path, sizeof(path), "%s/tokenizer.json", scratch_path("changed"));
    assert_int_equal(json_dump_file(file, path, 0), 0);
    json_decref(file);
    struct dt_tokenizer *tokenizer = dt_tokenizer_load(path, &err);
    if (!tokenizer)
        fail_msg("%s: %s", key, err.text);
    size_t cut = dt_tokenizer_cut(tokenizer, "ab\ncd", 5, 1);
    dt_tokenizer_destroy(tokenizer);
    return cut;
}

/* Where it is not known to be safe, there is no cut. */
static void text_is_cut_only_for_safe_tokenizers(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *bytes = dt_tokenizer_load("byte", &err);
    (void)state;
    assert_int_equal(dt_tokenizer_cut(bytes, "ab\ncd", 5, 1), 5);
    dt_tokenizer_destroy(bytes);
    assert_int_equal(cut_of("special", json_true(), true), 2);
    assert_int_equal(cut_of("rstrip", json_true(), true), 5);
    assert_int_equal(cut_of("lstrip", json_true(), true), 5);
    assert_int_equal(cut_of("single_word", json_true(), true), 5);
    assert_int_equal(cut_of("content", json_string("b\nc"), true), 5);
    assert_int_equal(
        cut_of("normalizer", json_pack("{s:s}", "type", "NFC"), false), 2);
    assert_int_equal(
        cut_of("normalizer",
               json_pack("{s:s, s:s}", "type", "Prepend", "prepend", "x"),
               false),
        5);
    assert_int_equal(cut_of("pre_tokenizer",
                            json_pack("{s:s, s:b, s:b}", "type", "ByteLevel",
                                      "add_prefix_space", 1, "use_regex", 1),
                            false),
                     5);
}

static void cuts_fall_between_a_letter_and_a_newline(void **state)
{
    struct dt_error err;
    struct dt_tokenizer *tokenizer =
        dt_tokenizer_load(source("tests/parity/chat_tokenizer"), &err);
    (void)state;
    assert_int_equal(dt_tokenizer_cut(tokenizer, "a\nb\n", 4, 1), 1);
    assert_int_equal(dt_tokenizer_cut(tokenizer, "a\nb\n", 4, 2), 3);
    assert_int_equal(dt_tokenizer_cut(tokenizer, "a\nb\n", 4, 4), 4);
    assert_int_equal(dt_tokenizer_cut(tokenizer, "a\nb\n", 4, 9), 4);
    assert_int_equal(dt_tokenizer_cut(tokenizer, "\n.\nZ\n", 5, 1), 4);
    assert_int_equal(dt_tokenizer_cut(tokenizer, "1\n\xc3\xa9\n", 5, 1), 5);
    dt_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_the_tokens_of_the_whole_text),
        cmocka_unit_test(text_is_cut_only_for_safe_tokenizers),
        cmocka_unit_test(cuts_fall_between_a_letter_and_a_newline),
    };
    return cmocka_run_group_tests_name("cut", tests, NULL, NULL);
}
