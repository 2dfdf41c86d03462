/* SPDX-License-Identifier: Apache-2.0 */
/* model_read.c - reads the model of tokenizer.json: its kind and vocabulary */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/impl.h"

/* Most bytes map to themselves; the other 68 map to U+0100 and up, in order. */
uint32_t dt_tok_byte_char(unsigned char byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7f && byte <= 0xa0)
        return 0x121u + byte - 0x7f;
    return byte == 0xad ? 0x143 : byte;
}

int dt_tok_char_byte(uint32_t code_point)
{
    if (code_point >= 0x100 && code_point <= 0x120)
        return (int)code_point - 0x100;
    if (code_point >= 0x121 && code_point <= 0x142)
        return (int)code_point - 0x121 + 0x7f;
    if (code_point == 0x143)
        return 0xad;
    return code_point < 0x100 &&
                   dt_tok_byte_char((unsigned char)code_point) == code_point
               ? (int)code_point
               : -1;
}

void dt_tok_model_bytes(struct dt_tokenizer *tokenizer)
{
    struct dt_tok_model *model = &tokenizer->model;
    char text[8];
    for (unsigned b = 0; b < 256; b++) {
        size_t n = dt_tok_encode(dt_tok_byte_char((unsigned char)b), text);
        if (!model->byte_level)
            n = (size_t)snprintf(text, sizeof(text), "<0x%02X>", b);
        model->bytes[b] = dt_tok_vocab_model(&tokenizer->vocab, text, n);
    }
}

void dt_tok_model_fini(struct dt_tok_model *model)
{
    dt_tok_map_fini(&model->merges);
    dt_tok_map_fini(&model->chars);
    dt_tok_trie_fini(&model->texts);
    free(model->pairs);
    free(model->scores);
}

/* --- the vocabulary --- */

static bool is_id(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0 &&
           json_integer_value(value) < DT_TOK_IDS_MAX;
}

/* The highest id of the vocabulary and of added tokens, plus one. 0 and err on
 * failure.
 */
static size_t find_id_end(const json_t *vocab, const json_t *added,
                          struct dt_error *err)
{
    char shown[DT_TOK_SHOWN_BYTES];
    const char *text;
    json_t *value;
    size_t end = json_array_size(vocab);
    if (end > DT_TOK_IDS_MAX)
        dt_error_set(err, EX_DATAERR, "model: vocab: %zu tokens, at most %d",
                     end, DT_TOK_IDS_MAX);
    if (end > DT_TOK_IDS_MAX)
        return 0;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        if (!is_id(value)) {
            dt_error_set(err, EX_DATAERR,
                         "model: vocab: \"%s\": expected an id from 0 to %d",
                         dt_tok_shown(text, 60, shown), DT_TOK_IDS_MAX - 1);
            return 0;
        }
        if ((size_t)json_integer_value(value) >= end)
            end = (size_t)json_integer_value(value) + 1;
    }
    dt_tok_added_end(added, &end);
    return end > 0 ? end : 1;
}

/* Old files of BPE models have no type. */
static int read_kind(struct dt_tok_model *model, const json_t *value,
                     struct dt_error *err)
{
    static const char *const names[] = {
        [DT_TOK_BPE] = "BPE",
        [DT_TOK_UNIGRAM] = "Unigram",
    };
    const json_t *type = json_object_get(value, "type");
    if (!type)
        return 0;
    const char *name = dt_tok_json_type(value, err);
    if (!name)
        return -1;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(name, names[i])) {
            model->kind = (enum dt_tok_model_kind)i;
            return 0;
        }
    return dt_tok_json_unsupported(name, "BPE and Unigram", err);
}

/* Adds a key of the vocabulary. It may stand for a text with U+0000. */
static int add_key(struct dt_tok_vocab *vocab, const char *key, int32_t id,
                   struct dt_error *err)
{
    if (!strstr(key, DT_JSON_NUL))
        return dt_tok_vocab_add(vocab, id, key, strlen(key), DT_TOK_MODEL, err);
    char *text = strdup(key), *to = text;
    if (!text)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (const char *s = key; *s; to++) {
        bool nul = strncmp(s, DT_JSON_NUL, strlen(DT_JSON_NUL)) == 0;
        *to = nul ? '\0' : *s;
        s += nul ? strlen(DT_JSON_NUL) : 1;
    }
    int rc = dt_tok_vocab_add(vocab, id, text, (size_t)(to - text),
                              DT_TOK_MODEL, err);
    free(text);
    return rc;
}

static int read_vocab(struct dt_tokenizer *tokenizer, const json_t *vocab,
                      struct dt_error *err)
{
    const char *text;
    json_t *id;
    if (tokenizer->model.kind == DT_TOK_UNIGRAM)
        return dt_tok_unigram_vocab(tokenizer, vocab, err);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        if (add_key(&tokenizer->vocab, text, (int32_t)json_integer_value(id),
                    err) < 0)
            return -1;
    }
    return 0;
}

int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err)
{
    const json_t *added = json_object_get(root, "added_tokens");
    const json_t *model = dt_tok_json_get(root, "model", JSON_OBJECT, err);
    const json_t *vocab = NULL;
    if (!model)
        return -1;
    if (read_kind(&tokenizer->model, model, err) == 0)
        vocab = dt_tok_json_get(
            model, "vocab",
            tokenizer->model.kind == DT_TOK_UNIGRAM ? JSON_ARRAY : JSON_OBJECT,
            err);
    if (!vocab)
        return dt_error_prefix(err, "model");
    size_t id_end = find_id_end(vocab, added, err);
    if (id_end == 0)
        return -1;
    size_t count =
        json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab);
    if (dt_tok_vocab_init(&tokenizer->vocab, id_end,
                          count + json_array_size(added)) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return read_vocab(tokenizer, vocab, err) < 0
               ? dt_error_prefix(err, "model: vocab")
               : 0;
}

/* --- the rest --- */

int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err)
{
    tokenizer->model.unk = -1;
    int rc = tokenizer->model.kind == DT_TOK_UNIGRAM
                 ? dt_tok_unigram_read(tokenizer, model, err)
                 : dt_tok_bpe_read(tokenizer, model, err);
    if (rc < 0)
        return dt_error_prefix(err, "model");
    if (tokenizer->model.byte_level && tokenizer->model.kind != DT_TOK_BPE)
        return dt_error_set(err, EX_DATAERR,
                            "pre_tokenizer: ByteLevel: only with BPE");
    dt_tok_model_bytes(tokenizer);
    return tokenizer->model.kind == DT_TOK_BPE
               ? dt_tok_bpe_finish(tokenizer, err)
               : 0;
}
