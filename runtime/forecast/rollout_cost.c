/* SPDX-License-Identifier: Apache-2.0 */
/* rollout_cost.c - the seconds in which a rank completes prompts */
#include "config.h"

#include <math.h>

#include "forecast/cost.h"
#include "forecast/rollout_cost.h"

/* Seconds of so many floating-point operations that read so many bytes. */
static double slower(double operations, double rate, double bytes,
                     double memory)
{
    return fmax(operations / rate, bytes / memory);
}

/* Tokens that the next token of a sequence looks at, in layer u - 1. */
static double tokens_seen(const struct dt_model_config *config, size_t u,
                          const struct dt_rollout_work *work)
{
    double all = (double)work->prompt + ((double)work->tokens + 1) / 2;
    const double window = (double)dt_model_window(config, u);
    return window > 0 ? fmin(all, window) : all;
}

static double block_seconds(const struct dt_model_config *config,
                            const struct dt_layout *layout, size_t u,
                            const struct dt_rates *rates,
                            const struct dt_rollout_work *work, double rows)
{
    const double rate = dt_rates_blocks(rates, work->compute);
    const double memory = rates->of[DT_RATE_MEMORY];
    const double element = (double)dt_dtype_bytes(work->compute);
    const double weights = dt_cost_matrix_elements(layout, u);
    const double cached = rows * tokens_seen(config, u, work);
    const double queries = (double)(config->n_head * config->head_size);
    const double keys = (double)(config->n_kv_head * config->head_size);
    return slower(2 * weights * rows, rate, weights * element, memory) +
           slower(4 * queries * cached, rate, 2 * keys * element * cached,
                  memory);
}

/* The head, and drawing, which reads the logits a few times. */
static double head_seconds(const struct dt_model_config *config,
                           const struct dt_rates *rates,
                           const struct dt_rollout_work *work, double rows)
{
    const double memory = rates->of[DT_RATE_MEMORY];
    const double element = (double)dt_dtype_bytes(work->compute);
    const double V = (double)config->vocab_size, C = (double)config->n_embd;
    return slower(2 * V * C * rows, dt_rates_head(rates, work->compute),
                  V * C * element, memory) +
           3 * rows * V * sizeof(float) / memory;
}

/* A token for each of the sequences of a step. */
static double step_seconds(const struct dt_model_config *config,
                           const struct dt_layout *layout,
                           const struct dt_rates *rates,
                           const struct dt_rollout_work *work, size_t rows)
{
    double seconds = head_seconds(config, rates, work, (double)rows);
    for (size_t u = 1; u + 1 < layout->unit_count; u++)
        seconds += block_seconds(config, layout, u, rates, work, (double)rows);
    return seconds;
}

struct dt_rollout_seconds dt_rollout_cost(const struct dt_model_config *config,
                                          const struct dt_layout *layout,
                                          const struct dt_rates *rates,
                                          const struct dt_rollout_work *work)
{
    const size_t sequences = work->prompts * work->copies;
    const double tokens = (double)work->tokens;
    struct dt_rollout_seconds seconds = {
        .decode = (double)(sequences / work->slots) * tokens *
                  step_seconds(config, layout, rates, work, work->rows)};
    if (sequences % work->slots > 0)
        seconds.decode +=
            tokens * step_seconds(config, layout, rates, work, work->last_rows);
    for (size_t u = 1; u + 1 < layout->unit_count; u++)
        seconds.prefill +=
            dt_cost_block(config, layout, u, work->prompts, work->padded) /
            dt_rates_blocks(rates, work->compute);
    return seconds;
}
