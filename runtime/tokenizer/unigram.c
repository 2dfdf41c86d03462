/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unigram.c - encodes one piece with the tokens whose scores have the best sum
 *
 * For each byte the best path to it is kept (Viterbi), and of two equal paths
 * the one with the longer last token. A character that is not a token costs
 * more than any token; consecutive unknown ones become one token, or their
 * bytes.
 */
#include "config.h"

#include <stdlib.h>

#include "tokenizer/tokenizer_impl.h"

static int reserve_paths(struct dt_tok_work *work, size_t n,
                         struct dt_error *err)
{
    size_t capacity = n + n / 2 + 33;
    if (n + 1 > work->path_capacity) {
        if (!dt_tok_grow(&work->paths, capacity, sizeof(work->paths[0])))
            return dt_error_set(err, EX_OSERR, "out of memory");
        work->path_capacity = capacity;
    }
    for (size_t i = 0; i <= n; i++)
        work->paths[i] =
            (struct dt_tok_path){.score = 0, .begin = DT_TOK_NOWHERE};
    return 0;
}

static bool path_improves(const struct dt_tok_path *path, double score)
{
    return path->begin == DT_TOK_NOWHERE || score > path->score;
}

/* SentencePiece compares sums rounded to float. */
static void path_set(struct dt_tok_path *path, const struct dt_tok_model *model,
                     double score, size_t begin, int32_t id)
{
    path->score = model->narrow ? (double)(float)score : score;
    path->begin = (uint32_t)begin;
    path->id = id;
}

/* Tries the tokens that begin at byte i. Returns whether one of them is the
 * character there, of `bytes`.
 */
static bool try_tokens(struct dt_tok_path *paths,
                       const struct dt_tok_model *model, const char *s,
                       size_t n, size_t i, size_t bytes)
{
    uint64_t node = 0;
    bool single = false;
    for (size_t end = i; end < n;) {
        node = dt_tok_trie_next(&model->texts, node, s[end++]);
        if (node == DT_TOK_NONE)
            break;
        int32_t id = model->texts.values[node];
        if (id < 0)
            continue;
        double score = model->scores[id] + paths[i].score;
        if (path_improves(&paths[end], score))
            path_set(&paths[end], model, score, i, id);
        single |= end == i + bytes;
    }
    return single;
}

static int find_paths(struct dt_tok_path *paths,
                      const struct dt_tok_model *model, const char *s, size_t n,
                      struct dt_error *err)
{
    size_t bytes;
    for (size_t i = 0; i < n; i += bytes) {
        dt_tok_decode(s + i, &bytes);
        if (try_tokens(paths, model, s, n, i, bytes))
            continue;
        double score = model->unk_score + paths[i].score;
        if (model->narrow)
            score = (double)(float)score;
        if (!path_improves(&paths[i + bytes], score))
            continue;
        if (model->unk < 0)
            return dt_error_set(err, EX_DATAERR,
                                "the text has characters that are not in the "
                                "vocabulary, which has no unk_id");
        path_set(&paths[i + bytes], model, score, i, model->unk);
    }
    return 0;
}

/* Collects the tokens of the best path, the last one at symbols[n - 1]. Returns
 * the index of the first.
 */
static size_t collect_path(struct dt_tok_work *work, size_t n, int32_t unk)
{
    struct dt_tok_symbol *symbols = work->symbols;
    size_t first = n, end = n;
    while (end > 0) {
        const struct dt_tok_path *path = &work->paths[end];
        if (first < n && unk >= 0 && path->id == unk &&
            symbols[first].id == unk)
            symbols[first].begin = path->begin;
        else
            symbols[--first] = (struct dt_tok_symbol){
                .id = path->id, .begin = path->begin, .end = (uint32_t)end};
        end = path->begin;
    }
    return first;
}

/* Adds unknown text: as the token that spells all of it, as its bytes, or as
 * unknown.
 */
static void add_unknown(struct dt_tok_work *work,
                        const struct dt_tokenizer *tokenizer, const char *s,
                        size_t begin, size_t end)
{
    const struct dt_tok_model *model = &tokenizer->model;
    int32_t id = model->narrow ? -1
                               : dt_tok_vocab_model(&tokenizer->vocab,
                                                    s + begin, end - begin);
    if (id < 0 && dt_tok_falls_back(model, s + begin, end - begin)) {
        for (size_t i = begin; i < end; i++)
            dt_tok_work_add(work, model->bytes[(unsigned char)s[i]], i, i + 1);
        return;
    }
    dt_tok_work_add(work, id < 0 ? model->unk : id, begin, end);
}

int dt_tok_unigram(const struct dt_tokenizer *tokenizer,
                   struct dt_tok_work *work, const char *s, size_t n,
                   struct dt_error *err)
{
    const struct dt_tok_model *model = &tokenizer->model;
    if (reserve_paths(work, n, err) < 0 ||
        find_paths(work->paths, model, s, n, err) < 0)
        return -1;
    /* writing never overtakes reading: a token has at most as many symbols as
       bytes */
    for (size_t i = collect_path(work, n, model->unk); i < n; i++) {
        const struct dt_tok_symbol symbol = work->symbols[i];
        if (symbol.id == model->unk)
            add_unknown(work, tokenizer, s, symbol.begin, symbol.end);
        else
            dt_tok_work_add(work, symbol.id, symbol.begin, symbol.end);
    }
    return 0;
}
