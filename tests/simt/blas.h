/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas.h - a matrix product that was described (blas.c), checked
 * (blas_matmul.c) and run (gemm.c)
 */
#ifndef DT_SIMT_BLAS_H
#define DT_SIMT_BLAS_H

#include <cublasLt.h>
#include <stdbool.h>

struct simt_layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};

struct simt_matmul_desc {
    int32_t compute, scale, pointer_mode, ta, tb;
    cublasLtEpilogue_t epilogue;
    void *bias, *aux;
    int64_t aux_ld;
    int32_t aux_type, bias_type, multiprocessors; /* types: -1 as d */
};

struct simt_preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4]; /* of a, b, c, d */
};

/* d(m,n) = epilogue(alpha op(a) op(b) + beta c), in columns. */
struct simt_gemm {
    size_t m, n, k;
    bool ta, tb, tf32;
    float alpha, beta;
    const void *a, *b, *c;
    void *d;
    struct simt_layout a_layout, b_layout, c_layout, d_layout;
    cublasLtEpilogue_t epilogue;
    void *bias, *aux;
    int64_t aux_ld;
    cudaDataType bias_type, aux_type;
    unsigned parts; /* of k, summed apart */
    void *workspace;
    size_t workspace_bytes; /* that the algorithm uses */
};

/* Computes it; what is queued. Takes nothing. */
void simt_gemm_run(void *gemm);

/* Bytes of an element. */
size_t simt_type_bytes(cudaDataType type);

#endif /* DT_SIMT_BLAS_H */
