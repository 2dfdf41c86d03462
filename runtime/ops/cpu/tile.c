/* SPDX-License-Identifier: Apache-2.0 */
/* tile.c - matrix multiplication of operands that fit into the cache */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/vec.h"

/* A tile of c, rows x (vecs * LANES), held in registers over all of K; rows
 * and vecs are constants in each call.
 */
static inline __attribute__((always_inline)) void multiply_tile(
    int rows, int vecs, float *c, size_t c_stride, const float *a,
    size_t row_step, size_t column_step, const float *b, size_t b_stride,
    size_t K, bool accumulate)
{
    dt_vec sum[TILE_ROWS][TILE_VECS];

#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
        for (int j = 0; j < vecs; j++) {
            const dt_vec *from = (const dt_vec *)(c + (size_t)i * c_stride) + j;
            sum[i][j] = accumulate ? *from : (dt_vec){0.0f};
        }
    }
    for (size_t k = 0; k < K; k++) {
        const dt_vec *row = (const dt_vec *)(b + k * b_stride);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            float x = a[(size_t)i * row_step + k * column_step];
#pragma GCC unroll 16
            for (int j = 0; j < vecs; j++)
                sum[i][j] += x * row[j];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 16
        for (int j = 0; j < vecs; j++)
            ((dt_vec *)(c + (size_t)i * c_stride))[j] = sum[i][j];
    }
}

static void multiply_column(float *c, size_t c_stride, const float *a,
                            size_t row_step, size_t column_step, const float *b,
                            size_t b_stride, size_t M, size_t K,
                            bool accumulate)
{
    for (size_t i = 0; i < M; i++) {
        float sum = accumulate ? c[i * c_stride] : 0.0f;
        for (size_t k = 0; k < K; k++)
            sum += a[i * row_step + k * column_step] * b[k * b_stride];
        c[i * c_stride] = sum;
    }
}

/* vecs * LANES columns, all M rows */
static inline __attribute__((always_inline)) void multiply_panel(
    int vecs, float *c, size_t c_stride, const float *a, size_t row_step,
    size_t column_step, const float *b, size_t b_stride, size_t M, size_t K,
    bool accumulate)
{
    size_t i = 0;

    for (; i + TILE_ROWS <= M; i += TILE_ROWS)
        multiply_tile(TILE_ROWS, vecs, c + i * c_stride, c_stride,
                      a + i * row_step, row_step, column_step, b, b_stride, K,
                      accumulate);
    for (; i + 4 <= M; i += 4)
        multiply_tile(4, vecs, c + i * c_stride, c_stride, a + i * row_step,
                      row_step, column_step, b, b_stride, K, accumulate);
    for (; i < M; i++)
        multiply_tile(1, vecs, c + i * c_stride, c_stride, a + i * row_step,
                      row_step, column_step, b, b_stride, K, accumulate);
}

void DT_CPU(tile_matmul)(float *c, size_t c_stride, const float *a,
                         size_t row_step, size_t column_step, const float *b,
                         size_t b_stride, size_t M, size_t N, size_t K,
                         bool accumulate)
{
    size_t j = 0;

    for (; j + TILE_VECS * LANES <= N; j += TILE_VECS * LANES)
        multiply_panel(TILE_VECS, c + j, c_stride, a, row_step, column_step,
                       b + j, b_stride, M, K, accumulate);
    for (; j + LANES <= N; j += LANES)
        multiply_panel(1, c + j, c_stride, a, row_step, column_step, b + j,
                       b_stride, M, K, accumulate);
    for (; j < N; j++)
        multiply_column(c + j, c_stride, a, row_step, column_step, b + j,
                        b_stride, M, K, accumulate);
}

/* c(PACKED_ROWS, vecs * LANES); vecs is a constant at each call */
static inline __attribute__((always_inline)) void multiply_packed(
    size_t vecs, float *c, size_t c_stride, const float *a, const float *b,
    size_t b_strip, size_t K, bool accumulate)
{
    dt_vec sum[PACKED_ROWS][PACKED_VECS];

#pragma GCC unroll 16
    for (size_t i = 0; i < PACKED_ROWS; i++) {
#pragma GCC unroll 16
        for (size_t j = 0; j < vecs; j++) {
            __builtin_prefetch(c + i * c_stride + j * LANES, 1);
            sum[i][j] = (dt_vec){0.0f};
        }
    }
    for (size_t k = 0; k < K; k++) {
        const dt_vec *row = (const dt_vec *)(b + k * LANES);
#pragma GCC unroll 16
        for (size_t i = 0; i < PACKED_ROWS; i++) {
            float x = a[k * LANES + i];
#pragma GCC unroll 16
            for (size_t j = 0; j < vecs; j++)
                sum[i][j] += x * row[j * b_strip];
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < PACKED_ROWS; i++) {
#pragma GCC unroll 16
        for (size_t j = 0; j < vecs; j++) {
            dt_vec *to = (dt_vec *)(c + i * c_stride) + j;
            if (accumulate)
                sum[i][j] += *to;
            *to = sum[i][j];
        }
    }
}

void DT_CPU(tile_packed)(float *c, size_t c_stride, const float *a,
                         const float *b, size_t b_strip, size_t vecs, size_t K,
                         bool accumulate)
{
    if (vecs == 1)
        multiply_packed(1, c, c_stride, a, b, b_strip, K, accumulate);
    else if (vecs == 2)
        multiply_packed(2, c, c_stride, a, b, b_strip, K, accumulate);
    else
        multiply_packed(PACKED_VECS, c, c_stride, a, b, b_strip, K, accumulate);
}
