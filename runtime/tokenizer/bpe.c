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

#include "tokenizer/tokenizer_impl.h"

enum {
    SHORT = 64, /* symbols of a short piece, at most */
};

#define NONE DT_TOK_NOWHERE

/* Cuts s[0..n) into at most n symbols; the caller made room. An unknown
 * character is held back until it is clear whether it is fused with the next
 * one.
 */
static void cut_symbols(struct dt_tok_work *work,
                        const struct dt_tok_model *model, const char *s,
                        size_t n)
{
    size_t bytes = 1, unk_begin = 0, unk_end = 0;
    for (size_t i = 0; i < n; i += bytes) {
        int32_t id = model->units[(unsigned char)s[i]];
        if (id >= 0 && unk_end == 0) {
            dt_tok_work_add(work, id, i, i + 1);
            bytes = 1;
            continue;
        }
        if (!model->byte_level) {
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
    return dt_tok_merge(model, left->id, right->id);
}

/* The same before any merge, when pairs of units of bytes have a table. */
static uint64_t first_merge(const struct dt_tok_model *model, const char *text,
                            const struct dt_tok_symbol *left,
                            const struct dt_tok_symbol *right)
{
    const unsigned a = (unsigned char)text[left->begin];
    const unsigned b = (unsigned char)text[right->begin];
    return left->id == model->units[a] && right->id == model->units[b]
               ? model->pairs[a << 8 | b]
               : merge_of(model, left, right);
}

/* Sets the merges of part i with its neighbors. A part is one word, the index
 * of its first symbol << 32 | id, and merges[i] is its merge with the next.
 */
static void find_merges(const struct dt_tok_model *model, const uint64_t *parts,
                        uint64_t *merges, size_t i, size_t n)
{
    const int32_t id = (int32_t)parts[i];
    merges[i] = i + 1 < n ? dt_tok_merge(model, id, (int32_t)parts[i + 1])
                          : DT_TOK_NONE;
    if (i > 0)
        merges[i - 1] = dt_tok_merge(model, (int32_t)parts[i - 1], id);
}

/* Joins the symbols of each part. */
static void join_parts(struct dt_tok_work *work, const uint64_t *parts,
                       size_t n)
{
    struct dt_tok_symbol *s = work->symbols;
    for (size_t i = 0; i < n; i++) {
        const size_t end = i + 1 < n ? parts[i + 1] >> 32 : work->count;
        s[i].id = (int32_t)parts[i];
        s[i].begin = s[parts[i] >> 32].begin;
        s[i].end = s[end - 1].end;
    }
    work->count = n;
}

static void merge_short(struct dt_tok_work *work,
                        const struct dt_tok_model *model, const char *text)
{
    const struct dt_tok_symbol *s = work->symbols;
    uint64_t merges[SHORT], parts[SHORT];
    size_t n = work->count;
    for (size_t i = 0; i < n; i++) {
        parts[i] = (uint64_t)i << 32 | (uint32_t)s[i].id;
        merges[i] = i + 1 < n ? first_merge(model, text, &s[i], &s[i + 1])
                              : DT_TOK_NONE;
    }
    for (;;) {
        uint64_t least = DT_TOK_NONE;
        size_t best = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            best = merges[i] < least ? i : best;
            least = merges[i] < least ? merges[i] : least;
        }
        if (least == DT_TOK_NONE)
            break;
        parts[best] = parts[best] >> 32 << 32 | (uint32_t)least;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            parts[i] = parts[i + 1];
            merges[i] = merges[i + 1];
        }
        find_merges(model, parts, merges, best, n);
    }
    join_parts(work, parts, n);
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
                       const struct dt_tok_model *model, const char *text)
{
    struct dt_tok_symbol *s = work->symbols;
    size_t n = work->count, kept = 0;
    work->heap_count = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].prev = i > 0 ? (uint32_t)i - 1 : NONE;
        s[i].next = i + 1 < n ? (uint32_t)i + 1 : NONE;
        if (i + 1 < n)
            push_heap(work, first_merge(model, text, &s[i], &s[i + 1]),
                      (uint32_t)i);
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
 * spells the piece in the alphabet of ByteLevel.
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
        merge_long(work, model, s);
    else
        merge_short(work, model, s);
    return 0;
}

/* --- places to cut text ---
 *
 * A text that no pre-tokenizer cuts is one piece, which takes long to merge and
 * is of no use in the cache. But if no merge joins a symbol that ends with one
 * character to a symbol that begins with another, text may be cut between these
 * two: merges never change the character at the end of the symbol before the
 * cut, nor the one at the start of the symbol after it.
 */

/* Whether n bytes at s, the end or the start of a token, are themselves a token
 * for other text: an unknown character, or a byte.
 */
static bool stands_for_others(const struct dt_tokenizer *t, const char *s,
                              size_t n)
{
    const int32_t id = dt_tok_vocab_model(&t->vocab, s, n);
    return id >= 0 && (id == t->model.unk ||
                       (t->model.byte_fallback && n == sizeof("<0x00>") - 1 &&
                        memcmp(s, "<0x", 3) == 0));
}

/* Forbids the cuts that a merge crosses. False: its halves do not determine the
 * characters at the cut.
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

/* Whether a class has a single character, which is in the vocabulary. */
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

/* Allows the cuts at which no unknown character is held back: it may be fused
 * with others, be added after bytes that follow it, or be dropped, so that its
 * neighbors meet.
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
