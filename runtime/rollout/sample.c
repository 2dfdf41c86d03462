/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - drawing from a softmax */
#include "config.h"

#include <math.h>
#include <stdlib.h>

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

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The k-th largest logit: k of them in a heap with the smallest on top. */
static float kth_largest(const float *logits, size_t V, size_t k, float *heap)
{
    size_t count = 0;
    for (size_t v = 0; v < V; v++) {
        size_t i = 0;
        if (count < k) { /* rises from the end */
            for (i = count++; i > 0 && heap[(i - 1) / 2] > logits[v];
                 i = (i - 1) / 2)
                heap[i] = heap[(i - 1) / 2];
        } else if (logits[v] > heap[0]) { /* sinks from the top */
            for (size_t child; (child = 2 * i + 1) < k; i = child) {
                child += child + 1 < k && heap[child + 1] < heap[child];
                if (heap[child] >= logits[v])
                    break;
                heap[i] = heap[child];
            }
        } else {
            continue;
        }
        heap[i] = logits[v];
    }
    return heap[0];
}

/* The smallest weight of the likeliest tokens that have `part` of the sum
 * together. Those below (1 - part) / V of the sum can not be among them: all
 * such weights have less than the rest that is left out.
 */
static float nucleus(const float *weights, size_t V, double sum, double part,
                     float *sorted)
{
    double least = (1.0 - part) / (double)V * sum, left = part * sum;
    size_t count = 0, i = 0;
    for (size_t v = 0; v < V; v++)
        if (weights[v] >= least && weights[v] > 0)
            sorted[count++] = weights[v];
    qsort(sorted, count, sizeof(*sorted), descending);
    while (i + 1 < count && (left -= sorted[i]) > 0)
        i++;
    return sorted[i];
}

int32_t dt_sample(const struct dt_sampling *sampling, const float *logits,
                  size_t V, float *scratch, uint64_t index)
{
    size_t best = likeliest(logits, V);
    if (sampling->temperature == 0)
        return (int32_t)best;

    float cut = -INFINITY, *weights = scratch, *sorted = scratch + V;
    if (sampling->top_k > 0 && sampling->top_k < V)
        cut = kth_largest(logits, V, sampling->top_k, scratch);
    double sum = 0, max = logits[best];
    for (size_t v = 0; v < V; v++) {
        weights[v] = 0;
        if (logits[v] >= cut)
            weights[v] = (float)exp((logits[v] - max) / sampling->temperature);
        sum += weights[v];
    }
    if (sampling->top_p < 1) {
        float least = nucleus(weights, V, sum, sampling->top_p, sorted);
        sum = 0;
        for (size_t v = 0; v < V; v++) {
            weights[v] = weights[v] >= least ? weights[v] : 0;
            sum += weights[v];
        }
    }

    /* the first token at which the running sum exceeds a random part of it */
    double left = sum * dt_rng_uniform(sampling->seed, DT_RNG_SAMPLE, index);
    for (size_t v = 0; v < V; v++)
        if ((left -= weights[v]) < 0)
            return (int32_t)v;
    return (int32_t)best; /* rounding left a rest */
}
