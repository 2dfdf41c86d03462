/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer.c - applies the normalizer to a text */
#include "config.h"

#include <string.h>

#include "tokenizer/impl.h"

enum {
    GROWTH_MAX = 16, /* how many times its length a text may grow */
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

/* An empty match counts, except directly behind another match. */
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

/* Changes each character. A text whose first one is removed does not start the
 * whole text any more, as Metaspace sees it.
 */
static void change_letters(enum dt_tok_letters letters,
                           struct dt_tok_span *span, struct dt_tok_text *text)
{
    size_t bytes, first = 1;
    uint32_t out[2];
    char s[4];
    for (size_t i = 0; i < span->n; i += bytes) {
        uint32_t cp = dt_tok_decode(span->s + i, &bytes);
        size_t count = dt_tok_letter(letters, cp, out);
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

/* Applies one normalizer to *span, which becomes the result in `text`. */
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
        rc = dt_tok_spm_apply(normalizer->spm, span, text, err);
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
