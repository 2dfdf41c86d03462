/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_math_backward.cu - gradients of attention in plain fp32
 *
 * With P = exp(S - lse), f the factors of dropout (1 without) and D = sum(dout
 * out) of each query:
 *   dV = (P f)^T dO;  dS = P (f dO V^T - D) scale;  dQ = dS K;  dK = dS^T Q
 * One kernel for D, one for dQ, one for dK and dV. The last two compute the
 * scores again, so that only one block adds to each element.
 */
#include "config.h"

#include "ops/cuda/attention_gradient.cuh"
#include "ops/workspace.h"

template <typename X, int SLICE>
__global__ void __launch_bounds__(THREADS)
    backward_queries_kernel(X *dqkv, const X *dout, const float *lse,
                            const float *delta, const X *qkv, Problem p)
{
    __shared__ SharedTiles space;
    BlockTile at = block_tile_of(p, p.NH, SLICE);
    at.t = (p.T - 1) / TILE * TILE - at.t;
    const size_t kv_head = p.NH + at.head / heads_shared(p);
    const Head<const X> q = head_of(qkv, at.b, at.head, p);
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const Head<const X> dy = out_head(dout, at.b, at.head, p);
    const int row = thread_row(), column = thread_column();
    const float scale[EACH] = {p.scale, p.scale, p.scale, p.scale};
    Sums<SLICE> sums = {};
    Query query[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++)
        query[i] = query_of(lse, delta, at, at.t + row + i, p);
    for (int s = first_of_tile(p, at.b, at.t) / TILE * TILE;
         s < min(at.t + TILE, p.T); s += TILE) {
        float score[EACH][EACH] = {}, ds[EACH][EACH] = {};
        multiply_tiles(score, space, q, at.t, k, s, p);
        multiply_tiles(ds, space, dy, at.t, v, s, p);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float f[EACH] = {1.0f, 1.0f, 1.0f, 1.0f};
            if (p.drops.rows)
                dropout_factors(f, p, at.b, at.head, query[i].t, s + column);
            for (int j = 0; j < EACH; j++)
                score_gradient(score[i][j], ds[i][j], query[i], s + column + j,
                               f[j], p);
        }
        share_weights(space, ds);
        add_weighted<SLICE>(sums, space, k, s, at.d, p);
    }
    store_sums<SLICE>(head_of(dqkv, at.b, at.head, p), at.t, at.d, sums, scale,
                      p);
}

/* Loops over the queries that attend to the keys, of all heads that share them.
 */
template <typename X, int SLICE>
__global__ void __launch_bounds__(THREADS)
    backward_keys_kernel(X *dqkv, const X *dout, const float *lse,
                         const float *delta, const X *qkv, Problem p)
{
    __shared__ SharedTiles space;
    const BlockTile at = block_tile_of(p, p.NKV, SLICE);
    const size_t kv_head = p.NH + at.head;
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const int row = thread_row(), column = thread_column();
    const int last = min(at.t + TILE, p.T) - 1;
    const int end =
        p.window > 0 && p.window < p.T - last ? last + p.window : p.T;
    const float scale[EACH] = {p.scale, p.scale, p.scale, p.scale};
    const float one[EACH] = {1.0f, 1.0f, 1.0f, 1.0f};
    Sums<SLICE> dk = {}, dv = {};

    for (int t = at.t; t < end; t += TILE) {
        if (first_of_tile(p, at.b, t) > last)
            continue;
        for (size_t h = 0; h < heads_shared(p); h++) {
            const BlockTile of = {at.b, at.head * heads_shared(p) + h, t, at.d};
            const Head<const X> q = head_of(qkv, at.b, of.head, p);
            const Head<const X> dy = out_head(dout, at.b, of.head, p);
            float score[EACH][EACH] = {}, ds[EACH][EACH] = {};
            multiply_tiles(score, space, k, at.t, q, t, p);
            multiply_tiles(ds, space, v, at.t, dy, t, p);
#pragma unroll
            for (int j = 0; j < EACH; j++) {
                const Query query = query_of(lse, delta, of, t + column + j, p);
                float f[EACH] = {1.0f, 1.0f, 1.0f, 1.0f};
                if (p.drops.rows)
                    dropout_factors(f, p, at.b, of.head, query.t, at.t + row);
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    score_gradient(score[i][j], ds[i][j], query, at.t + row + i,
                                   f[i], p);
            }
            share_weights(space, score);
            add_weighted<SLICE>(dv, space, dy, t, at.d, p);
            share_weights(space, ds);
            add_weighted<SLICE>(dk, space, q, t, at.d, p);
        }
    }
    store_sums<SLICE>(head_of(dqkv, at.b, kv_head, p), at.t, at.d, dk, scale,
                      p);
    store_sums<SLICE>(head_of(dqkv, at.b, kv_head + p.NKV, p), at.t, at.d, dv,
                      one, p);
}

void dt_cuda_attention_math_backward(struct dt_stream *stream,
                                     struct dt_view dqkv, struct dt_view dout,
                                     struct dt_view out, struct dt_view lse,
                                     struct dt_view qkv,
                                     struct dt_view workspace,
                                     const struct dt_attention *a)
{
    assert_shapes(a, out, lse, qkv);
    assert(dqkv.count == qkv.count && dout.count == out.count);
    assert(workspace.count >= dt_workspace_attention(a));
    with_type(qkv.dtype, [=](auto x) {
        using X = decltype(x);
        using Kernel = void (*)(X *, const X *, const float *, const float *,
                                const X *, Problem);
        X *to = data_of<X>(dqkv), *dy = data_of<X>(dout);
        X *y = data_of<X>(out), *from = data_of<X>(qkv);
        float *delta = dt_view_f32(workspace);
        Problem p =
            problem_of(a, aligned(a->HS, wide<X>(), sizeof(X), to, dy, from));
        const bool narrow = slice_of(a) == NARROW_SLICE;
        Kernel queries = narrow ? backward_queries_kernel<X, NARROW_SLICE>
                                : backward_queries_kernel<X, WIDE_SLICE>;
        Kernel keys = narrow ? backward_keys_kernel<X, NARROW_SLICE>
                             : backward_keys_kernel<X, WIDE_SLICE>;
        launch(stream, delta_kernel<X>, blocks_for(lse.count, THREADS / WARP),
               THREADS, delta, dy, y, p);
        launch(stream, queries, blocks_of(p, p.NH), THREADS, to, dy,
               dt_view_f32(lse), delta, from, p);
        launch(stream, keys, blocks_of(p, p.NKV), THREADS, to, dy,
               dt_view_f32(lse), delta, from, p);
    });
}
