/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng.h - counter-based random numbers: Philox4x32-10
 *
 * Formula: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", SC'11. A draw is a pure function of (seed, purpose, index), so no
 * result depends on rank, world size, thread count or call order.
 */
#ifndef DT_BASE_RNG_H
#define DT_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The purpose of a stream of draws. Values are part of the checkpoint contract:
 * never renumber.
 */
enum dt_rng_purpose {
    DT_RNG_INIT = 1,    /* weights; index = global element number */
    DT_RNG_SHUFFLE = 2, /* data order */
};

/* Writes the four 32-bit words of draw `index` to out. */
void dt_rng_block(uint64_t seed, enum dt_rng_purpose purpose, uint64_t index,
                  uint32_t out[4]);

/* Uniform in [0, 1), 24 bits, from draw `index`. */
float dt_rng_uniform(uint64_t seed, enum dt_rng_purpose purpose,
                     uint64_t index);

/* Uniform in [0, 1), 53 bits, to draw token `token` of copy `copy` of a
 * completion of prompt `prompt` < 2^61. The block with the counter (token,
 * copy, prompt, its high part + 2^29).
 */
double dt_rng_draw(uint64_t seed, uint64_t prompt, uint32_t copy,
                   uint32_t token);

/* Four random words, a byte for each of 16 numbers that are rounded to few
 * bits: elements 16 * block .. of step `step` < 2^32 at `place` < 2^30. The
 * block with the counter (block, its high part, step, place + 2^30).
 */
void dt_rng_dither(uint64_t seed, uint32_t place, uint64_t step, uint64_t block,
                   uint32_t out[4]);

/* out[i] = std * the standard normal number first + i, for i < count. Four come
 * from one block, by Box-Muller (Annals of Math. Statistics 29, 1958).
 */
void dt_rng_normals(float *out, size_t count, float std, uint64_t seed,
                    enum dt_rng_purpose purpose, uint64_t first);

/* Position of element `index` in a permutation of 0..count-1 that is a pure
 * function of (seed, epoch): a keyed Feistel network over the next even power
 * of two with cycle walking. O(1) time and memory. index < count.
 */
uint64_t dt_rng_permute(uint64_t seed, uint64_t epoch, uint64_t index,
                        uint64_t count);

#endif /* DT_BASE_RNG_H */
