/* SPDX-License-Identifier: Apache-2.0 */
/*
 * score.h - the head of a reward model: one number for each sequence
 *
 * The score of a sequence is h . w, where h(C) is the last hidden state of one
 * of its tokens and w(C) the only row of a linear layer without bias, which
 * Hugging Face calls score.weight. The functions queue operations of
 * ops/ops.h, whose conventions they share.
 */
#ifndef DT_MODEL_SCORE_H
#define DT_MODEL_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/ops.h"
#include "tensor/tensor.h"

/* Hidden states of N tokens, and the M tokens of them that are scored. */
struct dt_score {
    size_t N, C, M;
    struct dt_view x;    /* (N, C) X */
    struct dt_view rows; /* (M) I32, all different */
    struct dt_view w;    /* (C) X */
    struct dt_view h;    /* (M, C) X, x at rows: of the forward pass */
};

/* The token of ids(count) at which the sequence is scored: the last one that is
 * not `pad`, as in transformers, or else the first.
 */
size_t dt_score_token(const int32_t *ids, size_t count, int32_t pad);

/* scores(M), F32; of fp32 the same bits whatever else is scored, if M is
 * ops->few_rows or more
 */
void dt_score_forward(const struct dt_exec *exec, const struct dt_score *s,
                      struct dt_view scores);

/* dx(N,C) and dw(C) (= or +=), from dscores(M) F32, which includes the loss
 * scale. workspace: M * (C + 1) elements X.
 */
void dt_score_backward(const struct dt_exec *exec, const struct dt_score *s,
                       struct dt_view dx, struct dt_view dw,
                       struct dt_view dscores, struct dt_view workspace,
                       bool accumulate);

#endif /* DT_MODEL_SCORE_H */
