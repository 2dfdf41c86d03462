/* SPDX-License-Identifier: Apache-2.0 */
/* dither_block.h - numbers that are rounded at random, a block at a time */
#ifndef DT_OPS_CPU_DITHER_BLOCK_H
#define DT_OPS_CPU_DITHER_BLOCK_H

#include "ops/cpu/dropout.h"
#include "ops/dither.h"

/* Elements whose random bits are computed together. */
enum { DT_DITHERED = LANES * DT_DITHER_BLOCK };

/* How many of the elements first .. end - 1 of a view are in one block, and how
 * many of the block are before them.
 */
struct dt_dither_span {
    size_t count, before;
};

static inline struct dt_dither_span dt_dither_span_of(
    const struct dt_dither *dither, size_t first, size_t end)
{
    const size_t before = (size_t)((dither->first + first) % DT_DITHERED);
    const size_t left = end - first, room = DT_DITHERED - before;

    return (struct dt_dither_span){left < room ? left : room, before};
}

/* The random bits of the block that has element `first` of a view. */
static inline void dt_dither_words(uint16_t random[DT_DITHERED],
                                   const struct dt_dither *dither,
                                   enum dt_dither_kind kind, size_t first)
{
    const uint64_t block = (dither->first + first) / DT_DITHERED * LANES;
    struct dt_drops drops = {
        .key = {(uint32_t)dither->seed, (uint32_t)(dither->seed >> 32)}};
    uint64_t blocks[LANES];
    dt_words words[4];

    dt_dither_counter(drops.counter, dither, kind, block);
    drops.counter[0] = 0; /* dt_drop_words takes it from the block */
    for (size_t j = 0; j < LANES; j++)
        blocks[j] = block + j;
    dt_drop_words(words, &drops, blocks);
    for (size_t j = 0; j < LANES; j++)
        for (size_t i = 0; i < 4; i++) {
            random[DT_DITHER_BLOCK * j + 2 * i] = (uint16_t)words[i][j];
            random[DT_DITHER_BLOCK * j + 2 * i + 1] =
                (uint16_t)(words[i][j] >> 16);
        }
}

/* to(count) = x(count), rounded with these bits */
static inline void dt_dither_narrow(uint16_t *to, const float *x,
                                    const uint16_t *random, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] = dt_bf16_at_random(x[i], random[i]);
}

#endif /* DT_OPS_CPU_DITHER_BLOCK_H */
