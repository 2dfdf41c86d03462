/* SPDX-License-Identifier: Apache-2.0 */
/* bpe_model.c - reads the BPE model of tokenizer.json: vocabulary and merges */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

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

/* The token that a byte always becomes first, or -1. */
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

int dt_tok_bpe_read(struct dt_tokenizer *tokenizer, const json_t *model,
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
