/* SPDX-License-Identifier: Apache-2.0 */
/* test_bpe_cuts.c - BPE's text is cut only where no merge joins it */
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

#define BPE(vocab, merges, more)                                               \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {" vocab                       \
    "}, \"merges\": [" merges "]" more "}}"
#define LETTERS                                                                \
    "\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"ab\": 4, \"cd\": 5, "           \
    "\"abcd\": 6, \"\u2581\": 7, \"\u2581a\": 8, \"<u>\": 9"
#define MERGES "\"a b\", \"c d\", \"ab cd\", \"\u2581 a\""

static struct dt_tokenizer *load(const char *json)
{
    struct dt_error err = {0};
    struct dt_tokenizer *t =
        dt_tokenizer_load(scratch_write("cuts.json", json, strlen(json)), &err);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

/* Whether two characters may be cut apart. */
static bool apart(const struct dt_tokenizer *t, uint32_t a, uint32_t b)
{
    return dt_tok_may_cut(&t->model, dt_tok_cut_class(a), dt_tok_cut_class(b));
}

static void what_a_merge_joins_is_not_cut(void **state)
{
    struct dt_tokenizer *t = load(BPE(LETTERS, MERGES, ""));
    (void)state;
    assert_int_equal(t->step_count, 1);
    assert_false(apart(t, 'a', 'b'));
    assert_false(apart(t, 'b', 'c'));
    assert_false(apart(t, 'c', 'd'));
    assert_false(apart(t, 0x2581, 'a'));
    assert_true(apart(t, 'b', 'a'));
    assert_true(apart(t, 'a', 'a'));
    assert_true(apart(t, 'a', 'c'));
    assert_true(apart(t, 'd', 0x2581));
    assert_true(apart(t, 0x2581, 'b'));
    dt_tokenizer_destroy(t);
}

static void characters_beyond_ascii_share_what_is_forbidden(void **state)
{
    struct dt_tokenizer *t =
        load(BPE(LETTERS ", \"\u00e9\": 10, \"\u00e9a\": 11", "\"\u00e9 a\"",
                 ", \"unk_token\": \"<u>\""));
    (void)state;
    assert_false(apart(t, 0xe9, 'a'));
    assert_false(apart(t, 0xe9 + 127, 'a'));
    assert_true(apart(t, 0xe9 + 1, 'a'));
    assert_true(apart(t, 0xe9, 'b'));
    dt_tokenizer_destroy(t);
}

static void unknown_characters_stay_together(void **state)
{
    struct dt_tokenizer *t =
        load(BPE(LETTERS, MERGES, ", \"unk_token\": \"<u>\""));
    (void)state;
    assert_false(apart(t, 'x', 'y'));
    assert_false(apart(t, 'x', 0xe9));
    assert_true(apart(t, 'x', 'a'));
    assert_true(apart(t, 'b', 'x'));
    dt_tokenizer_destroy(t);
    /* without a token for them, what is around them becomes neighbors */
    t = load(BPE(LETTERS, MERGES, ""));
    assert_false(apart(t, 'x', 'b'));
    assert_false(apart(t, 'a', 'x'));
    dt_tokenizer_destroy(t);
}

static void merges_of_tokens_for_other_text_allow_no_cut(void **state)
{
    static const char *const refused[] = {
        BPE(LETTERS ", \"<0x0A>\": 10, \"<0x0A>a\": 11", "\"<0x0A> a\"",
            ", \"byte_fallback\": true"),
        BPE(LETTERS ", \"<0x0A>\": 10, \"a<0x0A>\": 11", "\"a <0x0A>\"",
            ", \"byte_fallback\": true"),
        BPE(LETTERS ", \"<u>a\": 10", "\"<u> a\"", ", \"unk_token\": \"<u>\""),
        BPE(LETTERS ", \"a<u>\": 10", "\"a <u>\"", ", \"unk_token\": \"<u>\""),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct dt_tokenizer *t = load(refused[i]);
        assert_int_equal(t->step_count, 0);
        dt_tokenizer_destroy(t);
    }
    struct dt_tokenizer *t =
        load(BPE(LETTERS ", \"<0x0A>\": 10, \"<\": 11, \"<a\": 12", "\"< a\"",
                 ", \"unk_token\": \"<u>\", \"byte_fallback\": true"));
    assert_int_equal(t->step_count, 1);
    assert_true(apart(t, '\n', 'a'));
    dt_tokenizer_destroy(t);
}

static unsigned next_random(unsigned *random)
{
    *random = *random * 1103515245u + 12345u;
    return *random >> 16;
}

/* Texts of a few characters in which merges, unknown ones and bytes occur. */
static size_t make_text(unsigned *random, char *text, size_t parts)
{
    static const char *const chars[] = {"a", "b", "c",      "d",
                                        "x", "y", "\u2581", "\u00e9"};
    size_t n = 0;
    for (size_t i = 0; i < parts; i++) {
        const char *one = chars[next_random(random) % 8];
        memcpy(text + n, one, strlen(one));
        n += strlen(one);
    }
    return n;
}

static void cut_texts_have_the_tokens_of_whole_ones(void **state)
{
    static const char *const models[] = {
        BPE(LETTERS, MERGES, ""),
        BPE(LETTERS, MERGES, ", \"unk_token\": \"<u>\""),
        BPE(LETTERS, MERGES, ", \"unk_token\": \"<u>\", \"fuse_unk\": true"),
        BPE(LETTERS ", \"<0x78>\": 10, \"<0xC3>\": 11, \"<0xA9>\": 12", MERGES,
            ", \"unk_token\": \"<u>\", \"byte_fallback\": true"),
    };
    struct dt_tokens tokens[2] = {{0}};
    struct dt_error err;
    unsigned random = 7;
    char text[400];
    (void)state;
    struct dt_tokenizer *all[4];
    struct dt_encoder *encoders[4][2];
    for (size_t i = 0; i < 4 * 2; i++) {
        if (i % 2 == 0)
            all[i / 2] = load(models[i / 2]);
        encoders[i / 2][i % 2] = dt_encoder_create(all[i / 2], &err);
        assert_non_null(encoders[i / 2][i % 2]);
    }
    for (size_t i = 0; i < 4 * 500; i++) {
        struct dt_tokenizer *t = all[i % 4];
        const size_t n =
            make_text(&random, text, 1 + next_random(&random) % 130);
        for (size_t whole = 0; whole < 2; whole++) {
            t->step_count = 1 - whole;
            assert_int_equal(dt_encode(encoders[i % 4][whole], text, n,
                                       DT_ENCODE_OFFSETS, &tokens[whole], &err),
                             0);
        }
        assert_int_equal(tokens[0].count, tokens[1].count);
        const size_t bytes = tokens[0].count * sizeof(uint32_t);
        assert_memory_equal(tokens[0].ids, tokens[1].ids, bytes);
        assert_memory_equal(tokens[0].begin, tokens[1].begin, bytes);
        assert_memory_equal(tokens[0].end, tokens[1].end, bytes);
    }
    for (size_t i = 0; i < 4; i++) {
        dt_encoder_destroy(encoders[i][0]);
        dt_encoder_destroy(encoders[i][1]);
        dt_tokenizer_destroy(all[i]);
    }
    dt_tokens_fini(&tokens[0]);
    dt_tokens_fini(&tokens[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_merge_joins_is_not_cut),
        cmocka_unit_test(characters_beyond_ascii_share_what_is_forbidden),
        cmocka_unit_test(unknown_characters_stay_together),
        cmocka_unit_test(merges_of_tokens_for_other_text_allow_no_cut),
        cmocka_unit_test(cut_texts_have_the_tokens_of_whole_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
