/* SPDX-License-Identifier: Apache-2.0 */
/* added.c - reads added tokens and finds the longest ones in a text */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

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

static int new_node(struct dt_tok_added *added)
{
    if (added->node_count == added->leaf_capacity) {
        size_t capacity = 2 * added->leaf_capacity + 64;
        void *grown = realloc(added->leaves, capacity * sizeof(*added->leaves));
        if (!grown)
            return -1;
        added->leaves = grown;
        added->leaf_capacity = capacity;
    }
    added->leaves[added->node_count++] = (struct dt_tok_leaf){.id = -1};
    return 0;
}

int dt_tok_added_init(struct dt_tok_added *added)
{
    return dt_tok_map_init(&added->nodes, 0) < 0 ? -1 : new_node(added);
}

void dt_tok_added_fini(struct dt_tok_added *added)
{
    dt_tok_map_fini(&added->nodes);
    free(added->leaves);
    added->leaves = NULL;
}

/* Inserts a token; the first of two with the same text wins. -1: out of memory.
 */
static int insert_token(struct dt_tok_added *added, const char *s, size_t n,
                        const struct dt_tok_leaf *leaf)
{
    uint64_t node = 0;
    added->starts[(unsigned char)s[0]] = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = node * 256 + (unsigned char)s[i];
        node = dt_tok_map_get(&added->nodes, key);
        if (node != DT_TOK_NONE)
            continue;
        node = added->node_count;
        if (new_node(added) < 0 || dt_tok_map_put(&added->nodes, key, node) < 0)
            return -1;
    }
    if (added->leaves[node].id < 0)
        added->leaves[node] = *leaf;
    return 0;
}

/* Inserts a token into its trie. A token with "normalized" is searched in
 * normalized text, so its own text is normalized first.
 */
static int build_token(struct dt_tokenizer *tokenizer, const json_t *token,
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
        dt_tok_normalize(tokenizer, &span, false, buffers, &span, err) < 0)
        return -1;
    struct dt_tok_added *added =
        normalized ? &tokenizer->normalized : &tokenizer->raw;
    if (span.n > 0 && insert_token(added, span.s, span.n, &leaf) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

int dt_tok_added_build(struct dt_tokenizer *tokenizer, const json_t *list,
                       struct dt_error *err)
{
    struct dt_tok_text buffers[2] = {{0}};
    size_t i;
    json_t *token;
    int rc = 0;
    /* Special tokens first, since the first of equal texts wins. */
    for (int special = 1; rc == 0 && special >= 0; special--)
        json_array_foreach(list, i, token)
        {
            if (json_is_true(json_object_get(token, "special")) != special)
                continue;
            rc = build_token(tokenizer, token, buffers, err);
            if (rc < 0) {
                dt_error_prefix(err, "added_tokens[%zu]", i);
                break;
            }
        }
    dt_tok_text_fini(&buffers[0]);
    dt_tok_text_fini(&buffers[1]);
    return rc;
}

/* Finds the longest token that begins at s + i. Returns its leaf and its end,
 * or NULL.
 */
static const struct dt_tok_leaf *longest_token(const struct dt_tok_added *added,
                                               const char *s, size_t n,
                                               size_t i, size_t *end)
{
    const struct dt_tok_leaf *found = NULL;
    uint64_t node = 0;
    while (i < n) {
        node =
            dt_tok_map_get(&added->nodes, node * 256 + (unsigned char)s[i++]);
        if (node == DT_TOK_NONE)
            break;
        if (added->leaves[node].id >= 0) {
            found = &added->leaves[node];
            *end = i;
        }
    }
    return found;
}

static bool word_around(const struct dt_tok_span *span, size_t begin,
                        size_t end)
{
    size_t bytes;
    return (begin > 0 && dt_tok_is_word(dt_tok_decode(
                             span->s + dt_tok_back(span->s, begin), &bytes))) ||
           (end < span->n &&
            dt_tok_is_word(dt_tok_decode(span->s + end, &bytes)));
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

int dt_tok_added_split(const struct dt_tok_added *added, struct dt_encoder *e,
                       const struct dt_tok_span *span,
                       int (*text)(struct dt_encoder *e,
                                   const struct dt_tok_span *part))
{
    size_t done = 0, i = 0, begin, end = 0;
    while (i < span->n) {
        const struct dt_tok_leaf *leaf = NULL;
        if (added->starts[(unsigned char)span->s[i]])
            leaf = longest_token(added, span->s, span->n, i, &end);
        if (!leaf) {
            i++;
            continue;
        }
        begin = i;
        i = end;
        if ((leaf->special && !(e->flags & DT_ENCODE_SPECIAL)) ||
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
