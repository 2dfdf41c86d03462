/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - Philox4x32-10 and numbers drawn from it */
#include "config.h"

#include <math.h>

#include "base/rng.h"

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)p0;
}

/* Ten rounds on the counter c with the key k, both as in the paper. */
static void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint32_t k[2] = {k0, k1};
    for (int i = 0; i < 10; i++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

void dt_rng_block(uint64_t seed, enum dt_rng_purpose purpose, uint64_t index,
                  uint32_t out[4])
{
    out[0] = (uint32_t)index;
    out[1] = (uint32_t)(index >> 32);
    out[2] = (uint32_t)purpose;
    out[3] = 0;
    philox(out, (uint32_t)seed, (uint32_t)(seed >> 32));
}

double dt_rng_draw(uint64_t seed, uint64_t prompt, uint32_t copy,
                   uint32_t token)
{
    uint32_t c[4] = {token, copy, (uint32_t)prompt,
                     (uint32_t)(prompt >> 32) | 1u << 29};
    philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
    return ((double)(c[0] >> 5) * 0x1p26 + (double)(c[1] >> 6)) * 0x1p-53;
}

void dt_rng_dither(uint64_t seed, uint32_t place, uint64_t step, uint64_t block,
                   uint32_t out[4])
{
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)step;
    out[3] = place | 1u << 30;
    philox(out, (uint32_t)seed, (uint32_t)(seed >> 32));
}

static float unit_interval(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

float dt_rng_uniform(uint64_t seed, enum dt_rng_purpose purpose, uint64_t index)
{
    uint32_t w[4];
    dt_rng_block(seed, purpose, index, w);
    return unit_interval(w[0]);
}

/* Two normal numbers from two words. */
static void box_muller(const uint32_t w[2], float out[2])
{
    float u = ((float)(w[0] >> 8) + 1.0f) * 0x1p-24f; /* (0, 1] */
    float radius = sqrtf(-2.0f * logf(u));
    float angle = 2.0f * (float)M_PI * unit_interval(w[1]);
    out[0] = radius * cosf(angle);
    out[1] = radius * sinf(angle);
}

void dt_rng_normals(float *out, size_t count, float std, uint64_t seed,
                    enum dt_rng_purpose purpose, uint64_t first)
{
    size_t i = 0;
    while (i < count) {
        uint32_t words[4];
        float four[4];
        dt_rng_block(seed, purpose, (first + i) / 4, words);
        box_muller(words, four);
        box_muller(words + 2, four + 2);
        for (size_t lane = (first + i) % 4; lane < 4 && i < count; lane++)
            out[i++] = std * four[lane];
    }
}

/* One pass of the Feistel network over 2*half_bits bits. */
static uint64_t feistel(uint64_t seed, uint64_t epoch, unsigned half_bits,
                        uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t c[4] = {(uint32_t)right, round | (uint32_t)DT_RNG_SHUFFLE << 8,
                         (uint32_t)epoch, (uint32_t)(epoch >> 32)};
        philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
        uint64_t next = left ^ (c[0] & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t dt_rng_permute(uint64_t seed, uint64_t epoch, uint64_t index,
                        uint64_t count)
{
    unsigned half_bits = 1;
    while (half_bits < 32 && ((uint64_t)1 << 2 * half_bits) < count)
        half_bits++;
    do
        index = feistel(seed, epoch, half_bits, index);
    while (index >= count); /* < 4 passes on average: the domain is < 4 count */
    return index;
}
