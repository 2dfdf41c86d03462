/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_head.h - the head of a language model: its matrix multiplications, a
 * chunk of rows at a time
 *
 * The caller's kernels stand between those of forward and backward, and replace
 * the logits of a chunk by their gradients.
 */
#ifndef DT_OPS_CUDA_CUDA_HEAD_H
#define DT_OPS_CUDA_CUDA_HEAD_H

#include "ops/cuda/cuda.h"
#ifdef __cplusplus
#include "tensor/kernel.cuh"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cuda_head {
    struct dt_stream *stream;
    size_t N, C, V;
    struct dt_view x, w;     /* (N,C) X, (V,C) X */
    struct dt_view dx, dw;   /* (N,C) X, (V,C) F32; absent: no gradients, or
                                no dw */
    enum dt_dtype precision; /* of the logits: X or F32 */
    bool accumulate;         /* dw += */

    /* Set by dt_cuda_head_begin: */
    size_t rows;           /* of a chunk; the last may have fewer */
    size_t columns;        /* of the logits; those from V on are padding, 0 */
    struct dt_view padded; /* w, (columns, C) */
    struct dt_view logits; /* (rows, columns) */
};

/* Divides the workspace and queues a copy of w, if it needs one. With that of
 * dt_workspace_head, N rows of type X take as long as they must. With less,
 * chunks are smaller; enough for any N is that of one row. False: there are no
 * rows, and dw, if it is not absent, is complete.
 */
bool dt_cuda_head_begin(struct dt_cuda_head *h, struct dt_view workspace);

/* Queues logits = x w^T of `rows` rows from `first` on. */
void dt_cuda_head_forward(const struct dt_cuda_head *h, size_t first,
                          size_t rows);

/* Queues dx of these rows and their part of dw, from gradients of the logits in
 * the type X, which begin where rows of logits begin. Padding has gradient 0.
 */
void dt_cuda_head_backward(const struct dt_cuda_head *h, size_t first,
                           size_t rows);

#ifdef __cplusplus
}

/* The head of N rows, without gradients. */
static inline dt_cuda_head head_of(struct dt_stream *stream, struct dt_view x,
                                   struct dt_view w, enum dt_dtype precision,
                                   size_t N, size_t C, size_t V)
{
    dt_cuda_head h = {};

    h.stream = stream;
    h.N = N;
    h.C = C;
    h.V = V;
    h.x = x;
    h.w = w;
    h.precision = precision;
    return h;
}

/* --- struct dt_logit_rule as kernels take it --- */

/* z = scale l, or cap tanh(in l), both divided by the temperature already. */
struct LogitRule {
    float scale, in, cap;
    float inverse_cap; /* 1 / cap, or 0: none; dz / dl = scale (1 - (z *
                          inverse_cap)^2) */
};

static inline LogitRule rule_of(const struct dt_logit_rule *rule)
{
    LogitRule r = {};

    r.scale = rule->scale / rule->temperature;
    if (rule->softcap > 0.0f) {
        r.in = rule->scale / rule->softcap;
        r.cap = rule->softcap / rule->temperature;
        r.inverse_cap = rule->temperature / rule->softcap;
    }
    return r;
}

static inline bool is_plain(const LogitRule &r)
{
    return r.scale == 1.0f && r.cap == 0.0f;
}

__device__ static inline float logit_of(float l, const LogitRule &r)
{
    return r.cap > 0.0f ? r.cap * tanhf(r.in * l) : r.scale * l;
}
#endif

#endif /* DT_OPS_CUDA_CUDA_HEAD_H */
