/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - the operations of a model's passes, and the seconds they take */
#ifndef DT_FORECAST_COST_H
#define DT_FORECAST_COST_H

#include "forecast/timeline.h"
#include "model/model.h"

/* Elements of all matrices of unit u. */
double dt_cost_matrix_elements(const struct dt_layout *layout, size_t u);

/* Floating-point operations of a forward pass of block u with B rows of T
 * tokens: two for each weight of a matrix and token, and those of attention,
 * where a token looks at those before it, or at a window of them. A backward
 * pass has twice as many.
 */
double dt_cost_block(const struct dt_model_config *config,
                     const struct dt_layout *layout, size_t u, size_t B,
                     size_t T);

/* Operations of the head and its gradients. */
double dt_cost_head(const struct dt_model_config *config, size_t B, size_t T);

/* Fills seconds(unit_count) of one micro-batch. With an adapter the frozen
 * weights have no gradients; the few operations of the adapter itself are left
 * out.
 */
void dt_cost_units(const struct dt_model_config *config,
                   const struct dt_layout *layout,
                   const struct dt_model_options *options,
                   const struct dt_rates *rates,
                   struct dt_unit_seconds *seconds);

#endif /* DT_FORECAST_COST_H */
