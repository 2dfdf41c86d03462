/* SPDX-License-Identifier: Apache-2.0 */
/* attend.h - attention of one block (private to model/) */
#ifndef DT_MODEL_ATTEND_H
#define DT_MODEL_ATTEND_H

#include "model/instance.h"

/* Queues what is between the matrices of attention in block u: from qkv, whose
 * heads are normed and rotated, to attention and lse.
 */
void dt_attend_forward(struct dt_model *m, size_t u);

/* Queues the way back, from d_attention to d_qkv and the gradients of norms of
 * heads.
 */
void dt_attend_backward(struct dt_model *m, size_t u, bool accumulate);

#endif /* DT_MODEL_ATTEND_H */
