/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - the hash of a tensor's bits, as fast as memory is read */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/hash.h"

enum {
    LINE = 16,    /* words of a cache line */
    AHEAD = 1024, /* words to prefetch */
};

/* The hash of words [first, end). */
static uint64_t hash_words(const uint32_t *word, size_t first, size_t end)
{
    uint64_t sum = 0, lane[LINE] = {0};

    for (; first + LINE <= end; first += LINE) {
        const uint32_t from = (uint32_t)first;
        __builtin_prefetch(word + first + AHEAD);
#pragma omp simd
        for (uint32_t j = 0; j < LINE; j++)
            lane[j] += (uint64_t)word[first + j] * dt_hash_factor(from + j);
    }
    for (; first < end; first++)
        sum += (uint64_t)word[first] * dt_hash_factor((uint32_t)first);
    for (size_t j = 0; j < LINE; j++)
        sum += lane[j];
    return sum;
}

void DT_CPU(hash)(struct dt_stream *stream, struct dt_view sum,
                  struct dt_view x)
{
    const size_t words = dt_view_bytes(x) / sizeof(uint32_t);
    uint64_t total = 0;
    (void)stream;
    assert(sum.count == 1 && dt_view_bytes(x) % sizeof(uint32_t) == 0);

    if (words == 0)
        return;
#pragma omp parallel reduction(+ : total) if (words > DT_CPU_SMALL)
    {
        size_t first, end;
        dt_cpu_share(words, &first, &end);
        total += hash_words(dt_view_data(x), first, end);
    }
    *dt_view_i64(sum) = (int64_t)((uint64_t)*dt_view_i64(sum) + total);
}
