/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c - encodes text to tokens, and finds places to cut a long text */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tokenizer/tokenizer_impl.h"

struct dt_encoder *dt_encoder_create(const struct dt_tokenizer *tokenizer,
                                     struct dt_error *err)
{
    struct dt_encoder *e = calloc(1, sizeof(*e));
    if (e) {
        e->tokenizer = tokenizer;
        e->classes = dt_tok_classes();
        e->matcher = dt_tok_matcher_create();
        e->work = dt_tok_work_create();
    }
    if (e && e->matcher && e->work)
        return e;
    dt_error_set(err, EX_OSERR, "out of memory");
    dt_encoder_destroy(e);
    return NULL;
}

void dt_encoder_destroy(struct dt_encoder *encoder)
{
    if (!encoder)
        return;
    dt_tok_matcher_destroy(encoder->matcher);
    dt_tok_work_destroy(encoder->work);
    dt_tok_text_fini(&encoder->repaired);
    for (size_t i = 0; i < 2; i++)
        dt_tok_text_fini(&encoder->normal[i]);
    for (size_t i = 0; i <= DT_TOK_STEPS_MAX; i++)
        dt_tok_text_fini(&encoder->stepped[i]);
    free(encoder);
}

/* Replaces each malformed part of the span by U+FFFD; the first one is at
 * `bad`.
 */
static int repair_utf8(struct dt_encoder *e, size_t bad,
                       struct dt_tok_span *span)
{
    struct dt_tok_text *text = &e->repaired;
    dt_tok_text_clear(text, e->flags & DT_ENCODE_OFFSETS);
    dt_tok_text_copy(text, span, 0, bad);
    for (size_t i = bad; i < span->n;) {
        int n =
            dt_tok_sequence((const unsigned char *)span->s + i, span->n - i);
        size_t end = n == 0 ? span->n : i + (size_t)(n < 0 ? -n : n);
        if (n > 0)
            dt_tok_text_copy(text, span, i, end);
        else
            dt_tok_text_add(text, "\uFFFD", 3, (uint32_t)i, (uint32_t)end);
        i = end;
    }
    return dt_tok_text_span(text, span, e->err);
}

static int cut_text(struct dt_encoder *e, const struct dt_tok_span *part)
{
    return dt_tok_split(e, 0, part);
}

/* Normalizes and encodes a part of the raw text between added tokens. */
static int normalize_text(struct dt_encoder *e, const struct dt_tok_span *part)
{
    struct dt_tok_span span;
    if (dt_tok_normalize(e->tokenizer, e->matcher, part,
                         e->flags & DT_ENCODE_OFFSETS, e->normal, &span,
                         e->err) < 0)
        return -1;
    return dt_tok_added_split(&e->tokenizer->normalized, e, &span, cut_text);
}

/* Emits tokens of the post-processor, which cover no bytes, at offset `at`. */
static int emit_post(struct dt_encoder *e, const int32_t *ids, size_t count,
                     uint32_t at)
{
    struct dt_tok_span nothing = {.at = at};
    if (!(e->flags & DT_ENCODE_POST))
        return 0;
    if (dt_tok_reserve(e, count) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        dt_tok_emit(e, ids[i], &nothing, 0, 0);
    return 0;
}

/* Empties *tokens. Frees the arrays if they were made with other flags, since
 * only requested offsets may be there.
 */
static void reset_tokens(struct dt_tokens *tokens, unsigned flags)
{
    if (!(flags & DT_ENCODE_OFFSETS) != !tokens->begin)
        dt_tokens_fini(tokens);
    tokens->count = 0;
}

static int encode(struct dt_encoder *encoder, const char *text, size_t bytes,
                  unsigned flags, struct dt_tokens *tokens,
                  struct dt_error *err)
{
    const struct dt_tokenizer *t = encoder->tokenizer;
    struct dt_tok_span span = {.s = text, .n = bytes, .first = true};
    if (bytes > INT32_MAX)
        return dt_error_set(err, EX_DATAERR,
                            "a text of %zu bytes: at most %d can be encoded",
                            bytes, INT32_MAX);
    reset_tokens(tokens, flags);
    encoder->flags = flags;
    encoder->tokens = tokens;
    encoder->err = err;
    size_t good = dt_utf8_check(text, bytes);
    if ((good < bytes && repair_utf8(encoder, good, &span) < 0) ||
        emit_post(encoder, t->before, t->before_count, 0) < 0 ||
        dt_tok_added_split(&t->raw, encoder, &span, normalize_text) < 0)
        return -1;
    return emit_post(encoder, t->after, t->after_count, (uint32_t)bytes);
}

int dt_encode(struct dt_encoder *encoder, const char *text, size_t bytes,
              unsigned flags, struct dt_tokens *tokens, struct dt_error *err)
{
    encoder->within = false;
    return encode(encoder, text, bytes, flags, tokens, err);
}

int dt_encode_within(struct dt_encoder *encoder, const char *text, size_t bytes,
                     const struct dt_text_span *spans, size_t count,
                     unsigned flags, struct dt_tokens *tokens,
                     struct dt_error *err)
{
    encoder->within = true;
    encoder->spans = spans;
    encoder->span_count = count;
    return encode(encoder, text, bytes,
                  flags | DT_ENCODE_SPECIAL | DT_ENCODE_OFFSETS, tokens, err);
}

/* --- cuts that change no tokens --- */

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
