/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm.c - a matrix product in fp32, as cuBLASLt would leave it
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "internal.h"
#include "simt_round.h"

/* Rows and columns that are computed together. */
enum { STRIP = 4, GROUP = 4 };

typedef float strip __attribute__((vector_size(STRIP * sizeof(float))));

size_t simt_type_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float load(const void *data, size_t i, cudaDataType type)
{
    if (type == CUDA_R_32F)
        return ((const float *)data)[i];
    uint16_t bits = ((const uint16_t *)data)[i];
    return type == CUDA_R_16BF ? simt_from_bf16(bits) : simt_from_half(bits);
}

static void store(void *data, size_t i, cudaDataType type, float x)
{
    if (type == CUDA_R_32F)
        ((float *)data)[i] = x;
    else if (type == CUDA_R_16BF)
        ((uint16_t *)data)[i] = simt_to_bf16(x);
    else
        ((uint16_t *)data)[i] = simt_to_half(x);
}

/* Element (row, col) of op(matrix). */
static float element(const void *data, const struct simt_layout *layout,
                     bool transposed, size_t row, size_t col)
{
    size_t ld = (size_t)layout->ld;
    return load(data, transposed ? col + row * ld : row + col * ld,
                layout->type);
}

/* op(a) as strips of rows, each k long; op(b) as columns. Both are fp32. */
static strip *pack_a(const struct simt_gemm *g)
{
    size_t strips = (g->m + STRIP - 1) / STRIP;
    strip *packed =
        simt_checked(aligned_alloc(64, (strips * g->k + 3) / 4 * 64));
    for (size_t s = 0; s < strips; s++)
        for (size_t k = 0; k < g->k; k++)
            for (size_t i = 0; i < STRIP; i++) {
                size_t row = s * STRIP + i;
                float x = row < g->m
                              ? element(g->a, &g->a_layout, g->ta, row, k)
                              : 0.0f;
                packed[s * g->k + k][i] = g->tf32 ? simt_to_tf32(x) : x;
            }
    return packed;
}

static float *pack_b(const struct simt_gemm *g)
{
    size_t cols = (g->n + GROUP - 1) / GROUP * GROUP;
    float *packed = simt_checked(calloc(cols * g->k, sizeof(float)));
    for (size_t n = 0; n < g->n; n++)
        for (size_t k = 0; k < g->k; k++) {
            float x = element(g->b, &g->b_layout, g->tb, k, n);
            packed[n * g->k + k] = g->tf32 ? simt_to_tf32(x) : x;
        }
    return packed;
}

/* --- epilogues --- */

/* The tanh of GELU (Hendrycks and Gimpel, "Gaussian error linear units"). For
 * fp32 it has the 10 bits of tanh.approx.f32: the library promises no more.
 */
static float gelu_tanh(const struct simt_gemm *g, float x)
{
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return g->d_layout.type == CUDA_R_32F ? simt_to_tf32(t) : t;
}

static float gelu(const struct simt_gemm *g, float x)
{
    return 0.5f * x * (1.0f + gelu_tanh(g, x));
}

static float gelu_slope(const struct simt_gemm *g, float x)
{
    float t = gelu_tanh(g, x);
    float inner = 0.7978845608f * (1.0f + 3 * 0.044715f * x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

static void finish(const struct simt_gemm *g, size_t row, size_t col, float x)
{
    size_t at = row + col * (size_t)g->d_layout.ld;
    size_t aux = row + col * (size_t)g->aux_ld;
    x *= g->alpha;
    if (g->beta != 0.0f)
        x += g->beta *
             load(g->c, row + col * (size_t)g->c_layout.ld, g->c_layout.type);
    switch (g->epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        x += load(g->bias, row, g->bias_type);
        break;
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        x *= gelu_slope(g, load(g->aux, aux, g->aux_type));
        break;
    default:
        break;
    }
    if (g->epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
        g->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
        store(g->aux, aux, g->aux_type, x);
    if (g->epilogue & CUBLASLT_EPILOGUE_GELU)
        x = gelu(g, x);
    store(g->d, at, g->d_layout.type, x);
}

/* Gradients of a bias: sums over k of a or b, or over the columns of d. */
static void sum_gradients(const struct simt_gemm *g)
{
    bool of_b = g->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    bool of_d = g->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD;
    size_t count = of_b ? g->n : g->m, length = of_d ? g->n : g->k;
    for (size_t i = 0; i < count; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < length; j++)
            sum += of_d   ? element(g->d, &g->d_layout, false, i, j)
                   : of_b ? element(g->b, &g->b_layout, g->tb, j, i)
                          : element(g->a, &g->a_layout, g->ta, i, j);
        store(g->bias, i, g->bias_type, sum);
    }
}

/* A strip of rows times a group of columns. */
static void multiply(const struct simt_gemm *g, const strip *a, const float *b,
                     strip sums[GROUP])
{
    size_t begin = 0;
    for (int j = 0; j < GROUP; j++)
        sums[j] = (strip){0};
    for (unsigned part = 1; part <= g->parts; part++) {
        size_t end = g->k * part / g->parts;
        strip x0 = {0}, x1 = {0}, x2 = {0}, x3 = {0};
        for (size_t k = begin; k < end; k++) {
            x0 += a[k] * b[k];
            x1 += a[k] * b[k + g->k];
            x2 += a[k] * b[k + 2 * g->k];
            x3 += a[k] * b[k + 3 * g->k];
        }
        sums[0] += x0;
        sums[1] += x1;
        sums[2] += x2;
        sums[3] += x3;
        begin = end;
    }
}

void simt_gemm_run(void *gemm)
{
    const struct simt_gemm *g = gemm;
    strip *a = pack_a(g), sums[GROUP];
    float *b = pack_b(g);
    if (g->workspace_bytes > 0)
        memset(g->workspace, 0xee, g->workspace_bytes);
    for (size_t row = 0; row < g->m; row += STRIP)
        for (size_t col = 0; col < g->n; col += GROUP) {
            multiply(g, a + row / STRIP * g->k, b + col * g->k, sums);
            for (size_t j = 0; j < GROUP && col + j < g->n; j++)
                for (size_t i = 0; i < STRIP && row + i < g->m; i++)
                    finish(g, row + i, col + j, sums[j][i]);
        }
    if (g->epilogue == CUBLASLT_EPILOGUE_BGRADA ||
        g->epilogue == CUBLASLT_EPILOGUE_BGRADB ||
        g->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
        sum_gradients(g);
    free(a);
    free(b);
}
