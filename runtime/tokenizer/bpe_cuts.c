/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe_cuts.c - finds where text may be cut without changing its merges
 *
 * Where no pre-tokenizer cuts it, a text is one piece, which takes long to
 * merge and is not met again. But if no merge joins what ends with one
 * character to what begins with another, these two may be cut apart: whatever
 * is merged, what is before the cut still ends with the one, and what is behind
 * it begins with the other.
 */
#include "config.h"

#include <string.h>

#include "tokenizer/impl.h"

/* Whether n bytes at s, the end or the start of a token, are a token that
 * stands for other text: an unknown character, or a byte.
 */
static bool stands_for_others(const struct dt_tokenizer *t, const char *s,
                              size_t n)
{
    const int32_t id = dt_tok_vocab_model(&t->vocab, s, n);
    return id >= 0 && (id == t->model.unk ||
                       (t->model.byte_fallback && n == sizeof("<0x00>") - 1 &&
                        memcmp(s, "<0x", 3) == 0));
}

/* Forbids the cuts that a merge crosses. False: its halves do not say between
 * which characters it is.
 */
static bool forbid_cut(struct dt_tokenizer *t, int32_t left, int32_t right)
{
    const struct dt_tok_vocab *vocab = &t->vocab;
    const char *a = dt_tok_vocab_text(vocab, (size_t)left);
    const char *b = dt_tok_vocab_text(vocab, (size_t)right);
    const size_t n = vocab->entries[left].bytes;
    const size_t m = vocab->entries[right].bytes;
    const size_t others[] = {
        sizeof("<0x00>") - 1,
        t->model.unk < 0 ? 0 : vocab->entries[t->model.unk].bytes};
    size_t bytes;
    for (size_t i = 0; i < 2; i++)
        if ((n >= others[i] &&
             stands_for_others(t, a + n - others[i], others[i])) ||
            (m >= others[i] && stands_for_others(t, b, others[i])))
            return false;
    if (n == 0 || m == 0)
        return false;
    const unsigned before =
        dt_tok_cut_class(dt_tok_decode(a + dt_tok_back(a, n), &bytes));
    const unsigned behind = dt_tok_cut_class(dt_tok_decode(b, &bytes));
    t->model.cuts[before][behind / 64] &= ~(UINT64_C(1) << behind % 64);
    return true;
}

/* Whether a class is a single character of the vocabulary. */
static bool is_char(const struct dt_tok_model *model, unsigned class)
{
    return class <= DT_TOK_CUT_MARK &&
           dt_tok_map_get(
               &model->chars,
               class < DT_TOK_CUT_MARK ? class : DT_TOK_CUT_MARK_CHAR) !=
               DT_TOK_NONE;
}

/* Whether text that is not in the vocabulary always becomes bytes. */
static bool knows_all(const struct dt_tok_model *model)
{
    for (size_t byte = 0; model->byte_fallback && byte < 256; byte++)
        if (model->bytes[byte] < 0)
            return false;
    return model->byte_fallback;
}

/* Allows the cuts at which no unknown character is held back: it may be one
 * token with others, come behind bytes that follow it, or be left out, so that
 * its neighbors meet.
 */
static void allow_cuts(struct dt_tok_model *model)
{
    const bool all = knows_all(model);
    for (unsigned a = 0; a < DT_TOK_CUT_CLASSES; a++)
        for (unsigned b = 0; b < DT_TOK_CUT_CLASSES; b++) {
            const bool first = is_char(model, a), second = is_char(model, b);
            if (all || (first && second) ||
                (model->unk >= 0 && (first || second)))
                model->cuts[a][b / 64] |= UINT64_C(1) << b % 64;
        }
}

bool dt_tok_bpe_cuts(struct dt_tokenizer *tokenizer)
{
    const struct dt_tok_model *model = &tokenizer->model;
    allow_cuts(&tokenizer->model);
    for (size_t i = 0; i <= model->merges.mask; i++) {
        const struct dt_tok_slot *slot = &model->merges.slots[i];
        if (slot->value != DT_TOK_NONE &&
            !forbid_cut(tokenizer, (int32_t)(slot->key >> 32),
                        (int32_t)slot->key))
            return false;
    }
    return true;
}
