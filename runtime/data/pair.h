/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair.h - how an example of a cache holds a preference pair
 *
 * Two words, then the tokens of the chosen side and those of the rejected one,
 * each with the prompt in front, of which no token has DT_TARGET_BIT. The words
 * are the margin's bits and the number of tokens of the chosen side.
 */
#ifndef DT_DATA_PAIR_H
#define DT_DATA_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "data/preference.h"

enum { DT_PAIR_WORDS = 2 };

struct dt_pair {
    const uint32_t *tokens[DT_SIDES]; /* with DT_TARGET_BIT */
    size_t count[DT_SIDES];
    float margin;
};

/* Writes the two words of an example. */
static inline void dt_pair_write(uint32_t *example, float margin,
                                 size_t chosen_count)
{
    memcpy(example, &margin, sizeof(*example));
    example[1] = (uint32_t)chosen_count;
}

/* Finds the parts of an example of `count` words. False: it holds no pair. */
static inline bool dt_pair_find(const uint32_t *example, size_t count,
                                struct dt_pair *pair)
{
    if (count < DT_PAIR_WORDS || example[1] > count - DT_PAIR_WORDS)
        return false;
    memcpy(&pair->margin, example, sizeof(pair->margin));
    pair->count[DT_CHOSEN] = example[1];
    pair->count[DT_REJECTED] = count - DT_PAIR_WORDS - example[1];
    pair->tokens[DT_CHOSEN] = example + DT_PAIR_WORDS;
    pair->tokens[DT_REJECTED] =
        pair->tokens[DT_CHOSEN] + pair->count[DT_CHOSEN];
    return true;
}

#endif /* DT_DATA_PAIR_H */
