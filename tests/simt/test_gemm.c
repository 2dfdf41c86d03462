/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gemm.c - matrix products of the emulation against a loop in double
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cublasLt.h>

#include "simt_round.h"
#include "test_simt.h"

enum { M = 24, N = 13, K = 37, PAD = 8, AUX = 32 };
enum { A, B, D, BIAS, OTHER, MATRICES }; /* OTHER: the epilogue's */

#define good(call) assert_int_equal(call, CUBLAS_STATUS_SUCCESS)

struct product {
    cudaDataType in, out;
    bool ta, tb;
    cublasLtEpilogue_t epilogue;
    float beta;
    double host[MATRICES][(M + K + N) * (K + PAD)]; /* what the device has */
    void *data[MATRICES];
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
};

static cublasLtHandle_t handle;

static double rounded(cudaDataType type, double x)
{
    if (type == CUDA_R_16BF)
        return simt_from_bf16(simt_to_bf16((float)x));
    return type == CUDA_R_16F ? simt_from_half(simt_to_half((float)x))
                              : (double)(float)x;
}

static size_t bytes_of(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static void put(void *raw, size_t i, cudaDataType type, double x)
{
    if (type == CUDA_R_32F)
        ((float *)raw)[i] = (float)x;
    else
        ((uint16_t *)raw)[i] = type == CUDA_R_16BF ? simt_to_bf16((float)x)
                                                   : simt_to_half((float)x);
}

static double get(const void *raw, size_t i, cudaDataType type)
{
    if (type == CUDA_R_32F)
        return ((const float *)raw)[i];
    uint16_t bits = ((const uint16_t *)raw)[i];
    return type == CUDA_R_16BF ? simt_from_bf16(bits) : simt_from_half(bits);
}

static cudaDataType type_of(const struct product *p, int which)
{
    return which == A || which == B ? p->in : p->out;
}

/* Numbers of any sign in host and device memory. */
static void fill(struct product *p, int which, size_t count)
{
    static unsigned state = 1;
    static float raw[(M + K + N) * (K + PAD)];
    cudaDataType type = type_of(p, which);
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        p->host[which][i] = rounded(type, (double)(state >> 8) / 8388608.0 - 1);
        put(raw, i, type, p->host[which][i]);
    }
    check(cudaMalloc(&p->data[which], count * bytes_of(type)));
    check(cudaMemcpy(p->data[which], raw, count * bytes_of(type),
                     cudaMemcpyDefault));
}

static void set_up(struct product *p)
{
    int32_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    int64_t aux_ld = AUX;
    size_t a_rows = p->ta ? K : M, a_cols = p->ta ? M : K;
    size_t b_rows = p->tb ? N : K, b_cols = p->tb ? K : N;
    fill(p, A, (a_rows + PAD) * a_cols);
    fill(p, B, (b_rows + PAD) * b_cols);
    fill(p, D, (M + PAD) * N);
    fill(p, BIAS, M + N);
    fill(p, OTHER, AUX * N);
    good(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
#define SET(name, value)                                                       \
    good(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_##name,  \
                                        &(value), sizeof(value)))
    SET(TRANSA, ta);
    SET(TRANSB, tb);
    SET(EPILOGUE, p->epilogue);
    SET(BIAS_POINTER, p->data[BIAS]);
    SET(EPILOGUE_AUX_POINTER, p->data[OTHER]);
    SET(EPILOGUE_AUX_LD, aux_ld);
#undef SET
    good(cublasLtMatrixLayoutCreate(&p->a, p->in, a_rows, a_cols,
                                    (int64_t)a_rows + PAD));
    good(cublasLtMatrixLayoutCreate(&p->b, p->in, b_rows, b_cols,
                                    (int64_t)b_rows + PAD));
    good(cublasLtMatrixLayoutCreate(&p->d, p->out, M, N, M + PAD));
}

static void tear_down(struct product *p)
{
    for (int i = 0; i < MATRICES; i++)
        check(cudaFree(p->data[i]));
    cublasLtMatmulDescDestroy(p->desc);
    cublasLtMatrixLayoutDestroy(p->a);
    cublasLtMatrixLayoutDestroy(p->b);
    cublasLtMatrixLayoutDestroy(p->d);
}

static cublasStatus_t multiply(const struct product *p,
                               const cublasLtMatmulAlgo_t *algo,
                               void *workspace, size_t bytes)
{
    const float alpha = 0.5f;
    return cublasLtMatmul(handle, p->desc, &alpha, p->data[A], p->a, p->data[B],
                          p->b, &p->beta, p->data[D], p->d, p->data[D], p->d,
                          algo, workspace, bytes, 0);
}

static double gelu(double x)
{
    return 0.5 * x *
           (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double a_of(const struct product *p, size_t m, size_t k)
{
    return p->host[A][p->ta ? k + m * (K + PAD) : m + k * (M + PAD)];
}

static double b_of(const struct product *p, size_t k, size_t n)
{
    return p->host[B][p->tb ? n + k * (N + PAD) : k + n * (K + PAD)];
}

/* GELU in fp32 is as coarse as the library may have it. */
static void expect_near(const struct product *p, double got, double want)
{
    bool gelu_d = p->epilogue & CUBLASLT_EPILOGUE_GELU ||
                  p->epilogue == CUBLASLT_EPILOGUE_DGELU;
    double unit = p->out == CUDA_R_32F    ? gelu_d ? 2e-2 : 1e-5
                  : p->out == CUDA_R_16BF ? 0x1p-8
                                          : 0x1p-10;
    if (fabs(got - want) > unit * (fabs(want) + 0.1))
        fail_msg("types %d to %d, %d %d, epilogue %d: %g, should be %g",
                 (int)p->in, (int)p->out, p->ta, p->tb, (int)p->epilogue, got,
                 want);
}

static void fetch(const struct product *p, int which, float *raw, size_t count)
{
    check(cudaMemcpy(raw, p->data[which], count * bytes_of(type_of(p, which)),
                     cudaMemcpyDefault));
}

static void check_d(const struct product *p)
{
    static float d[(M + PAD) * N], aux[AUX * N];
    bool has_bias = p->epilogue & CUBLASLT_EPILOGUE_BIAS;
    bool has_gelu = p->epilogue & CUBLASLT_EPILOGUE_GELU;
    fetch(p, D, d, (M + PAD) * N);
    fetch(p, OTHER, aux, AUX * N);
    for (size_t n = 0; n < N; n++)
        for (size_t m = 0; m < M; m++) {
            double x = 0, old = p->host[OTHER][m + n * AUX], h = 1e-5;
            for (size_t k = 0; k < K; k++)
                x += 0.5 * a_of(p, m, k) * b_of(p, k, n);
            x += (double)p->beta * p->host[D][m + n * (M + PAD)];
            x += has_bias ? p->host[BIAS][m] : 0;
            if (p->epilogue == CUBLASLT_EPILOGUE_DGELU)
                x *= (gelu(old + h) - gelu(old - h)) / (2 * h);
            if (has_gelu)
                expect_near(p, get(aux, m + n * AUX, p->out), x);
            expect_near(p, get(d, m + n * (M + PAD), p->out),
                        has_gelu ? gelu(x) : x);
        }
    for (size_t i = M; i < M + PAD; i++) /* between the columns */
        assert_true(get(d, i, p->out) == p->host[D][i]);
}

static void check_gradient(const struct product *p)
{
    static float bias[M + N];
    bool of_b = p->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    fetch(p, BIAS, bias, M + N);
    for (size_t i = 0; i < (of_b ? (size_t)N : (size_t)M); i++) {
        double sum = 0;
        for (size_t k = 0; k < K; k++)
            sum += of_b ? b_of(p, k, i) : a_of(p, i, k);
        expect_near(p, get(bias, i, p->out), sum);
    }
}

/* One product with every algorithm that is offered. */
static void one(struct product *p)
{
    cublasLtMatmulHeuristicResult_t found[8];
    cublasLtMatmulPreference_t wish;
    uint64_t most = 1 << 16;
    int count, index = 0;
    void *workspace;
    check(cudaMalloc(&workspace, most));
    good(cublasLtMatmulPreferenceCreate(&wish));
    good(cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)));
    do {
        set_up(p);
        good(cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b, p->d,
                                            p->d, wish, 8, found, &count));
        assert_in_range(count, 2, 3);
        good(multiply(p, &found[index].algo, workspace, most));
        check_d(p);
        if (p->epilogue == CUBLASLT_EPILOGUE_BGRADA ||
            p->epilogue == CUBLASLT_EPILOGUE_BGRADB)
            check_gradient(p);
        tear_down(p);
    } while (++index < count);
    cublasLtMatmulPreferenceDestroy(wish);
    check(cudaFree(workspace));
}

void matrix_products_match_a_loop_in_double(void **state)
{
    static const cudaDataType TYPES[][2] = {{CUDA_R_32F, CUDA_R_32F},
                                            {CUDA_R_16BF, CUDA_R_16BF},
                                            {CUDA_R_16F, CUDA_R_16F},
                                            {CUDA_R_16BF, CUDA_R_32F}};
    static const cublasLtEpilogue_t EPILOGUES[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB};
    static struct product p;
    (void)state;
    good(cublasLtCreate(&handle));
    for (size_t t = 0; t < sizeof(TYPES) / sizeof(*TYPES); t++)
        for (size_t e = 0; e < sizeof(EPILOGUES) / sizeof(*EPILOGUES); e++)
            for (int i = 0; i < 8; i++) {
                p = (struct product){.in = TYPES[t][0],
                                     .out = TYPES[t][1],
                                     .ta = i & 1,
                                     .tb = i & 2,
                                     .beta = i & 4 ? 1.0f : 0.0f,
                                     .epilogue = EPILOGUES[e]};
                one(&p);
            }
    cublasLtDestroy(handle);
}

static void expect_status(struct product *p, cublasStatus_t status)
{
    assert_int_equal(multiply(p, NULL, NULL, 0), status);
}

void products_that_cublaslt_lacks_are_refused(void **state)
{
    static struct product p = {.in = CUDA_R_16BF,
                               .out = CUDA_R_16BF,
                               .epilogue = CUBLASLT_EPILOGUE_GELU_AUX};
    const int64_t short_ld = M - 8, odd_ld = M + 1, aux_ld = AUX;
    const uint64_t k = K, rows = K + 1;
    (void)state;
    good(cublasLtCreate(&handle));
    set_up(&p);
    expect_status(&p, CUBLAS_STATUS_SUCCESS);
#define WITH(set, object, attr, wrong, right, status)                          \
    do {                                                                       \
        good(set(object, attr, &(wrong), sizeof(wrong)));                      \
        expect_status(&p, status);                                             \
        good(set(object, attr, &(right), sizeof(right)));                      \
        expect_status(&p, CUBLAS_STATUS_SUCCESS);                              \
    } while (0)
    WITH(cublasLtMatmulDescSetAttribute, p.desc,
         CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, odd_ld, aux_ld,
         CUBLAS_STATUS_INVALID_VALUE);
    WITH(cublasLtMatmulDescSetAttribute, p.desc,
         CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, short_ld, aux_ld,
         CUBLAS_STATUS_INVALID_VALUE);
    WITH(cublasLtMatrixLayoutSetAttribute, p.b, CUBLASLT_MATRIX_LAYOUT_ROWS,
         rows, k, CUBLAS_STATUS_INVALID_VALUE);
    const cudaDataType half = CUDA_R_16F, bf16 = CUDA_R_16BF;
    WITH(cublasLtMatrixLayoutSetAttribute, p.a, CUBLASLT_MATRIX_LAYOUT_TYPE,
         half, bf16, CUBLAS_STATUS_NOT_SUPPORTED);
#undef WITH
    good(cublasLtMatrixLayoutSetAttribute(p.d, CUBLASLT_MATRIX_LAYOUT_LD,
                                          &short_ld, sizeof(short_ld)));
    expect_status(&p, CUBLAS_STATUS_INVALID_VALUE);
    tear_down(&p);
    cublasLtDestroy(handle);
}
