/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - by which number a word is multiplied in the hash of a tensor
 *
 * The hash (dt_ops.hash) is a sum, so threads may add in any order. Every
 * factor is odd: another value of one word changes the sum, whatever the value
 * and the word. Several words that change together leave it as it is only if
 * their differences, times factors that look random, add up to a multiple of
 * 2^64.
 */
#ifndef DT_OPS_HASH_H
#define DT_OPS_HASH_H

#include <stdint.h>

#ifdef __CUDACC__
#define DT_HASH_FUNCTION __host__ __device__ static inline
#else
#define DT_HASH_FUNCTION static inline
#endif

/* The factor of word i; two words that are 2^32 words apart have the same. */
DT_HASH_FUNCTION uint32_t dt_hash_factor(uint32_t i)
{
    i *= UINT32_C(0x9e3779b1);
    i ^= i >> 15;
    i *= UINT32_C(0x85ebca77);
    return i | 1;
}

#endif /* DT_OPS_HASH_H */
