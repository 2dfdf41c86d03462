/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_model.c - reads the BPE model of tokenizer.json: vocabulary and merges */
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

/* The highest id of the vocabulary and of added tokens, plus one. 0 and err on
 * failure.
 */
static size_t find_id_end(const json_t *vocab, const json_t *added,
                          struct dt_error *err)
{
    char shown[DT_TOK_SHOWN_BYTES];
    const char *text;
    json_t *value;
    json_int_t most = 0;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)vocab, text, value)
    {
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= DT_TOK_IDS_MAX) {
            dt_error_set(err, EX_DATAERR,
                         "model: vocab: \"%s\": expected an id from 0 to %d",
                         dt_tok_shown(text, 60, shown), DT_TOK_IDS_MAX - 1);
            return 0;
        }
        most = id > most ? id : most;
    }
    json_array_foreach(added, i, value)
    {
        json_int_t id = json_integer_value(json_object_get(value, "id"));
        /* dt_tok_added_read reports ids that are out of range. */
        if (id > most && id < DT_TOK_IDS_MAX)
            most = id;
    }
    return (size_t)most + 1;
}

/* Refuses Unigram, WordPiece and WordLevel, whose vocabularies have other
 * forms. Old files of BPE models have no type.
 */
static int check_type(const json_t *model, struct dt_error *err)
{
    const json_t *type = json_object_get(model, "type");
    const char *name = json_is_string(type) ? json_string_value(type) : "?";
    char shown[DT_TOK_SHOWN_BYTES];
    if (!type || strcmp(name, "BPE") == 0)
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "type: \"%s\" is not supported: only BPE is, which "
                        "the models of GPT-2, Llama, Mistral and Qwen have",
                        dt_tok_shown(name, 40, shown));
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

int dt_tok_vocab_read(struct dt_tokenizer *tokenizer, const json_t *root,
                      struct dt_error *err)
{
    const json_t *added = json_object_get(root, "added_tokens");
    const json_t *model = dt_tok_json_get(root, "model", JSON_OBJECT, err);
    const char *text;
    json_t *id;
    if (!model)
        return -1;
    const json_t *vocab =
        check_type(model, err) == 0
            ? dt_tok_json_get(model, "vocab", JSON_OBJECT, err)
            : NULL;
    if (!vocab)
        return dt_error_prefix(err, "model");
    size_t id_end = find_id_end(vocab, added, err);
    if (id_end == 0)
        return -1;
    if (dt_tok_vocab_init(&tokenizer->vocab, id_end,
                          json_object_size(vocab) + json_array_size(added)) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id)
    {
        if (add_key(&tokenizer->vocab, text, (int32_t)json_integer_value(id),
                    err) < 0)
            return dt_error_prefix(err, "model: vocab");
    }
    return 0;
}

/* Splits a merge, "a b" or ["a", "b"], into its two texts. -1: it is neither.
 */
static int split_merge(const json_t *merge, const char *text[2],
                       size_t bytes[2])
{
    if (json_is_string(merge)) {
        const char *space =
            memchr(json_string_value(merge), ' ', json_string_length(merge));
        if (!space)
            return -1;
        text[0] = json_string_value(merge);
        bytes[0] = (size_t)(space - text[0]);
        text[1] = space + 1;
        bytes[1] = json_string_length(merge) - bytes[0] - 1;
        return memchr(text[1], ' ', bytes[1]) ? -1 : 0;
    }
    if (json_array_size(merge) != 2)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        text[i] = json_string_value(json_array_get(merge, i));
        bytes[i] = json_string_length(json_array_get(merge, i));
        if (!text[i])
            return -1;
    }
    return 0;
}

/* Reads the merge of this rank into the table. */
static int read_merge(struct dt_tokenizer *tokenizer, const json_t *merge,
                      size_t rank, char **joined, struct dt_error *err)
{
    const struct dt_tok_vocab *vocab = &tokenizer->vocab;
    const char *text[2];
    char shown[DT_TOK_SHOWN_BYTES];
    size_t bytes[2];
    int32_t ids[3];
    if (split_merge(merge, text, bytes) < 0)
        return dt_error_set(err, EX_DATAERR,
                            "expected \"A B\" or [\"A\", \"B\"]");
    char *grown = realloc(*joined, bytes[0] + bytes[1] + 1);
    if (!grown)
        return dt_error_set(err, EX_OSERR, "out of memory");
    *joined = grown;
    memcpy(grown, text[0], bytes[0]);
    memcpy(grown + bytes[0], text[1], bytes[1]);
    grown[bytes[0] + bytes[1]] = '\0';
    ids[0] = dt_tok_vocab_model(vocab, text[0], bytes[0]);
    ids[1] = dt_tok_vocab_model(vocab, text[1], bytes[1]);
    ids[2] = dt_tok_vocab_model(vocab, grown, bytes[0] + bytes[1]);
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0)
        return dt_error_set(err, EX_DATAERR,
                            "%s of \"%s\" is not in the "
                            "vocabulary",
                            ids[2] < 0 ? "the result" : "a half",
                            dt_tok_shown(grown, 60, shown));
    return dt_tok_map_put(&tokenizer->model.merges,
                          (uint64_t)ids[0] << 32 | (uint64_t)ids[1],
                          (uint64_t)rank << 32 | (uint64_t)ids[2]) < 0
               ? dt_error_set(err, EX_OSERR, "out of memory")
               : 0;
}

static int read_merges(struct dt_tokenizer *tokenizer, const json_t *model,
                       struct dt_error *err)
{
    const json_t *merges = dt_tok_json_get(model, "merges", JSON_ARRAY, err);
    char *joined = NULL;
    json_t *merge;
    size_t rank;
    int rc = 0;
    if (!merges)
        return -1;
    if (dt_tok_map_init(&tokenizer->model.merges, json_array_size(merges)) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    json_array_foreach(merges, rank, merge)
    {
        if (rc == 0 && read_merge(tokenizer, merge, rank, &joined, err) < 0)
            rc = dt_error_prefix(err, "merges[%zu]", rank);
    }
    free(joined);
    return rc;
}

/* Refuses options that change merging and are not supported. */
static int check_options(const json_t *model, struct dt_error *err)
{
    static const char *const affixes[] = {"continuing_subword_prefix",
                                          "end_of_word_suffix"};
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return dt_error_set(err, EX_DATAERR,
                            "dropout: expected null: the same "
                            "text must give the same tokens");
    for (size_t i = 0; i < 2; i++) {
        const json_t *affix = json_object_get(model, affixes[i]);
        if (affix && !json_is_null(affix) && json_string_length(affix) > 0)
            return dt_error_set(err, EX_DATAERR, "%s: not supported",
                                affixes[i]);
    }
    return 0;
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

/* Collects the tokens of single characters, into which text is cut first. */
static int read_chars(struct dt_tokenizer *tokenizer, struct dt_error *err)
{
    struct dt_tok_map *chars = &tokenizer->model.chars;
    if (dt_tok_map_init(chars, 0) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t id = 0; id < tokenizer->vocab.count; id++) {
        const struct dt_tok_entry *entry = &tokenizer->vocab.entries[id];
        const char *text = dt_tok_vocab_text(&tokenizer->vocab, id);
        size_t bytes;
        if (!(entry->flags & DT_TOK_MODEL) || entry->bytes == 0)
            continue;
        uint32_t code_point = dt_tok_decode(text, &bytes);
        if (bytes == entry->bytes && dt_tok_map_put(chars, code_point, id) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
    }
    return 0;
}

static int read_unk(struct dt_tokenizer *tokenizer, const json_t *model,
                    struct dt_error *err)
{
    const json_t *unk = json_object_get(model, "unk_token");
    tokenizer->model.unk = -1;
    if (!unk || json_is_null(unk))
        return 0;
    if (json_is_string(unk))
        tokenizer->model.unk = dt_tok_vocab_model(
            &tokenizer->vocab, json_string_value(unk), json_string_length(unk));
    tokenizer->special[DT_TOKEN_UNK] = tokenizer->model.unk;
    return tokenizer->model.unk >= 0
               ? 0
               : dt_error_set(err, EX_DATAERR,
                              "unk_token: expected a text of the vocabulary");
}

int dt_tok_model_read(struct dt_tokenizer *tokenizer, const json_t *model,
                      struct dt_error *err)
{
    struct dt_tok_model *m = &tokenizer->model;
    if (check_options(model, err) < 0 ||
        dt_tok_json_flag(model, "byte_fallback", false, &m->byte_fallback,
                         err) < 0 ||
        dt_tok_json_flag(model, "fuse_unk", false, &m->fuse_unk, err) < 0 ||
        dt_tok_json_flag(model, "ignore_merges", false, &m->ignore_merges,
                         err) < 0 ||
        read_unk(tokenizer, model, err) < 0 ||
        read_merges(tokenizer, model, err) < 0 ||
        read_chars(tokenizer, err) < 0)
        return dt_error_prefix(err, "model");
    if (m->byte_level && m->byte_fallback)
        return dt_error_set(err, EX_DATAERR,
                            "model: byte_fallback: not with ByteLevel");
    dt_tok_model_bytes(tokenizer);
    return 0;
}
