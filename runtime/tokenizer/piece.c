/* SPDX-License-Identifier: Apache-2.0 */
/* piece.c - encodes pieces, with a cache of short ones */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer_impl.h"

/* --- the tokens so far --- */

int dt_tok_reserve(struct dt_encoder *e, size_t more)
{
    struct dt_tokens *t = e->tokens;
    bool offsets = e->flags & DT_ENCODE_OFFSETS;
    size_t capacity = t->count + more;
    if (capacity <= t->capacity)
        return 0;
    capacity += capacity / 2 + 64;
    if (!dt_tok_grow(&t->ids, capacity, sizeof(t->ids[0])) ||
        (offsets && (!dt_tok_grow(&t->begin, capacity, sizeof(t->begin[0])) ||
                     !dt_tok_grow(&t->end, capacity, sizeof(t->end[0])))))
        return dt_error_set(e->err, EX_OSERR, "out of memory for %zu tokens",
                            capacity);
    t->capacity = capacity;
    return 0;
}

void dt_tok_emit(struct dt_encoder *e, int32_t id,
                 const struct dt_tok_span *span, size_t from, size_t to)
{
    struct dt_tokens *t = e->tokens;
    if (t->begin) {
        t->begin[t->count] = dt_tok_span_begin(span, from);
        t->end[t->count] = dt_tok_span_end(span, to - 1);
    }
    t->ids[t->count++] = id;
}

void dt_tokens_fini(struct dt_tokens *tokens)
{
    free(tokens->ids);
    free(tokens->begin);
    free(tokens->end);
    *tokens = (struct dt_tokens){0};
}

/* --- from pieces to tokens --- */

/* The cache has a table of short pieces with few tokens, which nearly all are,
 * two in a cache line of the processor, and a table of longer ones.
 */
enum {
    LINE_BYTES = 64,
    SHORT_BITS = 14, /* pairs of short pieces */
    SHORT_BYTES = 16,
    SHORT_IDS = 3,
    LONG_BITS = 13,
    LONG_BYTES = 24,
    LONG_IDS = 7,
};

/* Pieces encoded before, and their tokens. A key and the number of bytes are
 * the text of a piece; 0 bytes: free. `ends` has the ends of tokens in the
 * piece, except for the last.
 */
struct dt_tok_short {
    uint64_t key[SHORT_BYTES / 8];
    int32_t ids[SHORT_IDS];
    uint8_t bytes, count, ends[SHORT_IDS - 1];
};

struct dt_tok_long {
    uint64_t key[LONG_BYTES / 8];
    int32_t ids[LONG_IDS];
    uint8_t bytes, count, ends[LONG_IDS - 1];
};

_Static_assert(2 * sizeof(struct dt_tok_short) == LINE_BYTES, "a line of two");

struct dt_tok_cache {
    struct dt_tok_short pairs[1 << SHORT_BITS][2];
    struct dt_tok_long longs[1 << LONG_BITS];
};

struct dt_tok_work *dt_tok_work_create(void)
{
    const size_t bytes = sizeof(struct dt_tok_cache);
    struct dt_tok_work *work = calloc(1, sizeof(*work));
    if (!work || !(work->cache = aligned_alloc(LINE_BYTES, bytes))) {
        free(work);
        return NULL;
    }
    memset(work->cache, 0, bytes);
    return work;
}

void dt_tok_work_destroy(struct dt_tok_work *work)
{
    if (!work)
        return;
    free(work->cache);
    free(work->symbols);
    free(work->heap);
    free(work->paths);
    free(work);
}

/* Makes room for the symbols of n bytes. */
static int reserve_symbols(struct dt_tok_work *work, size_t n,
                           struct dt_error *err)
{
    size_t capacity = n + n / 2 + 32;
    if (n > INT32_MAX)
        return dt_error_set(err, EX_DATAERR,
                            "a piece of %zu bytes: at most %d can be encoded",
                            n, INT32_MAX);
    if (n <= work->capacity)
        return 0;
    if (!dt_tok_grow(&work->symbols, capacity, sizeof(work->symbols[0])))
        return dt_error_set(err, EX_OSERR, "out of memory");
    work->capacity = capacity;
    return 0;
}

static int encode_piece(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    const struct dt_tokenizer *t = e->tokenizer;
    struct dt_tok_work *work = e->work;
    if (reserve_symbols(work, piece->n, e->err) < 0)
        return -1;
    work->count = 0;
    return t->model.kind == DT_TOK_UNIGRAM
               ? dt_tok_unigram(t, work, piece->s, piece->n, e->err)
               : dt_tok_bpe(t, work, piece->s, piece->n, e->err);
}

static int emit_symbols(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    const struct dt_tok_work *work = e->work;
    if (dt_tok_reserve(e, work->count) < 0)
        return -1;
    for (size_t i = 0; i < work->count; i++)
        dt_tok_emit(e, work->symbols[i].id, piece, work->symbols[i].begin,
                    work->symbols[i].end);
    return 0;
}

/* --- the cache --- */

static uint64_t load_8(const char *s)
{
    uint64_t word;
    memcpy(&word, s, sizeof(word));
    return word;
}

static uint64_t load_4(const char *s)
{
    uint32_t word;
    memcpy(&word, s, sizeof(word));
    return word;
}

/* Makes words of n <= LONG_BYTES bytes that no other n bytes have, by
 * overlapping loads: the processor would have to wait for a copy before loading
 * it.
 */
static void make_key(const char *s, size_t n, uint64_t key[LONG_BYTES / 8])
{
    key[1] = key[2] = 0;
    if (n > 16)
        key[2] = load_8(s + n - 8);
    if (n > 8) {
        key[0] = load_8(s);
        key[1] = n > 16 ? load_8(s + 8) : load_8(s + n - 8);
    } else if (n >= 4) {
        key[0] = load_4(s) | load_4(s + n - 4) << 32;
    } else {
        key[0] = (uint64_t)(unsigned char)s[0] |
                 (uint64_t)(unsigned char)s[n / 2] << 8 |
                 (uint64_t)(unsigned char)s[n - 1] << 16;
    }
}

static uint64_t hash_key(const uint64_t key[LONG_BYTES / 8], size_t n)
{
    uint64_t hash = (key[0] ^ n) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ key[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    return (hash ^ hash >> 32 ^ key[2]) * UINT64_C(0x94d049bb133111eb);
}

/* Stores the tokens of a piece, if they are few and cover all of it in order. A
 * new short piece goes into the first place, and the previous one of that place
 * into the second.
 */
static void cache_piece(struct dt_tok_work *work, const uint64_t *key,
                        uint64_t hash, size_t n)
{
    const struct dt_tok_symbol *symbols = work->symbols;
    const size_t count = work->count;
    int32_t *ids;
    uint8_t *ends;
    if (count == 0 || count > LONG_IDS || symbols[0].begin > 0 ||
        symbols[count - 1].end != n)
        return;
    for (size_t i = 1; i < count; i++)
        if (symbols[i].begin != symbols[i - 1].end)
            return;
    if (n <= SHORT_BYTES && count <= SHORT_IDS) {
        struct dt_tok_short *pair =
            work->cache->pairs[hash >> (64 - SHORT_BITS)];
        pair[1] = pair[0];
        pair[0].bytes = (uint8_t)n;
        pair[0].count = (uint8_t)count;
        memcpy(pair[0].key, key, SHORT_BYTES);
        ids = pair[0].ids;
        ends = pair[0].ends;
    } else {
        struct dt_tok_long *slot =
            &work->cache->longs[hash >> (64 - LONG_BITS)];
        slot->bytes = (uint8_t)n;
        slot->count = (uint8_t)count;
        memcpy(slot->key, key, LONG_BYTES);
        ids = slot->ids;
        ends = slot->ends;
    }
    for (size_t i = 0; i < count; i++) {
        ids[i] = symbols[i].id;
        if (i + 1 < count)
            ends[i] = (uint8_t)symbols[i].end;
    }
}

static const struct dt_tok_short *find_short(const struct dt_tok_work *work,
                                             const uint64_t *key, uint64_t hash,
                                             size_t n)
{
    const struct dt_tok_short *pair =
        work->cache->pairs[hash >> (64 - SHORT_BITS)];
    for (size_t i = 0; i < 2; i++)
        if (pair[i].bytes == n && pair[i].key[0] == key[0] &&
            pair[i].key[1] == key[1])
            return &pair[i];
    return NULL;
}

static const struct dt_tok_long *find_long(const struct dt_tok_work *work,
                                           const uint64_t *key, uint64_t hash,
                                           size_t n)
{
    const struct dt_tok_long *slot =
        &work->cache->longs[hash >> (64 - LONG_BITS)];
    return slot->bytes == n && slot->key[0] == key[0] &&
                   slot->key[1] == key[1] && slot->key[2] == key[2]
               ? slot
               : NULL;
}

/* Appends cached tokens. `room` is how many ids can be copied at once, of which
 * count are tokens.
 */
static inline int emit_cached(struct dt_encoder *e,
                              const struct dt_tok_span *piece,
                              const int32_t *ids, const uint8_t *ends,
                              size_t count, size_t room)
{
    struct dt_tokens *t = e->tokens;
    if (t->capacity - t->count < room && dt_tok_reserve(e, room) < 0)
        return -1;
    for (size_t i = 0, begin = 0; t->begin && i < count; i++) {
        const size_t end = i + 1 < count ? ends[i] : piece->n;
        t->begin[t->count + i] = dt_tok_span_begin(piece, begin);
        t->end[t->count + i] = dt_tok_span_end(piece, end - 1);
        begin = end;
    }
    memcpy(t->ids + t->count, ids, room * sizeof(*ids));
    t->count += count;
    return 0;
}

int dt_tok_piece(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    uint64_t key[LONG_BYTES / 8];
    const size_t n = piece->n;
    if (n == 0 || n > LONG_BYTES)
        return encode_piece(e, piece) < 0 ? -1 : emit_symbols(e, piece);
    make_key(piece->s, n, key);
    const uint64_t hash = hash_key(key, n);
    if (n <= SHORT_BYTES) {
        const struct dt_tok_short *one = find_short(e->work, key, hash, n);
        if (one)
            return emit_cached(e, piece, one->ids, one->ends, one->count,
                               SHORT_IDS);
    }
    const struct dt_tok_long *one = find_long(e->work, key, hash, n);
    if (one)
        return emit_cached(e, piece, one->ids, one->ends, one->count, LONG_IDS);
    if (encode_piece(e, piece) < 0)
        return -1;
    cache_piece(e->work, key, hash, n);
    return emit_symbols(e, piece);
}
