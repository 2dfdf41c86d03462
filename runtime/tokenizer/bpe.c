/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpe.c - encodes one piece by byte pair encoding
 *
 * A piece is cut into symbols. Then the first adjacent pair with the lowest
 * rank is merged, until no pair has a rank. Short pieces are searched linearly
 * for each merge; long ones use a heap of (rank, position).
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/impl.h"

enum {
    SHORT = 32, /* symbols of a short piece, at most */
    CACHE_BITS = 15,
    KEY_BYTES = 22,
    CACHED_IDS = 8,
};

struct symbol {
    int32_t id;
    uint32_t begin, end; /* byte offsets in the piece */
    uint32_t prev, next; /* neighbors, in long pieces only; NONE: none */
};

#define NONE UINT32_MAX

/* A piece that was encoded before, and its tokens. */
struct cached {
    uint8_t bytes, count; /* 0 bytes: free */
    char key[KEY_BYTES];
    uint8_t ends[CACHED_IDS];
    int32_t ids[CACHED_IDS];
};

struct dt_tok_bpe {
    struct cached *cache; /* direct-mapped by a hash of the piece */
    struct symbol *symbols;
    size_t count, capacity;
    uint64_t *heap; /* rank << 32 | position */
    size_t heap_count, heap_capacity;
};

struct dt_tok_bpe *dt_tok_bpe_create(void)
{
    struct dt_tok_bpe *bpe = calloc(1, sizeof(*bpe));
    if (!bpe || !(bpe->cache =
                      calloc((size_t)1 << CACHE_BITS, sizeof(bpe->cache[0])))) {
        free(bpe);
        return NULL;
    }
    return bpe;
}

void dt_tok_bpe_destroy(struct dt_tok_bpe *bpe)
{
    if (!bpe)
        return;
    free(bpe->cache);
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe);
}

static void add_symbol(struct dt_tok_bpe *bpe, int32_t id, size_t begin,
                       size_t end)
{
    bpe->symbols[bpe->count++] =
        (struct symbol){id, (uint32_t)begin, (uint32_t)end, 0, 0};
}

/* Whether an unknown character falls back to byte tokens: all of its bytes must
 * be in the vocabulary.
 */
static bool falls_back(const struct dt_tok_model *model, const char *s,
                       size_t n)
{
    for (size_t i = 0; model->byte_fallback && i < n; i++)
        if (model->bytes[(unsigned char)s[i]] < 0)
            return false;
    return model->byte_fallback;
}

/* Cuts s[0..n) into at most n symbols; the caller made room. An unknown
 * character is held back until it is clear that it need not be fused with the
 * next one.
 */
static void cut_symbols(struct dt_tok_bpe *bpe,
                        const struct dt_tok_model *model, const char *s,
                        size_t n)
{
    size_t bytes = 1, unk_begin = 0, unk_end = 0;
    bpe->count = 0;
    for (size_t i = 0; i < n; i += bytes) {
        int32_t id;
        if (model->byte_level) {
            id = model->bytes[(unsigned char)s[i]];
        } else {
            uint64_t found =
                dt_tok_map_get(&model->chars, dt_tok_decode(s + i, &bytes));
            id = found == DT_TOK_NONE ? -1 : (int32_t)found;
        }
        if (id < 0 && falls_back(model, s + i, bytes)) {
            for (size_t j = i; j < i + bytes; j++)
                add_symbol(bpe, model->bytes[(unsigned char)s[j]], j, j + 1);
            continue;
        }
        if (unk_end > 0 && (id >= 0 || !model->fuse_unk)) {
            add_symbol(bpe, model->unk, unk_begin, unk_end);
            unk_end = 0;
        }
        if (id >= 0) {
            add_symbol(bpe, id, i, i + bytes);
        } else if (model->unk >= 0) {
            unk_begin = unk_end > 0 ? unk_begin : i;
            unk_end = i + bytes;
        }
    }
    if (unk_end > 0)
        add_symbol(bpe, model->unk, unk_begin, unk_end);
}

static uint64_t merge_of(const struct dt_tok_model *model,
                         const struct symbol *left, const struct symbol *right)
{
    return dt_tok_map_get(&model->merges, (uint64_t)(uint32_t)left->id << 32 |
                                              (uint32_t)right->id);
}

static void merge_short(struct dt_tok_bpe *bpe,
                        const struct dt_tok_model *model)
{
    struct symbol *s = bpe->symbols;
    uint64_t merges[SHORT]; /* the merge of s[i] and s[i + 1] */
    size_t n = bpe->count;
    for (size_t i = 0; i + 1 < n; i++)
        merges[i] = merge_of(model, &s[i], &s[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (merges[i] >> 32 < merges[best] >> 32)
                best = i;
        if (merges[best] == DT_TOK_NONE)
            break;
        s[best].id = (int32_t)(merges[best] & UINT32_MAX);
        s[best].end = s[best + 1].end;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            s[i] = s[i + 1];
            merges[i - 1] = merges[i];
        }
        if (best + 1 < n)
            merges[best] = merge_of(model, &s[best], &s[best + 1]);
        if (best > 0)
            merges[best - 1] = merge_of(model, &s[best - 1], &s[best]);
    }
    bpe->count = n;
}

static void push_heap(struct dt_tok_bpe *bpe, uint64_t merge, uint32_t position)
{
    uint64_t key = (merge >> 32) << 32 | position;
    size_t i = bpe->heap_count++;
    if (merge == DT_TOK_NONE) {
        bpe->heap_count--;
        return;
    }
    for (; i > 0 && bpe->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        bpe->heap[i] = bpe->heap[(i - 1) / 2];
    bpe->heap[i] = key;
}

static uint64_t pop_heap(struct dt_tok_bpe *bpe)
{
    uint64_t *heap = bpe->heap, first = heap[0];
    size_t n = --bpe->heap_count, i = 0;
    uint64_t last = heap[n];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (child >= n || heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* Merges s[i] with the next symbol, unless that pair has changed since the heap
 * entry was pushed.
 */
static void merge_at(struct dt_tok_bpe *bpe, const struct dt_tok_model *model,
                     uint32_t i, uint64_t rank)
{
    struct symbol *s = bpe->symbols;
    uint32_t next = s[i].next;
    uint64_t merge = s[i].id < 0 || next == NONE
                         ? DT_TOK_NONE
                         : merge_of(model, &s[i], &s[next]);
    if (merge == DT_TOK_NONE || merge >> 32 != rank)
        return;
    s[i].id = (int32_t)(merge & UINT32_MAX);
    s[i].end = s[next].end;
    s[i].next = s[next].next;
    s[next].id = -1;
    if (s[i].next != NONE) {
        s[s[i].next].prev = i;
        push_heap(bpe, merge_of(model, &s[i], &s[s[i].next]), i);
    }
    if (s[i].prev != NONE)
        push_heap(bpe, merge_of(model, &s[s[i].prev], &s[i]), s[i].prev);
}

static void merge_long(struct dt_tok_bpe *bpe, const struct dt_tok_model *model)
{
    struct symbol *s = bpe->symbols;
    size_t n = bpe->count, kept = 0;
    bpe->heap_count = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].prev = i > 0 ? (uint32_t)i - 1 : NONE;
        s[i].next = i + 1 < n ? (uint32_t)i + 1 : NONE;
        if (i + 1 < n)
            push_heap(bpe, merge_of(model, &s[i], &s[i + 1]), (uint32_t)i);
    }
    while (bpe->heap_count > 0) {
        uint64_t first = pop_heap(bpe);
        merge_at(bpe, model, (uint32_t)first, first >> 32);
    }
    for (size_t i = 0; i < n; i++)
        if (s[i].id >= 0)
            s[kept++] = s[i];
    bpe->count = kept;
}

/* Makes room for the symbols of n bytes, and for the heap: each merge pops one
 * entry and pushes at most two.
 */
static int reserve_symbols(struct dt_tok_bpe *bpe, size_t n,
                           struct dt_error *err)
{
    void *grown;
    if (n > INT32_MAX)
        return dt_error_set(err, EX_DATAERR,
                            "a piece of %zu bytes: at most %d can be merged", n,
                            INT32_MAX);
    if (n > bpe->capacity) {
        size_t capacity = n + n / 2 + SHORT;
        grown = realloc(bpe->symbols, capacity * sizeof(bpe->symbols[0]));
        if (!grown)
            return dt_error_set(err, EX_OSERR, "out of memory");
        bpe->symbols = grown;
        bpe->capacity = capacity;
    }
    if (n > SHORT && 2 * n > bpe->heap_capacity) {
        grown = realloc(bpe->heap, 3 * n * sizeof(bpe->heap[0]));
        if (!grown)
            return dt_error_set(err, EX_OSERR, "out of memory");
        bpe->heap = grown;
        bpe->heap_capacity = 3 * n;
    }
    return 0;
}

/* The id of the token that is the whole piece, or -1. A byte-level vocabulary
 * spells it in the alphabet of ByteLevel.
 */
static int32_t whole_piece(struct dt_encoder *e,
                           const struct dt_tok_span *piece)
{
    const struct dt_tokenizer *tokenizer = e->tokenizer;
    char *text = (char *)e->bpe->symbols; /* large enough, and still unused */
    size_t n = 0;
    if (!tokenizer->model.byte_level)
        return dt_tok_vocab_model(&tokenizer->vocab, piece->s, piece->n);
    for (size_t i = 0; i < piece->n; i++)
        n += dt_tok_encode(dt_tok_byte_char((unsigned char)piece->s[i]),
                           text + n);
    return dt_tok_vocab_model(&tokenizer->vocab, text, n);
}

static int emit_symbols(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    const struct dt_tok_bpe *bpe = e->bpe;
    if (dt_tok_reserve(e, bpe->count) < 0)
        return -1;
    for (size_t i = 0; i < bpe->count; i++)
        dt_tok_emit(e, bpe->symbols[i].id, piece, bpe->symbols[i].begin,
                    bpe->symbols[i].end);
    return 0;
}

static int merge_piece(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    const struct dt_tok_model *model = &e->tokenizer->model;
    struct dt_tok_bpe *bpe = e->bpe;
    int32_t id = -1;
    if (reserve_symbols(bpe, piece->n, e->err) < 0)
        return -1;
    if (model->ignore_merges)
        id = whole_piece(e, piece);
    bpe->count = 0;
    if (id >= 0)
        add_symbol(bpe, id, 0, piece->n);
    else
        cut_symbols(bpe, model, piece->s, piece->n);
    if (bpe->count > SHORT)
        merge_long(bpe, model);
    else
        merge_short(bpe, model);
    return emit_symbols(e, piece);
}

/* The slot of the cache for a piece. The key is padded with zeros. */
static struct cached *cache_slot(struct dt_tok_bpe *bpe,
                                 const char key[KEY_BYTES], size_t bytes)
{
    uint64_t words[3] = {0};
    memcpy(words, key, KEY_BYTES);
    uint64_t hash = (words[0] ^ bytes) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29 ^ words[1]) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32 ^ words[2]) * UINT64_C(0x94d049bb133111eb);
    return &bpe->cache[hash >> (64 - CACHE_BITS)];
}

/* Stores the tokens of a piece in the cache, if they are few and cover all of
 * it in order.
 */
static void cache_piece(const struct dt_tok_bpe *bpe, struct cached *slot,
                        const char key[KEY_BYTES], size_t bytes)
{
    size_t end = 0;
    slot->bytes = 0;
    if (bpe->count > CACHED_IDS)
        return;
    for (size_t i = 0; i < bpe->count; i++) {
        if (bpe->symbols[i].begin != end)
            return;
        end = bpe->symbols[i].end;
        slot->ids[i] = bpe->symbols[i].id;
        slot->ends[i] = (uint8_t)end;
    }
    memcpy(slot->key, key, KEY_BYTES);
    slot->count = (uint8_t)bpe->count;
    slot->bytes = (uint8_t)bytes;
}

int dt_tok_merge(struct dt_encoder *e, const struct dt_tok_span *piece)
{
    char key[KEY_BYTES] = {0};
    if (piece->n > KEY_BYTES)
        return merge_piece(e, piece);
    memcpy(key, piece->s, piece->n);
    struct cached *slot = cache_slot(e->bpe, key, piece->n);
    if (slot->bytes != piece->n || memcmp(slot->key, key, KEY_BYTES) != 0) {
        if (merge_piece(e, piece) < 0)
            return -1;
        cache_piece(e->bpe, slot, key, piece->n);
        return 0;
    }
    if (dt_tok_reserve(e, slot->count) < 0)
        return -1;
    for (size_t i = 0, begin = 0; i < slot->count; begin = slot->ends[i++])
        dt_tok_emit(e, slot->ids[i], piece, begin, slot->ends[i]);
    return 0;
}
