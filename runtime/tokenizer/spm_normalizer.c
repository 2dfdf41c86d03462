/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spm_normalizer.c - normalizes text as SentencePiece does
 *
 * From the start of the text, the longest user-defined symbol stays as it is,
 * else the longest entry of the table is replaced, else a character is copied.
 * Then spaces become marks; with `trim`, runs of them become one, and those at
 * the ends are dropped.
 */
#include "config.h"

#include <string.h>

#include "tokenizer/impl.h"

#define MARK_BYTES (sizeof(DT_TOK_MARK) - 1)

/* What the text from byte i on begins with, and what that becomes. Returns its
 * length, or -1.
 */
static int next_part(const struct dt_tok_spm *spm,
                     const struct dt_tok_span *span, size_t i, const char **to,
                     size_t *bytes, struct dt_error *err)
{
    const char *s = span->s + i;
    const size_t n = span->n - i;
    *to = s;
    if (dt_tok_trie_longest(&spm->symbols, s, n, bytes) >= 0)
        return (int)*bytes;
    int found =
        spm->map ? dt_tok_charsmap_prefix(spm->map, s, n, to, bytes, err) : 0;
    if (found != 0)
        return found;
    dt_tok_decode(s, bytes);
    return (int)*bytes;
}

static void put_space(const struct dt_tok_spm *spm, struct dt_tok_text *text,
                      uint32_t begin, uint32_t end)
{
    if (spm->escape)
        dt_tok_text_add(text, DT_TOK_MARK, MARK_BYTES, begin, end);
    else
        dt_tok_text_add(text, " ", 1, begin, end);
}

/* Appends s[0..n), which comes from the span's bytes [from, to), or is `same`
 * as those that end there.
 */
static void put_part(const struct dt_tok_spm *spm,
                     const struct dt_tok_span *span, size_t from, size_t to,
                     bool same, const char *s, size_t n,
                     struct dt_tok_text *text)
{
    for (size_t i = 0; i < n; i++) {
        size_t first = same ? to - n + i : from;
        size_t last = same ? first : to - 1;
        uint32_t begin = dt_tok_span_begin(span, first);
        uint32_t end = dt_tok_span_end(span, last);
        if (s[i] == ' ')
            put_space(spm, text, begin, end);
        else
            dt_tok_text_add(text, s + i, 1, begin, end);
    }
}

static void trim_end(const struct dt_tok_spm *spm, struct dt_tok_text *text)
{
    const char *space = spm->escape ? DT_TOK_MARK : " ";
    const size_t n = strlen(space);
    while (text->count >= n &&
           memcmp(text->bytes + text->count - n, space, n) == 0)
        text->count -= n;
}

/* The end of the spaces at the start, or the length of the text. -1: damaged.
 */
static long skip_spaces(const struct dt_tok_spm *spm,
                        const struct dt_tok_span *span, struct dt_error *err)
{
    const char *to;
    size_t bytes, i = 0;
    while (spm->trim && i < span->n) {
        int n = next_part(spm, span, i, &to, &bytes, err);
        if (n < 0)
            return -1;
        if (bytes != 1 || to[0] != ' ')
            break;
        i += (size_t)n;
    }
    return (long)i;
}

int dt_tok_spm_apply(const struct dt_tok_spm *spm,
                     const struct dt_tok_span *span, struct dt_tok_text *text,
                     struct dt_error *err)
{
    bool after_space = spm->trim;
    const bool dummy =
        spm->dummy_prefix && (span->first || spm->prefix_each || spm->suffix);
    const char *to;
    size_t bytes;
    long start = skip_spaces(spm, span, err);
    if (start < 0 || (size_t)start == span->n)
        return start < 0 ? -1 : 0;
    if (dummy && !spm->suffix)
        put_space(spm, text, dt_tok_span_begin(span, (size_t)start),
                  dt_tok_span_begin(span, (size_t)start));
    for (size_t i = (size_t)start; i < span->n;) {
        int n = next_part(spm, span, i, &to, &bytes, err);
        if (n < 0)
            return -1;
        const size_t end = i + (size_t)n;
        const bool same = to == span->s + i;
        for (; after_space && bytes > 0 && *to == ' '; bytes--)
            to++;
        put_part(spm, span, i, end, same, to, bytes, text);
        if (bytes > 0)
            after_space = spm->trim && to[bytes - 1] == ' ';
        i = end;
    }
    if (spm->trim)
        trim_end(spm, text);
    if (dummy && spm->suffix)
        put_space(spm, text, dt_tok_span_end(span, span->n - 1),
                  dt_tok_span_end(span, span->n - 1));
    return 0;
}
