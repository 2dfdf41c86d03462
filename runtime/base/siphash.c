/* SPDX-License-Identifier: Apache-2.0 */
/*
 * siphash.c - SipHash-2-4 with 128 bits (Aumasson and Bernstein, "SipHash: a
 * fast short-input PRF", 2012, and the authors' extension of 2014)
 */
#include "config.h"

#include <endian.h>
#include <string.h>

#include "base/siphash.h"

enum {
    ROUNDS = 2,     /* for each word */
    END_ROUNDS = 4, /* for each half of the result */
};

static uint64_t load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof(word));
    return le64toh(word);
}

static void store(uint8_t *bytes, uint64_t word)
{
    word = htole64(word);
    memcpy(bytes, &word, sizeof(word));
}

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, ROUNDS);
    v[0] ^= word;
}

void dt_siphash(const uint8_t key[DT_SIPHASH_BYTES], const void *data,
                size_t bytes, uint8_t hash[DT_SIPHASH_BYTES])
{
    const uint64_t k0 = load(key), k1 = load(key + 8);
    const uint8_t *in = data;
    uint8_t last[8] = {0};
    uint64_t v[4] = {
        k0 ^ UINT64_C(0x736f6d6570736575),
        k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
        k0 ^ UINT64_C(0x6c7967656e657261),
        k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8)
        absorb(v, load(in + i));
    if (i < bytes)
        memcpy(last, in + i, bytes - i);
    last[7] = (uint8_t)bytes;
    absorb(v, load(last));
    v[2] ^= 0xee;
    mix(v, END_ROUNDS);
    store(hash, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    mix(v, END_ROUNDS);
    store(hash + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}
