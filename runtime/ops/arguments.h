/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arguments.h - what the math functions of ops.h are given besides tensors
 *
 * Letters and types as there.
 */
#ifndef DT_OPS_ARGUMENTS_H
#define DT_OPS_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/view.h"

/* How a weight of a linear layer is stored. */
enum dt_weight_order {
    DT_WEIGHT_IN_OUT, /* w(C, OC), y = x w: GPT-2's Conv1D */
    DT_WEIGHT_OUT_IN, /* w(OC, C), y = x w^T: Linear and tied embeddings */
};

/* The activation of a gated MLP. */
enum dt_gate {
    DT_GATE_SILU, /* g / (1 + exp(-g)) */
    DT_GATE_GELU, /* the tanh approximation of gelu_forward */
};

/* Dropout: an element is kept with probability 1 - rate and divided by it. The
 * decision is a function of (seed, place, row's global number, element of the
 * row, < 2^48) and of nothing else: kept if its word >= rate * 2^32, which is
 * word element % 4 of the block of Philox (base/rng.h) with the counter
 * (element / 4, low and high part with place above it, row, its high part +
 * 2^31).
 */
struct dt_dropout {
    double rate; /* 0: none */
    uint64_t seed;
    uint32_t place;      /* which dropout of the model, < 2^16 */
    struct dt_view rows; /* (B) I64, global sample numbers */
};

/* A pair of matrices beside a linear layer (Hu et al., "LoRA", arXiv
 * 2106.09685, sec. 4.1): scale * (dropout(x) a^T) b^T is added to the columns
 * first .. first + OC - 1 of its output.
 */
struct dt_low_rank {
    struct dt_view a, b; /* (R,C), (OC,R) X */
    size_t C, R, OC;
    size_t width, first; /* columns of a row of the output */
    float scale;
    struct dt_dropout dropout; /* of x, element t*C + c */
    struct dt_view low;        /* (N,R) F32, a workspace */
    struct dt_view dropped;    /* (N,C) X, another; absent without dropout */
};

enum { DT_MAX_HEAD_SIZE = 1024 };

/* Causal attention: position t of a row attends to s if doc_start(t) <= s <= t
 * and t - s < window. Query head h reads head h / (NH / NKV) of keys and
 * values. qkv is (N, (NH + 2 NKV) HS): all heads of q, of k, of v. HS is even
 * and at most DT_MAX_HEAD_SIZE, here and below.
 */
struct dt_attention {
    size_t B, T, NH, NKV, HS;
    size_t window;            /* 0: no limit */
    float scale;              /* of the scores, > 0 */
    float softcap;            /* scaled scores become softcap tanh(score /
                                 softcap); 0: they stay */
    struct dt_view doc_start; /* (N) I32, count 0: all 0 */
    struct dt_dropout
        dropout; /* of the probabilities; element (h*T + t)*T + s */
};

/* What norms compute with besides their weights: eps, and what is added to each
 * weight, which is 1 where weights are stored as their distance from 1.
 */
struct dt_norm_rule {
    float eps, shift;
};

/* What happens to the heads of q and k before attention. The first R elements
 * of a head are rotated, an even number; fewer than all only without norms.
 */
struct dt_rope {
    size_t NH, NKV, HS, R;
    struct dt_view positions;      /* (N) I32, < P */
    struct dt_view table;          /* (P, R) F32: R/2 cosines, R/2 sines */
    struct dt_view q_norm, k_norm; /* (HS) X, weights of RMSNorm over a head
                                      before it is rotated; count 0: none */
    struct dt_norm_rule norm;
};

/* Norms of queries and keys over all heads together. */
struct dt_heads_norm {
    size_t NH, NKV, HS;
    struct dt_view q_norm, k_norm; /* (NH HS), (NKV HS) X, their weights */
    float eps;
};

/* Keys and values of B sequences that are being generated, in blocks of
 * DT_KV_BLOCK positions: position s of sequence b is row s % DT_KV_BLOCK of
 * block table(b, s / DT_KV_BLOCK). Row r of block i begins at element i *
 * stride + r * NKV*HS of k and of v.
 */
enum { DT_KV_BLOCK = 32 };

struct dt_kv {
    size_t B, NH, NKV, HS;
    size_t window; /* these three as in struct dt_attention */
    float scale, softcap;
    size_t blocks;        /* of a sequence, at most */
    size_t stride;        /* elements from a block to the next one */
    struct dt_view k, v;  /* X */
    struct dt_view table; /* (B, blocks) I32 */
};

/* How a token is drawn. What a limit keeps, it keeps with all its equals. */
struct dt_sampling {
    double temperature; /* > 0: divides the logits; 0: the likeliest token */
    size_t top_k;       /* keep the k largest logits; 0: all */
    double top_p;       /* of these, keep the fewest tokens that together have
                           this probability (Holtzman et al., "neural text
                           degeneration", sec. 3.1); 1: all */
    double min_p;       /* keep tokens with this part of the largest
                           probability; 0: all */
    double repetition_penalty; /* logits of tokens that were there are divided
                                  by it, negative ones multiplied (Keskar et
                                  al., CTRL, sec. 4.1); 1: none */
};

/* Logits z of a head from its products l = x w^T: with s = scale l, z =
 * softcap tanh(s / softcap) / temperature, or s / temperature if softcap is 0.
 * scale and temperature are > 0.
 */
struct dt_logit_rule {
    float scale, softcap, temperature;
};

/* What is computed of each row of a head, (N) F32 each and 0 in rows without a
 * target; all but the first two may be absent. With z(v) the logits of a row
 * (struct dt_logit_rule) and p = softmax(z):
 */
struct dt_logprobs {
    struct dt_view logp;      /* log p(target), at most 0, or NaN */
    struct dt_view lse;       /* log sum of e^z(v), for the backward pass */
    struct dt_view entropy;   /* of p */
    struct dt_view collision; /* log sum of p(v)^2 */
    struct dt_view mean;      /* of z */
    struct dt_view top;       /* 1 if no z(v) is above the target's, else 0 */
};

/* The scalars of an optimizer step: indices into a view of DT_STEP_COUNT F64,
 * called `step` below. They stay on the device, so that no step waits for the
 * host, which reads them after the step.
 */
enum dt_step_scalar {
    /* first of this rank, then summed over ranks in one reduction: */
    DT_STEP_LOSS,                      /* sum of the token losses */
    DT_STEP_TARGETS,                   /* tokens with a loss */
    DT_STEP_STOP,                      /* ranks that were told to stop, and as
                                          a fraction a request of rank 0 */
    DT_STEP_SQUARES,                   /* sum of squares of the gradients */
    DT_STEP_SUMS,                      /* the number of these */
    DT_STEP_LOSS_SCALE = DT_STEP_SUMS, /* these four are the step's params */
    DT_STEP_LR,
    DT_STEP_BIAS1,
    DT_STEP_BIAS2,
    DT_STEP_NORM,       /* L2 norm of the gradients of the mean loss */
    DT_STEP_GRAD_SCALE, /* what gradients are multiplied by: 1 / (targets
                           loss_scale) and the clip factor */
    DT_STEP_OUTCOME,    /* enum dt_step_outcome */
    DT_STEP_COUNT
};

enum dt_step_outcome {
    DT_STEP_TAKEN,
    DT_STEP_OVERFLOW, /* no update: the norm is not finite */
    DT_STEP_EMPTY,    /* no update: there were no targets */
    DT_STEP_OUTCOMES
};

/* Parameters of a step; biasi = 1 - betai^n for optimizer step n >= 1. */
struct dt_step_params {
    double loss_scale, lr, bias1, bias2;
};

/* AdamW of torch.optim.AdamW (Loshchilov, Hutter, "Decoupled weight decay
 * regularization", alg. 2), with lr, biasi and grad_scale of `step`:
 *   g' = grad_scale * g;  p -= lr*weight_decay * p
 *   m = beta1*m + (1-beta1)*g';  v = beta2*v + (1-beta2)*g'*g'
 *   p -= lr/bias1 * m / (sqrt(v)/sqrt(bias2) + eps)
 * `coupled` is torch.optim.Adam: g' = grad_scale * g + weight_decay * p, and p
 * has no decay of its own. Runs of elements with and without decay alternate:
 * run i is [bounds[i], bounds[i + 1]), and decays if i is odd. They count from
 * the start of a flat buffer, of which p begins at element `first`.
 */
struct dt_adamw {
    /* double: 1 - beta2 of a float would be off by 5e-5 of itself */
    double beta1, beta2, eps, weight_decay;
    bool coupled;
    struct dt_view bounds; /* (runs + 1) I64, from 0 to the end of the buffer */
    size_t first;          /* a multiple of 16 */
};

#endif /* DT_OPS_ARGUMENTS_H */
