/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - forward and backward of one block (private to model/) */
#ifndef DT_MODEL_BLOCK_H
#define DT_MODEL_BLOCK_H

#include "model/instance.h"

/* Queues forward of block u, from the pair (x_mid, branch) of the unit below,
 * or the x that this has computed, to its own. With `recompute` only what its
 * backward pass needs, from the x that was saved up to act.
 */
void dt_block_forward(struct dt_model *m, size_t u, bool recompute);

/* Queues backward of block u, which recomputes what was not saved. d_stream is
 * the gradient of the block's output before, and of its x afterwards.
 */
void dt_block_backward(struct dt_model *m, size_t u, bool accumulate);

/* For `count` rows from `first`: sum = x + dropout of branch, unless the layer
 * that computed branch has added x; then the norm of sum, with the weight
 * `role` of unit u, into `norm`.
 */
void dt_residual_norm_forward(struct dt_model *m, size_t u, enum dt_role role,
                              const struct dt_norm *norm, struct dt_view sum,
                              struct dt_view x, size_t first, size_t count,
                              const struct dt_dropout *dropout);

/* Adds to d_stream the gradient of x through its norm, and puts its sum over
 * rows into d_sums, if that is there; the gradient of the norm's output is in
 * branch.
 */
void dt_norm_backward(struct dt_model *m, size_t u, enum dt_role role,
                      const struct dt_norm *norm, struct dt_view x,
                      bool accumulate);

#endif /* DT_MODEL_BLOCK_H */
