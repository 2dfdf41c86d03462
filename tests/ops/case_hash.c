/* SPDX-License-Identifier: Apache-2.0 */
/* case_hash.c - the hash of a tensor's bits */
#include "config.h"

#include <string.h>

#include "harness.h"
#include "ops/hash.h"

/* A sum that is there already. */
static struct dt_view begun(void)
{
    struct dt_view sum = tensor_rows(1);
    *dt_view_i64(sum) = INT64_C(-7);
    return sum;
}

static uint64_t hash_of(struct dt_view x)
{
    struct dt_view sum = begun();
    ops->hash(NULL, sum, x);
    return (uint64_t)*dt_view_i64(sum);
}

static uint64_t wanted_of(struct dt_view x)
{
    uint64_t sum = (uint64_t)INT64_C(-7);
    uint32_t word;
    for (size_t i = 0; i < dt_view_bytes(x) / sizeof(word); i++) {
        memcpy(&word, (char *)dt_view_data(x) + i * sizeof(word), sizeof(word));
        sum += (uint64_t)word * dt_hash_factor((uint32_t)i);
    }
    return sum;
}

/* The last one has more than one vector for each thread of any backend. */
void test_hash(void **state)
{
    const size_t words[] = {0, 1, 3, 4, 15, 16, 17, 4099, 16385, 300007};
    (void)state;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        for (size_t t = 0; t < TYPE_COUNT; t++) {
            const size_t ratio = sizeof(uint32_t) / dt_dtype_bytes(TYPES[t]);
            /* neither its beginning nor its end fits a vector */
            struct dt_view all = tensor_of(TYPES[t], (words[i] + 1) * ratio);
            struct dt_view x = dt_view_slice(all, ratio, words[i] * ratio);
            assert_true(hash_of(x) == wanted_of(x));
            assert_true(hash_of(all) == wanted_of(all));
        }
}

/* Each bit of a word counts, in any place, and so does the order of words. */
void test_hash_bits(void **state)
{
    enum { WORDS = 1000 };
    struct dt_view x = tensor(WORDS);
    uint32_t *word = dt_view_data(x);
    const uint64_t before = hash_of(x);
    (void)state;

    for (size_t i = 0; i < WORDS; i += 37)
        for (unsigned bit = 0; bit < 32; bit++) {
            word[i] ^= UINT32_C(1) << bit;
            assert_true(hash_of(x) != before);
            word[i] ^= UINT32_C(1) << bit;
        }
    const uint32_t first = word[0];
    word[0] = word[WORDS - 1];
    word[WORDS - 1] = first;
    assert_true(hash_of(x) != before);
}
