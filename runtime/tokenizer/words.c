/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.c - matches the patterns of well-known tokenizers without PCRE2
 *
 * The alternatives are tried in the order of the pattern; each loop is one "+"
 * of it. Bytes below 0x80 are the common case.
 */
#include "config.h"

#include <endian.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

/* The patterns of Llama 3 and Qwen differ only in the numbers. */
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define AROUND_NUMBERS(numbers)                                                \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                      \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)"    \
                "|\\s+"

const char dt_tok_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";

static const char *const patterns[] = {
    [DT_TOK_WORDS_GPT2] = dt_tok_gpt2_pattern,
    [DT_TOK_WORDS_LLAMA3] = AROUND_NUMBERS("\\p{N}{1,3}"),
    [DT_TOK_WORDS_QWEN] = AROUND_NUMBERS("\\p{N}"),
};

enum dt_tok_words dt_tok_words_find(const char *pattern, size_t bytes)
{
    for (int i = DT_TOK_WORDS_GPT2; i <= DT_TOK_WORDS_QWEN; i++)
        if (strlen(patterns[i]) == bytes &&
            !memcmp(patterns[i], pattern, bytes))
            return (enum dt_tok_words)i;
    return DT_TOK_WORDS_NONE;
}

static inline unsigned class_at(const uint8_t *classes, const char *s,
                                size_t *bytes)
{
    return classes[dt_tok_decode(s, bytes)];
}

/* How many of the eight bytes at s are ASCII letters before the first that is
 * not. Without a loop, there is no branch for the processor to predict.
 */
static size_t count_letters(const char *s)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t word;
    memcpy(&word, s, sizeof(word));
    const uint64_t small = (word | ones * 0x20) & ~high;
    /* the high bit of each byte: from a on, and after z */
    const uint64_t above = small + ones * (0x80 - 'a');
    const uint64_t beyond = small + ones * (0x7f - 'z');
    const uint64_t others = (~above | beyond | word) & high;
    return others ? (size_t)__builtin_ctzll(le64toh(others)) / 8 : 8;
}

/* The end of the run of characters of a class that starts at i. */
static size_t end_of_class(const uint8_t *classes, const char *s, size_t n,
                           size_t i, unsigned class)
{
    size_t bytes = 8;
    while (class == DT_TOK_LETTER && n - i >= 8 && bytes == 8) {
        bytes = count_letters(s + i);
        i += bytes;
    }
    for (; i < n; i += bytes)
        if (!(class_at(classes, s + i, &bytes) & class))
            break;
    return i;
}

/* The length of ('s|'t|'re|'ve|'m|'ll|'d) at s, or 0. If case is ignored, the
 * s may also be U+017F.
 */
static size_t match_contraction(const char *s, size_t n, bool any_case)
{
    unsigned fold = any_case ? 0x20 : 0;
    if (s[0] != '\'' || n < 2)
        return 0;
    unsigned a = (unsigned char)s[1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if (n < 3)
        return 0;
    unsigned b = (unsigned char)s[2] | fold;
    if (((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return any_case && !memcmp(s + 1, "\u017f", 2) ? 3 : 0;
}

/* The length of \s+(?!\S)|\s+ at s, whose white space ends at `end`. */
static size_t match_spaces(const char *s, size_t n, size_t end)
{
    size_t last = dt_tok_back(s, end);
    return end < n && last > 0 ? last : end;
}

static size_t gpt2_word(const uint8_t *classes, const char *s, size_t n)
{
    const unsigned kinds = DT_TOK_LETTER | DT_TOK_NUMBER | DT_TOK_OTHER;
    size_t bytes, found = match_contraction(s, n, false);
    if (found)
        return found;
    size_t i = s[0] == ' ' && n > 1;
    unsigned class = class_at(classes, s + i, &bytes);
    if (class & DT_TOK_SPACE)
        return match_spaces(s, n, end_of_class(classes, s, n, 0, DT_TOK_SPACE));
    return end_of_class(classes, s, n, i + bytes, class & kinds);
}

/* The length of \s*[\r\n]+|\s+(?!\S)|\s+ at s. */
static size_t lines_or_spaces(const uint8_t *classes, const char *s, size_t n)
{
    size_t i = 0, line = 0, bytes;
    for (; i < n; i += bytes) {
        unsigned class = class_at(classes, s + i, &bytes);
        if (!(class & DT_TOK_SPACE))
            break;
        if (class & DT_TOK_NEWLINE)
            line = i + bytes;
    }
    return line ? line : match_spaces(s, n, i);
}

static size_t llama3_word(const uint8_t *classes, const char *s, size_t n,
                          int digits)
{
    size_t i, bytes, found = match_contraction(s, n, true);
    if (found)
        return found;
    unsigned next, class = class_at(classes, s, &i);
    if (class & DT_TOK_LETTER)
        return end_of_class(classes, s, n, i, DT_TOK_LETTER);
    if (class & DT_TOK_NUMBER) {
        for (; --digits > 0 && i < n; i += bytes)
            if (!(class_at(classes, s + i, &bytes) & DT_TOK_NUMBER))
                break;
        return i;
    }
    next = i < n ? class_at(classes, s + i, &bytes) : 0;
    if (!(class & DT_TOK_NEWLINE) && next & DT_TOK_LETTER)
        return end_of_class(classes, s, n, i + bytes, DT_TOK_LETTER);
    if (class & DT_TOK_OTHER || (s[0] == ' ' && next & DT_TOK_OTHER)) {
        i = end_of_class(classes, s, n, i, DT_TOK_OTHER);
        return end_of_class(classes, s, n, i, DT_TOK_NEWLINE);
    }
    return lines_or_spaces(classes, s, n);
}

size_t dt_tok_word(enum dt_tok_words words, const uint8_t *classes,
                   const char *s, size_t n)
{
    if (words == DT_TOK_WORDS_GPT2)
        return gpt2_word(classes, s, n);
    return llama3_word(classes, s, n, words == DT_TOK_WORDS_LLAMA3 ? 3 : 1);
}
