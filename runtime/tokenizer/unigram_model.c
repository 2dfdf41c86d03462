/* SPDX-License-Identifier: Apache-2.0 */
/* unigram_model.c - reads the Unigram model of tokenizer.json: tokens, scores
 */
#include "config.h"

#include <stdlib.h>

#include "tokenizer/impl.h"

static const double unk_penalty = 10; /* below the lowest score */

int dt_tok_unigram_vocab(struct dt_tokenizer *tokenizer, const json_t *vocab,
                         struct dt_error *err)
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

int dt_tok_unigram_read(struct dt_tokenizer *tokenizer, const json_t *model,
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
