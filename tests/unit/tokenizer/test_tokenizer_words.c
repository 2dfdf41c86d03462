/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_words.c - patterns by hand cut as PCRE2 does; expressions */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "tokenizer/tokenizer_impl.h"

#define NUMBERS(numbers)                                                       \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers      \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *pattern_of(enum dt_tok_words words)
{
    return words == DT_TOK_WORDS_GPT2     ? dt_tok_gpt2_pattern
           : words == DT_TOK_WORDS_LLAMA3 ? NUMBERS("\\p{N}{1,3}")
                                          : NUMBERS("\\p{N}");
}

/* The example of each family, pieces between bars. */
static void each_family_cuts_its_example_into_words(void **state)
{
    static const char text[] = "Hello  world!\n\n  I'M here, 12345 "
                               "\u5143\u65e6 it's  \n x";
    static const char *const expected[] = {
        [DT_TOK_WORDS_GPT2] = "Hello| | world|!|\n\n | I|'|M| here|,| 12345| "
                              "\u5143\u65e6| it|'s|  \n| x|",
        [DT_TOK_WORDS_LLAMA3] = "Hello| | world|!\n\n| | I|'M| here|,| |123|45"
                                "| \u5143\u65e6| it|'s|  \n| x|",
        [DT_TOK_WORDS_QWEN] = "Hello| | world|!\n\n| | I|'M| here|,| |1|2|3|4|5"
                              "| \u5143\u65e6| it|'s|  \n| x|",
    };
    (void)state;
    for (int words = DT_TOK_WORDS_GPT2; words <= DT_TOK_WORDS_QWEN; words++) {
        char out[256] = "";
        for (size_t i = 0; text[i];) {
            size_t n = dt_tok_word(words, dt_tok_classes(), text + i,
                                   strlen(text + i));
            strncat(out, text + i, n);
            strcat(out, "|");
            i += n;
        }
        assert_string_equal(out, expected[words]);
        assert_int_equal(
            dt_tok_words_find(pattern_of(words), strlen(pattern_of(words))),
            words);
    }
    assert_int_equal(dt_tok_words_find("\\s+", 3), DT_TOK_WORDS_NONE);
}

static uint32_t draw(uint32_t end)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(state >> 33) % end;
}

/* Characters that the patterns tell apart, some of them several times. */
static size_t make_text(char *out)
{
    static const char *const parts[] = {
        "a",      "Z",      "s",          "S",          "'",        "'",
        "re",     "lL",     "VE",         "\u017f",     " ",        " ",
        "\t",     "\n",     "\r",         "\r\n",       "\u00a0",   "\xc2\x85",
        "\u180e", "\u3000", "\u2028",     "1",          "\u0664",   "\u00bd",
        "\u2167", "\u4e2d", "\u00e9",     "\u0301",     ".",        "-",
        "\u200b", "\u20ac", "\U0001f600", "\U00020000", "straight", "@AZ[`az{",
    };
    size_t n = 0, count = 1 + draw(12);
    for (size_t i = 0; i < count; i++) {
        const char *part = parts[draw(sizeof(parts) / sizeof(parts[0]))];
        size_t times = draw(8) ? 1 : 1 + draw(5);
        for (size_t j = 0; j < times; j++) {
            memcpy(out + n, part, strlen(part));
            n += strlen(part);
        }
    }
    return n;
}

/* Ends of the words of s[0..n), by hand. */
static size_t cut(enum dt_tok_words words, const char *s, size_t n,
                  size_t *ends)
{
    size_t count = 0;
    for (size_t i = 0; i < n; ends[count++] = i)
        i += dt_tok_word(words, dt_tok_classes(), s + i, n - i);
    return count;
}

static void random_text_is_cut_as_pcre2_cuts_it(void **state)
{
    struct dt_tok_matcher *matcher = dt_tok_matcher_create();
    struct dt_error err = {0};
    char text[512];
    size_t ends[512];
    (void)state;
    for (int words = DT_TOK_WORDS_GPT2; words <= DT_TOK_WORDS_QWEN; words++) {
        const char *pattern = pattern_of(words);
        struct dt_tok_regex *regex =
            dt_tok_regex_create(pattern, strlen(pattern), &err);
        assert_non_null(regex);
        for (int round = 0; round < 30000; round++) {
            size_t begin, end, n = make_text(text), from = 0;
            size_t count = cut(words, text, n, ends);
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(dt_tok_regex_find(regex, matcher, text, n,
                                                   from, &begin, &end, &err),
                                 1);
                if (begin != from || end != ends[i])
                    fail_msg("words %d, \"%.*s\": %zu-%zu, not %zu-%zu", words,
                             (int)n, text, begin, end, from, ends[i]);
                from = end;
            }
        }
        dt_tok_regex_destroy(regex);
    }
    dt_tok_matcher_destroy(matcher);
}

/* Each code point that both libraries know has the class of PCRE2. */
static void characters_have_the_classes_of_pcre2(void **state)
{
    static const struct {
        const char *pattern;
        unsigned class;
    } rows[] = {{"\\p{L}", DT_TOK_LETTER},
                {"\\p{N}", DT_TOK_NUMBER},
                {"\\s", DT_TOK_SPACE}};
    struct dt_tok_matcher *matcher = dt_tok_matcher_create();
    struct dt_error err = {0};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct dt_tok_regex *regex =
            dt_tok_regex_create(rows[i].pattern, strlen(rows[i].pattern), &err);
        assert_non_null(regex);
        for (uint32_t cp = 0; cp < 0x2000; cp++) {
            char text[4];
            size_t begin, end, n = dt_tok_encode(cp, text);
            bool expected = dt_tok_classes()[cp] & rows[i].class;
            if (utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_CN)
                continue; /* younger than utf8proc, not than PCRE2 */
            if (dt_tok_regex_find(regex, matcher, text, n, 0, &begin, &end,
                                  &err) != expected)
                fail_msg("%s and U+%04X", rows[i].pattern, (unsigned)cp);
        }
        dt_tok_regex_destroy(regex);
    }
    dt_tok_matcher_destroy(matcher);
}

/* tokenizers knows Unicode 16, whatever version utf8proc knows. */
static void late_letters_and_numbers_have_their_classes(void **state)
{
    (void)state;
    assert_true(dt_tok_classes()[0x1c89] & DT_TOK_LETTER);
    assert_true(dt_tok_classes()[0x13460] & DT_TOK_LETTER);
    assert_true(dt_tok_classes()[0x143fa] & DT_TOK_LETTER);
    assert_true(dt_tok_classes()[0x143fb] & DT_TOK_OTHER);
    assert_true(dt_tok_classes()[0x2ee5d] & DT_TOK_LETTER);
    assert_true(dt_tok_classes()[0x1ccf9] & DT_TOK_NUMBER);
    assert_true(dt_tok_classes()[0x1ccfa] & DT_TOK_OTHER);
}

/* What the two libraries read differently. */
static void ambiguous_expressions_are_refused(void **state)
{
    static const char *const refused[] = {
        "\\w",    "\\b",         "\\h+",  "^a",      "a$",     "a{1,2}+",
        "[a&&b]", "[[:alpha:]]", "(?i)a", "(?<n>a)", "(a)\\1", "[]a]",
        "\\xE9",  "(*UCP)a",     "a{,3}", "\\",      "\\pL",   "\\u0041",
    };
    struct dt_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (dt_tok_regex_create(refused[i], strlen(refused[i]), &err))
            fail_msg("%s was taken", refused[i]);
        if (!strstr(err.text, "not supported"))
            fail_msg("%s: %s", refused[i], err.text);
    }
    assert_null(dt_tok_regex_create("(a", 2, &err));
    assert_non_null(strstr(err.text, "the regular expression: "));
}

static void expressions_match_unicode_text(void **state)
{
    static const struct {
        const char *pattern, *text;
        size_t begin, end;
    } rows[] = {
        {"\\s+", "\u180e\u3000x", 3, 6},
        {"\\S", "\u00a0x", 2, 3},
        {"[^\\S\\n]", "x\n ", 2, 3},
        {"\\p{Han}", "\u3006\u4e2d", 3, 6},
        {"a.b", "a\nba\u00e9b", 3, 7},
        {"(?i:'s)", "'\u017f", 0, 3},
        /* of Unicode 16, which PCRE2 may not know */
        {"\\p{Lu}", "\U00010d70\U00010d50", 4, 8},
        {"[^\\p{L}\\d]", "\U000105c0\U00010d40x ", 9, 10},
        {"\\P{L}", "\U000105cd-", 4, 5},
        {"\\D", "\U00010d49x", 4, 5},
        {"\\p{^M}", "\u0897x", 3, 4},
    };
    struct dt_tok_matcher *matcher = dt_tok_matcher_create();
    struct dt_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t begin, end;
        struct dt_tok_regex *regex =
            dt_tok_regex_create(rows[i].pattern, strlen(rows[i].pattern), &err);
        assert_non_null(regex);
        assert_int_equal(dt_tok_regex_find(regex, matcher, rows[i].text,
                                           strlen(rows[i].text), 0, &begin,
                                           &end, &err),
                         1);
        if (begin != rows[i].begin || end != rows[i].end)
            fail_msg("%s: %zu-%zu", rows[i].pattern, begin, end);
        dt_tok_regex_destroy(regex);
    }
    dt_tok_matcher_destroy(matcher);
}

static void a_match_that_takes_too_long_gives_up(void **state)
{
    static const char pattern[] = "((a+)+)+[bc]";
    struct dt_tok_matcher *matcher = dt_tok_matcher_create();
    struct dt_error err = {0};
    char text[64];
    size_t begin, end;
    (void)state;
    memset(text, 'a', sizeof(text));
    struct dt_tok_regex *regex =
        dt_tok_regex_create(pattern, strlen(pattern), &err);
    assert_int_equal(dt_tok_regex_find(regex, matcher, text, sizeof(text), 0,
                                       &begin, &end, &err),
                     -1);
    assert_int_equal(err.status, EX_DATAERR);
    assert_non_null(strstr(err.text, "gives up on a text of 64 bytes: match "
                                     "limit exceeded"));
    dt_tok_regex_destroy(regex);
    dt_tok_matcher_destroy(matcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_cuts_its_example_into_words),
        cmocka_unit_test(random_text_is_cut_as_pcre2_cuts_it),
        cmocka_unit_test(characters_have_the_classes_of_pcre2),
        cmocka_unit_test(late_letters_and_numbers_have_their_classes),
        cmocka_unit_test(ambiguous_expressions_are_refused),
        cmocka_unit_test(expressions_match_unicode_text),
        cmocka_unit_test(a_match_that_takes_too_long_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
