/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - large matrix products: oneDNN, or blocks of tiles without it */
#include "config.h"

#include "ops/cpu/cpu.h"

#ifdef HAVE_ONEDNN

#include <stdio.h>

#include <oneapi/dnnl/dnnl.h>

const char *DT_CPU(library)(void)
{
    static char text[32];
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof(text), "oneDNN %d.%d.%d", version->major,
             version->minor, version->patch);
    return text;
}

void DT_CPU(matmul)(float *c, struct dt_cpu_matrix a, struct dt_cpu_matrix b,
                    size_t M, size_t N, size_t K, bool accumulate)
{
    dnnl_status_t status =
        dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N',
                   (dnnl_dim_t)M, (dnnl_dim_t)N, (dnnl_dim_t)K, 1.0f, a.data,
                   (dnnl_dim_t)a.stride, b.data, (dnnl_dim_t)b.stride,
                   accumulate ? 1.0f : 0.0f, c, (dnnl_dim_t)N);

    assert(status == dnnl_success);
    (void)status;
}

#else

const char *DT_CPU(library)(void)
{
    return "built-in loops";
}

/* Sides of the blocks that a thread copies: 96 KiB of each operand. */
enum { BLOCK_M = 96, BLOCK_N = 128, BLOCK_K = 192 };

/* to(rows, columns) = the block of m that begins at (i, j) */
static void copy_block(float *to, size_t to_stride, struct dt_cpu_matrix m,
                       size_t i, size_t j, size_t rows, size_t columns)
{
    for (size_t r = 0; r < rows && !m.transposed; r++) {
        for (size_t c = 0; c < columns; c++)
            to[r * to_stride + c] = m.data[(i + r) * m.stride + j + c];
    }
    for (size_t c = 0; c < columns && m.transposed; c++) {
        for (size_t r = 0; r < rows; r++)
            to[r * to_stride + c] = m.data[(j + c) * m.stride + i + r];
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void DT_CPU(matmul)(float *c, struct dt_cpu_matrix a, struct dt_cpu_matrix b,
                    size_t M, size_t N, size_t K, bool accumulate)
{
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t j = 0; j < N; j += BLOCK_N) {
        for (size_t i = 0; i < M; i += BLOCK_M) {
            float left[BLOCK_M * BLOCK_K], right[BLOCK_K * BLOCK_N];
            size_t m = smaller(BLOCK_M, M - i), n = smaller(BLOCK_N, N - j);
            for (size_t k = 0; k < K; k += BLOCK_K) {
                size_t depth = smaller(BLOCK_K, K - k);
                copy_block(left, BLOCK_K, a, i, k, m, depth);
                copy_block(right, BLOCK_N, b, k, j, depth, n);
                DT_CPU(tile_matmul)
                (c + i * N + j, N, left, BLOCK_K, 1, right, BLOCK_N, m, n,
                 depth, accumulate || k > 0);
            }
        }
    }
}

#endif
