/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_mma_backward.cu - gradients of attention on tensor cores
 *
 * As attention_math_backward.cu, except that P f and dS are rounded before they
 * are multiplied.
 */
#include "config.h"

#include "ops/cuda/attention_mma.cuh"

template <typename X, int D>
__global__ void __launch_bounds__(MMA_THREADS)
    mma_queries_kernel(X *dqkv, const X *dout, const float *lse,
                       const float *delta, const X *qkv, Problem p)
{
    constexpr int COLUMNS = COLUMNS_OF(D), N = COLUMNS / 8;
    __shared__ RowTile<X, D, COLUMNS> keys, values;
    __shared__ TransposedTile<X, D, COLUMNS> transposed_keys;
    BlockTile at = block_tile_of(p, p.NH, D);
    at.t = (p.T - 1) / TILE * TILE - at.t;
    const size_t kv_head = p.NH + at.head / heads_shared(p);
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const int own = at.t + (int)threadIdx.x / WARP * 16;
    const float scale[2] = {p.scale, p.scale};
    float sums[D / 8][4] = {};
    Query query[2];
    FragmentA q[D / 16], dy[D / 16];

    load_fragment_a<D>(q, head_of(qkv, at.b, at.head, p), own, p);
    load_fragment_a<D>(dy, out_head(dout, at.b, at.head, p), own, p);
    for (int i = 0; i < 2; i++)
        query[i] = query_of(lse, delta, at, own + group_row() + i * 8, p);
    for (int s = first_of_tile(p, at.b, at.t) / COLUMNS * COLUMNS;
         s < min(at.t + TILE, p.T); s += COLUMNS) {
        float score[N][4], ds[N][4];
        __syncthreads();
        load_columns<X, D, COLUMNS>(&keys, &transposed_keys, k, s, p);
        load_columns<X, D, COLUMNS>(&values, nullptr, v, s, p);
        __syncthreads();
        multiply_columns<X, D, COLUMNS>(score, q, keys);
        multiply_columns<X, D, COLUMNS>(ds, dy, values);
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const int key = s + n * 8 + group_column();
                float f[2] = {1.0f, 1.0f};
                if (p.drops.rows)
                    pair_factors(f, p, at.b, at.head, query[i].t, key);
#pragma unroll
                for (int j = 0; j < 2; j++)
                    score_gradient(score[n][2 * i + j], ds[n][2 * i + j],
                                   query[i], key + j, f[j], p);
            }
        }
        add_weighted_columns<X, D, COLUMNS>(sums, ds, transposed_keys);
    }
    store_rows<X, D>(head_of(dqkv, at.b, at.head, p), own, sums, scale, p);
}

template <typename X, int D>
__global__ void __launch_bounds__(MMA_THREADS)
    mma_keys_kernel(X *dqkv, const X *dout, const float *lse,
                    const float *delta, const X *qkv, Problem p)
{
    constexpr int COLUMNS = COLUMNS_OF(D), N = COLUMNS / 8;
    __shared__ RowTile<X, D, COLUMNS> queries, gradients;
    __shared__ TransposedTile<X, D, COLUMNS> transposed_queries,
        transposed_gradients;
    __shared__ Query query[COLUMNS];
    const BlockTile at = block_tile_of(p, p.NKV, D);
    const size_t kv_head = p.NH + at.head;
    const int own = at.t + (int)threadIdx.x / WARP * 16;
    const int last = min(at.t + TILE, p.T) - 1;
    const int end =
        p.window > 0 && p.window < p.T - last ? last + p.window : p.T;
    const float scale[2] = {p.scale, p.scale}, one[2] = {1.0f, 1.0f};
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};
    FragmentA k[D / 16], v[D / 16];

    load_fragment_a<D>(k, head_of(qkv, at.b, kv_head, p), own, p);
    load_fragment_a<D>(v, head_of(qkv, at.b, kv_head + p.NKV, p), own, p);
    for (int t = at.t; t < end; t += COLUMNS) {
        if (first_of_tile(p, at.b, t) > last)
            continue;
        for (size_t h = 0; h < heads_shared(p); h++) {
            const BlockTile of = {at.b, at.head * heads_shared(p) + h, t, 0};
            float score[N][4], ds[N][4];
            __syncthreads();
            load_columns<X, D, COLUMNS>(&queries, &transposed_queries,
                                        head_of(qkv, at.b, of.head, p), t, p);
            load_columns<X, D, COLUMNS>(&gradients, &transposed_gradients,
                                        out_head(dout, at.b, of.head, p), t, p);
            if (threadIdx.x < COLUMNS)
                query[threadIdx.x] =
                    query_of(lse, delta, of, t + (int)threadIdx.x, p);
            __syncthreads();
            multiply_columns<X, D, COLUMNS>(score, k, queries);
            multiply_columns<X, D, COLUMNS>(ds, v, gradients);
#pragma unroll
            for (int n = 0; n < N; n++) {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const Query &seen = query[n * 8 + group_column() + j % 2];
                    const int key = own + group_row() + j / 2 * 8;
                    const float f =
                        p.drops.rows
                            ? score_factor(p, at.b, of.head, seen.t, key)
                            : 1.0f;
                    score_gradient(score[n][j], ds[n][j], seen, key, f, p);
                }
            }
            add_weighted_columns<X, D, COLUMNS>(dv, score,
                                                transposed_gradients);
            add_weighted_columns<X, D, COLUMNS>(dk, ds, transposed_queries);
        }
    }
    store_rows<X, D>(head_of(dqkv, at.b, kv_head, p), own, dk, scale, p);
    store_rows<X, D>(head_of(dqkv, at.b, kv_head + p.NKV, p), own, dv, one, p);
}

/* D: HS rounded up */
template <typename X, int D>
static void launch_mma_backward(struct dt_stream *stream, X *to, const X *dy,
                                const X *y, const float *lse, float *delta,
                                const X *from, const Problem &p)
{
    const size_t queries = p.B * p.NH * (size_t)p.T;

    launch(stream, delta_kernel<X>, blocks_for(queries, THREADS / WARP),
           THREADS, delta, dy, y, p);
    launch(stream, mma_queries_kernel<X, D>, blocks_of(p, p.NH), MMA_THREADS,
           to, dy, lse, delta, from, p);
    launch(stream, mma_keys_kernel<X, D>, blocks_of(p, p.NKV), MMA_THREADS, to,
           dy, lse, delta, from, p);
}

bool dt_cuda_attention_mma_backward(struct dt_stream *stream,
                                    struct dt_view dqkv, struct dt_view dout,
                                    struct dt_view out, struct dt_view lse,
                                    struct dt_view qkv,
                                    struct dt_view workspace,
                                    const struct dt_attention *a)
{
    bool done = false;

    assert_shapes(a, out, lse, qkv);
    if (qkv.dtype == DT_F32 || a->HS > 128)
        return false;
    with_type(qkv.dtype, [&](auto x) {
        using X = decltype(x);
        if constexpr (sizeof(X) == 2) {
            X *to = data_of<X>(dqkv), *dy = data_of<X>(dout);
            X *y = data_of<X>(out), *from = data_of<X>(qkv);
            if (!aligned(a->HS, wide<X>(), sizeof(X), to, dy, from))
                return;
            const Problem p = problem_of(a, true);
            auto pass = a->HS <= 64 ? launch_mma_backward<X, 64>
                                    : launch_mma_backward<X, 128>;
            pass(stream, to, dy, y, dt_view_f32(lse), dt_view_f32(workspace),
                 from, p);
            done = true;
        }
    });
    return done;
}
