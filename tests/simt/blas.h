/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blas.h - a matrix multiplication, which blas.c describes, blas_matmul.c
 * checks and gemm.c runs
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

/* d(m,n) = epilogue(alpha op(a) op(b) + beta c), in column-major order. */
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
    unsigned parts; /* parts of k that are summed separately */
    void *workspace;
    size_t workspace_bytes; /* used by the algorithm */
};

/* The function that is queued: computes a struct simt_gemm. Frees nothing. */
void simt_gemm_run(void *gemm);

/* Bytes of an element. */
size_t simt_type_bytes(cudaDataType type);

#endif /* DT_SIMT_BLAS_H */
