/* SPDX-License-Identifier: Apache-2.0 */
/*
 * normalizer.c - reads the normalizer of tokenizer.json, and applies it to a
 * text
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

/* --- reading --- */

enum { CONTENT_MAX_BYTES = 255 };

void dt_tok_normalizer_fini(struct dt_tok_normalizer *normalizer)
{
    dt_tok_regex_destroy(normalizer->regex);
    dt_tok_charsmap_destroy(normalizer->map);
    if (normalizer->spm) {
        dt_tok_charsmap_destroy(normalizer->spm->map);
        dt_tok_trie_fini(&normalizer->spm->symbols);
        free(normalizer->spm);
    }
    free(normalizer->pattern);
    free(normalizer->content);
}

/* The pattern of Replace: a text or a regular expression. */
static int read_pattern(struct dt_tok_normalizer *normalizer,
                        const json_t *value, struct dt_error *err)
{
    const json_t *regex =
        json_object_get(json_object_get(value, "pattern"), "Regex");
    if (json_is_string(regex)) {
        normalizer->regex = dt_tok_regex_create(json_string_value(regex),
                                                json_string_length(regex), err);
        return normalizer->regex ? 0 : dt_error_prefix(err, "pattern");
    }
    const json_t *text = dt_tok_json_string_pattern(value, err);
    if (!text)
        return -1;
    return dt_tok_json_copy(text, CONTENT_MAX_BYTES, &normalizer->pattern,
                            &normalizer->pattern_bytes, err) < 0
               ? dt_error_prefix(err, "pattern")
               : 0;
}

static int read_replace(struct dt_tok_normalizer *normalizer,
                        const json_t *value, struct dt_error *err)
{
    const json_t *content;
    if (read_pattern(normalizer, value, err) < 0 ||
        !(content = dt_tok_json_get(value, "content", JSON_STRING, err)))
        return -1;
    return dt_tok_json_copy(content, CONTENT_MAX_BYTES, &normalizer->content,
                            &normalizer->content_bytes, err) < 0
               ? dt_error_prefix(err, "content")
               : 0;
}

static int read_prepend(struct dt_tok_normalizer *normalizer,
                        const json_t *value, struct dt_error *err)
{
    const json_t *text;
    if (!(text = dt_tok_json_get(value, "prepend", JSON_STRING, err)))
        return -1;
    return dt_tok_json_copy(text, CONTENT_MAX_BYTES, &normalizer->content,
                            &normalizer->content_bytes, err) < 0
               ? dt_error_prefix(err, "prepend")
               : 0;
}

static int read_strip(struct dt_tok_normalizer *normalizer, const json_t *value,
                      struct dt_error *err)
{
    if (dt_tok_json_flag(value, "strip_left", false, &normalizer->left, err) <
        0)
        return -1;
    return dt_tok_json_flag(value, "strip_right", false, &normalizer->right,
                            err);
}

static int read_charsmap(struct dt_tok_normalizer *normalizer,
                         const json_t *value, struct dt_error *err)
{
    const json_t *map;
    if (!(map =
              dt_tok_json_get(value, "precompiled_charsmap", JSON_STRING, err)))
        return -1;
    normalizer->map = dt_tok_charsmap_base64(json_string_value(map), err);
    return normalizer->map ? 0 : -1;
}

/* Normalizers by their types; `read` reads their keys. */
static const struct {
    const char *type;
    struct dt_tok_normalizer normalizer;
    int (*read)(struct dt_tok_normalizer *normalizer, const json_t *value,
                struct dt_error *err);
} types[] = {
    {"NFC", {.kind = DT_TOK_NFC}, NULL},
    {"NFD", {.kind = DT_TOK_FORM, .form = DT_TOK_FORM_D}, NULL},
    {"NFKC", {.kind = DT_TOK_FORM, .form = DT_TOK_FORM_KC}, NULL},
    {"NFKD", {.kind = DT_TOK_FORM, .form = DT_TOK_FORM_KD}, NULL},
    {"Lowercase", {.kind = DT_TOK_LETTERS, .letters = DT_TOK_LOWER}, NULL},
    {"StripAccents", {.kind = DT_TOK_LETTERS, .letters = DT_TOK_UNMARK}, NULL},
    {"Nmt", {.kind = DT_TOK_LETTERS, .letters = DT_TOK_NMT}, NULL},
    {"Prepend", {.kind = DT_TOK_PREPEND}, read_prepend},
    {"Replace", {.kind = DT_TOK_REPLACE}, read_replace},
    {"Strip", {.kind = DT_TOK_STRIP}, read_strip},
    {"Precompiled", {.kind = DT_TOK_CHARSMAP}, read_charsmap},
};

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    if (!type)
        return -1;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(type, types[i].type) != 0)
            continue;
        if (tokenizer->normalizer_count == DT_TOK_STEPS_MAX)
            return dt_error_set(err, EX_DATAERR, "more than %d steps",
                                DT_TOK_STEPS_MAX);
        struct dt_tok_normalizer *normalizer =
            &tokenizer->normalizers[tokenizer->normalizer_count++];
        *normalizer = types[i].normalizer;
        return types[i].read ? types[i].read(normalizer, value, err) : 0;
    }
    return dt_tok_json_unsupported(
        type,
        "NFC, NFD, NFKC, NFKD, Precompiled, Replace, Prepend, Strip, "
        "Lowercase, StripAccents, Nmt and Sequence",
        err);
}

int dt_tok_normalizer_read(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err)
{
    return dt_tok_json_parts(value, "normalizers", read_one, tokenizer, err);
}

/* --- normalization of SentencePiece ---
 *
 * From the start of the text on, the longest user-defined symbol is copied, or
 * else the longest entry of the table is replaced, or else a character is
 * copied. Then spaces become marks; with `trim`, runs of them become one, and
 * those at the ends are dropped.
 */

#define MARK_BYTES (sizeof(DT_TOK_MARK) - 1)

/* Finds the longest symbol, entry or character at byte i, and its replacement.
 * Returns its length, or -1.
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

/* Appends s[0..n), which replaces the span's bytes [from, to) or, if `same`, is
 * equal to the bytes that end there.
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

/* Appends the normalized span to a text. -1: EX_DATAERR, the table is damaged.
 */
static int apply_spm(const struct dt_tok_spm *spm,
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

/* --- applying --- */

enum {
    GROWTH_MAX = 16, /* limit of a text's growth, in times its length */
};

/* Finds the next match at or after `from`. Returns 1, 0: none, or -1. */
static int find_pattern(const struct dt_tok_normalizer *normalizer,
                        struct dt_tok_matcher *matcher,
                        const struct dt_tok_span *span, size_t from,
                        size_t *begin, size_t *end, struct dt_error *err)
{
    if (normalizer->regex)
        return dt_tok_regex_find(normalizer->regex, matcher, span->s, span->n,
                                 from, begin, end, err);
    const char *found = memmem(span->s + from, span->n - from,
                               normalizer->pattern, normalizer->pattern_bytes);
    if (!found)
        return 0;
    *begin = (size_t)(found - span->s);
    *end = *begin + normalizer->pattern_bytes;
    return 1;
}

/* Replaces matches. An empty match counts, except directly after another match.
 */
static int replace_pattern(const struct dt_tok_normalizer *normalizer,
                           struct dt_tok_matcher *matcher,
                           const struct dt_tok_span *span,
                           struct dt_tok_text *text, struct dt_error *err)
{
    size_t done = 0, from = 0, begin, end, bytes;
    bool any = false;
    int rc = 0;
    while (from <= span->n &&
           (rc = find_pattern(normalizer, matcher, span, from, &begin, &end,
                              err)) > 0) {
        if (begin == end && any && end == done) {
            bytes = 1;
            if (from < span->n)
                dt_tok_decode(span->s + from, &bytes);
            from += bytes;
            continue;
        }
        dt_tok_text_copy(text, span, done, begin);
        dt_tok_text_add(text, normalizer->content, normalizer->content_bytes,
                        dt_tok_span_begin(span, begin),
                        dt_tok_span_end(span, end > begin ? end - 1 : begin));
        done = from = end;
        any = true;
    }
    dt_tok_text_copy(text, span, done, span->n);
    return rc;
}

/* Changes each character. A text that loses its first one is no longer the
 * start of the whole text for Metaspace.
 */
static void change_letters(enum dt_tok_letters change, struct dt_tok_span *span,
                           struct dt_tok_text *text)
{
    size_t bytes, first = 1;
    uint32_t out[2];
    char s[4];
    for (size_t i = 0; i < span->n; i += bytes) {
        uint32_t cp = dt_tok_decode(span->s + i, &bytes);
        size_t count = dt_tok_letter(change, cp, out);
        if (i == 0)
            first = count;
        for (size_t k = 0; k < count; k++)
            dt_tok_text_add(text, s, dt_tok_encode(out[k], s),
                            dt_tok_span_begin(span, i),
                            dt_tok_span_end(span, i + bytes - 1));
    }
    span->first &= first > 0;
}

/* Removes white space at the ends. */
static void strip_ends(const struct dt_tok_normalizer *normalizer,
                       struct dt_tok_span *span)
{
    const uint8_t *classes = dt_tok_classes();
    size_t begin = 0, end = span->n, bytes, back;
    for (; normalizer->left && begin < end; begin += bytes)
        if (!(classes[dt_tok_decode(span->s + begin, &bytes)] & DT_TOK_SPACE))
            break;
    for (; normalizer->right && end > begin; end = back) {
        back = dt_tok_back(span->s, end);
        if (!(classes[dt_tok_decode(span->s + back, &bytes)] & DT_TOK_SPACE))
            break;
    }
    *span = dt_tok_span_part(span, begin, end);
}

/* Applies one normalizer to *span; the result is in `text`. */
static int apply_normalizer(const struct dt_tok_normalizer *normalizer,
                            struct dt_tok_matcher *matcher,
                            struct dt_tok_text *text, struct dt_tok_span *span,
                            struct dt_error *err)
{
    uint32_t at = dt_tok_span_begin(span, 0);
    int rc = 0;
    switch (normalizer->kind) {
    case DT_TOK_NFC:
        rc = dt_tok_nfc(span, text, err);
        break;
    case DT_TOK_FORM:
        rc = dt_tok_form(normalizer->form, span, text, err);
        break;
    case DT_TOK_PREPEND:
        dt_tok_text_add(text, normalizer->content, normalizer->content_bytes,
                        at, at);
        dt_tok_text_copy(text, span, 0, span->n);
        break;
    case DT_TOK_REPLACE:
        rc = replace_pattern(normalizer, matcher, span, text, err);
        break;
    case DT_TOK_LETTERS:
        change_letters(normalizer->letters, span, text);
        break;
    case DT_TOK_CHARSMAP:
        rc = dt_tok_charsmap_apply(normalizer->map, span, text, err);
        break;
    case DT_TOK_SPM:
        rc = apply_spm(normalizer->spm, span, text, err);
        break;
    case DT_TOK_STRIP:
        strip_ends(normalizer, span);
        return 0;
    }
    return rc < 0 ? -1 : dt_tok_text_span(text, span, err);
}

int dt_tok_normalize(const struct dt_tokenizer *tokenizer,
                     struct dt_tok_matcher *matcher,
                     const struct dt_tok_span *span, bool offsets,
                     struct dt_tok_text buffers[2], struct dt_tok_span *out,
                     struct dt_error *err)
{
    const size_t before = span->n, most = GROWTH_MAX * before + 4096;
    struct dt_tok_text *text = &buffers[0];
    *out = *span;
    for (size_t i = 0; i < tokenizer->normalizer_count && out->n > 0; i++) {
        const struct dt_tok_normalizer *normalizer = &tokenizer->normalizers[i];
        if (normalizer->kind == DT_TOK_NFC &&
            !dt_tok_nfc_needed(out->s, out->n))
            continue;
        if (normalizer->kind != DT_TOK_STRIP)
            dt_tok_text_clear(text, offsets);
        if (apply_normalizer(normalizer, matcher, text, out, err) < 0)
            return -1;
        if (out->n > most)
            return dt_error_set(err, EX_DATAERR,
                                "the normalizer makes %zu bytes of %zu", out->n,
                                before);
        if (normalizer->kind != DT_TOK_STRIP)
            text = text == &buffers[0] ? &buffers[1] : &buffers[0];
    }
    return 0;
}
