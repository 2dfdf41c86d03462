/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c - large matrix products: oneDNN, or blocks of tiles without it */
#include "config.h"

#include "ops/cpu/cpu.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/rows.h"

/* Sides of the blocks that a thread copies: some 96 KiB of each operand. */
enum { BLOCK_M = 96, BLOCK_N = 128, BLOCK_K = 192 };

const char *DT_CPU(library)(void)
{
#ifdef HAVE_ONEDNN
    return dt_onednn_version();
#else
    return "built-in loops";
#endif
}

const char *DT_CPU(emulation)(enum dt_dtype type)
{
    if (type == DT_F32)
        return NULL;
    if (type == DT_F16)
        return "fp16 is stored, but computed in fp32";
#ifdef HAVE_ONEDNN
    if (dt_onednn_native(type))
        return NULL;
    return "bf16 is stored, but computed in fp32: this CPU has no AVX512-BF16";
#else
    return "bf16 is stored, but computed in fp32: built without oneDNN";
#endif
}

/* to(rows, columns) = the block of m that begins at (i, j) */
static void copy_block(float *to, size_t to_stride, struct dt_cpu_matrix m,
                       enum dt_dtype type, size_t i, size_t j, size_t rows,
                       size_t columns)
{
    float line[BLOCK_K];

    for (size_t r = 0; r < rows && !m.transposed; r++)
        dt_cpu_widen(to + r * to_stride,
                     dt_cpu_at(m.data, type, (i + r) * m.stride + j), type,
                     columns);
    for (size_t c = 0; c < columns && m.transposed; c++) {
        dt_cpu_widen(line, dt_cpu_at(m.data, type, (j + c) * m.stride + i),
                     type, rows);
        for (size_t r = 0; r < rows; r++)
            to[r * to_stride + c] = line[r];
    }
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The block of c that begins at (i, j) */
static void block(const struct dt_cpu_product *p, size_t i, size_t j)
{
    float left[BLOCK_M * BLOCK_K], right[BLOCK_K * BLOCK_N];
    float sum[BLOCK_M * BLOCK_N], bias[BLOCK_N];
    size_t m = smaller(BLOCK_M, p->M - i), n = smaller(BLOCK_N, p->N - j);
    char *c = p->c;

    if (p->bias)
        dt_cpu_widen(bias, dt_cpu_at(p->bias, p->type, j), p->type, n);
    for (size_t r = 0; r < m; r++) {
        float *row = sum + r * BLOCK_N;
        if (p->accumulate)
            memcpy(row, (float *)p->c + (i + r) * p->N + j, n * sizeof(*row));
        else if (p->bias)
            memcpy(row, bias, n * sizeof(*row));
        else
            memset(row, 0, n * sizeof(*row));
    }
    for (size_t k = 0; k < p->K; k += BLOCK_K) {
        size_t depth = smaller(BLOCK_K, p->K - k);
        copy_block(left, BLOCK_K, p->a, p->type, i, k, m, depth);
        copy_block(right, BLOCK_N, p->b, p->type, k, j, depth, n);
        DT_CPU(tile_matmul)
        (sum, BLOCK_N, left, BLOCK_K, 1, right, BLOCK_N, m, n, depth, true);
    }
    for (size_t r = 0; r < m; r++)
        dt_cpu_narrow(c + ((i + r) * p->N + j) * dt_dtype_bytes(p->c_type),
                      sum + r * BLOCK_N, p->c_type, n);
}

void DT_CPU(matmul)(const struct dt_cpu_product *p)
{
#ifdef HAVE_ONEDNN
    if (dt_onednn_matmul(p))
        return;
#endif
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (size_t j = 0; j < p->N; j += BLOCK_N) {
        for (size_t i = 0; i < p->M; i += BLOCK_M)
            block(p, i, j);
    }
}
