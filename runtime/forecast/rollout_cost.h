/* SPDX-License-Identifier: Apache-2.0 */
/* rollout_cost.h - the seconds in which a rank completes prompts */
#ifndef DT_FORECAST_ROLLOUT_COST_H
#define DT_FORECAST_ROLLOUT_COST_H

#include "forecast/rates.h"
#include "model/model.h"

/* The rollout of a rank; all prompts and completions have the same lengths. */
struct dt_rollout_work {
    size_t prompts, copies; /* completions of each */
    size_t prompt, tokens;  /* tokens of a prompt, and of a completion */
    size_t padded;          /* positions that a prompt takes in a batch */
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

#endif /* DT_FORECAST_ROLLOUT_COST_H */
