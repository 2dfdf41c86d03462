/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - drawing from a softmax */
#include "config.h"

#include <math.h>

#include "algo/sample.h"
#include "base/rng.h"

static size_t likeliest(const float *logits, size_t V)
{
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        if (logits[v] > logits[best])
            best = v;
    return best;
}

/* The k-th largest of the values that occur, or the smallest. */
static float kth_largest(const float *logits, size_t V, size_t k)
{
    float kth = INFINITY;
    for (size_t n = 0; n < k; n++) {
        float next = -INFINITY;
        for (size_t v = 0; v < V; v++)
            if (logits[v] < kth && logits[v] > next)
                next = logits[v];
        if (next == -INFINITY)
            break;
        kth = next;
    }
    return kth;
}

int32_t dt_sample(const struct dt_sampling *sampling, const float *logits,
                  size_t V, uint64_t index)
{
    size_t best = likeliest(logits, V);
    if (sampling->temperature == 0)
        return (int32_t)best;

    float cut = sampling->top_k > 0 ? kth_largest(logits, V, sampling->top_k)
                                    : -INFINITY;
    double sum = 0, max = logits[best];
    for (size_t v = 0; v < V; v++)
        if (logits[v] >= cut)
            sum += exp((logits[v] - max) / sampling->temperature);

    /* the first token at which the running sum exceeds a random part of it */
    double left = sum * dt_rng_uniform(sampling->seed, DT_RNG_SAMPLE, index);
    for (size_t v = 0; v < V; v++) {
        if (logits[v] < cut)
            continue;
        left -= exp((logits[v] - max) / sampling->temperature);
        if (left < 0)
            return (int32_t)v;
    }
    return (int32_t)best; /* rounding left a rest */
}
