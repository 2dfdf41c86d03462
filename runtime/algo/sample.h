/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - the next token, drawn from a model's logits */
#ifndef DT_ALGO_SAMPLE_H
#define DT_ALGO_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct dt_sampling {
    double temperature; /* logits are divided by it; 0: the likeliest token */
    size_t top_k;       /* only tokens with the k largest logits; 0: all */
    double top_p;       /* of these only the likeliest, as few as have this
                           part of the probability together (Holtzman et al.,
                           "neural text degeneration", sec. 3.1); 1: all */
    uint64_t seed;
};

/* The token drawn from softmax(logits(V) / temperature), as draw `index` of the
 * seed: the same for the same arguments. scratch(2 V) is overwritten.
 */
int32_t dt_sample(const struct dt_sampling *sampling, const float *logits,
                  size_t V, float *scratch, uint64_t index);

#endif /* DT_ALGO_SAMPLE_H */
