/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention_graph.h - attention as graphs that cuDNN recognizes (private to
 * attention_cudnn.c)
 */
#ifndef DT_OPS_CUDA_ATTENTION_GRAPH_H
#define DT_OPS_CUDA_ATTENTION_GRAPH_H

#include "ops/cuda/dnn.h"
#include "tensor/view.h"

/* Numbers of the tensors of a graph. */
enum dt_attention_uid {
    NONE,
    Q,
    K,
    V,
    O,
    LSE,
    DOC_START,
    DO,
    DQ,
    DK,
    DV,
    DELTA,  /* D above */
    DQ_SUM, /* dQ in fp32, which blocks of keys add to in any order */
    SCALE,
    HIDDEN, /* -infinity */
    WINDOW,
    ONE,
    UID_COUNT
};

/* What a plan is for. */
struct dt_attention_shape {
    int64_t B, T, NH, NKV, HS, window;
    bool doc_start, backward;
    enum dt_dtype type;
};

/* Adds the operations of a pass to an empty graph: Q, K, V, dQ, dK and dV are
 * heads of a packed qkv or of its gradient; LSE, DELTA: (B, NH, T) F32, DQ_SUM:
 * (B, NH, T, HS) F32. A backward pass that is not `deterministic` has DQ_SUM.
 */
void dt_cuda_attention_graph(struct dt_cuda_dnn_graph *g,
                             const struct dt_attention_shape *s,
                             bool deterministic);

#endif /* DT_OPS_CUDA_ATTENTION_GRAPH_H */
