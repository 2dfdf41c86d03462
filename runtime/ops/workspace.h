/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace.h - the workspaces of operations on GPUs
 *
 * Plain arithmetic, for the module and for plans where there is no GPU.
 */
#ifndef DT_OPS_WORKSPACE_H
#define DT_OPS_WORKSPACE_H

#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrix multiplications want multiples of this many columns. */
enum { DT_HEAD_UNIT = 8 };

/* Columns of the logits of a head of V tokens. */
size_t dt_workspace_head_columns(size_t V);

/* Bytes of a copy of its weights (V,C), padded to that many rows; 0: the
 * weights need none.
 */
size_t dt_workspace_head_copy(enum dt_dtype type, size_t C, size_t V);

/* dt_ops.loss_workspace. More rows never need less. */
size_t dt_workspace_head(enum dt_dtype type, size_t N, size_t C, size_t V,
                         bool whole);

/* Rows of a chunk of a call with N rows and `count` elements of workspace, for
 * logits of `precision`. A workspace that was planned for N rows or more, all
 * with `whole` or all without, gives the same.
 */
size_t dt_workspace_head_rows(enum dt_dtype type, enum dt_dtype precision,
                              size_t N, size_t C, size_t V, size_t count);

/* Elements, F32, of our own backward passes of attention. */
size_t dt_workspace_attention(const struct dt_attention *attention);

/* Bytes of the parts of cuDNN's: a number for each row and head, and sums of
 * gradients of queries. Its graph may want more for itself.
 */
size_t dt_workspace_attention_rows(const struct dt_attention *attention);
size_t dt_workspace_attention_sums(const struct dt_attention *attention);

/* The same of where each of `count` documents begins. */
size_t dt_workspace_attention_starts(size_t count);

/* A table with the sizes alone, for plans of GPUs. cuDNN may want a little more
 * for attention.
 */
const struct dt_ops *dt_ops_planned_gpu(void);

#ifdef __cplusplus
}
#endif

#endif /* DT_OPS_WORKSPACE_H */
