/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_gradient.cuh - what our own backward passes of attention share
 */
#ifndef DT_OPS_CUDA_ATTENTION_GRADIENT_CUH
#define DT_OPS_CUDA_ATTENTION_GRADIENT_CUH

#include "ops/cuda/attention_tile.cuh"

/* delta(B, NH, T) = sum of dout out over a head, a warp each */
template <typename X>
__global__ void delta_kernel(float *delta, const X *dout, const X *out,
                             Problem p)
{
    const size_t i =
        blockIdx.x * (size_t)(blockDim.x / WARP) + threadIdx.x / WARP;
    const bool there = i < p.B * p.NH * (size_t)p.T;
    const size_t lane = threadIdx.x % WARP, t = i % (size_t)p.T;
    const size_t b = i / (size_t)p.T / p.NH, h = i / (size_t)p.T % p.NH;
    const size_t at = ((b * (size_t)p.T + t) * p.NH + h) * p.HS;
    float sum = 0.0f;

    for (size_t d = lane; there && d < p.HS; d += WARP)
        sum += to_float(dout[at + d]) * to_float(out[at + d]);
    sum = warp_sum(sum);
    if (there && lane == 0)
        delta[i] = sum;
}

/* A query in the backward pass. */
struct Query {
    int t, first;
    float lse, delta; /* lse in units of ln 2 */
};

__device__ static inline Query query_of(const float *lse, const float *delta,
                                        const BlockTile &at, int t,
                                        const Problem &p)
{
    Query query = {t, first_seen(p, at.b, t), 0.0f, 0.0f};

    if (t < p.T) {
        size_t i = (at.b * p.NH + at.head) * (size_t)p.T + (size_t)t;
        query.lse = lse[i] * (float)M_LOG2E;
        query.delta = delta[i];
    }
    return query;
}

/* A score and dO V^T of it become P f and dS, without scale. */
__device__ static inline void score_gradient(float &score, float &ds,
                                             const Query &query, int s, float f,
                                             const Problem &p)
{
    bool seen = s >= query.first && s <= query.t;
    float slope, e = exp2f(score_of(score, slope, p) - query.lse);

    score = seen ? e * f : 0.0f;
    ds = seen ? e * (f * ds - query.delta) * slope : 0.0f;
}

#endif /* DT_OPS_CUDA_ATTENTION_GRADIENT_CUH */
