/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_math.cu - causal attention of any shape in plain fp32, forward
 *
 * Dao et al., FlashAttention, alg. 1, as in ops/cpu/attention.c.
 */
#include "config.h"

#include "ops/cuda/attention_tile.cuh"

/* The largest and the sum over the columns of a tile. */
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

/* A query on its way through the keys: maximum and sum so far. m is finite at
 * first, so that a tile of which nothing is seen is no NaN.
 */
struct Pass {
    int t, first;
    float m, l;
};

/* Scores of keys s... become 2^(s - m). Returns what is to be multiplied with
 * what was summed before.
 */
__device__ static inline float soften(Pass &pass, float (&score)[EACH], int s,
                                      const Problem &p)
{
    float most = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int j = 0; j < EACH; j++) {
        bool seen = s + j >= pass.first && s + j <= pass.t;
        score[j] = seen ? score[j] * p.log2_scale : -INFINITY;
        most = fmaxf(most, score[j]);
    }
    most = fmaxf(pass.m, row_max(most));
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        score[j] = exp2f(score[j] - most);
        sum += score[j];
    }
    float shrink = exp2f(pass.m - most);
    pass.l = pass.l * shrink + row_sum(sum);
    pass.m = most;
    return shrink;
}

template <typename X, int SLICE>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(X *out, float *lse, const X *qkv, Problem p)
{
    __shared__ Space space;
    Place at = place_of(p, p.NH, SLICE);
    at.t = (p.T - 1) / TILE * TILE - at.t; /* the longest rows first */
    const size_t kv_head = p.NH + at.head / heads_shared(p);
    const Head<const X> q = head_of(qkv, at.b, at.head, p);
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const int row = thread_row(), column = thread_column();
    Sums<SLICE> sums = {};
    Pass pass[EACH];
    float inverse[EACH];

#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int t = at.t + row + i;
        pass[i] = {t, first_seen(p, at.b, t), -1e30f, 0.0f};
    }
    for (int s = first_of_tile(p, at.b, at.t) / TILE * TILE;
         s < min(at.t + TILE, p.T); s += TILE) {
        float score[EACH][EACH] = {};
        multiply_tiles(score, space, q, at.t, k, s, p);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            float shrink = soften(pass[i], score[i], s + column, p);
#pragma unroll
            for (int c = 0; c < SLICE / SIDE; c++)
                sums[i][c] *= shrink;
            if (p.drops.rows) {
                float f[EACH];
                dropout_factors(f, p, at.b, at.head, pass[i].t, s + column);
                for (int j = 0; j < EACH; j++)
                    score[i][j] *= f[j];
            }
        }
        share_weights(space, score);
        add_weighted<SLICE>(sums, space, v, s, at.d, p);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        inverse[i] = 1.0f / pass[i].l;
        if (pass[i].t < p.T && at.d == 0 && column == 0)
            lse[(at.b * p.NH + at.head) * (size_t)p.T + (size_t)pass[i].t] =
                (pass[i].m + log2f(pass[i].l)) * (float)M_LN2;
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
            slice_of(a) == NARROW_SLICE ? forward_kernel<X, NARROW_SLICE>
                                        : forward_kernel<X, WIDE_SLICE>;
        launch(stream, kernel, blocks_of(p, p.NH), THREADS, to,
               dt_view_f32(lse), from, p);
    });
}
