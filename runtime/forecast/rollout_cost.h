/* SPDX-License-Identifier: Apache-2.0 */
/* rollout_cost.h - the seconds in which a rank completes prompts */
#ifndef DT_FORECAST_ROLLOUT_COST_H
#define DT_FORECAST_ROLLOUT_COST_H

#include "forecast/rates.h"
#include "model/model.h"

/* What a rank completes; all prompts and completions have the same lengths. */
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

/* A prompt is a forward pass. A step of decoding takes what is slower: to read
 * all weights from memory, and the keys and values of the sequences, or the
 * floating-point operations of its rows. A slot that is free takes the next
 * sequence at once.
 */
struct dt_rollout_seconds dt_rollout_cost(const struct dt_model_config *config,
                                          const struct dt_layout *layout,
                                          const struct dt_rates *rates,
                                          const struct dt_rollout_work *work);

#endif /* DT_FORECAST_ROLLOUT_COST_H */
