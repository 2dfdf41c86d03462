/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_read.c - reads the model of tokenizer.json: its kind, vocabulary and
 * merges
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/tokenizer_impl.h"

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

/* --- BPE --- */

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

static int collect_chars(struct dt_tokenizer *tokenizer, struct dt_error *err)
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

/* The token that a byte always becomes at first, or -1. */
static int32_t unit_of(const struct dt_tok_model *model, unsigned byte)
{
    const char c = (char)byte;
    if (model->byte_level)
        return model->bytes[byte];
    if (byte >= 0x80)
        return -1;
    const uint64_t id = dt_tok_map_get(&model->chars, byte);
    if (id != DT_TOK_NONE)
        return (int32_t)id;
    return dt_tok_falls_back(model, &c, 1) ? model->bytes[byte] : -1;
}

int dt_tok_bpe_finish(struct dt_tokenizer *tokenizer, struct dt_error *err)
{
    struct dt_tok_model *model = &tokenizer->model;
    const size_t bytes = 256 * 256 * sizeof(model->pairs[0]);
    if (collect_chars(tokenizer, err) < 0)
        return -1;
    if (!(model->pairs = malloc(bytes)))
        return dt_error_set(err, EX_OSERR, "out of memory");
    for (unsigned a = 0; a < 256; a++)
        model->units[a] = unit_of(model, a);
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            model->pairs[a << 8 | b] =
                dt_tok_merge(model, model->units[a], model->units[b]);
    return 0;
}

static int read_unk(struct dt_tokenizer *tokenizer, const json_t *model,
                    struct dt_error *err)
{
    const json_t *unk = json_object_get(model, "unk_token");
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

static int read_bpe(struct dt_tokenizer *tokenizer, const json_t *model,
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
        read_merges(tokenizer, model, err) < 0)
        return -1;
    if (m->byte_level && m->byte_fallback)
        return dt_error_set(err, EX_DATAERR,
                            "byte_fallback: not with ByteLevel");
    return 0;
}

/* --- Unigram --- */

static const double unk_penalty = 10; /* below the lowest score */

static int read_unigram_vocab(struct dt_tokenizer *tokenizer,
                              const json_t *vocab, struct dt_error *err)
{
    struct dt_tok_model *model = &tokenizer->model;
    double least = 0;
    json_t *item;
    size_t id;
    model->scores = calloc(json_array_size(vocab) + 1, sizeof(double));
    if (!model->scores || dt_tok_trie_init(&model->texts) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    json_array_foreach(vocab, id, item)
    {
        const json_t *text = json_array_get(item, 0);
        const json_t *score = json_array_get(item, 1);
        if (json_array_size(item) != 2 || !json_is_string(text) ||
            !json_is_number(score))
            return dt_error_set(err, EX_DATAERR,
                                "[%zu]: expected [TEXT, SCORE]", id);
        const char *s = json_string_value(text);
        size_t n = json_string_length(text);
        if (dt_tok_vocab_add(&tokenizer->vocab, (int32_t)id, s, n, DT_TOK_MODEL,
                             err) < 0)
            return dt_error_prefix(err, "[%zu]", id);
        if (n > 0 && dt_tok_trie_add(&model->texts, s, n, (int32_t)id) < 0)
            return dt_error_set(err, EX_OSERR, "out of memory");
        model->scores[id] = json_number_value(score);
        if (id == 0 || model->scores[id] < least)
            least = model->scores[id];
    }
    model->unk_score = least - unk_penalty;
    return 0;
}

static int read_unigram(struct dt_tokenizer *tokenizer, const json_t *model,
                        struct dt_error *err)
{
    const json_t *unk = json_object_get(model, "unk_id");
    size_t count = json_array_size(json_object_get(model, "vocab"));
    if (dt_tok_json_flag(model, "byte_fallback", false,
                         &tokenizer->model.byte_fallback, err) < 0)
        return -1;
    if (!unk || json_is_null(unk))
        return 0;
    if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
        (size_t)json_integer_value(unk) >= count)
        return dt_error_set(err, EX_DATAERR,
                            "unk_id: expected an id of the vocabulary");
    tokenizer->model.unk = (int32_t)json_integer_value(unk);
    tokenizer->special[DT_TOKEN_UNK] = tokenizer->model.unk;
    return 0;
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

/* Reads the kind; old files of BPE models have no type. */
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

/* Adds a key of the vocabulary. It may be the spelling of a text with U+0000.
 */
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
        return read_unigram_vocab(tokenizer, vocab, err);
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
                 ? read_unigram(tokenizer, model, err)
                 : read_bpe(tokenizer, model, err);
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
