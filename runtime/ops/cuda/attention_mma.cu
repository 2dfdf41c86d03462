/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_mma.cu - attention in 16 bits on tensor cores
 *
 * A block of WARPS warps owns a tile of TILE rows, 16 a warp, and loops over
 * columns in shared memory, COLUMNS at a time. Fragments are those of
 * mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): with g = lane /
 * 4 and t = lane % 4 a thread has columns 2t and 2t + 1 of rows g and g + 8 of
 * the 16 x 8 accumulator. Two accumulators side by side, rounded, are fragment
 * A of the next matrix multiplication.
 *
 * Passes are those of attention_math.cu, except that probabilities, P f and dS
 * are rounded before they are multiplied.
 *
 * Kernels are for heads of D elements: 64, 80 or 128; those of fewer end in
 * zeros, in registers and in shared memory.
 */
#include "config.h"

#include <string.h>

#include "ops/cuda/attention_tile.cuh"

enum { WARPS = TILE / 16, MMA_THREADS = WARPS * WARP, GAP = 8 };

/* Columns at a time: four such tiles fit into shared memory, and two into
 * registers.
 */
#define COLUMNS_OF(D) ((D) <= 64 ? 64 : 32)

/* Operand A of mma: 16 x 16. */
struct FragmentA {
    uint32_t x[4];
};

__device__ static inline int group_row()
{
    return (int)threadIdx.x % WARP / 4;
}

__device__ static inline int group_column()
{
    return (int)threadIdx.x % 4 * 2;
}

template <typename X>
__device__ static inline uint32_t pack_pair(float low, float high)
{
    const X two[2] = {from_float<X>(low), from_float<X>(high)};
    uint32_t word;

    memcpy(&word, two, sizeof(word));
    return word;
}

__device__ static inline uint32_t word_at(const void *two)
{
    return *(const uint32_t *)two;
}

#ifdef __CUDA_ARCH__

#define DT_MMA(type)                                                           \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "         \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
        : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b0),         \
          "r"(b1))

__device__ static inline void mma(float (&d)[4], const FragmentA &a,
                                  uint32_t b0, uint32_t b1, __nv_bfloat16)
{
    DT_MMA("bf16");
}

__device__ static inline void mma(float (&d)[4], const FragmentA &a,
                                  uint32_t b0, uint32_t b1, __half)
{
    DT_MMA("f16");
}

#else

/* The halves of elements 2t, 2t + 1, 2t + 8 and 2t + 9 of a row of 16, which
 * lane `first` + t has.
 */
template <typename X>
__device__ static inline void gather_row(float (&row)[16], uint32_t low,
                                         uint32_t high, int first)
{
    const uint64_t own = (uint64_t)high << 32 | low;

    for (int t = 0; t < 4; t++) {
        const uint64_t four = __shfl_sync(0xffffffffu, own, first + t);
        X x[4];
        memcpy((void *)x, &four, sizeof(x));
        for (int i = 0; i < 4; i++)
            row[i / 2 * 8 + 2 * t + i % 2] = to_float(x[i]);
    }
}

/* The same for tests/simt; nvcc never compiles it. */
template <typename X>
__device__ static inline void mma(float (&d)[4], const FragmentA &a,
                                  uint32_t b0, uint32_t b1, X)
{
    float left[2][16], right[2][16];

    for (int i = 0; i < 2; i++) {
        gather_row<X>(left[i], a.x[i], a.x[i + 2], group_row() * 4);
        gather_row<X>(right[i], b0, b1, (group_column() + i) * 4);
    }
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++)
            d[i] += left[i / 2][k] * right[i % 2][k];
}

#endif

/* 16 rows of a head from position t on, D elements, as operands A; 0 beyond the
 * end.
 */
template <int D, typename X>
__device__ static void load_fragment_a(FragmentA (&to)[D / 16],
                                       Head<const X> head, int t,
                                       const Problem &p)
{
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = t + group_row() + i % 2 * 8;
            const int d = c * 16 + group_column() + i / 2 * 8;
            to[c].x[i] = row < p.T && d < (int)p.HS
                             ? word_at(head.at + (size_t)row * head.stride + d)
                             : 0;
        }
    }
}

/* COLUMNS positions of a head in shared memory, row-major and transposed. */
template <typename X, int D, int COLUMNS> struct alignas(16) RowTile {
    X x[COLUMNS][D + GAP];
};
template <typename X, int D, int COLUMNS> struct alignas(16) TransposedTile {
    X x[D][COLUMNS + GAP];
};

/* Fills both tiles, or one if the other is NULL; 0 beyond the end. */
template <typename X, int D, int COLUMNS>
__device__ static void load_columns(RowTile<X, D, COLUMNS> *rows,
                                    TransposedTile<X, D, COLUMNS> *transposed,
                                    Head<const X> head, int t, const Problem &p)
{
    constexpr int W = 8;

    for (int i = (int)threadIdx.x; i < COLUMNS * D / W; i += MMA_THREADS) {
        const int row = i % COLUMNS, d = i / COLUMNS * W;
        Vec<X, W> some;
        if (t + row < p.T && d < (int)p.HS) {
            some = *(const Vec<X, W> *)(head.at +
                                        (size_t)(t + row) * head.stride + d);
        } else {
            for (int j = 0; j < W; j++)
                some.v[j] = from_float<X>(0.0f);
        }
        if (rows)
            *(Vec<X, W> *)&rows->x[row][d] = some;
        for (int j = 0; transposed && j < W; j++)
            transposed->x[d + j][row] = some.v[j];
    }
}

/* product(16, COLUMNS) = the warp's rows x columns^T */
template <typename X, int D, int COLUMNS>
__device__ static void multiply_columns(float (&product)[COLUMNS / 8][4],
                                        const FragmentA (&rows)[D / 16],
                                        const RowTile<X, D, COLUMNS> &columns)
{
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            product[n][i] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            const X *at =
                &columns.x[n * 8 + group_row()][c * 16 + group_column()];
            mma(product[n], rows[c], word_at(at), word_at(at + 8), X());
        }
    }
}

/* sums(16, D) += weights(16, COLUMNS), rounded, x columns */
template <typename X, int D, int COLUMNS>
__device__ static void add_weighted_columns(
    float (&sums)[D / 8][4], const float (&weights)[COLUMNS / 8][4],
    const TransposedTile<X, D, COLUMNS> &columns)
{
#pragma unroll
    for (int c = 0; c < COLUMNS / 16; c++) {
        const float(&a)[4] = weights[2 * c], (&b)[4] = weights[2 * c + 1];
        const FragmentA left = {
            {pack_pair<X>(a[0], a[1]), pack_pair<X>(a[2], a[3]),
             pack_pair<X>(b[0], b[1]), pack_pair<X>(b[2], b[3])}};
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const X *at =
                &columns.x[n * 8 + group_row()][c * 16 + group_column()];
            mma(sums[n], left, word_at(at), word_at(at + 8), X());
        }
    }
}

/* 16 positions of the head from t on = sums, row i of a thread times factor[i]
 */
template <typename X, int D>
__device__ static void store_rows(Head<X> head, int t,
                                  const float (&sums)[D / 8][4],
                                  const float (&factor)[2], const Problem &p)
{
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        const int d = n * 8 + group_column();
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int row = t + group_row() + i * 8;
            if (row < p.T && d < (int)p.HS)
                *(uint32_t *)(head.at + (size_t)row * head.stride + d) =
                    pack_pair<X>(sums[n][2 * i] * factor[i],
                                 sums[n][2 * i + 1] * factor[i]);
        }
    }
}

/* Dropout factors of one score, and of two neighbors in a row, which mostly
 * share a block of random words.
 */
__device__ static inline float score_factor(const Problem &p, size_t b,
                                            size_t head, int t, int s)
{
    const uint64_t query = head * (uint64_t)p.T + (uint64_t)t;

    return drop_factor(p.drops, (uint64_t)p.drops.rows[b],
                       query * (uint64_t)p.T + (uint64_t)s);
}

__device__ static inline void pair_factors(float (&f)[2], const Problem &p,
                                           size_t b, size_t head, int t, int s)
{
    const uint64_t query = head * (uint64_t)p.T + (uint64_t)t;
    const uint64_t element = query * (uint64_t)p.T + (uint64_t)s;
    const bool odd = element & 1, high = element & 2;
    float x[4];

    drop_factors(x, p.drops, (uint64_t)p.drops.rows[b], element / 4);
    f[0] = high ? (odd ? x[3] : x[2]) : (odd ? x[1] : x[0]);
    f[1] = high ? x[3] : (odd ? x[2] : x[1]);
    if (odd && high)
        f[1] = score_factor(p, b, head, t, s + 1);
}

/* Scores of keys s... in row i of this thread become 2^(s - m). Returns the
 * factor that rescales the sums of earlier tiles.
 */
template <int N>
__device__ static inline float online_softmax_row(float (&score)[N][4], int i,
                                                  int s, int first, int last,
                                                  float &m, float &l,
                                                  const Problem &p)
{
    float max_score = -INFINITY, sum = 0.0f;

#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int j = 2 * i; j < 2 * i + 2; j++) {
            const int key = s + n * 8 + group_column() + j % 2;
            score[n][j] = key >= first && key <= last ? score_of(score[n][j], p)
                                                      : -INFINITY;
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

/* out and lse of a tile of queries, as in math_forward_kernel. */
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
    int t[2], first[2], last[2];
    FragmentA q[D / 16];

    load_fragment_a<D>(q, head_of(qkv, at.b, at.head, p), own, p);
    for (int i = 0; i < 2; i++) {
        t[i] = own + group_row() + i * 8;
        first[i] = first_seen(p, at.b, t[i]);
        last[i] = last_seen(p, at.b, t[i]);
    }
    const int end = end_of_tile(p, at.b, at.t, TILE);
    for (int s = first_of_tile(p, at.b, at.t) / COLUMNS * COLUMNS; s < end;
         s += COLUMNS) {
        float score[N][4];
        __syncthreads();
        load_columns<X, D, COLUMNS>(&keys, nullptr, k, s, p);
        load_columns<X, D, COLUMNS>(nullptr, &values, v, s, p);
        __syncthreads();
        multiply_columns<X, D, COLUMNS>(score, q, keys);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const float rescale = online_softmax_row<N>(score, i, s, first[i],
                                                        last[i], m[i], l[i], p);
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
    if (qkv.dtype == DT_F32 || a->HS > DT_MMA_MOST_HEAD)
        return false;
    with_type(qkv.dtype, [&](auto x) {
        using X = decltype(x);
        if constexpr (sizeof(X) == 2) {
            X *to = data_of<X>(out), *from = data_of<X>(qkv);
            void (*kernel)(X *, float *, const X *, Problem) =
                a->HS <= 64   ? mma_forward_kernel<X, 64>
                : a->HS <= 80 ? mma_forward_kernel<X, 80>
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

/* dq of a tile of queries, as in backward_queries_kernel. */
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
    const int end = end_of_tile(p, at.b, at.t, TILE);
    for (int s = first_of_tile(p, at.b, at.t) / COLUMNS * COLUMNS; s < end;
         s += COLUMNS) {
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

/* dk and dv of a tile of keys, as in backward_keys_kernel. */
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
    for (int t = first_query(p, at.b, at.t, COLUMNS); t < end; t += COLUMNS) {
        if (first_of_tile(p, at.b, t) > last)
            break;
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
    if (qkv.dtype == DT_F32 || a->HS > DT_MMA_MOST_HEAD)
        return false;
    with_type(qkv.dtype, [&](auto x) {
        using X = decltype(x);
        if constexpr (sizeof(X) == 2) {
            X *to = data_of<X>(dqkv), *dy = data_of<X>(dout);
            X *y = data_of<X>(out), *from = data_of<X>(qkv);
            if (!aligned(a->HS, wide<X>(), sizeof(X), to, dy, from))
                return;
            const Problem p = problem_of(a, true);
            auto pass = a->HS <= 64   ? launch_mma_backward<X, 64>
                        : a->HS <= 80 ? launch_mma_backward<X, 80>
                                      : launch_mma_backward<X, 128>;
            pass(stream, to, dy, y, dt_view_f32(lse), dt_view_f32(workspace),
                 from, p);
            done = true;
        }
    });
    return done;
}
