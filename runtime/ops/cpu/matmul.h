/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h - matrix multiplications, by all threads of the team */
#ifndef DT_OPS_CPU_MATMUL_H
#define DT_OPS_CPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/tensor.h"

/* An operand of a matrix multiplication: element (i, j) of the operand is
 * data[i*stride + j], or data[j*stride + i] if transposed.
 */
struct dt_cpu_matrix {
    const void *data;
    size_t stride;   /* elements from one stored row to the next */
    bool transposed; /* stored as (columns, rows) */
};

/* c(M,N) = a(M,K) b(K,N) + bias(N), or += with `accumulate`. a, b and bias have
 * one type; c has it too or is DT_F32. Sums are fp32, rounded once; rows of c
 * are N apart. Where rows of a are farther apart than they are long, the
 * elements between them must be finite: with AMX, oneDNN 3.12 reads some of
 * them and multiplies them by 0.
 */
struct dt_cpu_matmul {
    size_t M, N, K;
    struct dt_cpu_matrix a, b;
    enum dt_dtype type, c_type;
    void *c;
    const void *bias; /* NULL: none */
    bool accumulate;  /* only with c DT_F32 and no bias */
};

/* Fewer rows than this are multiplied by loops of our own: the time is that of
 * reading b once, and in oneDNN the order of a row's sums depends on the other
 * rows.
 */
enum { DT_CPU_FEW_ROWS = 16 };

/* Up to this many are multiplied by another loop of our own where it is faster,
 * as b is large and used for so few rows.
 */
enum { DT_CPU_SOME_ROWS = 64 };

/* Whether the operands are pairs of bf16 and this CPU multiplies and adds these
 * as fast as fp32. Intel's has half that rate without AMX.
 */
static inline bool dt_cpu_has_pairs(const struct dt_cpu_matmul *p)
{
#ifdef __x86_64__
    return p->type == DT_BF16 && p->K % 2 == 0 && p->a.stride % 2 == 0 &&
           p->b.stride % 2 == 0 && __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_is("amd");
#else
    (void)p;
    return false;
#endif
}

#ifdef DT_CPU_VARIANT
/* c = a b + bias, or += ; all threads of the team. With fewer than
 * DT_CPU_FEW_ROWS rows, a not transposed and no `accumulate`, a row of c has
 * the bits that it has alone, for any number of threads.
 */
void DT_CPU(matmul)(const struct dt_cpu_matmul *p);

/* The same, only for such a product. */
void DT_CPU(matmul_few)(const struct dt_cpu_matmul *p);

/* The same, only for a product of at most DT_CPU_SOME_ROWS rows, with a not
 * transposed and no `accumulate`. A row of c has the bits that it has with any
 * other rows, for any number of threads.
 */
void DT_CPU(matmul_rows)(const struct dt_cpu_matmul *p);
#endif

#ifdef HAVE_ONEDNN
/* "oneDNN 2.6.3" */
const char *dt_onednn_version(void);

/* Whether oneDNN multiplies matrices of `type` fastest on this CPU. */
bool dt_onednn_fastest(enum dt_dtype type);

/* The same by oneDNN. false: it cannot, and c is undefined. Not thread-safe. */
bool dt_onednn_matmul(const struct dt_cpu_matmul *p);
#endif

#endif /* DT_OPS_CPU_MATMUL_H */
