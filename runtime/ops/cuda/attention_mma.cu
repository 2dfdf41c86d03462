/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_mma.cu - causal attention of 16-bit types on tensor cores, forward
 *
 * As attention_math.cu, except that matrix multiplications take 16-bit operands
 * and sum in fp32, so probabilities are rounded before they are multiplied.
 */
#include "config.h"

#include "ops/cuda/attention_mma.cuh"

/* Scores of keys s... in row i of this thread become 2^(s - m). Returns the
 * factor that rescales the sums of earlier tiles.
 */
template <int N>
__device__ static inline float online_softmax_row(float (&score)[N][4], int i,
                                                  int s, int t, int first,
                                                  float &m, float &l,
                                                  const Problem &p)
{
    float max_score = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; j++) {
            const int key = s + n * 8 + group_column() + j % 2;
            score[n][j] =
                key >= first && key <= t ? score_of(score[n][j], p) : -INFINITY;
            max_score = fmaxf(max_score, score[n][j]);
        }
    }
    for (int step = 1; step < 4; step *= 2)
        max_score =
            fmaxf(max_score, __shfl_xor_sync(0xffffffffu, max_score, step));
    max_score = fmaxf(max_score, m);
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; j++) {
            score[n][j] = exp2f(score[n][j] - max_score);
            sum += score[n][j];
        }
    }
    for (int step = 1; step < 4; step *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    const float rescale = exp2f(m - max_score);
    l = l * rescale + sum;
    m = max_score;
    return rescale;
}

template <typename X, int D>
__global__ void __launch_bounds__(MMA_THREADS)
    mma_forward_kernel(X *out, float *lse, const X *qkv, Problem p)
{
    constexpr int COLUMNS = COLUMNS_OF(D), N = COLUMNS / 8;
    __shared__ RowTile<X, D, COLUMNS> keys;
    __shared__ TransposedTile<X, D, COLUMNS> values;
    BlockTile at = block_tile_of(p, p.NH, D);
    at.t = (p.T - 1) / TILE * TILE - at.t; /* the longest rows first */
    const size_t kv_head = p.NH + at.head / heads_shared(p);
    const Head<const X> k = head_of(qkv, at.b, kv_head, p);
    const Head<const X> v = head_of(qkv, at.b, kv_head + p.NKV, p);
    const int own = at.t + (int)threadIdx.x / WARP * 16;
    float sums[D / 8][4] = {}, m[2] = {-1e30f, -1e30f}, l[2] = {};
    int t[2], first[2];
    FragmentA q[D / 16];

    load_fragment_a<D>(q, head_of(qkv, at.b, at.head, p), own, p);
    for (int i = 0; i < 2; i++) {
        t[i] = own + group_row() + i * 8;
        first[i] = first_seen(p, at.b, t[i]);
    }
    for (int s = first_of_tile(p, at.b, at.t) / COLUMNS * COLUMNS;
         s < min(at.t + TILE, p.T); s += COLUMNS) {
        float score[N][4];
        __syncthreads();
        load_columns<X, D, COLUMNS>(&keys, nullptr, k, s, p);
        load_columns<X, D, COLUMNS>(nullptr, &values, v, s, p);
        __syncthreads();
        multiply_columns<X, D, COLUMNS>(score, q, keys);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float rescale = online_softmax_row<N>(
                score, i, s, t[i], first[i], m[i], l[i], p);
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                sums[n][2 * i] *= rescale;
                sums[n][2 * i + 1] *= rescale;
            }
        }
        if (p.drops.rows) {
#pragma unroll
            for (int n = 0; n < N; n++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float f[2];
                    pair_factors(f, p, at.b, at.head, t[i],
                                 s + n * 8 + group_column());
                    score[n][2 * i] *= f[0];
                    score[n][2 * i + 1] *= f[1];
                }
            }
        }
        add_weighted_columns<X, D, COLUMNS>(sums, score, values);
    }
    const float inverse[2] = {1.0f / l[0], 1.0f / l[1]};
    for (int i = 0; i < 2; i++) {
        if (t[i] < p.T && group_column() == 0)
            lse[(at.b * p.NH + at.head) * (size_t)p.T + (size_t)t[i]] =
                (m[i] + log2f(l[i])) * (float)M_LN2;
    }
    store_rows<X, D>(out_head(out, at.b, at.head, p), own, sums, inverse, p);
}

bool dt_cuda_attention_mma_forward(struct dt_stream *stream, struct dt_view out,
                                   struct dt_view lse, struct dt_view qkv,
                                   const struct dt_attention *a)
{
    bool done = false;

    assert_shapes(a, out, lse, qkv);
    if (qkv.dtype == DT_F32 || a->HS > 128)
        return false;
    with_type(qkv.dtype, [&](auto x) {
        using X = decltype(x);
        if constexpr (sizeof(X) == 2) {
            X *to = data_of<X>(out), *from = data_of<X>(qkv);
            void (*kernel)(X *, float *, const X *, Problem) =
                a->HS <= 64 ? mma_forward_kernel<X, 64>
                            : mma_forward_kernel<X, 128>;
            if (!aligned(a->HS, wide<X>(), sizeof(X), to, from))
                return;
            Problem p = problem_of(a, true);
            launch(stream, kernel, blocks_of(p, p.NH), MMA_THREADS, to,
                   dt_view_f32(lse), from, p);
            done = true;
        }
    });
    return done;
}
