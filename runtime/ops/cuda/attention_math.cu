/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_math.cu - attention of any shape in plain fp32
 *
 * Dao et al., FlashAttention, alg. 1, as in ops/cpu/attention.c. Backward, with
 * P = exp(S - lse), f the factors of dropout (1 without) and D = sum(dout out)
 * of each query:
 *   dV = (P f)^T dO;  dS = P (f dO V^T - D) scale;  dQ = dS K;  dK = dS^T Q
 * One kernel for D, one for dQ, one for dK and dV. The last two compute the
 * scores again, so that only one block adds to each element.
 */
#include "config.h"

#include "ops/cuda/attention_tile.cuh"
#include "ops/workspace.h"

/* Maximum and sum over the columns of a tile. */
__device__ static inline float row_max(float x)
{
    for (int step = SIDE / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

__device__ static inline float row_sum(float x)
{
    for (int step = SIDE / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* A query and its running maximum m and sum l. m begins with a finite value, so
 * that a tile that is masked as a whole gives no NaN.
 */
struct OnlineSoftmax {
    int t, first, last;
    float m, l;
};

/* Scores of keys s... become 2^(s - m). Returns the factor that rescales the
 * sums of earlier tiles.
 */
__device__ static inline float online_softmax(OnlineSoftmax &query,
                                              float (&score)[EACH], int s,
                                              const Problem &p)
{
    float max_score = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int j = 0; j < EACH; j++) {
        bool seen = s + j >= query.first && s + j <= query.last;
        score[j] = seen ? score_of(score[j], p) : -INFINITY;
        max_score = fmaxf(max_score, score[j]);
    }
    max_score = fmaxf(query.m, row_max(max_score));
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        score[j] = exp2f(score[j] - max_score);
        sum += score[j];
    }
    float rescale = exp2f(query.m - max_score);
    query.l = query.l * rescale + row_sum(sum);
    query.m = max_score;
    return rescale;
}

/* out = softmax(scale q k^T) v of a tile of queries, and lse, the logarithm of
 * the sum in the softmax. Tiles of keys pass one by one; sums of earlier ones
 * are rescaled whenever the maximum grows.
 */
template <typename X, int SLICE>
__global__ void __launch_bounds__(THREADS)
    math_forward_kernel(X *out, float *lse, const X *qkv, Problem p)
{
    __shared__ SharedTiles space;
    BlockTile at = block_tile_of(p, p.NH, SLICE);
    at.t = (p.T - 1) / TILE * TILE - at.t; /* the longest rows first */
    const size_t kv_head = p.NH + at.head / heads_shared(p);
    const Head<const X> q = head_of(qkv, at.b, at.head, p);
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const int row = thread_row(), column = thread_column();
    Sums<SLICE> sums = {};
    OnlineSoftmax query[EACH];
    float inverse[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int t = at.t + row + i;
        query[i] = {t, first_seen(p, at.b, t), last_seen(p, at.b, t), -1e30f,
                    0.0f};
    }
    const int end = end_of_tile(p, at.b, at.t, TILE);
    for (int s = first_of_tile(p, at.b, at.t) / TILE * TILE; s < end;
         s += TILE) {
        float score[EACH][EACH] = {};
        multiply_tiles(score, space, q, at.t, k, s, p);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float rescale = online_softmax(query[i], score[i], s + column, p);
#pragma unroll
            for (int c = 0; c < SLICE / SIDE; c++)
                sums[i][c] *= rescale;
            if (p.drops.rows) {
                float f[EACH];
                dropout_factors(f, p, at.b, at.head, query[i].t, s + column);
                for (int j = 0; j < EACH; j++)
                    score[i][j] *= f[j];
            }
        }
        share_weights(space, score);
        add_weighted<SLICE>(sums, space, v, s, at.d, p);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        inverse[i] = 1.0f / query[i].l;
        if (query[i].t < p.T && at.d == 0 && column == 0)
            lse[(at.b * p.NH + at.head) * (size_t)p.T + (size_t)query[i].t] =
                (query[i].m + log2f(query[i].l)) * (float)M_LN2;
    }
    store_sums<SLICE>(out_head(out, at.b, at.head, p), at.t, at.d, sums,
                      inverse, p);
}

void dt_cuda_attention_math_forward(struct dt_stream *stream,
                                    struct dt_view out, struct dt_view lse,
                                    struct dt_view qkv,
                                    const struct dt_attention *a)
{
    assert_shapes(a, out, lse, qkv);
    with_type(qkv.dtype, [=](auto x) {
        using X = decltype(x);
        X *to = data_of<X>(out), *from = data_of<X>(qkv);
        Problem p =
            problem_of(a, aligned(a->HS, wide<X>(), sizeof(X), to, from));
        void (*kernel)(X *, float *, const X *, Problem) =
            slice_of(a) == NARROW_SLICE ? math_forward_kernel<X, NARROW_SLICE>
                                        : math_forward_kernel<X, WIDE_SLICE>;
        launch(stream, kernel, blocks_of(p, p.NH), THREADS, to,
               dt_view_f32(lse), from, p);
    });
}

/* dq of a tile of queries = the sum of ds k over the keys that they see. */
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
    const int end = end_of_tile(p, at.b, at.t, TILE);
    for (int s = first_of_tile(p, at.b, at.t) / TILE * TILE; s < end;
         s += TILE) {
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

/* dk = the sum of ds^T q and dv = the sum of p^T dout of a tile of keys, over
 * the queries that see them, of all heads that share them.
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

    for (int t = first_query(p, at.b, at.t, TILE); t < end; t += TILE) {
        if (first_of_tile(p, at.b, t) > last)
            break;
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
