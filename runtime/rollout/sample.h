/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - draws the next token from a model's logits */
#ifndef DT_ROLLOUT_SAMPLE_H
#define DT_ROLLOUT_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

struct dt_sampling {
    double temperature; /* divides the logits; 0: take the likeliest token */
    size_t top_k;       /* keep only the k largest logits; 0: all */
    double top_p;       /* of these, keep the fewest tokens that together have
                           this probability (Holtzman et al., "neural text
                           degeneration", sec. 3.1); 1: all */
    uint64_t seed;
};

/* Draws a token from softmax(logits(V) / temperature) with random number
 * `index` of the seed, so equal arguments give the same token. scratch(2 V) is
 * workspace.
 */
int32_t dt_sample(const struct dt_sampling *sampling, const float *logits,
                  size_t V, float *scratch, uint64_t index);

#endif /* DT_ROLLOUT_SAMPLE_H */
