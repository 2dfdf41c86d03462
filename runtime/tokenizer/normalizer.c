/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer.c - reads the normalizer of tokenizer.json and applies it */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

enum {
    CONTENT_MAX_BYTES = 255,
    GROWTH_MAX = 16, /* how many times its length a text may grow */
};

static int take_string(char **to, size_t *bytes, const json_t *text,
                       struct dt_error *err)
{
    if (json_string_length(text) > CONTENT_MAX_BYTES)
        return dt_error_set(err, EX_DATAERR, "%zu bytes, at most %d",
                            json_string_length(text), CONTENT_MAX_BYTES);
    *bytes = json_string_length(text);
    *to = malloc(*bytes + 1);
    if (!*to)
        return dt_error_set(err, EX_OSERR, "out of memory");
    memcpy(*to, json_string_value(text), *bytes + 1);
    return 0;
}

static int read_replace(struct dt_tok_normalizer *normalizer,
                        const json_t *value, struct dt_error *err)
{
    const json_t *pattern = dt_tok_json_string_pattern(value, err);
    const json_t *content =
        pattern ? dt_tok_json_get(value, "content", JSON_STRING, err) : NULL;
    if (!content)
        return -1;
    normalizer->kind = DT_TOK_REPLACE;
    if (take_string(&normalizer->pattern, &normalizer->pattern_bytes, pattern,
                    err) < 0)
        return dt_error_prefix(err, "pattern");
    if (take_string(&normalizer->content, &normalizer->content_bytes, content,
                    err) < 0)
        return dt_error_prefix(err, "content");
    return 0;
}

static int read_prepend(struct dt_tok_normalizer *normalizer,
                        const json_t *value, struct dt_error *err)
{
    const json_t *text = dt_tok_json_get(value, "prepend", JSON_STRING, err);
    normalizer->kind = DT_TOK_PREPEND;
    if (!text)
        return -1;
    if (take_string(&normalizer->content, &normalizer->content_bytes, text,
                    err) < 0)
        return dt_error_prefix(err, "prepend");
    return 0;
}

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    struct dt_tok_normalizer *normalizer;
    if (!type)
        return -1;
    if (tokenizer->normalizer_count == DT_TOK_STEPS_MAX)
        return dt_error_set(err, EX_DATAERR, "more than %d", DT_TOK_STEPS_MAX);
    normalizer = &tokenizer->normalizers[tokenizer->normalizer_count++];
    if (!strcmp(type, "NFC"))
        return 0;
    if (!strcmp(type, "Prepend"))
        return read_prepend(normalizer, value, err);
    if (!strcmp(type, "Replace"))
        return read_replace(normalizer, value, err);
    return dt_tok_json_unsupported(type, "NFC, Prepend, Replace and Sequence",
                                   err);
}

int dt_tok_normalizer_read(struct dt_tokenizer *tokenizer, const json_t *value,
                           struct dt_error *err)
{
    return dt_tok_json_parts(value, "normalizers", read_one, tokenizer, err);
}

static void replace_pattern(const struct dt_tok_normalizer *normalizer,
                            const struct dt_tok_span *span,
                            struct dt_tok_text *text)
{
    size_t done = 0, m = normalizer->pattern_bytes;
    const char *found;
    while ((found = memmem(span->s + done, span->n - done, normalizer->pattern,
                           m))) {
        size_t at = (size_t)(found - span->s);
        dt_tok_text_copy(text, span, done, at);
        dt_tok_text_add(text, normalizer->content, normalizer->content_bytes,
                        dt_tok_span_begin(span, at),
                        dt_tok_span_end(span, at + m - 1));
        done = at + m;
    }
    dt_tok_text_copy(text, span, done, span->n);
}

/* Applies one normalizer to *span, which becomes the result in `text`. */
static int apply_normalizer(const struct dt_tok_normalizer *normalizer,
                            struct dt_tok_text *text, struct dt_tok_span *span,
                            struct dt_error *err)
{
    uint32_t at = dt_tok_span_begin(span, 0);
    switch (normalizer->kind) {
    case DT_TOK_NFC:
        if (dt_tok_nfc(span, text, err) < 0)
            return -1;
        break;
    case DT_TOK_PREPEND:
        dt_tok_text_add(text, normalizer->content, normalizer->content_bytes,
                        at, at);
        dt_tok_text_copy(text, span, 0, span->n);
        break;
    case DT_TOK_REPLACE:
        replace_pattern(normalizer, span, text);
        break;
    }
    return dt_tok_text_span(text, span, err);
}

int dt_tok_normalize(const struct dt_tokenizer *tokenizer,
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
        dt_tok_text_clear(text, offsets);
        if (apply_normalizer(normalizer, text, out, err) < 0)
            return -1;
        if (out->n > most)
            return dt_error_set(err, EX_DATAERR,
                                "the normalizer makes %zu bytes of %zu", out->n,
                                before);
        text = text == &buffers[0] ? &buffers[1] : &buffers[0];
    }
    return 0;
}
