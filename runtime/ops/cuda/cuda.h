/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - the operations on an NVIDIA GPU (private to ops/cuda and the module)
 *
 * One function for each slot of struct dt_ops, dt_cuda_<slot>, in the file of
 * its family: kernels and their launches in .cu, what calls a library of NVIDIA
 * in .c. One thread of a process uses them.
 */
#ifndef DT_OPS_CUDA_CUDA_H
#define DT_OPS_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Made by device_cuda.c. Everything in `workspace` is over when the operation
 * that used it has run: operations of one stream share it.
 */
struct dt_stream {
    cudaStream_t cuda;
    void *workspace; /* 256-byte aligned */
    size_t workspace_bytes;
};

/* workspace_bytes of every stream. */
enum { DT_CUDA_WORKSPACE = 64 << 20 };

/* What the operations need to know of card and user; set once by
 * dt_cuda_ops_open.
 */
struct dt_cuda_facts {
    int multiprocessors;
    int capability; /* 90 for sm_90 */
    bool deterministic, tf32;
    int attention; /* enum dt_attention_kind */
};
extern struct dt_cuda_facts dt_cuda_facts;

/* Handles of cuBLASLt and, where it is built in and found, cuDNN. -1:
 * EX_UNAVAILABLE.
 */
int dt_cuda_ops_open(const struct dt_cuda_facts *facts, struct dt_error *err);
int dt_cuda_matmul_open(struct dt_error *err);
int dt_cuda_attention_open(struct dt_error *err);

/* "cuDNN 9.19.0", or why there is none; open is not needed. */
const char *dt_cuda_attention_library(void);

extern const struct dt_ops dt_cuda_ops;

/* What a product comes with. */
enum dt_cuda_epilogue {
    DT_EPILOGUE_NONE,
    DT_EPILOGUE_BIAS,     /* + bias(N) X */
    DT_EPILOGUE_GELU_AUX, /* aux(M,N) = product (+ bias); d = gelu(aux) */
    DT_EPILOGUE_DGELU,    /* d = product * gelu'(aux(M,N)); d may be aux if a
                             is not transposed */
    DT_EPILOGUE_SUM_A,    /* bias(M) F32 = or += sum over k of a, with ta */
    DT_EPILOGUE_SUM_B,    /* bias(N) F32 = or += sum over k of b, without tb */
};

/* ta: a is (K,M), else (M,K); tb: b is (N,K), else (K,N). lda, ldb, ldd are the
 * row strides in elements, 0: rows follow one another without a gap. A view
 * then has any count that reaches the last element.
 */
struct dt_cuda_matmul {
    size_t M, N, K;
    bool ta, tb;
    struct dt_view a, b, d; /* a, b: X; d: X or F32 */
    size_t lda, ldb, ldd;
    bool accumulate;
    enum dt_cuda_epilogue epilogue;
    struct dt_view bias, aux; /* count 0: none */
};

/* d(M,N) = a b, or += with `accumulate`, row-major, computed in fp32 and
 * rounded once. Uses all of the stream's workspace. The first time that a shape
 * is seen the host may wait, and time algorithms for a few milliseconds.
 */
void dt_cuda_matmul(struct dt_stream *stream, const struct dt_cuda_matmul *mm);

/* The same product with GELU or sums in kernels of their own. */
void dt_cuda_matmul_apart(struct dt_stream *stream,
                          const struct dt_cuda_matmul *mm);

enum dt_cuda_race { DT_RACE_NEVER, DT_RACE_LATER, DT_RACE_NOW };

/* Can ways to do the same be timed? Never in deterministic mode, nor when that
 * has taken long enough; later, if the stream is being recorded.
 */
enum dt_cuda_race dt_cuda_race_when(struct dt_stream *stream);

/* Which of `count` ways is the fastest, the first two at least and then as many
 * as fit into some milliseconds: attempt(ctx, i) queues work, again and again,
 * or says that it cannot. Waits for the stream. -1: none worked.
 */
int dt_cuda_race(struct dt_stream *stream, int count,
                 bool (*attempt)(void *ctx, int i), void *ctx);

/* Operations cannot fail, but libraries can: the first text that
 * dt_cuda_ops_fail was given is kept ("cublasLtMatmul(...): not supported"),
 * and functions that wait for a stream fail with it. dt_cuda_ops_error: that
 * text, valid as long as the process, or NULL if nothing went wrong.
 */
void dt_cuda_ops_fail(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
const char *dt_cuda_ops_error(void);

/* db(OC) F32 = or += column sums of dout(N,OC) X; the same bits every time.
 * Uses the first half of the workspace.
 */
void dt_cuda_bias_backward(struct dt_stream *stream, struct dt_view db,
                           struct dt_view dout, size_t N, size_t OC,
                           bool accumulate);

/* sums(C) F32 = or += sum over n of weights[n * stride] x(N,C); the same bits
 * every time. Uses the first half of the workspace.
 */
void dt_cuda_weighted_sums(struct dt_stream *stream, struct dt_view sums,
                           struct dt_view x, struct dt_view weights,
                           size_t stride, size_t N, size_t C, bool accumulate);

/* One slot of struct dt_ops, with the type it has there. */
#define DT_CUDA_OP(op) extern __typeof__(*((struct dt_ops *)0)->op) dt_cuda_##op

DT_CUDA_OP(library);
DT_CUDA_OP(emulation);
DT_CUDA_OP(embedding_forward);
DT_CUDA_OP(embedding_backward);
DT_CUDA_OP(linear_forward);
DT_CUDA_OP(linear_backward);
DT_CUDA_OP(norm_forward);
DT_CUDA_OP(residual_norm_forward);
DT_CUDA_OP(norm_backward);
DT_CUDA_OP(dropout_backward);
DT_CUDA_OP(linear_gelu_forward);
DT_CUDA_OP(linear_gelu_backward);
DT_CUDA_OP(gelu_forward);
DT_CUDA_OP(gelu_backward);
DT_CUDA_OP(swiglu_forward);
DT_CUDA_OP(swiglu_backward);
DT_CUDA_OP(rotary_forward);
DT_CUDA_OP(rotary_backward);
DT_CUDA_OP(attention_forward);
DT_CUDA_OP(attention_backward);
DT_CUDA_OP(attention_scratch);
DT_CUDA_OP(kv_store);
DT_CUDA_OP(kv_attention);
DT_CUDA_OP(linear_cross_entropy);
DT_CUDA_OP(loss_scratch);
DT_CUDA_OP(zero);
DT_CUDA_OP(convert);
DT_CUDA_OP(step_begin);
DT_CUDA_OP(step_add);
DT_CUDA_OP(sum_of_squares);
DT_CUDA_OP(step_decide);
DT_CUDA_OP(adamw);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_CUDA_CUDA_H */
