/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - draws a token from a softmax, limited by top_k and top_p */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "rollout/sample.h"

static size_t likeliest_token(const float *logits, size_t V)
{
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        if (logits[v] > logits[best])
            best = v;
    return best;
}

static int compare_descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The k-th largest logit, found with a min-heap of the k largest so far. */
static float kth_largest(const float *logits, size_t V, size_t k, float *heap)
{
    size_t count = 0;
    for (size_t v = 0; v < V; v++) {
        size_t i = 0;
        if (count < k) { /* insert at the end and move up */
            for (i = count++; i > 0 && heap[(i - 1) / 2] > logits[v];
                 i = (i - 1) / 2)
                heap[i] = heap[(i - 1) / 2];
        } else if (logits[v] > heap[0]) { /* replace the root and move down */
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

/* The smallest weight in the nucleus: the fewest largest weights that together
 * reach `part` of the sum. Weights below (1 - part) / V of the sum cannot be in
 * it, since all of them together are less than the (1 - part) that may be left
 * out; so they need not be sorted.
 */
static float nucleus_limit(const float *weights, size_t V, double sum,
                           double part, float *sorted)
{
    double least = (1.0 - part) / (double)V * sum, left = part * sum;
    size_t count = 0, i = 0;
    for (size_t v = 0; v < V; v++)
        if (weights[v] >= least && weights[v] > 0)
            sorted[count++] = weights[v];
    qsort(sorted, count, sizeof(*sorted), compare_descending);
    while (i + 1 < count && (left -= sorted[i]) > 0)
        i++;
    return sorted[i];
}

int32_t dt_sample(const struct dt_sampling *sampling, const float *logits,
                  size_t V, float *scratch, uint64_t index)
{
    size_t best = likeliest_token(logits, V);
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
        float least = nucleus_limit(weights, V, sum, sampling->top_p, sorted);
        sum = 0;
        for (size_t v = 0; v < V; v++) {
            weights[v] = weights[v] >= least ? weights[v] : 0;
            sum += weights[v];
        }
    }

    /* Take the first token at which the running sum exceeds a random share. */
    double left = sum * dt_rng_uniform(sampling->seed, DT_RNG_SAMPLE, index);
    for (size_t v = 0; v < V; v++)
        if ((left -= weights[v]) < 0)
            return (int32_t)v;
    return (int32_t)best; /* reached only by rounding errors */
}
