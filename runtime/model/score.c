/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - the head of a reward model, made of a choice of rows and a layer */
#include "config.h"

#include "model/score.h"

static const struct dt_view NONE;

size_t dt_score_token(const int32_t *ids, size_t count, int32_t pad)
{
    size_t t = count - 1;
    while (t > 0 && ids[t] == pad)
        t--;
    return t;
}

void dt_score_forward(const struct dt_exec *exec, const struct dt_score *s,
                      struct dt_view scores)
{
    const struct dt_dropout dropout = {0};

    exec->ops->embedding_forward(exec->stream, s->h, s->rows, NONE, s->x, NONE,
                                 s->M, s->C, &dropout);
    for (size_t m = 0, rows; m < s->M; m += rows) {
        rows = dt_ops_exact_rows(exec->ops, s->h.dtype, s->M - m);
        exec->ops->linear_forward(exec->stream, dt_view_slice(scores, m, rows),
                                  dt_view_slice(s->h, m * s->C, rows * s->C),
                                  s->w, NONE, DT_WEIGHT_OUT_IN, rows, s->C, 1);
    }
}

void dt_score_backward(const struct dt_exec *exec, const struct dt_score *s,
                       struct dt_view dx, struct dt_view dw,
                       struct dt_view dscores, struct dt_view workspace,
                       bool accumulate)
{
    const struct dt_view dh = dt_view_slice(workspace, 0, s->M * s->C);
    const struct dt_view dout = dt_view_slice(workspace, dh.count, s->M);

    exec->ops->convert(exec->stream, dout, dscores);
    exec->ops->linear_backward(exec->stream, dh, dw, NONE, dout, s->h, s->w,
                               DT_WEIGHT_OUT_IN, s->M, s->C, 1, accumulate);
    exec->ops->scatter_rows(exec->stream, dx, dh, s->rows, s->N, s->C, s->M);
}
