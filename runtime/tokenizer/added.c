/* SPDX-License-Identifier: Apache-2.0 */
/* added.c - reads added tokens and finds the longest ones in a text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tokenizer/tokenizer_impl.h"

/* Reads one added token into the vocabulary. */
static int read_token(struct dt_tokenizer *tokenizer, const json_t *token,
                      struct dt_error *err)
{
    bool special;
    const json_t *id = dt_tok_json_get(token, "id", JSON_INTEGER, err);
    const json_t *text = dt_tok_json_get(token, "content", JSON_STRING, err);
    if (!id || !text ||
        dt_tok_json_flag(token, "special", false, &special, err) < 0)
        return -1;
    if (json_integer_value(id) < 0 || json_integer_value(id) >= DT_TOK_IDS_MAX)
        return dt_error_set(err, EX_DATAERR, "id: expected 0 to %d, got %lld",
                            DT_TOK_IDS_MAX - 1,
                            (long long)json_integer_value(id));
    return dt_tok_vocab_add(&tokenizer->vocab, (int32_t)json_integer_value(id),
                            json_string_value(text), json_string_length(text),
                            DT_TOK_ADDED | (special ? DT_TOK_SPECIAL : 0), err);
}

int dt_tok_added_read(struct dt_tokenizer *tokenizer, const json_t *list,
                      struct dt_error *err)
{
    size_t i;
    json_t *token;
    json_array_foreach(list, i, token)
    {
        if (read_token(tokenizer, token, err) < 0)
            return dt_error_prefix(err, "added_tokens[%zu]", i);
    }
    return 0;
}

int dt_tok_added_init(struct dt_tok_added *added)
{
    return dt_tok_trie_init(&added->trie);
}

void dt_tok_added_fini(struct dt_tok_added *added)
{
    dt_tok_trie_fini(&added->trie);
    free(added->leaves);
    added->leaves = NULL;
}

int dt_tok_added_put(struct dt_tok_added *added, const char *s, size_t n,
                     const struct dt_tok_leaf *leaf)
{
    if (added->count == added->capacity) {
        size_t capacity = 2 * added->capacity + 64;
        if (!dt_tok_grow(&added->leaves, capacity, sizeof(added->leaves[0])))
            return -1;
        added->capacity = capacity;
    }
    if (!added->starts[(unsigned char)s[0]])
        added->start_count++;
    added->start = s[0];
    added->starts[(unsigned char)s[0]] = true;
    added->special |= leaf->special;
    added->leaves[added->count] = *leaf;
    return dt_tok_trie_add(&added->trie, s, n, (int32_t)added->count++);
}

/* Inserts a token into its trie. A token with "normalized" is searched in
 * normalized text, so its own text is normalized first.
 */
static int build_token(struct dt_tokenizer *tokenizer, const json_t *token,
                       struct dt_tok_matcher *matcher,
                       struct dt_tok_text buffers[2], struct dt_error *err)
{
    bool normalized, special;
    const json_t *text = json_object_get(token, "content");
    struct dt_tok_leaf leaf = {
        .id = (int32_t)json_integer_value(json_object_get(token, "id"))};
    struct dt_tok_span span = {json_string_value(text),
                               json_string_length(text), .first = true};
    if (dt_tok_json_flag(token, "special", false, &special, err) < 0 ||
        dt_tok_json_flag(token, "normalized", !special, &normalized, err) < 0 ||
        dt_tok_json_flag(token, "single_word", false, &leaf.single_word, err) <
            0 ||
        dt_tok_json_flag(token, "lstrip", false, &leaf.lstrip, err) < 0 ||
        dt_tok_json_flag(token, "rstrip", false, &leaf.rstrip, err) < 0)
        return -1;
    leaf.special = special;
    if (normalized && span.n > 0 &&
        dt_tok_normalize(tokenizer, matcher, &span, false, buffers, &span,
                         err) < 0)
        return -1;
    if (normalized &&
        (span.n != json_string_length(text) ||
         memcmp(span.s, json_string_value(text), span.n) != 0) &&
        dt_tok_vocab_show(&tokenizer->vocab, leaf.id, span.s, span.n) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    struct dt_tok_added *added =
        normalized ? &tokenizer->normalized : &tokenizer->raw;
    if (span.n > 0 && dt_tok_added_put(added, span.s, span.n, &leaf) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

int dt_tok_added_build(struct dt_tokenizer *tokenizer, const json_t *list,
                       struct dt_error *err)
{
    struct dt_tok_text buffers[2] = {{0}};
    struct dt_tok_matcher *matcher = dt_tok_matcher_create();
    size_t i;
    json_t *token;
    int rc = matcher ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    /* Special tokens first, since the first of equal texts wins. */
    for (int special = 1; rc == 0 && special >= 0; special--)
        json_array_foreach(list, i, token)
        {
            if (json_is_true(json_object_get(token, "special")) != special)
                continue;
            rc = build_token(tokenizer, token, matcher, buffers, err);
            if (rc < 0) {
                dt_error_prefix(err, "added_tokens[%zu]", i);
                break;
            }
        }
    dt_tok_matcher_destroy(matcher);
    dt_tok_text_fini(&buffers[0]);
    dt_tok_text_fini(&buffers[1]);
    return rc;
}

static bool in_word(uint32_t cp)
{
    return dt_tok_in_set(DT_TOK_SET_WORD, cp);
}

static bool word_around(const struct dt_tok_span *span, size_t begin,
                        size_t end)
{
    size_t bytes;
    return (begin > 0 && in_word(dt_tok_decode(
                             span->s + dt_tok_back(span->s, begin), &bytes))) ||
           (end < span->n && in_word(dt_tok_decode(span->s + end, &bytes)));
}

/* Extends a match by the white space that the token includes (lstrip, rstrip),
 * but not before `from`.
 */
static void widen_match(const struct dt_encoder *e,
                        const struct dt_tok_leaf *leaf,
                        const struct dt_tok_span *span, size_t from,
                        size_t *begin, size_t *end)
{
    size_t bytes, back;
    while (leaf->lstrip && *begin > from) {
        back = dt_tok_back(span->s, *begin);
        if (!(e->classes[dt_tok_decode(span->s + back, &bytes)] & DT_TOK_SPACE))
            break;
        *begin = back;
    }
    for (; leaf->rstrip && *end < span->n; *end += bytes)
        if (!(e->classes[dt_tok_decode(span->s + *end, &bytes)] & DT_TOK_SPACE))
            break;
}

/* The first place from i on where a token may start, or n. memchr serves the
 * usual case that all tokens start with "<".
 */
static size_t next_start(const struct dt_tok_added *added, const char *s,
                         size_t i, size_t n)
{
    if (added->start_count > 1) {
        while (i < n && !added->starts[(unsigned char)s[i]])
            i++;
        return i;
    }
    const char *at =
        added->start_count ? memchr(s + i, added->start, n - i) : NULL;
    return at ? (size_t)(at - s) : n;
}

bool dt_tokenizer_plain(const struct dt_tokenizer *tokenizer, const char *text,
                        size_t bytes)
{
    const struct dt_tok_added *added = &tokenizer->raw;
    size_t end;
    if (tokenizer->normalized.special || dt_utf8_check(text, bytes) < bytes)
        return false; /* the text to search in is not known yet */
    for (size_t i = 0; (i = next_start(added, text, i, bytes)) < bytes;) {
        int32_t index =
            dt_tok_trie_longest(&added->trie, text + i, bytes - i, &end);
        if (index >= 0 && added->leaves[index].special)
            return false;
        i += index >= 0 ? end : 1;
    }
    return true;
}

/* Whether bytes [begin, end) of a span become the special token they spell. */
static bool may_be_special(const struct dt_encoder *e,
                           const struct dt_tok_span *span, size_t begin,
                           size_t end)
{
    if (!e->within)
        return e->flags & DT_ENCODE_SPECIAL;
    const size_t from = dt_tok_span_begin(span, begin);
    const size_t to = dt_tok_span_end(span, end - 1);
    for (size_t i = 0; i < e->span_count; i++)
        if (e->spans[i].begin <= from && to <= e->spans[i].end)
            return true;
    return false;
}

int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part))
{
    size_t done = 0, i = 0, begin, end = 0;
    while ((i = next_start(added, span->s, i, span->n)) < span->n) {
        int32_t index =
            dt_tok_trie_longest(&added->trie, span->s + i, span->n - i, &end);
        if (index < 0) {
            i++;
            continue;
        }
        const struct dt_tok_leaf *leaf = &added->leaves[index];
        begin = i;
        end += i;
        i = end;
        if ((leaf->special && !may_be_special(e, span, begin, end)) ||
            (leaf->single_word && word_around(span, begin, end)))
            continue;
        widen_match(e, leaf, span, done, &begin, &end);
        struct dt_tok_span part = dt_tok_span_part(span, done, begin);
        if ((begin > done && text(e, &part) < 0) || dt_tok_reserve(e, 1) < 0)
            return -1;
        dt_tok_emit(e, leaf->id, span, begin, end);
        done = end;
    }
    struct dt_tok_span rest = dt_tok_span_part(span, done, span->n);
    return done < span->n ? text(e, &rest) : 0;
}
