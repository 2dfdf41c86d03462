/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.cu - draws tokens from their logits, a row in a block
 *
 * Sums are made in one order: every thread adds the weights of a range of its
 * own, and the ranges are added in turn.
 */
#include "config.h"

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

namespace
{

enum { BLOCK = 512 };

struct Sample {
    int32_t *ids;
    float *logp, *logits;
    const double *draws;
    const int32_t *seen; /* or NULL */
    unsigned V, top_k;   /* top_k 0: all */
    float inverse;       /* of the temperature */
    float top_p, min_p, penalty;
    bool greedy;
    unsigned never_count, never[DT_SAMPLING_NEVER];
};

/* A row of weights, e^(logit / temperature) divided by the largest one. */
struct Row {
    float *w;
    unsigned V;

    __device__ unsigned first() const
    {
        return threadIdx.x * ((V + BLOCK - 1) / BLOCK);
    }
    __device__ unsigned end() const
    {
        const unsigned end = (threadIdx.x + 1) * ((V + BLOCK - 1) / BLOCK);
        return end < V ? end : V;
    }
    __device__ bool has(unsigned v) const /* in the range of this thread */
    {
        return v >= first() && v < end();
    }
};

/* The sum over this thread's weights from `least` on: of them, or of ones. */
__device__ float sum_range(const Row &row, float least, bool count)
{
    float sum = 0.0f;

    for (unsigned v = row.first(); v < row.end(); v++) {
        const float w = row.w[v];
        sum += w >= least ? count ? 1.0f : w : 0.0f;
    }
    return sum;
}

__device__ float sum_from(const Row &row, float least, bool count)
{
    __shared__ float shared[WARP];

    return block_sum(sum_range(row, least, count), shared);
}

/* The largest weight from which on the sum is `want` or more, which it is from
 * `least` on. Positive floats are in the order of their bits.
 */
__device__ float bisect(const Row &row, bool count, float want, float least)
{
    unsigned low = __float_as_uint(least), high = __float_as_uint(1.0f);

    while (low < high) {
        const unsigned middle = low + (high - low + 1) / 2;
        if (sum_from(row, __uint_as_float(middle), count) >= want)
            low = middle;
        else
            high = middle - 1;
    }
    return __uint_as_float(low);
}

/* The smallest weight that the limits keep; `most` is the largest one. */
__device__ float least_kept(const Row &row, float most, const Sample &a)
{
    float least = 0.0f;

    if (a.top_k > 0 && a.top_k < a.V)
        least = bisect(row, true, (float)a.top_k, least);
    if (a.top_p < 1.0f)
        least = bisect(row, false, a.top_p * sum_from(row, least, false),
                       least);
    return fmaxf(least, a.min_p * most);
}

/* The range in which the sum of all sums(BLOCK) before it and in it exceeds
 * this share of all, and the rest of the share there. By one thread.
 */
__device__ void find_range(const float *sums, double share, unsigned &range,
                           double &rest)
{
    double total = 0.0, left;

    for (unsigned i = 0; i < BLOCK; i++)
        total += sums[i];
    left = share * total;
    for (unsigned i = 0; i < BLOCK; i++) {
        if (sums[i] > 0.0f) { /* if rounding lets none exceed, it is the last */
            range = i;
            rest = left;
        }
        if (left < sums[i])
            break;
        left -= sums[i];
    }
}

/* The first token at which the sum of kept weights exceeds this share of all of
 * them, in one thread, and -1 in the others; `likeliest` if all are NaN.
 */
__device__ int32_t draw_token(const Row &row, float least, double share,
                              int32_t likeliest)
{
    __shared__ float sums[BLOCK];
    __shared__ unsigned range;
    __shared__ double rest;
    int32_t token = likeliest;

    sums[threadIdx.x] = sum_range(row, least, false);
    __syncthreads();
    if (threadIdx.x == 0) {
        range = 0;
        rest = 0.0;
        find_range(sums, share, range, rest);
    }
    __syncthreads();
    if (threadIdx.x != range)
        return -1;
    double left = rest;
    for (unsigned v = row.first(); v < row.end() && left >= 0.0; v++) {
        const float w = row.w[v];
        if (w >= least && w > 0.0f) {
            token = (int32_t)v;
            left -= (double)w;
        }
    }
    return token;
}

/* The first token with the largest logit; NaN is none. */
__device__ int32_t find_likeliest(const Row &row, float max)
{
    __shared__ float shared[WARP];
    float first = -(float)row.V; /* negative, exact below 2^24 */

    for (unsigned v = row.end(); v > row.first(); v--)
        first = row.w[v - 1] == max ? -(float)(v - 1) : first;
    first = -block_max(first, shared);
    return first < (float)row.V ? (int32_t)first : 0;
}

/* Puts x in the places of the tokens that are never drawn, and what was there
 * into x.
 */
__device__ void swap_never(const Row &row, const Sample &a,
                           float x[DT_SAMPLING_NEVER])
{
    for (unsigned i = 0; i < a.never_count; i++) {
        if (row.has(a.never[i])) {
            const float held = row.w[a.never[i]];
            row.w[a.never[i]] = x[i];
            x[i] = held;
        }
    }
}

__device__ void penalize(const Row &row, const int32_t *seen, float penalty)
{
    for (unsigned v = row.first(); v < row.end(); v++) {
        const float z = row.w[v];
        if ((unsigned)seen[v / 32] >> v % 32 & 1u)
            row.w[v] = z > 0.0f ? z / penalty : z * penalty;
    }
}

/* A token of row b: weights are e^((logit - max) / temperature), those that the
 * limits keep share the range [0, 1) in the order of tokens, and the draw falls
 * into one of them; or the likeliest token. logp is that among all weights. No draw (-1): no token.
 */
__global__ void __launch_bounds__(BLOCK) sample_kernel(Sample a)
{
    __shared__ float shared[WARP];
    const size_t b = blockIdx.x;
    const Row row = {a.logits + b * a.V, a.V};
    const double draw = a.draws[b];
    float max = -INFINITY, held[DT_SAMPLING_NEVER], zeros[DT_SAMPLING_NEVER];

    if (!(draw >= 0.0)) {
        if (threadIdx.x == 0) {
            a.ids[b] = -1;
            a.logp[b] = 0.0f;
        }
        return;
    }
    if (a.seen)
        penalize(row, a.seen + b * ((a.V + 31) / 32), a.penalty);
    for (int i = 0; i < DT_SAMPLING_NEVER; i++) {
        held[i] = NAN; /* which is no maximum */
        zeros[i] = 0.0f;
    }
    swap_never(row, a, held);
    for (unsigned v = row.first(); v < row.end(); v++)
        max = fmaxf(max, row.w[v]);
    max = block_max(max, shared);
    const int32_t likeliest = find_likeliest(row, max);
    if (a.never_count > 0) {
        for (unsigned i = 0; i < a.never_count; i++)
            max = fmaxf(max, held[i]);
        max = block_max(max, shared);
        swap_never(row, a, held);
    }
    for (unsigned v = row.first(); v < row.end(); v++)
        row.w[v] = expf((row.w[v] - max) * a.inverse);
    __syncthreads();
    const float all = sum_from(row, 0.0f, false);
    swap_never(row, a, zeros);
    int32_t token = threadIdx.x == 0 ? likeliest : -1;
    if (!a.greedy)
        token = draw_token(row, least_kept(row, row.w[likeliest], a), draw,
                           likeliest);
    if (token >= 0) {
        const float logp = logf(row.w[token]) - logf(all);
        a.ids[b] = token;
        a.logp[b] = logp > 0.0f ? 0.0f : logp; /* NaN stays NaN */
    }
}

} // namespace

extern "C" void dt_cuda_sample(struct dt_stream *stream, struct dt_view ids,
                               struct dt_view logp, struct dt_view logits,
                               struct dt_view draws, struct dt_view seen,
                               const struct dt_sampling *sampling, size_t B,
                               size_t V)
{
    const bool penalty = sampling->repetition_penalty != 1.0;

    assert(ids.count == B && logp.count == B && draws.count == B);
    assert(logits.count == B * V && V < 1 << 24);
    assert(seen.count == (penalty ? B * ((V + 31) / 32) : 0));
    if (B == 0)
        return;
    Sample a = {};
    a.ids = data_of<int32_t>(ids);
    a.logp = data_of<float>(logp);
    a.logits = data_of<float>(logits);
    a.draws = data_of<const double>(draws);
    a.seen = penalty ? data_of<const int32_t>(seen) : nullptr;
    a.V = (unsigned)V;
    a.top_k = sampling->top_k < V ? (unsigned)sampling->top_k : 0;
    a.greedy = sampling->temperature == 0.0;
    a.inverse = a.greedy ? 1.0f : (float)(1.0 / sampling->temperature);
    a.top_p = (float)sampling->top_p;
    a.min_p = (float)sampling->min_p;
    a.penalty = (float)sampling->repetition_penalty;
    a.never_count = (unsigned)sampling->never_count;
    for (unsigned i = 0; i < a.never_count; i++)
        a.never[i] = (unsigned)sampling->never[i];
    launch(stream, sample_kernel, (unsigned)B, BLOCK, a);
}
