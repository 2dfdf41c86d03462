/* SPDX-License-Identifier: Apache-2.0 */
/* low_rank.h - the pairs beside linear layers (private to model/) */
#ifndef DT_MODEL_LOW_RANK_H
#define DT_MODEL_LOW_RANK_H

#include "model/instance.h"

/* Adds to out(N, OC) of the linear layer of a role of unit u what its pairs
 * make of x(N, C); nothing without any.
 */
void dt_low_rank_forward(const struct dt_model *m, size_t u, enum dt_role role,
                         struct dt_view out, struct dt_view x, size_t N,
                         size_t OC);

/* Adds to dx, and computes the gradients of the pairs. */
void dt_low_rank_backward(const struct dt_model *m, size_t u, enum dt_role role,
                          struct dt_view dx, struct dt_view dout,
                          struct dt_view x, size_t OC, bool accumulate);

/* Whether there is a pair. */
bool dt_low_rank_any(const struct dt_model *m, size_t u, enum dt_role role);

#endif /* DT_MODEL_LOW_RANK_H */
