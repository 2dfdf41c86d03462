/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heads_norm.cu - RMSNorm over all heads of q, and over all heads of k
 *
 * Parts of the rows of qkv, each by a block. Backward, in place: dw += dy x
 * rstd, dx = rstd (w dy - x rstd^2 mean(w dy x)); one kernel sums dw, and the
 * next one overwrites dy.
 */
#include "config.h"

#include "ops/cuda/parts.cuh"

enum { THREADS = 256, MOST_PARTS = 256 };

/* The parts q, k, v of each row. */
template <typename X> struct Heads {
    X *out;      /* of backward dqkv */
    const X *in; /* qkv */
    const X *q_norm, *k_norm;
    float *rstd; /* (N, 2) */
    float *partial;
    float eps;
    size_t N;
    unsigned q, k; /* widths */

    __device__ size_t row() const
    {
        return q + 2 * (size_t)k;
    }
};

/* Part blockIdx.y of a row: 0 q, 1 k, 2 v */
struct HeadPart {
    unsigned first, width;
};

template <typename X>
__device__ static inline HeadPart part_of(const Heads<X> &h)
{
    const unsigned p = blockIdx.y;
    return {p == 0 ? 0 : p == 1 ? h.q : h.q + h.k, p == 0 ? h.q : h.k};
}

/* out = w x rstd, with rstd = 1 / sqrt(mean(x^2) + eps) over all heads of q or
 * of k; v is copied.
 */
template <typename X>
__global__ static void __launch_bounds__(THREADS) heads_norm_kernel(Heads<X> h)
{
    __shared__ float shared[WARP];
    const HeadPart part = part_of(h);
    const size_t n = blockIdx.x, at = n * h.row() + part.first;
    const X *w = blockIdx.y == 0 ? h.q_norm : h.k_norm;
    float sum = 0.0f;

    if (blockIdx.y == 2) {
        for (unsigned c = threadIdx.x; c < part.width; c += THREADS)
            h.out[at + c] = h.in[at + c];
        return;
    }
    for (unsigned c = threadIdx.x; c < part.width; c += THREADS) {
        const float x = to_float(h.in[at + c]);
        sum += x * x;
    }
    const float rstd =
        rsqrtf(block_sum(sum, shared) / (float)part.width + h.eps);
    for (unsigned c = threadIdx.x; c < part.width; c += THREADS)
        h.out[at + c] =
            from_float<X>(to_float(h.in[at + c]) * rstd * to_float(w[c]));
    if (threadIdx.x == 0)
        h.rstd[2 * n + blockIdx.y] = rstd;
}

/* partial(gridDim.y, q + k) = sums of dy x rstd, which is dw; thread c has
 * column c of some of the rows.
 */
template <typename X>
__global__ static void __launch_bounds__(THREADS)
    heads_columns_kernel(Heads<X> h)
{
    const unsigned c = blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;

    if (c >= h.q + h.k)
        return;
    for (size_t n = blockIdx.y; n < h.N; n += gridDim.y) {
        const size_t at = n * h.row() + c;
        sum += to_float(h.out[at]) * to_float(h.in[at]) *
               h.rstd[2 * n + (c < h.q ? 0 : 1)];
    }
    h.partial[(size_t)blockIdx.y * (h.q + h.k) + c] = sum;
}

/* dx = rstd (w dy - x rstd^2 mean(w dy x)), in the place of dy. */
template <typename X>
__global__ static void __launch_bounds__(THREADS)
    heads_norm_backward_kernel(Heads<X> h)
{
    __shared__ float shared[WARP];
    const HeadPart part = part_of(h);
    const size_t n = blockIdx.x, at = n * h.row() + part.first;
    const X *w = blockIdx.y == 0 ? h.q_norm : h.k_norm;
    const float rstd = h.rstd[2 * n + blockIdx.y];
    float product = 0.0f;

    for (unsigned c = threadIdx.x; c < part.width; c += THREADS)
        product +=
            to_float(w[c]) * to_float(h.out[at + c]) * to_float(h.in[at + c]);
    product = block_sum(product, shared) * rstd * rstd / (float)part.width;
    for (unsigned c = threadIdx.x; c < part.width; c += THREADS) {
        const float g = to_float(w[c]) * to_float(h.out[at + c]);
        h.out[at + c] =
            from_float<X>(rstd * (g - to_float(h.in[at + c]) * product));
    }
}

template <typename X>
static Heads<X> heads_of(struct dt_view out, struct dt_view qkv,
                         struct dt_view rstd, size_t N,
                         const struct dt_heads_norm *norm)
{
    Heads<X> h = {};

    h.out = data_of<X>(out);
    h.in = data_of<const X>(qkv);
    h.q_norm = data_of<const X>(norm->q_norm);
    h.k_norm = data_of<const X>(norm->k_norm);
    h.rstd = data_of<float>(rstd);
    h.eps = norm->eps;
    h.N = N;
    h.q = (unsigned)(norm->NH * norm->HS);
    h.k = (unsigned)(norm->NKV * norm->HS);
    assert(norm->q_norm.count == h.q && norm->k_norm.count == h.k);
    assert(qkv.count == N * (h.q + 2 * (size_t)h.k) && rstd.count == 2 * N);
    assert(out.count == qkv.count && N <= INT32_MAX);
    return h;
}

extern "C" void dt_cuda_heads_norm_forward(struct dt_stream *stream,
                                           struct dt_view out,
                                           struct dt_view rstd,
                                           struct dt_view qkv, size_t N,
                                           const struct dt_heads_norm *norm)
{
    if (N == 0)
        return;
    with_type(qkv.dtype, [&](auto zero) {
        using X = decltype(zero);
        Heads<X> h = heads_of<X>(out, qkv, rstd, N, norm);
        launch(stream, heads_norm_kernel<X>, dim3((unsigned)N, 3), THREADS, h);
    });
}

extern "C" void dt_cuda_heads_norm_backward(
    struct dt_stream *stream, struct dt_view dqkv, struct dt_view dq_norm,
    struct dt_view dk_norm, struct dt_view qkv, struct dt_view rstd, size_t N,
    const struct dt_heads_norm *norm, bool accumulate)
{
    const size_t q = norm->NH * norm->HS, k = norm->NKV * norm->HS;
    const size_t parts =
        parts_that_fit(stream, q + k, N < MOST_PARTS ? N : (size_t)MOST_PARTS);
    const bool frozen = dq_norm.count == 0 && dk_norm.count == 0;

    if (N > 0)
        with_type(qkv.dtype, [&](auto zero) {
            using X = decltype(zero);
            Heads<X> h = heads_of<X>(dqkv, qkv, rstd, N, norm);
            h.partial = (float *)stream->workspace;
            if (!frozen)
                launch(stream, heads_columns_kernel<X>,
                       dim3(blocks_for(q + k, THREADS), (unsigned)parts),
                       THREADS, h);
            launch(stream, heads_norm_backward_kernel<X>, dim3((unsigned)N, 2),
                   THREADS, h);
        });
    const Sums sums = {{data_of<float>(dq_norm), data_of<float>(dk_norm)},
                       {accumulate, accumulate}};
    if (!frozen)
        add_parts(stream, sums, (const float *)stream->workspace, parts, q,
                  q + k);
}
