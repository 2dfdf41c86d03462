/* SPDX-License-Identifier: Apache-2.0 */
/* test_dataset.c - files as one stream of tokens, and what is no such file */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "data/dataset.h"
#include "tests/unit/scratch.h"

static const char *put_u16(const char *name, const uint16_t *ids, size_t count)
{
    return scratch_write(name, ids, count * sizeof(*ids));
}

/* An llm.c shard; `extra` more bytes than the header promises. */
static const char *put_llmc(const char *name, uint32_t magic, uint32_t version,
                            const void *ids, size_t count, size_t width,
                            size_t extra)
{
    static uint32_t file[256 + 64];
    memset(file, 0, sizeof(file));
    file[0] = magic;
    file[1] = version;
    file[2] = (uint32_t)count;
    memcpy(file + 256, ids, count * width);
    return scratch_write(name, file, 1024 + count * width + extra);
}

static struct dt_dataset *must_open(const char *const *paths, size_t count,
                                    size_t vocab_size)
{
    struct dt_error err = {0};
    struct dt_dataset *dataset =
        dt_dataset_open(paths, count, DT_FORMAT_AUTO, vocab_size, &err);
    if (!dataset)
        fail_msg("%s", err.text);
    return dataset;
}

static void expect_tokens(const struct dt_dataset *dataset,
                          const int32_t *expected, size_t count)
{
    int32_t tokens[64];
    assert_int_equal(dt_dataset_tokens(dataset), count);
    for (size_t first = 0; first <= count; first++)
        for (size_t n = 0; n <= count - first; n++) {
            assert_int_equal(dt_dataset_read(dataset, first, n, tokens, NULL),
                             0);
            assert_memory_equal(tokens, expected + first, n * 4);
        }
}

static void expect_bad(const char *path, enum dt_format format,
                       size_t vocab_size, const char *text)
{
    struct dt_error err = {0};
    struct dt_dataset *dataset =
        dt_dataset_open(&path, 1, format, vocab_size, &err);
    dt_dataset_close(dataset);
    if (dataset || !strstr(err.text, text) ||
        strncmp(err.text, path, strlen(path)) != 0)
        fail_msg("expected \"%s\", got \"%s\"", text, err.text);
}

static void text_is_read_as_bytes_with_document_ends(void **state)
{
    const char *paths[] = {scratch_write("a.txt", "ab", 2),
                           scratch_write("b.txt", "c\xc3\xa9", 3)};
    const int32_t expected[] = {'a', 'b', 256, 'c', 0xc3, 0xa9, 256};
    (void)state;
    struct dt_dataset *dataset = must_open(paths, 2, 257);
    expect_tokens(dataset, expected, 7);
    dt_dataset_close(dataset);
    dt_dataset_close(NULL);
    expect_bad(paths[0], DT_FORMAT_AUTO, 256,
               "text needs a vocab_size of at least 257 (256 bytes and the end "
               "of a document), the model has 256");
    expect_bad(scratch_write("e.txt", "", 0), DT_FORMAT_AUTO, 257, "empty");
    expect_bad(scratch_path("missing"), DT_FORMAT_AUTO, 257,
               "cannot open: No such file");
    expect_bad(
        scratch_write("u.txt", "ok \xe2\x82 no", 8), DT_FORMAT_AUTO, 257,
        "byte 3 (0xe2): not UTF-8 text: `iconv -f LATIN1 -t UTF-8` makes "
        "UTF-8 of Latin-1; token files end in .bin");
}

static void token_files_of_every_format_form_one_stream(void **state)
{
    const uint16_t a[] = {7, 8, 65535}, b[] = {1, 2};
    const uint32_t c[] = {100000, 3};
    const char *paths[] = {put_u16("a.bin", a, 3),
                           put_llmc("b.bin", 20240520, 1, b, 2, 2, 0),
                           put_llmc("c.tokens", 20240801, 7, c, 2, 4, 0)};
    const int32_t expected[] = {7, 8, 65535, 1, 2, 100000, 3};
    (void)state;
    struct dt_dataset *dataset = must_open(paths, 3, 100001);
    expect_tokens(dataset, expected, 7);
    dt_dataset_close(dataset);
    expect_bad(paths[0], DT_FORMAT_AUTO, 65535,
               "byte 4: token id 65535, but the model's vocab_size is 65535");
    expect_bad(paths[2], DT_FORMAT_AUTO, 100000,
               "byte 1024: token id 100000, but");
}

static void a_given_format_overrides_the_file_name(void **state)
{
    const char *path = scratch_write("x.bin", "abcd", 4);
    const int32_t text[] = {'a', 'b', 'c', 'd', 256};
    const int32_t tokens[] = {'a' + 256 * 'b', 'c' + 256 * 'd'};
    (void)state;
    struct dt_dataset *dataset =
        dt_dataset_open(&path, 1, DT_FORMAT_TEXT, 257, NULL);
    expect_tokens(dataset, text, 5);
    dt_dataset_close(dataset);
    path = scratch_write("x.txt", "abcd", 4);
    dataset = dt_dataset_open(&path, 1, DT_FORMAT_TOKENS_BIN, 65536, NULL);
    expect_tokens(dataset, tokens, 2);
    dt_dataset_close(dataset);
}

static void invalid_token_files_are_refused(void **state)
{
    const uint16_t ids[] = {1, 2, 3};
    (void)state;
    expect_bad(scratch_write("o.bin", "abc", 3), DT_FORMAT_AUTO, 99,
               "3 bytes, not a whole number of 2-byte tokens");
    expect_bad(put_llmc("v.bin", 20240520, 2, ids, 3, 2, 0), DT_FORMAT_AUTO, 99,
               "byte 4: version 2 of llm.c tokens (GPT-2), expected 1");
    expect_bad(put_llmc("l.bin", 20240520, 1, ids, 3, 2, 2), DT_FORMAT_AUTO, 99,
               "byte 8: header says 3 tokens of 2 bytes, but 8 bytes follow");
    expect_bad(put_llmc("z.bin", 20240801, 7, ids, 0, 4, 0), DT_FORMAT_AUTO, 99,
               "byte 8: header says 0 tokens of 4 bytes, but 0 bytes follow");
    expect_bad(put_llmc("e.bin", 20240522, 1, ids, 3, 2, 0), DT_FORMAT_AUTO, 99,
               "an llm.c evaluation file, not training tokens");
    const uint32_t magic = 20240520;
    expect_bad(scratch_write("s.bin", &magic, 4), DT_FORMAT_AUTO, 99,
               "4 bytes, shorter than the 1024 of the header of llm.c tokens");
}

static void a_dataset_of_text_and_tokens_is_refused(void **state)
{
    const uint16_t ids[] = {1};
    const char *paths[] = {scratch_write("m.txt", "ab", 2),
                           put_u16("m.bin", ids, 1)};
    struct dt_error err;
    (void)state;
    assert_null(dt_dataset_open(paths, 2, DT_FORMAT_AUTO, 300, &err));
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "m.txt holds text, but "));
    assert_non_null(
        strstr(err.text, "m.bin holds tokens: one dataset has one"));
}

static void bad_tokens_outside_the_sample_fail_when_read(void **state)
{
    enum { N = 3000000, BAD = 20000 };
    uint16_t *ids = calloc(N, sizeof(*ids));
    int32_t out[3];
    struct dt_error err;
    (void)state;
    assert_non_null(ids);
    ids[BAD] = 500;
    const char *path = put_u16("late.bin", ids, N);
    struct dt_dataset *dataset = must_open(&path, 1, 500);
    assert_int_equal(dt_dataset_read(dataset, BAD - 3, 3, out, &err), 0);
    assert_int_equal(dt_dataset_read(dataset, BAD - 1, 3, out, &err), -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(
        strstr(err.text, "late.bin: byte 40000: token id 500, but"));
    dt_dataset_close(dataset);
    free(ids);
}

/* Up to 1M tokens every id is looked at when the file is opened. */
static void small_files_are_checked_whole_when_opened(void **state)
{
    enum { N = 1 << 20 };
    uint16_t *ids = calloc(N, sizeof(*ids));
    (void)state;
    assert_non_null(ids);
    for (size_t bad = 0; bad < N; bad += 99991) {
        ids[bad] = 500;
        expect_bad(put_u16("all.bin", ids, N - 1), DT_FORMAT_AUTO, 500,
                   "token id 500");
        ids[bad] = 0;
    }
    free(ids);
}

static void a_file_cut_short_in_use_is_reported(void **state)
{
    const char *path = put_u16("cut.bin", (uint16_t[]){1, 2, 3}, 3);
    struct dt_dataset *dataset = must_open(&path, 1, 10);
    struct dt_error err;
    int32_t tokens[3];
    (void)state;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(dt_dataset_read(dataset, 0, 3, tokens, &err), -1);
    assert_int_equal(err.status, EX_IOERR);
    assert_non_null(strstr(err.text, "cut.bin: cut short while it is read, or "
                                     "its disk fails"));
    dt_dataset_close(dataset);
}

static void the_hash_depends_only_on_the_tokens(void **state)
{
    const uint16_t ids[] = {1, 2, 3, 4, 5, 6};
    const char *whole = put_u16("h.bin", ids, 6);
    const char *parts[] = {put_u16("h1.bin", ids, 2),
                           put_llmc("h2.bin", 20240520, 1, ids + 2, 4, 2, 0)};
    (void)state;
    struct dt_dataset *a = must_open(&whole, 1, 10);
    struct dt_dataset *b = must_open(parts, 2, 10);
    struct dt_dataset *c = must_open(parts + 1, 1, 10);
    assert_true(dt_dataset_hash(a) == dt_dataset_hash(b));
    assert_true(dt_dataset_hash(a) != dt_dataset_hash(c));
    dt_dataset_close(a);
    dt_dataset_close(b);
    dt_dataset_close(c);
}

static const struct {
    const char *text;
    size_t good; /* length of the well-formed part */
} utf8[] = {
    {"", 0},
    {"abc", 3},
    {"\xc2\x80\xdf\xbf", 4},
    {"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf", 12},
    {"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8},
    {"a\x80", 1},     /* a continuation first */
    {"a\xc0\x80", 1}, /* overlong */
    {"a\xc1\xbf", 1},
    {"a\xe0\x9f\xbf", 1},
    {"a\xf0\x8f\xbf\xbf", 1},
    {"a\xed\xa0\x80", 1},     /* a surrogate */
    {"a\xf4\x90\x80\x80", 1}, /* above 10FFFF */
    {"a\xf5\x80\x80\x80", 1},
    {"a\xff", 1},
    {"a\xc3", 1}, /* cut short */
    {"a\xe2\x82", 1},
    {"a\xf0\x9f\x98", 1},
    {"a\xc3z", 1}, /* wrong continuation */
    {"a\xe2\x82z", 1},
    {"a\xf0\x9f\x98z", 1},
};

/* Each at every place around the blocks that are skipped at once. */
static void malformed_utf8_is_found_at_every_place(void **state)
{
    unsigned char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof(utf8) / sizeof(*utf8); i++)
        for (size_t before = 0; before < 200; before++) {
            size_t n = strlen(utf8[i].text);
            memset(text, 'x', sizeof(text));
            memcpy(text + before, utf8[i].text, n);
            assert_int_equal(dt_utf8_check(text, before + n),
                             before + utf8[i].good);
            if (utf8[i].good < n)
                assert_int_equal(dt_utf8_check(text, sizeof(text)),
                                 before + utf8[i].good);
        }
}

/* Every code point, as its definition encodes it. */
static void exactly_the_legal_code_points_are_accepted(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x120000; c++) {
        unsigned char s[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        uint32_t rest = c;
        for (size_t i = n - 1; i > 0; i--, rest >>= 6)
            s[i] = (unsigned char)(0x80 | (rest & 0x3f));
        s[0] = (unsigned char)(n == 1 ? rest : (0xf00 >> n & 0xff) | rest);
        bool legal = c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
        assert_int_equal(dt_utf8_check(s, n), legal ? n : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read_as_bytes_with_document_ends),
        cmocka_unit_test(token_files_of_every_format_form_one_stream),
        cmocka_unit_test(a_given_format_overrides_the_file_name),
        cmocka_unit_test(invalid_token_files_are_refused),
        cmocka_unit_test(a_dataset_of_text_and_tokens_is_refused),
        cmocka_unit_test(bad_tokens_outside_the_sample_fail_when_read),
        cmocka_unit_test(small_files_are_checked_whole_when_opened),
        cmocka_unit_test(the_hash_depends_only_on_the_tokens),
        cmocka_unit_test(a_file_cut_short_in_use_is_reported),
        cmocka_unit_test(malformed_utf8_is_found_at_every_place),
        cmocka_unit_test(exactly_the_legal_code_points_are_accepted),
    };
    return cmocka_run_group_tests_name("dataset", tests, NULL, NULL);
}
