/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wordpiece.c - WordPiece, which takes the longest token first, and WordLevel,
 *               which takes the whole piece
 *
 * A piece that cannot be cut into tokens to its end is unknown as a whole.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

enum {
    PREFIX_MAX_BYTES = 255,
    CHARS_MAX = 100, /* of a word, if the file does not say */
};

static int read_prefix(struct dt_tok_model *model, const json_t *value,
                       struct dt_error *err)
{
    const json_t *prefix =
        dt_tok_json_get(value, "continuing_subword_prefix", JSON_STRING, err);
    const json_t *most = json_object_get(value, "max_input_chars_per_word");
    if (!prefix)
        return -1;
    if (json_string_length(prefix) > PREFIX_MAX_BYTES)
        return dt_error_set(err, EX_DATAERR,
                            "continuing_subword_prefix: %zu bytes, at most %d",
                            json_string_length(prefix), PREFIX_MAX_BYTES);
    model->chars_max = CHARS_MAX;
    if (most && (!json_is_integer(most) || json_integer_value(most) < 0))
        return dt_error_set(err, EX_DATAERR,
                            "max_input_chars_per_word: expected a number");
    if (most)
        model->chars_max = (size_t)json_integer_value(most);
    model->prefix = strdup(json_string_value(prefix));
    model->prefix_bytes = json_string_length(prefix);
    return model->prefix ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
}

int dt_tok_wordpiece_read(struct dt_tokenizer *tokenizer, const json_t *value,
                          struct dt_error *err)
{
    struct dt_tok_model *model = &tokenizer->model;
    const json_t *unk = dt_tok_json_get(value, "unk_token", JSON_STRING, err);
    if (!unk ||
        (model->kind == DT_TOK_WORDPIECE && read_prefix(model, value, err) < 0))
        return -1;
    model->unk = dt_tok_vocab_model(&tokenizer->vocab, json_string_value(unk),
                                    json_string_length(unk));
    tokenizer->special[DT_TOKEN_UNK] = model->unk;
    return 0;
}

static int reserve_text(struct dt_tok_work *work, size_t bytes,
                        struct dt_error *err)
{
    if (bytes <= work->text_capacity)
        return 0;
    if (!dt_tok_grow(&work->text, 2 * bytes, 1))
        return dt_error_set(err, EX_OSERR, "out of memory");
    work->text_capacity = 2 * bytes;
    return 0;
}

static bool has_more_chars(const char *s, size_t n, size_t most)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count > most;
}

/* The longest token that s[0..n) begins with, and its length; -1: none. Within
 * a word it has the prefix.
 */
static int32_t longest_token(const struct dt_tokenizer *tokenizer,
                             struct dt_tok_work *work, const char *s, size_t n,
                             bool within, size_t *bytes)
{
    const struct dt_tok_model *model = &tokenizer->model;
    const size_t p = within ? model->prefix_bytes : 0;
    memcpy(work->text, model->prefix, p);
    memcpy(work->text + p, s, n);
    for (size_t end = n; end > 0; end = dt_tok_back(s, end)) {
        int32_t id = dt_tok_vocab_model(&tokenizer->vocab, work->text, p + end);
        *bytes = end;
        if (id >= 0)
            return id;
    }
    return -1;
}

static int add_unknown(struct dt_tok_work *work,
                       const struct dt_tok_model *model, size_t n,
                       struct dt_error *err)
{
    if (model->unk < 0)
        return dt_error_set(err, EX_DATAERR,
                            "the text has a word that is not in the "
                            "vocabulary, which has no unk_token");
    work->count = 0;
    dt_tok_work_add(work, model->unk, 0, n);
    return 0;
}

int dt_tok_wordpiece(const struct dt_tokenizer *tokenizer,
                     struct dt_tok_work *work, const char *s, size_t n,
                     struct dt_error *err)
{
    const struct dt_tok_model *model = &tokenizer->model;
    size_t bytes = 0;
    if (model->kind == DT_TOK_WORDLEVEL) {
        int32_t id = dt_tok_vocab_model(&tokenizer->vocab, s, n);
        if (id < 0)
            return add_unknown(work, model, n, err);
        dt_tok_work_add(work, id, 0, n);
        return 0;
    }
    if (has_more_chars(s, n, model->chars_max))
        return add_unknown(work, model, n, err);
    if (reserve_text(work, model->prefix_bytes + n, err) < 0)
        return -1;
    for (size_t i = 0; i < n; i += bytes) {
        int32_t id =
            longest_token(tokenizer, work, s + i, n - i, i > 0, &bytes);
        if (id < 0)
            return add_unknown(work, model, n, err);
        dt_tok_work_add(work, id, i, i + bytes);
    }
    return 0;
}
