/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sha256.c - SHA-256 (FIPS 180-4), with the instructions for it where the
 * processor has them: files of images are hashed each time they are read
 */
#include "config.h"

#include <endian.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/sha256.h"

enum { BLOCK = 64 };

/* The first 32 bits of the fractions of the cube roots of the first primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void expand(uint32_t w[64], const uint8_t *block)
{
    memcpy(w, block, BLOCK);
    for (int i = 0; i < 16; i++)
        w[i] = be32toh(w[i]);
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

/* One round: what v is after it, but for the order of its words. */
static inline void mix(uint32_t v[8], int turn, uint32_t added)
{
    uint32_t *const at[] = {&v[-turn & 7],      &v[(1 - turn) & 7],
                            &v[(2 - turn) & 7], &v[(3 - turn) & 7],
                            &v[(4 - turn) & 7], &v[(5 - turn) & 7],
                            &v[(6 - turn) & 7], &v[(7 - turn) & 7]};
    const uint32_t a = *at[0], b = *at[1], c = *at[2], e = *at[4];
    const uint32_t choice = (e & *at[5]) ^ (~e & *at[6]);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t t = *at[7] + choice + added +
                       (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25));
    *at[3] += t;
    *at[7] = t + majority + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22));
}

static void add_blocks(uint32_t state[8], const uint8_t *data, size_t count)
{
    uint32_t w[64], v[8];
    for (; count > 0; count--, data += BLOCK) {
        expand(w, data);
        memcpy(v, state, sizeof(v));
        for (int i = 0; i < 64; i += 8) {
            mix(v, 0, constants[i] + w[i]);
            mix(v, 1, constants[i + 1] + w[i + 1]);
            mix(v, 2, constants[i + 2] + w[i + 2]);
            mix(v, 3, constants[i + 3] + w[i + 3]);
            mix(v, 4, constants[i + 4] + w[i + 4]);
            mix(v, 5, constants[i + 5] + w[i + 5]);
            mix(v, 6, constants[i + 6] + w[i + 6]);
            mix(v, 7, constants[i + 7] + w[i + 7]);
        }
        for (int i = 0; i < 8; i++)
            state[i] += v[i];
    }
}

#ifdef __x86_64__

static bool has_sha(void)
{
    enum { LEAF = 7, SHA = 1 << 29 };
    unsigned a, b, c, d;
    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (b & SHA) &&
           __builtin_cpu_supports("sse4.1");
}

/* The instructions want the state as words f, e, b, a and h, g, d, c, and do
 * two rounds each; words of the message come four at a time.
 */
__attribute__((target("sha,sse4.1"))) static void add_blocks_sha(
    uint32_t state[8], const uint8_t *data, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i abcd = _mm_loadu_si128((const __m128i *)(const void *)state);
    const __m128i efgh =
        _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    const __m128i badc = _mm_shuffle_epi32(abcd, 0xB1);
    const __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1B);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
    for (; count > 0; count--, data += BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 16; i++) {
            __m128i *next = &w[i % 4];
            if (i < 4) {
                *next =
                    _mm_loadu_si128((const __m128i *)(const void *)data + i);
                *next = _mm_shuffle_epi8(*next, swap);
            } else {
                const __m128i last = w[(i + 3) % 4];
                *next = _mm_sha256msg1_epu32(*next, w[(i + 1) % 4]);
                *next = _mm_add_epi32(*next,
                                      _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                *next = _mm_sha256msg2_epu32(*next, last);
            }
            const __m128i sum = _mm_add_epi32(
                *next,
                _mm_loadu_si128((const __m128i *)(const void *)constants + i));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef =
                _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)(void *)state,
                     _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4),
                     _mm_alignr_epi8(dchg, feba, 8));
}

#endif

static void add(uint32_t state[8], const uint8_t *data, size_t count)
{
#ifdef __x86_64__
    if (has_sha()) {
        add_blocks_sha(state, data, count);
        return;
    }
#endif
    add_blocks(state, data, count);
}

void dt_sha256(const void *data, size_t bytes, uint8_t hash[DT_SHA256_BYTES])
{
    /* the same of the square roots of the first 8 primes */
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const size_t whole = bytes / BLOCK, rest = bytes % BLOCK;
    const uint64_t bits = htobe64((uint64_t)bytes * 8);
    /* what is left, a bit, zeros, and the length: one block or two */
    uint8_t last[2 * BLOCK] = {0};
    const size_t blocks = rest + 1 + sizeof(bits) <= BLOCK ? 1 : 2;
    add(state, data, whole);
    if (rest > 0)
        memcpy(last, (const uint8_t *)data + whole * BLOCK, rest);
    last[rest] = 0x80;
    memcpy(last + blocks * BLOCK - sizeof(bits), &bits, sizeof(bits));
    add(state, last, blocks);
    for (int i = 0; i < 8; i++)
        state[i] = htobe32(state[i]);
    memcpy(hash, state, DT_SHA256_BYTES);
}

void dt_sha256_text(const uint8_t hash[DT_SHA256_BYTES],
                    char hex[DT_SHA256_HEX])
{
    for (size_t i = 0; i < DT_SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
}

void dt_sha256_hex(const void *data, size_t bytes, char hex[DT_SHA256_HEX])
{
    uint8_t hash[DT_SHA256_BYTES];
    dt_sha256(data, bytes, hash);
    dt_sha256_text(hash, hex);
}
