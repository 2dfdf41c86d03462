/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_mma.cuh - tensor core tiles for attention in 16 bits
 *
 * A block of WARPS warps owns a tile of TILE rows, 16 a warp, and loops over
 * columns in shared memory, COLUMNS at a time. Fragments are those of
 * mma.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): with g = lane /
 * 4 and t = lane % 4 a thread has columns 2t and 2t + 1 of rows g and g + 8 of
 * the 16 x 8 accumulator. Two accumulators side by side, rounded, are fragment
 * A of the next matrix multiplication.
 */
#ifndef DT_OPS_CUDA_ATTENTION_MMA_CUH
#define DT_OPS_CUDA_ATTENTION_MMA_CUH

#include <string.h>

#include "ops/cuda/attention_gradient.cuh"

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

template <typename X>
__device__ static inline float half_of(uint32_t word, int which)
{
    X two[2];

    memcpy((void *)two, &word, sizeof(two));
    return to_float(two[which]);
}

/* The same for tests/simt; nvcc never compiles it. */
template <typename X>
__device__ static inline void mma(float (&d)[4], const FragmentA &a,
                                  uint32_t b0, uint32_t b1, X)
{
    for (int k = 0; k < 16; k += 2) {
        uint32_t left[2], right[2];
        for (int i = 0; i < 2; i++) {
            left[i] = __shfl_sync(0xffffffffu, a.x[i + k / 8 * 2],
                                  group_row() * 4 + k % 8 / 2);
            right[i] = __shfl_sync(0xffffffffu, k < 8 ? b0 : b1,
                                   (group_column() + i) * 4 + k % 8 / 2);
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 2; j++)
                d[i] +=
                    half_of<X>(left[i / 2], j) * half_of<X>(right[i % 2], j);
    }
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

#endif /* DT_OPS_CUDA_ATTENTION_MMA_CUH */
