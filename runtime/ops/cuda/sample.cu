/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.cu - draws tokens from their logits, a row in a block
 *
 * A row has the same bits in blocks of any size. Its tokens are cut into chunks
 * by V alone, each a warp's, whose lanes take neighbors; weights are added as
 * integers, which have one sum in any order, and where the k-th largest weight
 * or a share of them ends is found digit by digit of their bits (radix select).
 */
#include "config.h"

#include "ops/cuda/cuda.h"
#include "tensor/kernel.cuh"

namespace
{

enum {
    MOST_THREADS = 1024, /* of a block; half of them for many rows */
    MOST_CHUNKS = 512,
    STEP = 4 * WARP, /* a chunk is some of these */
};

/* Weights are e^((logit - largest) / temperature), at most 1, and begin with
 * two zero bits: three digits.
 */
enum { DIGIT_BITS = 10, DIGITS = 1 << DIGIT_BITS, PLACES = 3 };

typedef unsigned long long Sum; /* of weights, each in units of 2^-39 */

struct Sample {
    int32_t *ids;
    float *logp, *logits;
    const double *draws;
    const int32_t *seen; /* or NULL */
    unsigned V, chunk;   /* tokens of a row, and of each of its chunks */
    unsigned top_k;      /* 0: all */
    double top_p;        /* 1: all */
    float inverse;       /* of the temperature */
    float min_p, penalty;
    bool greedy;
    unsigned never[DT_SAMPLING_NEVER]; /* tokens that are not drawn, or V */
};

/* The largest of some logits, and the sum of e^((logit - largest) * inverse).
 */
struct Softmax {
    float max, sum;
};

struct Shared {
    Softmax softmax[MOST_CHUNKS];
    Sum sums[MOST_CHUNKS];              /* kept weights of each chunk */
    unsigned low[DIGITS], high[DIGITS]; /* sums of digits, in two words */
    unsigned long long likeliest[WARP]; /* of each warp, as rank_of */
    unsigned digit;
    Sum above;
};

__device__ unsigned lane(void)
{
    return threadIdx.x % WARP;
}
__device__ unsigned warp(void)
{
    return threadIdx.x / WARP;
}

__device__ Sum units(float weight)
{
    return weight > 0.0f ? (Sum)(weight * 0x1p39f) : 0; /* NaN: 0 */
}

__device__ Softmax join(Softmax a, Softmax b, float inverse)
{
    const float max = fmaxf(a.max, b.max);
    const Softmax all = {max, a.sum * expf((a.max - max) * inverse) +
                                  b.sum * expf((b.max - max) * inverse)};

    return max == -INFINITY ? Softmax{max, a.sum + b.sum} : all;
}

__device__ Softmax join_warp(Softmax own, float inverse)
{
    for (int step = WARP / 2; step > 0; step /= 2) {
        const Softmax other = {__shfl_xor_sync(0xffffffffu, own.max, step),
                               __shfl_xor_sync(0xffffffffu, own.sum, step)};
        own = join(own, other, inverse);
    }
    return own;
}

/* Larger for a larger logit, and for the first one of those alike; NaN: 0. */
__device__ unsigned long long rank_of(float logit, unsigned v)
{
    const unsigned bits = __float_as_uint(logit + 0.0f); /* not -0 */
    const unsigned order = bits >> 31 ? ~bits : bits | 1u << 31;

    return logit == logit ? (unsigned long long)order << 32 | ~v : 0;
}

__device__ unsigned long long warp_best(unsigned long long rank)
{
    for (int step = WARP / 2; step > 0; step /= 2) {
        const unsigned long long other =
            __shfl_xor_sync(0xffffffffu, rank, step);
        rank = other > rank ? other : rank;
    }
    return rank;
}

/* A row of logits, then of weights. */
struct Row {
    const Sample &a;
    Shared &shared;
    float *w;
    const int32_t *seen; /* or NULL */

    __device__ unsigned chunks() const
    {
        return (a.V + a.chunk - 1) / a.chunk;
    }
    __device__ unsigned end(unsigned chunk) const
    {
        return min(a.V, (chunk + 1) * a.chunk);
    }
    __device__ bool is_drawn(unsigned v) const
    {
        bool drawn = true;

#pragma unroll
        for (int i = 0; i < DT_SAMPLING_NEVER; i++)
            drawn &= v != a.never[i];
        return drawn;
    }
    __device__ float logit(unsigned v) const
    {
        const float z = w[v];

        if (!seen || !((unsigned)seen[v / 32] >> v % 32 & 1u))
            return z;
        return z > 0.0f ? z / a.penalty : z * a.penalty;
    }
};

/* The softmax of the whole row, and the likeliest token that may be drawn; 0:
 * all are NaN.
 */
__device__ Softmax look_at_logits(const Row &row, unsigned &likeliest)
{
    Shared &shared = row.shared;
    unsigned long long best = 0;
    Softmax all = {-INFINITY, 0.0f};

    for (unsigned c = warp(); c < row.chunks(); c += blockDim.x / WARP) {
        Softmax own = {-INFINITY, 0.0f};
        for (unsigned v = c * row.a.chunk + lane(); v < row.end(c); v += WARP) {
            const float z = row.logit(v);
            const unsigned long long rank = row.is_drawn(v) ? rank_of(z, v) : 0;
            best = rank > best ? rank : best;
            own = join(own, {z == z ? z : -INFINITY, z == z ? 1.0f : z},
                       row.a.inverse);
        }
        own = join_warp(own, row.a.inverse);
        if (lane() == 0)
            shared.softmax[c] = own;
    }
    best = warp_best(best);
    if (lane() == 0)
        shared.likeliest[warp()] = best;
    __syncthreads();
    best = lane() < blockDim.x / WARP ? shared.likeliest[lane()] : 0;
    best = warp_best(best);
    likeliest = best > 0 ? ~(unsigned)best : 0;
    for (unsigned c = lane(); c < row.chunks(); c += WARP)
        all = join(all, shared.softmax[c], row.a.inverse);
    return join_warp(all, row.a.inverse);
}

/* Adds up the weights of each chunk from `least` on; before that they are made
 * from logits, if there is a `most` of these.
 */
__device__ void add_chunks(const Row &row, float least, const float *most)
{
    __syncthreads();
    for (unsigned c = warp(); c < row.chunks(); c += blockDim.x / WARP) {
        Sum sum = 0;
        for (unsigned v = c * row.a.chunk + lane(); v < row.end(c); v += WARP) {
            if (most)
                row.w[v] = row.is_drawn(v)
                               ? expf((row.logit(v) - *most) * row.a.inverse)
                               : 0.0f;
            sum += row.w[v] >= least ? units(row.w[v]) : 0;
        }
        sum = warp_sum(sum);
        if (lane() == 0)
            row.shared.sums[c] = sum;
    }
    __syncthreads();
}

/* The sum of all chunks, in every thread. */
__device__ Sum sum_of_chunks(const Row &row)
{
    Sum sum = 0;

    for (unsigned c = lane(); c < row.chunks(); c += WARP)
        sum += row.shared.sums[c];
    return warp_sum(sum);
}

/* The sum over the lanes before this one. */
__device__ Sum sum_before(Sum own)
{
    Sum sum = own;

    for (unsigned step = 1; step < WARP; step *= 2) {
        const Sum other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane() >= step ? other : 0;
    }
    return sum - own;
}

/* The first lane that says so, or the last one. */
__device__ unsigned first_lane(bool so)
{
    const unsigned lanes = __ballot_sync(0xffffffffu, so);

    return lanes ? (unsigned)__ffs((int)lanes) - 1 : WARP - 1;
}

__device__ Sum sum_of_digit(const Shared &shared, unsigned digit)
{
    return (Sum)shared.high[digit] << 32 | shared.low[digit];
}

/* By the first warp: the digit, from the largest one on, with which the sum
 * comes to `want`, and the sum before it.
 */
__device__ void find_digit(Shared &shared, Sum want)
{
    enum { EACH = DIGITS / WARP };
    const unsigned first = DIGITS - 1 - lane() * EACH;
    Sum own = 0;

    for (unsigned i = 0; i < EACH; i++)
        own += sum_of_digit(shared, first - i);
    Sum above = sum_before(own);
    if (lane() != first_lane(above + own >= want))
        return;
    unsigned i = 0;
    for (; i + 1 < EACH; i++) {
        const Sum sum = sum_of_digit(shared, first - i);
        if (above + sum >= want)
            break;
        above += sum;
    }
    shared.digit = first - i;
    shared.above = above;
}

/* The largest weight from which on there are `want` tokens, or units of weight;
 * those below `least` are none.
 */
__device__ float select(const Row &row, bool count, Sum want, float least)
{
    Shared &shared = row.shared;
    unsigned bits = 0;

    for (int shift = (PLACES - 1) * DIGIT_BITS; shift >= 0;
         shift -= DIGIT_BITS) {
        for (unsigned d = threadIdx.x; d < DIGITS; d += blockDim.x)
            shared.low[d] = shared.high[d] = 0;
        __syncthreads();
        for (unsigned v = threadIdx.x; v < row.a.V; v += blockDim.x) {
            const unsigned own = __float_as_uint(row.w[v]) >> shift;
            if (!(row.w[v] >= least) || own >> DIGIT_BITS != bits)
                continue;
            const Sum x = count ? 1 : units(row.w[v]);
            const unsigned d = own % DIGITS, low = (unsigned)x;
            const unsigned carry = atomicAdd(&shared.low[d], low) > ~low;
            if (x >> 32 > 0 || carry > 0)
                atomicAdd(&shared.high[d], (unsigned)(x >> 32) + carry);
        }
        __syncthreads();
        if (warp() == 0)
            find_digit(shared, want);
        __syncthreads();
        bits = bits << DIGIT_BITS | shared.digit;
        want -= min(want, shared.above);
    }
    return __uint_as_float(bits);
}

/* The smallest weight that the limits keep; the largest one is 1. */
__device__ float least_kept(const Row &row)
{
    const Sample &a = row.a;
    float least = 0.0f;

    if (a.top_k > 0)
        least = select(row, true, a.top_k, least);
    if (a.top_p < 1.0) {
        if (a.top_k > 0)
            add_chunks(row, least, nullptr);
        const Sum want = (Sum)(a.top_p * (double)sum_of_chunks(row));
        least = select(row, false, want > 0 ? want : 1, least);
    }
    return fmaxf(least, a.min_p);
}

/* By a warp: the first token at which the sum of kept weights exceeds this
 * share of all of them; `likeliest` if all are NaN.
 */
__device__ unsigned draw_token(const Row &row, float least, double share,
                               unsigned likeliest)
{
    enum { EACH = MOST_CHUNKS / WARP };
    const Sum total = sum_of_chunks(row);
    const Sum most = (Sum)(share * (double)total);
    const Sum wanted = most < total ? most : total - 1;
    Sum own = 0, before;
    unsigned chunk, found;

    if (total == 0)
        return likeliest;
    for (unsigned i = 0; i < EACH; i++) {
        const unsigned c = lane() * EACH + i;
        own += c < row.chunks() ? row.shared.sums[c] : 0;
    }
    before = sum_before(own);
    found = first_lane(before + own > wanted);
    for (chunk = lane() * EACH; lane() == found && chunk < row.chunks();
         chunk++) {
        if (before + row.shared.sums[chunk] > wanted)
            break;
        before += row.shared.sums[chunk];
    }
    chunk = __shfl_sync(0xffffffffu, chunk, (int)found);
    before = __shfl_sync(0xffffffffu, before, (int)found);
    for (unsigned first = chunk * row.a.chunk;; first += WARP) {
        const unsigned v = first + lane();
        const float w = v < row.end(chunk) ? row.w[v] : 0.0f;
        own = w >= least ? units(w) : 0;
        const Sum until = before + sum_before(own) + own;
        if (__any_sync(0xffffffffu, until > wanted))
            return first + first_lane(until > wanted);
        before = __shfl_sync(0xffffffffu, until, WARP - 1);
    }
}

/* A token of row b: weights are e^((logit - max) / temperature), those that the
 * limits keep share the range [0, 1) in the order of tokens, and the draw falls
 * into one of them; or the likeliest token. logp is that among all weights. No
 * draw (-1): no token.
 */
__global__ void __launch_bounds__(MOST_THREADS) sample_kernel(Sample a)
{
    __shared__ Shared shared;
    const size_t b = blockIdx.x;
    const Row row = {a, shared, a.logits + b * a.V,
                     a.seen ? a.seen + b * ((a.V + 31) / 32) : nullptr};
    const double draw = a.draws[b];
    unsigned likeliest, token;

    if (!(draw >= 0.0)) {
        if (threadIdx.x == 0) {
            a.ids[b] = -1;
            a.logp[b] = 0.0f;
        }
        return;
    }
    const Softmax all = look_at_logits(row, likeliest);
    const float most = row.logit(likeliest);
    token = likeliest;
    if (!a.greedy) {
        add_chunks(row, 0.0f, &most);
        const float least = least_kept(row);
        if (least > 0.0f)
            add_chunks(row, least, nullptr);
        if (warp() == 0)
            token = draw_token(row, least, draw, likeliest);
    }
    if (threadIdx.x == 0) {
        const float own = a.greedy ? 0.0f : logf(row.w[token]);
        const float logp = own + (most - all.max) * a.inverse - logf(all.sum);
        a.ids[b] = (int32_t)token;
        a.logp[b] = logp > 0.0f ? 0.0f : logp; /* NaN stays NaN */
    }
}

/* Tokens of a chunk. */
unsigned chunk_of(unsigned V)
{
    return blocks_for(blocks_for(V, MOST_CHUNKS), STEP) * STEP;
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
    a.chunk = chunk_of(a.V);
    a.top_k = sampling->top_k < V ? (unsigned)sampling->top_k : 0;
    a.greedy = sampling->temperature == 0.0;
    a.inverse = a.greedy ? 1.0f : (float)(1.0 / sampling->temperature);
    a.top_p = sampling->top_p;
    a.min_p = (float)sampling->min_p;
    a.penalty = (float)sampling->repetition_penalty;
    for (size_t i = 0; i < DT_SAMPLING_NEVER; i++)
        a.never[i] =
            i < sampling->never_count ? (unsigned)sampling->never[i] : a.V;
    const bool few = B <= (size_t)dt_cuda_facts.multiprocessors;
    launch(stream, sample_kernel, (unsigned)B,
           few ? MOST_THREADS : MOST_THREADS / 2, a);
}
