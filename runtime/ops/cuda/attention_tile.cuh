/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_tile.cuh - tiles of scores, for both passes of attention
 *
 * A block owns a tile of queries (forward, dQ) or of keys (dK and dV) of one
 * head, and SLICE elements of the head in the sums; if there are several
 * slices, each computes the scores again. So every sum has one owner and one
 * order.
 *
 * The rows of a tile of scores are the block's own; its columns are those of
 * the loop. A thread has EACH x EACH neighboring scores, and EACH rows of the
 * sums.
 */
#ifndef DT_OPS_CUDA_ATTENTION_TILE_CUH
#define DT_OPS_CUDA_ATTENTION_TILE_CUH

#include <limits.h>
#include <math.h>

#include "ops/cuda/cuda_attention.h"
#include "ops/cuda/dropout.cuh"

enum {
    TILE = 64, /* rows and columns of a tile */
    EACH = 4,  /* rows, and columns, of a thread */
    SIDE = TILE / EACH,
    THREADS = SIDE * SIDE,
    DEPTH = 32,        /* elements of a head that are loaded at a time */
    PITCH = TILE + 4,  /* row stride in shared memory, against bank conflicts */
    ROWS_FLOATS = 4096 /* loaded at a time: rows of SLICE elements */
};

/* struct dt_attention as kernels take it. */
struct Problem {
    size_t B, NH, NKV, HS;
    int T, window, slices;
    bool wide;                   /* 16-byte accesses are aligned */
    const int32_t *first, *last; /* NULL: 0; t */
    float scale, log2_scale;     /* of the scores, in units of 1 and of ln 2 */
    float softcap, inverse_cap;  /* in units of ln 2, and of the scaled scores;
                                    0: none */
    Drops drops;                 /* without rows: none */
};

/* One head of a tensor: element d of position t is at[t * stride + d]. */
template <typename X> struct Head {
    X *at;
    size_t stride;
};

/* The tile of a block: `head` of row b, positions from t, elements from d. */
struct BlockTile {
    size_t b, head;
    int t, d;
};

struct alignas(16) SharedTiles {
    union {
        float transposed[2][DEPTH][PITCH]; /* of rows and of columns */
        float rows[ROWS_FLOATS];
    };
    float weights[TILE][PITCH]; /* (columns, rows) of the tile of scores */
};

__device__ static inline int thread_row()
{
    return (int)threadIdx.x / SIDE * EACH;
}

__device__ static inline int thread_column()
{
    return (int)threadIdx.x % SIDE * EACH;
}

__device__ static inline size_t heads_shared(const Problem &p)
{
    return p.NH / p.NKV;
}

/* Head h of qkv, of q, k and v in this order. */
template <typename X>
__device__ static inline Head<X> head_of(X *qkv, size_t b, size_t h,
                                         const Problem &p)
{
    size_t stride = (p.NH + 2 * p.NKV) * p.HS;
    return {qkv + b * (size_t)p.T * stride + h * p.HS, stride};
}

template <typename X>
__device__ static inline Head<X> out_head(X *out, size_t b, size_t h,
                                          const Problem &p)
{
    size_t stride = p.NH * p.HS;
    return {out + b * (size_t)p.T * stride + h * p.HS, stride};
}

/* Blocks of the same tile follow each other. */
__device__ static inline BlockTile block_tile_of(const Problem &p, size_t heads,
                                                 int slice)
{
    size_t i = blockIdx.x;
    BlockTile tile;

    tile.d = (int)(i % (size_t)p.slices) * slice;
    i /= (size_t)p.slices;
    tile.head = i % heads;
    tile.b = i / heads % p.B;
    tile.t = (int)(i / heads / p.B) * TILE;
    return tile;
}

/* The first position that position t of row b attends to; INT_MAX past the end.
 */
__device__ static inline int first_seen(const Problem &p, size_t b, int t)
{
    if (t >= p.T)
        return INT_MAX;
    int start = p.first ? p.first[b * (size_t)p.T + (size_t)t] : 0;
    int edge = p.window > 0 ? t - p.window + 1 : 0;
    return max(start, edge);
}

/* The last one; -1 past the end. */
__device__ static inline int last_seen(const Problem &p, size_t b, int t)
{
    if (t >= p.T)
        return -1;
    return p.last ? p.last[b * (size_t)p.T + (size_t)t] : t;
}

/* The minimum of first_seen over the tile at t, in all threads. */
__device__ static inline int first_of_tile(const Problem &p, size_t b, int t)
{
    int lane = (int)threadIdx.x % WARP;
    int least = first_seen(p, b, t + lane);

    for (int i = WARP; i < TILE; i += WARP)
        least = min(least, first_seen(p, b, t + i + lane));
    for (int step = WARP / 2; step > 0; step /= 2)
        least = min(least, __shfl_xor_sync(0xffffffffu, least, step));
    return least;
}

/* The end of what `count` positions from t on attend to, in all threads; a
 * multiple of WARP.
 */
__device__ static inline int end_of_tile(const Problem &p, size_t b, int t,
                                         int count)
{
    int most = -1;

    if (!p.last)
        return min(t + count, p.T);
    for (int i = (int)threadIdx.x % WARP; i < count; i += WARP)
        most = max(most, last_seen(p, b, t + i));
    for (int step = WARP / 2; step > 0; step /= 2)
        most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
    return most + 1;
}

/* Positions that attend to a key of the tile at t are neighbors of it: where
 * they begin, in steps of `count` before the tile.
 */
__device__ static inline int first_query(const Problem &p, size_t b, int t,
                                         int count)
{
    int first = t;

    while (p.last && first > 0 && end_of_tile(p, b, first - count, count) > t)
        first -= count;
    return first;
}

/* x = W elements, or 0 if there are none. */
template <int W, typename X>
__device__ static inline void load_elements(float (&x)[W], const X *from,
                                            bool there, bool wide)
{
    constexpr int STEP = W < 16 / (int)sizeof(X) ? W : 16 / (int)sizeof(X);

    for (int i = 0; i < W; i++)
        x[i] = 0.0f;
    if (there && wide) {
        for (int i = 0; i < W; i += STEP) {
            Vec<X, STEP> some = *(const Vec<X, STEP> *)(from + i);
            for (int j = 0; j < STEP; j++)
                x[i + j] = to_float(some.v[j]);
        }
    } else if (there) {
        for (int i = 0; i < W; i++)
            x[i] = to_float(from[i]);
    }
}

/* to(DEPTH, TILE): elements d... of positions t... of the head, transposed; 0
 * beyond the end
 */
template <typename X>
__device__ static void load_transposed(float (*to)[PITCH], Head<X> head, int t,
                                       int d, const Problem &p)
{
    constexpr int W = 4, PARTS = THREADS / TILE;
    const int row = (int)threadIdx.x % TILE;
    const X *from = head.at + (size_t)(t + row) * head.stride;

#pragma unroll
    for (int i = 0; i < DEPTH; i += W * PARTS) {
        const int at = i + (int)threadIdx.x / TILE * W;
        const int left = (int)p.HS - d - at;
        float x[W];
        load_elements(x, from + d + at, t + row < p.T && left >= W, p.wide);
        if (t + row < p.T && left > 0 && left < W) {
            for (int j = 0; j < W; j++)
                x[j] = j < left ? to_float(from[d + at + j]) : 0.0f;
        }
        for (int j = 0; j < W; j++)
            to[at + j][row] = x[j];
    }
}

/* product(EACH, EACH) += dot products of positions t... of a and u... of b */
template <typename X, typename Y>
__device__ static void multiply_tiles(float (&product)[EACH][EACH],
                                      SharedTiles &space, Head<X> a, int t,
                                      Head<Y> b, int u, const Problem &p)
{
    const int row = thread_row(), column = thread_column();

    for (int d = 0; d < (int)p.HS; d += DEPTH) {
        __syncthreads();
        load_transposed(space.transposed[0], a, t, d, p);
        load_transposed(space.transposed[1], b, u, d, p);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < DEPTH; k++) {
            const auto x =
                *(const Vec<float, EACH> *)&space.transposed[0][k][row];
            const auto y =
                *(const Vec<float, EACH> *)&space.transposed[1][k][column];
#pragma unroll
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++)
                    product[i][j] += x.v[i] * y.v[j];
        }
    }
}

/* Writes a thread's part of a tile to shared memory. */
__device__ static inline void share_weights(SharedTiles &space,
                                            const float (&weights)[EACH][EACH])
{
    const int row = thread_row(), column = thread_column();

    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        Vec<float, EACH> x;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            x.v[i] = weights[i][j];
        *(Vec<float, EACH> *)&space.weights[column + j][row] = x;
    }
}

/* A thread's part of sums(TILE, SLICE): element c of a row is column
 * column_of(c).
 */
template <int SLICE> using Sums = float[EACH][SLICE / SIDE];

__device__ static inline int column_of(int c)
{
    return thread_column() + c / EACH * TILE + c % EACH;
}

/* sums += weights x elements d... of positions u... of the head */
template <int SLICE, typename X>
__device__ static void add_weighted(Sums<SLICE> &sums, SharedTiles &space,
                                    Head<X> head, int u, int d,
                                    const Problem &p)
{
    constexpr int COUNT = ROWS_FLOATS / SLICE, W = EACH;
    const int row = thread_row();

    for (int first = 0; first < TILE; first += COUNT) {
        __syncthreads();
#pragma unroll 4
        for (int i = (int)threadIdx.x * W; i < ROWS_FLOATS; i += THREADS * W) {
            const int t = u + first + i / SLICE, at = d + i % SLICE;
            const X *from = head.at + (size_t)t * head.stride + at;
            const int left = (int)p.HS - at;
            float x[W];
            load_elements(x, from, t < p.T && left >= W, p.wide);
            if (t < p.T && left > 0 && left < W) {
                for (int j = 0; j < W; j++)
                    x[j] = j < left ? to_float(from[j]) : 0.0f;
            }
            for (int j = 0; j < W; j++)
                space.rows[i + j] = x[j];
        }
        __syncthreads();
        for (int k = 0; k < COUNT; k++) {
            const auto w =
                *(const Vec<float, EACH> *)&space.weights[first + k][row];
#pragma unroll
            for (int c = 0; c < SLICE / SIDE; c += EACH) {
                const auto x = *(const Vec<float, EACH> *)&space
                                    .rows[k * SLICE + column_of(c)];
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    for (int j = 0; j < EACH; j++)
                        sums[i][c + j] += w.v[i] * x.v[j];
            }
        }
    }
}

/* Positions t... of the head = sums, row i times factor[i] */
template <int SLICE, typename X>
__device__ static void store_sums(Head<X> head, int t, int d,
                                  const Sums<SLICE> &sums,
                                  const float (&factor)[EACH], const Problem &p)
{
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const int row = t + thread_row() + i;
        if (row >= p.T)
            break;
        X *to = head.at + (size_t)row * head.stride;
#pragma unroll
        for (int c = 0; c < SLICE / SIDE; c += EACH) {
            const int at = d + column_of(c);
            Vec<X, EACH> x;
            for (int j = 0; j < EACH; j++)
                x.v[j] = from_float<X>(sums[i][c + j] * factor[i]);
            if (p.wide && at < (int)p.HS) {
                *(Vec<X, EACH> *)(to + at) = x;
            } else {
                for (int j = 0; j < EACH && at + j < (int)p.HS; j++)
                    to[at + j] = x.v[j];
            }
        }
    }
}

/* Factors of dropout of keys s... of the query at t: elements of a row in the
 * order of queries and keys, four to a block of random words.
 */
__device__ static inline void dropout_factors(float (&f)[EACH],
                                              const Problem &p, size_t b,
                                              size_t head, int t, int s)
{
    const uint64_t query = head * (uint64_t)p.T + (uint64_t)t;
    const uint64_t element = query * (uint64_t)p.T + (uint64_t)s;
    const uint64_t row = (uint64_t)p.drops.rows[b];
    const int phase = (int)(element % EACH);
    float next[EACH] = {}, all[2 * EACH];

    drop_factors(f, p.drops, row, element / EACH);
    if (phase != 0)
        drop_factors(next, p.drops, row, element / EACH + 1);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        all[j] = f[j];
        all[EACH + j] = next[j];
    }
    for (int j = 0; j + 1 < 2 * EACH; j++)
        all[j] = phase & 1 ? all[j + 1] : all[j];
    for (int j = 0; j + 2 < 2 * EACH; j++)
        all[j] = phase & 2 ? all[j + 2] : all[j];
    for (int j = 0; j < EACH; j++)
        f[j] = all[j];
}

/* The score of a dot product, in units of ln 2. `slope` is its derivative by
 * the scaled dot product.
 */
__device__ static inline float score_of(float dot, float &slope,
                                        const Problem &p)
{
    slope = 1.0f;
    if (p.softcap == 0.0f)
        return dot * p.log2_scale;
    const float t = tanhf(dot * p.inverse_cap);
    slope = 1.0f - t * t;
    return p.softcap * t;
}

__device__ static inline float score_of(float dot, const Problem &p)
{
    float slope;
    return score_of(dot, slope, p);
}

/* --- launches --- */

/* Sums of a wider slice would not fit into registers. */
enum { NARROW_SLICE = 64, WIDE_SLICE = 128 };

static inline int slice_of(const struct dt_attention *a)
{
    return a->HS <= NARROW_SLICE ? NARROW_SLICE : WIDE_SLICE;
}

static inline Problem problem_of(const struct dt_attention *a, bool wide)
{
    const int slice = slice_of(a);
    Problem p = {};

    p.B = a->B;
    p.NH = a->NH;
    p.NKV = a->NKV;
    p.HS = a->HS;
    p.T = (int)a->T;
    p.window = a->window < a->T ? (int)a->window : 0;
    p.slices = ((int)a->HS + slice - 1) / slice;
    p.wide = wide;
    p.first = data_of<int32_t>(a->first);
    p.last = data_of<int32_t>(a->last);
    p.scale = a->scale;
    p.log2_scale = (float)(a->scale * M_LOG2E);
    if (a->softcap > 0.0f) {
        p.softcap = (float)(a->softcap * M_LOG2E);
        p.inverse_cap = a->scale / a->softcap;
    }
    p.drops = drops_of(&a->dropout, a->B * a->T);
    return p;
}

/* A block for each tile of positions of `heads` heads a row. */
static inline unsigned blocks_of(const Problem &p, size_t heads)
{
    return (unsigned)(p.B * heads * (size_t)p.slices) *
           blocks_for((size_t)p.T, TILE);
}

static inline void assert_shapes(const struct dt_attention *a,
                                 struct dt_view out, struct dt_view lse,
                                 struct dt_view qkv)
{
    assert(a->HS % 2 == 0 && a->HS <= DT_MAX_HEAD_SIZE && a->scale > 0.0f);
    assert(a->T < INT_MAX - TILE && a->NH % a->NKV == 0);
    assert(out.count == a->B * a->T * a->NH * a->HS);
    assert(lse.count == a->B * a->NH * a->T && lse.dtype == DT_F32);
    assert(qkv.count == a->B * a->T * (a->NH + 2 * a->NKV) * a->HS);
    (void)a, (void)out, (void)lse, (void)qkv;
}

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
    int t, first, last;
    float lse, delta; /* lse in units of ln 2 */
};

__device__ static inline Query query_of(const float *lse, const float *delta,
                                        const BlockTile &at, int t,
                                        const Problem &p)
{
    Query query = {t, first_seen(p, at.b, t), last_seen(p, at.b, t), 0.0f,
                   0.0f};

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
    bool seen = s >= query.first && s <= query.last;
    float slope, e = exp2f(score_of(score, slope, p) - query.lse);

    score = seen ? e * f : 0.0f;
    ds = seen ? e * (f * ds - query.delta) * slope : 0.0f;
}

#endif /* DT_OPS_CUDA_ATTENTION_TILE_CUH */
