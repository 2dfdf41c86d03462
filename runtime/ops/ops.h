/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h - the table of math functions; a backend fills it
 *
 * Letters: B rows of a batch, T positions in a row, N = B*T, C channels,
 * OC output channels, NH heads, HS = C/NH head size, V vocabulary, P learned
 * positions. All tensors are contiguous, row-major; the shape stands after
 * each name. Views are asserted to hold exactly that many elements.
 *
 * Functions run in the order of `stream` (cpu: NULL, done on return), never
 * allocate device memory and never fail: shapes are the caller's promise. A
 * NULL slot means that the backend does not have the function.
 *
 * `accumulate`: false overwrites the gradient of a parameter, true adds to it,
 * so that the first micro-batch of a step needs no zeroing pass.
 */
#ifndef DT_OPS_OPS_H
#define DT_OPS_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "tensor/view.h"

/* How a weight of a linear layer is stored. */
enum dt_weight_order {
    DT_WEIGHT_IN_OUT, /* w(C, OC), y = x w: GPT-2's Conv1D */
    DT_WEIGHT_OUT_IN, /* w(OC, C), y = x w^T: Linear and tied embeddings */
};

/* AdamW of torch.optim.AdamW (Loshchilov, Hutter, "Decoupled weight decay
 * regularization", alg. 2), for optimizer step n >= 1:
 *   g' = grad_scale * g;  p -= lr*weight_decay * p
 *   m = beta1*m + (1-beta1)*g';  v = beta2*v + (1-beta2)*g'*g'
 *   p -= lr/bias1 * m / (sqrt(v)/sqrt(bias2) + eps),  biasi = 1 - betai^n
 */
struct dt_adamw {
    /* double: 1 - beta2 of a float would be off by 5e-5 of itself */
    double lr, beta1, beta2, eps, weight_decay;
    double grad_scale; /* clipping and normalisation, applied to g */
    double bias1, bias2;
};

struct dt_ops {
    const char *name; /* "cpu/avx512" */

    /* Where matrix products come from: "oneDNN 2.6.3", "built-in loops" */
    const char *(*library)(void);

    /* out(N,C) = wte(V,C)[ids(N)] + wpe(P,C)[position], T <= P */
    void (*embedding_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view wte,
                              struct dt_view wpe, size_t B, size_t T, size_t C);
    /* dwte(V,C) += dout(N,C) at ids (always adds); dwpe(P,C) = or += the sum
     * of dout over rows. Deterministic for any number of threads.
     */
    void (*embedding_backward)(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, size_t B, size_t T, size_t C,
                               bool accumulate);

    /* out(N,OC) = x(N,C) w + b(OC); b.count == 0 means no bias */
    void (*linear_forward)(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view w, struct dt_view b,
                           enum dt_weight_order order, size_t N, size_t C,
                           size_t OC);
    /* dx(N,C) = dout(N,OC) w^T; dw = or += x^T dout; db(OC) = or += sum_N dout
     * (db.count == 0: no bias).
     */
    void (*linear_backward)(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dw, struct dt_view db,
                            struct dt_view dout, struct dt_view x,
                            struct dt_view w, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate);

    /* out(N,C) = (x - mean) * rstd * w(C) + b(C), row by row; keeps mean(N)
     * and rstd(N) = 1/sqrt(var + eps) for the backward pass.
     */
    void (*layernorm_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view mean, struct dt_view rstd,
                              struct dt_view x, struct dt_view w,
                              struct dt_view b, float eps, size_t N, size_t C);
    /* sum(N,C) = x(N,C) + y(N,C), then layernorm_forward of sum into out */
    void (*residual_layernorm_forward)(struct dt_stream *stream,
                                       struct dt_view sum, struct dt_view out,
                                       struct dt_view mean, struct dt_view rstd,
                                       struct dt_view x, struct dt_view y,
                                       struct dt_view w, struct dt_view b,
                                       float eps, size_t N, size_t C);
    /* dx(N,C) += gradient through the norm (adds: the residual stream's own
     * gradient is already there); dw(C), db(C) = or +=. x is what was normed.
     */
    void (*layernorm_backward)(struct dt_stream *stream, struct dt_view dx,
                               struct dt_view dw, struct dt_view db,
                               struct dt_view dout, struct dt_view x,
                               struct dt_view w, struct dt_view mean,
                               struct dt_view rstd, size_t N, size_t C,
                               bool accumulate);

    /* sum = x + y, element by element; sum may be x */
    void (*residual_forward)(struct dt_stream *stream, struct dt_view sum,
                             struct dt_view x, struct dt_view y);

    /* tanh approximation, GPT-2's gelu_new (Hendrycks, Gimpel, sec. 2) */
    void (*gelu_forward)(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x);
    /* dx = dout * gelu'(x); dx may be dout */
    void (*gelu_backward)(struct dt_stream *stream, struct dt_view dx,
                          struct dt_view dout, struct dt_view x);

    /* Causal softmax attention, scale HS^-0.5. qkv(B,T,3,NH,HS) ->
     * out(B,T,NH,HS); lse(B,NH,T) = log-sum-exp of the scaled scores, all that
     * is kept for the backward pass (Dao et al., FlashAttention, alg. 1): no
     * T x T buffer outlives a tile.
     */
    void (*attention_forward)(struct dt_stream *stream, struct dt_view out,
                              struct dt_view lse, struct dt_view qkv, size_t B,
                              size_t T, size_t NH, size_t HS);
    /* dqkv(B,T,3,NH,HS) = gradient (overwritten); scores are recomputed. */
    void (*attention_backward)(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv, size_t B,
                               size_t T, size_t NH, size_t HS);

    /* Head and cross entropy in one, a chunk of rows at a time: logits(.,V) =
     * x w(V,C)^T live only in `scratch` (any size >= V elements, more is
     * faster). Returns the sum over rows of logsumexp - logit[target], rows
     * with target DT_IGNORE left out. With dx.count != 0 also dx(N,C) and
     * dw(V,C) (= or +=) of scale * that sum; with dx.count == 0 loss only.
     */
    double (*linear_cross_entropy)(struct dt_stream *stream, struct dt_view dx,
                                   struct dt_view dw, struct dt_view x,
                                   struct dt_view w, struct dt_view targets,
                                   struct dt_view scratch, float scale,
                                   size_t N, size_t C, size_t V,
                                   bool accumulate);

    /* x = 0, element by element */
    void (*zero)(struct dt_stream *stream, struct dt_view x);

    /* Sum of squares in double; the same bits for any number of threads. */
    double (*sum_of_squares)(struct dt_stream *stream, struct dt_view x);

    /* One AdamW step on a range; p, g, m, v all (count), fp32. */
    void (*adamw)(struct dt_stream *stream, struct dt_view p, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args);
};

/* The CPU backend in the fastest variant that this processor runs
 * (cpu/avx512, cpu/avx2, cpu/generic): OpenMP, matrix products by oneDNN where
 * it was built in. fp32 only.
 */
const struct dt_ops *dt_ops_cpu(void);

#endif /* DT_OPS_OPS_H */
