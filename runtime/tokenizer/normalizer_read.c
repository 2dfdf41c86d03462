/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer_read.c - reads the normalizer of tokenizer.json */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

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

/* Adds a step. NULL and err: EX_DATAERR, there are too many. */
static struct dt_tok_normalizer *add(struct dt_tokenizer *tokenizer,
                                     enum dt_tok_normalizer_kind kind,
                                     struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer =
        &tokenizer->normalizers[tokenizer->normalizer_count];
    if (tokenizer->normalizer_count == DT_TOK_STEPS_MAX) {
        dt_error_set(err, EX_DATAERR, "more than %d steps", DT_TOK_STEPS_MAX);
        return NULL;
    }
    tokenizer->normalizer_count++;
    normalizer->kind = kind;
    return normalizer;
}

static int add_form(struct dt_tokenizer *tokenizer, enum dt_tok_form form,
                    struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_FORM, err);
    if (!normalizer)
        return -1;
    normalizer->form = form;
    return 0;
}

static int add_letters(struct dt_tokenizer *tokenizer,
                       enum dt_tok_letters letters, struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_LETTERS, err);
    if (!normalizer)
        return -1;
    normalizer->letters = letters;
    return 0;
}

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
    return take_string(&normalizer->pattern, &normalizer->pattern_bytes, text,
                       err) < 0
               ? dt_error_prefix(err, "pattern")
               : 0;
}

static int read_replace(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_REPLACE, err);
    const json_t *content;
    if (!normalizer || read_pattern(normalizer, value, err) < 0 ||
        !(content = dt_tok_json_get(value, "content", JSON_STRING, err)))
        return -1;
    return take_string(&normalizer->content, &normalizer->content_bytes,
                       content, err) < 0
               ? dt_error_prefix(err, "content")
               : 0;
}

static int read_prepend(struct dt_tokenizer *tokenizer, const json_t *value,
                        struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_PREPEND, err);
    const json_t *text;
    if (!normalizer ||
        !(text = dt_tok_json_get(value, "prepend", JSON_STRING, err)))
        return -1;
    return take_string(&normalizer->content, &normalizer->content_bytes, text,
                       err) < 0
               ? dt_error_prefix(err, "prepend")
               : 0;
}

static int read_strip(struct dt_tokenizer *tokenizer, const json_t *value,
                      struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_STRIP, err);
    if (!normalizer || dt_tok_json_flag(value, "strip_left", false,
                                        &normalizer->left, err) < 0)
        return -1;
    return dt_tok_json_flag(value, "strip_right", false, &normalizer->right,
                            err);
}

static int read_charsmap(struct dt_tokenizer *tokenizer, const json_t *value,
                         struct dt_error *err)
{
    struct dt_tok_normalizer *normalizer = add(tokenizer, DT_TOK_CHARSMAP, err);
    const json_t *map;
    if (!normalizer || !(map = dt_tok_json_get(value, "precompiled_charsmap",
                                               JSON_STRING, err)))
        return -1;
    normalizer->map = dt_tok_charsmap_base64(json_string_value(map), err);
    return normalizer->map ? 0 : -1;
}

static int read_nfc(struct dt_tokenizer *tokenizer, const json_t *value,
                    struct dt_error *err)
{
    (void)value;
    return add(tokenizer, DT_TOK_NFC, err) ? 0 : -1;
}

/* Those that have keys of their own, and those that are a name only. */
static const struct {
    const char *type;
    int (*read)(struct dt_tokenizer *tokenizer, const json_t *value,
                struct dt_error *err);
} keyed[] = {
    {"NFC", read_nfc},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Strip", read_strip},
    {"Precompiled", read_charsmap},
};

static const struct {
    const char *type;
    enum dt_tok_form form;
} forms[] = {
    {"NFD", DT_TOK_FORM_D},
    {"NFKC", DT_TOK_FORM_KC},
    {"NFKD", DT_TOK_FORM_KD},
};

static const struct {
    const char *type;
    enum dt_tok_letters letters;
} letters[] = {
    {"Lowercase", DT_TOK_LOWER},
    {"StripAccents", DT_TOK_UNMARK},
    {"Nmt", DT_TOK_NMT},
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static int read_one(void *ctx, const json_t *value, struct dt_error *err)
{
    struct dt_tokenizer *tokenizer = ctx;
    const char *type = dt_tok_json_type(value, err);
    if (!type)
        return -1;
    for (size_t i = 0; i < LENGTH(keyed); i++)
        if (!strcmp(type, keyed[i].type))
            return keyed[i].read(tokenizer, value, err);
    for (size_t i = 0; i < LENGTH(forms); i++)
        if (!strcmp(type, forms[i].type))
            return add_form(tokenizer, forms[i].form, err);
    for (size_t i = 0; i < LENGTH(letters); i++)
        if (!strcmp(type, letters[i].type))
            return add_letters(tokenizer, letters[i].letters, err);
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
