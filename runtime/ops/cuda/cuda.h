/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda.h - the operations on an NVIDIA GPU (private to ops/cuda and the module)
 *
 * dt_cuda_<slot> is the function for a slot of struct dt_ops, in the file of
 * its family: kernels and their launches in .cu, calls of NVIDIA's libraries in
 * .c. Only one thread of a process may use them.
 */
#ifndef DT_OPS_CUDA_CUDA_H
#define DT_OPS_CUDA_CUDA_H

#include "device/device_cuda.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Facts about the GPU and the user's choices; set once by
 * dt_cuda_ops_open.
 */
struct dt_cuda_facts {
    int multiprocessors;
    int capability; /* 90 for sm_90 */
    int local_rank; /* among the ranks of its node */
    bool deterministic, tf32;
    enum dt_attention_kind attention;
};
extern struct dt_cuda_facts dt_cuda_facts;

/* Handles of cuBLASLt and, where it is built in and found, cuDNN; the shared
 * memory that the loss may use. -1: EX_UNAVAILABLE.
 */
int dt_cuda_ops_open(const struct dt_cuda_facts *facts, struct dt_error *err);
int dt_cuda_matmul_open(struct dt_error *err);
int dt_cuda_attention_open(struct dt_error *err);
int dt_cuda_loss_open(struct dt_error *err);

/* Leaves a text for the user, which the slot `notice` gives. More than 32 that
 * nobody fetches are dropped.
 */
void dt_cuda_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Who will compute attention, as the slot attention_library says it, found out
 * by a trial on the current GPU if there is a `gpu`; for a process that does
 * not open the operations.
 */
const char *dt_cuda_attention_try(bool gpu);

extern const struct dt_ops dt_cuda_ops;

/* The operation after a matrix multiplication a b, in the same kernel if
 * possible.
 */
enum dt_cuda_epilogue {
    DT_EPILOGUE_NONE,
    DT_EPILOGUE_BIAS,       /* + bias(N) X */
    DT_EPILOGUE_ACTIVATION, /* aux(M,N) = a b (+ bias); d = act(aux) */
    DT_EPILOGUE_SLOPE,      /* d = a b * act'(aux(M,N)); d may be aux if a
                             is not transposed */
    DT_EPILOGUE_SUM_A,      /* bias(M) F32 = or += sum over k of a, with ta */
    DT_EPILOGUE_SUM_B, /* bias(N) F32 = or += sum over k of b, without tb */
};

/* ta: a is (K,M), else (M,K); tb: b is (N,K), else (K,N). lda, ldb, ldd are row
 * strides in elements; 0: rows are contiguous. With a stride, a view may have
 * any count that includes the last element.
 */
struct dt_cuda_matmul {
    size_t M, N, K;
    bool ta, tb;
    struct dt_view a, b, d; /* a, b: X; d: X or F32 */
    struct dt_view c; /* (M,N) as d, which it may be: added; count 0: none */
    size_t lda, ldb, ldd;
    float scale; /* 0: 1 */
    bool accumulate;
    enum dt_cuda_epilogue epilogue;
    enum dt_activation activation; /* of DT_EPILOGUE_ACTIVATION, _SLOPE */
    struct dt_view bias, aux;      /* count 0: none */
};

/* d(M,N) = scale a b (+ c), or += with `accumulate`, row-major, computed in
 * fp32 and rounded once. Uses all of the stream's workspace. When a shape is
 * seen first, the host may wait and time algorithms for a few milliseconds.
 */
void dt_cuda_matmul(struct dt_stream *stream, const struct dt_cuda_matmul *mm);

/* The same, with the epilogue's activation or sums in kernels of their own. */
void dt_cuda_matmul_unfused(struct dt_stream *stream,
                            const struct dt_cuda_matmul *mm);

/* The words of $DISTTRAIN_AUTOTUNE. */
enum dt_cuda_autotune_word {
    DT_AUTOTUNE_LOG = 1,     /* log: the times of all candidates */
    DT_AUTOTUNE_APART = 2,   /* apart: GELU and sums never by the library */
    DT_AUTOTUNE_LIBRARY = 4, /* library: always, where it has them */
    DT_AUTOTUNE_FRESH = 8,   /* fresh: no choices of earlier runs, or for later
                                ones; so with the two before it, too */
};

/* Does the user ask for that, in words with commas between them? */
bool dt_cuda_autotune_asks(enum dt_cuda_autotune_word word);

/* dx(N,C) += dropout of x(N,C), at a rate above 0; element t*C + c */
void dt_cuda_add_dropped(struct dt_stream *stream, struct dt_view dx,
                         struct dt_view x, size_t N, size_t C,
                         const struct dt_dropout *dropout);

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
DT_CUDA_OP(attention_library);
DT_CUDA_OP(notice);
DT_CUDA_OP(search_apart);
DT_CUDA_OP(embedding_forward);
DT_CUDA_OP(embedding_backward);
DT_CUDA_OP(scatter_rows);
DT_CUDA_OP(add_rows);
DT_CUDA_OP(patch_rows);
DT_CUDA_OP(sparse_matmul);
DT_CUDA_OP(linear_forward);
DT_CUDA_OP(linear_add_forward);
DT_CUDA_OP(linear_backward);
DT_CUDA_OP(norm_forward);
DT_CUDA_OP(residual_norm_forward);
DT_CUDA_OP(norm_backward);
DT_CUDA_OP(dropout_backward);
DT_CUDA_OP(linear_activation_forward);
DT_CUDA_OP(linear_activation_backward);
DT_CUDA_OP(activation_forward);
DT_CUDA_OP(activation_backward);
DT_CUDA_OP(low_rank_forward);
DT_CUDA_OP(low_rank_backward);
DT_CUDA_OP(glu_forward);
DT_CUDA_OP(glu_backward);
DT_CUDA_OP(heads_norm_forward);
DT_CUDA_OP(heads_norm_backward);
DT_CUDA_OP(rope_forward);
DT_CUDA_OP(rope_backward);
DT_CUDA_OP(attention_forward);
DT_CUDA_OP(attention_backward);
DT_CUDA_OP(attention_workspace);
DT_CUDA_OP(kv_store);
DT_CUDA_OP(kv_attention);
DT_CUDA_OP(sample);
DT_CUDA_OP(linear_cross_entropy);
DT_CUDA_OP(linear_logprob_forward);
DT_CUDA_OP(linear_logprob_backward);
DT_CUDA_OP(apply_logit_rule);
DT_CUDA_OP(loss_workspace);
DT_CUDA_OP(zero);
DT_CUDA_OP(convert);
DT_CUDA_OP(add);
DT_CUDA_OP(add_dithered);
DT_CUDA_OP(combine);
DT_CUDA_OP(hash);
DT_CUDA_OP(step_begin);
DT_CUDA_OP(step_add);
DT_CUDA_OP(sum_of_squares);
DT_CUDA_OP(clip_and_check);
DT_CUDA_OP(adamw);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_CUDA_CUDA_H */
