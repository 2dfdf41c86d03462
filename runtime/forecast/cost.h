/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - operations and seconds of passes, and of completing prompts */
#ifndef DT_FORECAST_COST_H
#define DT_FORECAST_COST_H

#include "forecast/rates.h"
#include "forecast/timeline.h"
#include "model/model.h"

/* Whether unit u is a block of the text, which may come after a tower. */
bool dt_cost_is_block(const struct dt_model_config *config,
                      const struct dt_layout *layout, size_t u);

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

/* Those of `patches` patches in so many pictures through the units of a tower
 * and its projectors, from unit `first` on; 0 for a model of text.
 */
double dt_cost_tower(const struct dt_model_config *config,
                     const struct dt_layout *layout, size_t first,
                     double patches, double pictures);

/* Operations of the head and its gradients. */
double dt_cost_head(const struct dt_model_config *config, size_t B, size_t T);

/* Fills seconds(unit_count) of one micro-batch, with the most patches and
 * pictures that it may have. Frozen weights have no gradients: those of units
 * that `trained` lacks, or with an adapter all, whose own few operations are
 * left out.
 */
void dt_cost_units(const struct dt_model_config *config,
                   const struct dt_layout *layout,
                   const struct dt_layout *trained,
                   const struct dt_model_options *options,
                   const struct dt_rates *rates,
                   struct dt_unit_seconds *seconds);

/* --- completing prompts --- */

/* The rollout of a rank; all prompts and completions have the same lengths. */
struct dt_rollout_work {
    size_t prompts, copies;   /* completions of each */
    size_t prompt, tokens;    /* tokens of a prompt, and of a completion */
    double patches, pictures; /* of a prompt, which a tower sees once */
    size_t padded;            /* positions that a prompt takes in a batch */
    size_t slots;
    size_t rows, last_rows; /* that a step computes with all slots in use, and
                               with the sequences that are left at the end */
    enum dt_dtype compute;
};

struct dt_rollout_seconds {
    double prefill, decode;
};

/* A prompt is a forward pass. A step of decoding takes the longer of two times:
 * that to read all weights, and the keys and values of the sequences, from
 * memory, and that of the floating-point operations of its rows. A free slot
 * takes the next sequence at once.
 */
struct dt_rollout_seconds dt_rollout_cost(const struct dt_model_config *config,
                                          const struct dt_layout *layout,
                                          const struct dt_rates *rates,
                                          const struct dt_rollout_work *work);

#endif /* DT_FORECAST_COST_H */
