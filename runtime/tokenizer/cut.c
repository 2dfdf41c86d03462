/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - finds where a long text may be cut without changing its tokens */
#include "config.h"

#include <string.h>

#include "tokenizer/impl.h"

/* Whether tokens of this trie depend on the text around them. */
static bool looks_around(const struct dt_tok_added *added)
{
    for (size_t i = 0; i < added->count; i++) {
        const struct dt_tok_leaf *leaf = &added->leaves[i];
        if (leaf->single_word || leaf->lstrip || leaf->rstrip)
            return true;
    }
    return false;
}

/* Whether an added token has a newline, so that a cut might split it. */
static bool spells_newline(const struct dt_tok_vocab *vocab)
{
    for (size_t id = 0; id < vocab->count; id++)
        if (vocab->entries[id].flags & DT_TOK_ADDED &&
            memchr(dt_tok_vocab_text(vocab, id), '\n',
                   vocab->entries[id].bytes))
            return true;
    return false;
}

/* Whether a text may be cut between a letter and a newline. In the known
 * patterns, such a letter ends its piece, and nothing before it depends on
 * later text; normal form C never joins the two.
 */
static bool may_cut(const struct dt_tokenizer *t)
{
    for (size_t i = 0; i < t->normalizer_count; i++)
        if (t->normalizers[i].kind != DT_TOK_NFC)
            return false;
    return t->step_count == 1 && t->steps[0].kind == DT_TOK_STEP_WORDS &&
           t->after_count == 0 && !spells_newline(&t->vocab) &&
           !looks_around(&t->raw) && !looks_around(&t->normalized);
}

size_t dt_tokenizer_cut(const struct dt_tokenizer *tokenizer, const char *text,
                        size_t bytes, size_t from)
{
    if (from == 0 || from >= bytes || !may_cut(tokenizer))
        return bytes;
    const char *lf = text + from;
    while ((lf = memchr(lf, '\n', (size_t)(text + bytes - lf))) != NULL) {
        char before = lf[-1] | 0x20;
        if (before >= 'a' && before <= 'z')
            return (size_t)(lf - text);
        lf++;
    }
    return bytes;
}
