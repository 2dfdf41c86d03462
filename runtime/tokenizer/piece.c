/* SPDX-License-Identifier: Apache-2.0 */
/* piece.c - turns pieces into tokens; a cache remembers short ones */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

enum {
    CACHE_BITS = 15,
    KEY_BYTES = 22,
    CACHED_IDS = 8,
};

/* A piece that was encoded before, and its tokens. */
struct dt_tok_cached {
    uint8_t bytes, count; /* 0 bytes: free */
    char key[KEY_BYTES];
    uint8_t ends[CACHED_IDS];
    int32_t ids[CACHED_IDS];
};

struct dt_tok_work *dt_tok_work_create(void)
{
    struct dt_tok_work *work = calloc(1, sizeof(*work));
    if (!work || !(work->cache = calloc((size_t)1 << CACHE_BITS,
                                        sizeof(work->cache[0])))) {
        free(work);
        return NULL;
    }
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
    free(work->text);
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
    switch (t->model.kind) {
    case DT_TOK_UNIGRAM:
        return dt_tok_unigram(t, work, piece->s, piece->n, e->err);
    case DT_TOK_WORDPIECE:
    case DT_TOK_WORDLEVEL:
        return dt_tok_wordpiece(t, work, piece->s, piece->n, e->err);
    default:
        return dt_tok_bpe(t, work, piece->s, piece->n, e->err);
    }
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

/* The slot of the cache for a piece. The key is padded with zeros. */
static struct dt_tok_cached *cache_slot(struct dt_tok_work *work,
                                        const char key[KEY_BYTES], size_t bytes)
{
    uint64_t words[3] = {0};
    memcpy(words, key, KEY_BYTES);
    uint64_t hash = (words[0] ^ bytes) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ words[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32 ^ words[2]) * UINT64_C(0x94d049bb133111eb);
    return &work->cache[hash >> (64 - CACHE_BITS)];
}

/* Stores the tokens of a piece in the cache, if they are few and cover all of
 * it in order.
 */
static void cache_piece(const struct dt_tok_work *work,
                        struct dt_tok_cached *slot, const char key[KEY_BYTES],
                        size_t bytes)
{
    size_t end = 0;
    slot->bytes = 0;
    if (work->count > CACHED_IDS)
        return;
    for (size_t i = 0; i < work->count; i++) {
        if (work->symbols[i].begin != end)
            return;
        end = work->symbols[i].end;
        slot->ids[i] = work->symbols[i].id;
        slot->ends[i] = (uint8_t)end;
    }
    memcpy(slot->key, key, KEY_BYTES);
    slot->count = (uint8_t)work->count;
    slot->bytes = (uint8_t)bytes;
}

int dt_tok_piece(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    char key[KEY_BYTES] = {0};
    if (piece->n > KEY_BYTES)
        return encode_piece(e, piece) < 0 ? -1 : emit_symbols(e, piece);
    memcpy(key, piece->s, piece->n);
    struct dt_tok_cached *slot = cache_slot(e->work, key, piece->n);
    if (slot->bytes != piece->n || memcmp(slot->key, key, KEY_BYTES) != 0) {
        if (encode_piece(e, piece) < 0)
            return -1;
        cache_piece(e->work, slot, key, piece->n);
        return emit_symbols(e, piece);
    }
    if (dt_tok_reserve(e, slot->count) < 0)
        return -1;
    for (size_t i = 0, begin = 0; i < slot->count; begin = slot->ends[i++])
        dt_tok_emit(e, slot->ids[i], piece, begin, slot->ends[i]);
    return 0;
}
