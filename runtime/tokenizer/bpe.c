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
};

#define NONE DT_TOK_NOWHERE

/* Cuts s[0..n) into at most n symbols; the caller made room. An unknown
 * character is held back until it is clear that it need not be fused with the
 * next one.
 */
static void cut_symbols(struct dt_tok_work *work,
                        const struct dt_tok_model *model, const char *s,
                        size_t n)
{
    size_t bytes = 1, unk_begin = 0, unk_end = 0;
    for (size_t i = 0; i < n; i += bytes) {
        int32_t id;
        if (model->byte_level) {
            id = model->bytes[(unsigned char)s[i]];
        } else {
            uint64_t found =
                dt_tok_map_get(&model->chars, dt_tok_decode(s + i, &bytes));
            id = found == DT_TOK_NONE ? -1 : (int32_t)found;
        }
        if (id < 0 && dt_tok_falls_back(model, s + i, bytes)) {
            for (size_t j = i; j < i + bytes; j++)
                dt_tok_work_add(work, model->bytes[(unsigned char)s[j]], j,
                                j + 1);
            continue;
        }
        if (unk_end > 0 && (id >= 0 || !model->fuse_unk)) {
            dt_tok_work_add(work, model->unk, unk_begin, unk_end);
            unk_end = 0;
        }
        if (id >= 0) {
            dt_tok_work_add(work, id, i, i + bytes);
        } else if (model->unk >= 0) {
            unk_begin = unk_end > 0 ? unk_begin : i;
            unk_end = i + bytes;
        }
    }
    if (unk_end > 0)
        dt_tok_work_add(work, model->unk, unk_begin, unk_end);
}

static uint64_t merge_of(const struct dt_tok_model *model,
                         const struct dt_tok_symbol *left,
                         const struct dt_tok_symbol *right)
{
    return dt_tok_map_get(&model->merges, (uint64_t)(uint32_t)left->id << 32 |
                                              (uint32_t)right->id);
}

static void merge_short(struct dt_tok_work *work,
                        const struct dt_tok_model *model)
{
    struct dt_tok_symbol *s = work->symbols;
    uint64_t merges[SHORT]; /* the merge of s[i] and s[i + 1] */
    size_t n = work->count;
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
    work->count = n;
}

static void push_heap(struct dt_tok_work *work, uint64_t merge,
                      uint32_t position)
{
    uint64_t key = (merge >> 32) << 32 | position;
    size_t i = work->heap_count++;
    if (merge == DT_TOK_NONE) {
        work->heap_count--;
        return;
    }
    for (; i > 0 && work->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        work->heap[i] = work->heap[(i - 1) / 2];
    work->heap[i] = key;
}

static uint64_t pop_heap(struct dt_tok_work *work)
{
    uint64_t *heap = work->heap, first = heap[0];
    size_t n = --work->heap_count, i = 0;
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
static void merge_at(struct dt_tok_work *work, const struct dt_tok_model *model,
                     uint32_t i, uint64_t rank)
{
    struct dt_tok_symbol *s = work->symbols;
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
        push_heap(work, merge_of(model, &s[i], &s[s[i].next]), i);
    }
    if (s[i].prev != NONE)
        push_heap(work, merge_of(model, &s[s[i].prev], &s[i]), s[i].prev);
}

static void merge_long(struct dt_tok_work *work,
                       const struct dt_tok_model *model)
{
    struct dt_tok_symbol *s = work->symbols;
    size_t n = work->count, kept = 0;
    work->heap_count = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].prev = i > 0 ? (uint32_t)i - 1 : NONE;
        s[i].next = i + 1 < n ? (uint32_t)i + 1 : NONE;
        if (i + 1 < n)
            push_heap(work, merge_of(model, &s[i], &s[i + 1]), (uint32_t)i);
    }
    while (work->heap_count > 0) {
        uint64_t first = pop_heap(work);
        merge_at(work, model, (uint32_t)first, first >> 32);
    }
    for (size_t i = 0; i < n; i++)
        if (s[i].id >= 0)
            s[kept++] = s[i];
    work->count = kept;
}

/* Makes room in the heap: each merge pops one entry and pushes at most two. */
static int reserve_heap(struct dt_tok_work *work, size_t n,
                        struct dt_error *err)
{
    if (n <= SHORT || 2 * n <= work->heap_capacity)
        return 0;
    if (!dt_tok_grow(&work->heap, 3 * n, sizeof(work->heap[0])))
        return dt_error_set(err, EX_OSERR, "out of memory");
    work->heap_capacity = 3 * n;
    return 0;
}

/* The id of the token that is the whole piece, or -1. A byte-level vocabulary
 * spells it in the alphabet of ByteLevel.
 */
static int32_t whole_piece(const struct dt_tokenizer *tokenizer,
                           struct dt_tok_work *work, const char *s, size_t n)
{
    char *text = (char *)work->symbols; /* large enough, and still unused */
    size_t bytes = 0;
    if (!tokenizer->model.byte_level)
        return dt_tok_vocab_model(&tokenizer->vocab, s, n);
    for (size_t i = 0; i < n; i++)
        bytes +=
            dt_tok_encode(dt_tok_byte_char((unsigned char)s[i]), text + bytes);
    return dt_tok_vocab_model(&tokenizer->vocab, text, bytes);
}

int dt_tok_bpe(const struct dt_tokenizer *tokenizer, struct dt_tok_work *work,
               const char *s, size_t n, struct dt_error *err)
{
    const struct dt_tok_model *model = &tokenizer->model;
    int32_t id = -1;
    if (reserve_heap(work, n, err) < 0)
        return -1;
    if (model->ignore_merges)
        id = whole_piece(tokenizer, work, s, n);
    if (id >= 0)
        dt_tok_work_add(work, id, 0, n);
    else
        cut_symbols(work, model, s, n);
    if (work->count > SHORT)
        merge_long(work, model);
    else
        merge_short(work, model);
    return 0;
}
