/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h - large matrix products, all threads of the team together */
#ifndef DT_OPS_CPU_MATMUL_H
#define DT_OPS_CPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/view.h"

/* A matrix as a matrix product reads it: element (i, j) of the operand is
 * data[i*stride + j], or data[j*stride + i] if transposed.
 */
struct dt_cpu_matrix {
    const void *data;
    size_t stride;   /* elements from one stored row to the next */
    bool transposed; /* stored as (columns, rows) */
};

/* c(M,N) = a(M,K) b(K,N) + bias(N), plus what c held with `accumulate`. a, b
 * and bias have one type; c has it too or is DT_F32. Sums are fp32, rounded
 * once; rows of c are N apart.
 */
struct dt_cpu_product {
    size_t M, N, K;
    struct dt_cpu_matrix a, b;
    enum dt_dtype type, c_type;
    void *c;
    const void *bias; /* NULL: none */
    bool accumulate;  /* only with c DT_F32 and no bias */
};

#ifdef DT_CPU_VARIANT
/* c = a b + bias, or += ; all threads of the team. */
void DT_CPU(matmul)(const struct dt_cpu_product *p);
#endif

#ifdef HAVE_ONEDNN
/* "oneDNN 2.6.3" */
const char *dt_onednn_version(void);

/* Whether oneDNN is the fastest for products of `type` on this CPU. */
bool dt_onednn_fastest(enum dt_dtype type);

/* The product by oneDNN; false if it cannot, c being undefined then. One thread
 * at a time.
 */
bool dt_onednn_matmul(const struct dt_cpu_product *p);
#endif

#endif /* DT_OPS_CPU_MATMUL_H */
