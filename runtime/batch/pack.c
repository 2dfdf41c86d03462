/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - packs best-fit decreasing in O(n + n capacity / 64) */
#include "config.h"

#include <stdlib.h>

#include "batch/rows.h"

/* Open bins by the space left: one queue for each amount of space, and a bit
 * set for each queue that is not empty.
 */
struct bins {
    size_t *head, *tail; /* (capacity + 1) bins by space; SIZE_MAX: none */
    size_t *next;        /* (count) the next bin in the same queue */
    uint64_t *open;      /* (capacity + 1) bits by space */
    uint32_t capacity;
    size_t count;
};

static void put_bin(struct bins *bins, size_t bin, uint32_t space)
{
    bins->next[bin] = SIZE_MAX;
    if (bins->head[space] == SIZE_MAX)
        bins->head[space] = bin;
    else
        bins->next[bins->tail[space]] = bin;
    bins->tail[space] = bin;
    bins->open[space / 64] |= UINT64_C(1) << space % 64;
}

/* The smallest space >= least that an open bin has left, or capacity + 1. */
static uint32_t find_space(const struct bins *bins, uint32_t least)
{
    uint32_t word = least / 64, last = bins->capacity / 64;
    uint64_t bits = bins->open[word] & ~UINT64_C(0) << least % 64;
    while (!bits && word < last)
        bits = bins->open[++word];
    return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits)
                : bins->capacity + 1;
}

/* Puts a document of `length` into a bin, opening one if none has room. Returns
 * the bin.
 */
static size_t place_document(struct bins *bins, uint32_t length)
{
    uint32_t space = find_space(bins, length);
    size_t bin = bins->count;
    if (space > bins->capacity) {
        bins->count++;
        space = bins->capacity;
    } else {
        bin = bins->head[space];
        bins->head[space] = bins->next[bin];
        if (bins->head[space] == SIZE_MAX)
            bins->open[space / 64] &= ~(UINT64_C(1) << space % 64);
    }
    put_bin(bins, bin, space - length);
    return bin;
}

/* Counting sort: fills `order` with the documents by decreasing length, stable.
 * `first` is workspace for capacity + 2 counts.
 */
static void sort_by_length(const uint32_t *lengths, size_t count,
                           uint32_t capacity, size_t *order, size_t *first)
{
    for (uint32_t i = 0; i <= capacity + 1; i++)
        first[i] = 0;
    for (size_t i = 0; i < count; i++)
        first[capacity - lengths[i] + 1]++;
    for (uint32_t i = 1; i <= capacity + 1; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < count; i++)
        order[first[capacity - lengths[i]]++] = i;
}

size_t dt_pack_best_fit(const uint32_t *lengths, size_t count,
                        uint32_t capacity, size_t *order, size_t *begin)
{
    struct bins bins = {
        .head = malloc((capacity + (size_t)2) * sizeof(size_t)),
        .tail = malloc((capacity + (size_t)1) * sizeof(size_t)),
        .next = malloc((count + 1) * sizeof(size_t)),
        .open = calloc(capacity / 64 + 1, sizeof(uint64_t)),
        .capacity = capacity,
    };
    size_t *sorted = malloc((count + 1) * sizeof(*sorted));
    size_t *bin = malloc((count + 1) * sizeof(*bin)), result = SIZE_MAX;
    if (bins.head && bins.tail && bins.next && bins.open && sorted && bin) {
        sort_by_length(lengths, count, capacity, sorted, bins.head);
        for (uint32_t i = 0; i <= capacity; i++)
            bins.head[i] = SIZE_MAX;
        for (size_t i = 0; i < count; i++)
            bin[i] = place_document(&bins, lengths[sorted[i]]);
        result = bins.count;
        for (size_t b = 0; b <= result; b++)
            begin[b] = 0;
        for (size_t i = 0; i < count; i++)
            begin[bin[i] + 1]++;
        for (size_t b = 0; b < result; b++)
            begin[b + 1] += begin[b];
        /* Counts begin[b + 1] down to the start of bin b. */
        for (size_t i = count; i-- > 0;)
            order[--begin[bin[i] + 1]] = sorted[i];
        for (size_t b = 0; b < result; b++)
            begin[b] = begin[b + 1];
        begin[result] = count;
    }
    free(bins.head);
    free(bins.tail);
    free(bins.next);
    free(bins.open);
    free(sorted);
    free(bin);
    return result;
}
