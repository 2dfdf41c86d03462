/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_math.cu - causal attention of any shape in plain fp32, forward
 *
 * Dao et al., FlashAttention, alg. 1, as in ops/cpu/attention.c.
 */
#include "config.h"

#include "ops/cuda/attention_tile.cuh"

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
    int t, first;
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
        bool seen = s + j >= query.first && s + j <= query.t;
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
        query[i] = {t, first_seen(p, at.b, t), -1e30f, 0.0f};
    }
    for (int s = first_of_tile(p, at.b, at.t) / TILE * TILE;
         s < min(at.t + TILE, p.T); s += TILE) {
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
