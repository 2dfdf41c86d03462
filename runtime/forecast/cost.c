/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - the operations of a model's passes, and the seconds they take */
#include "config.h"

#include "forecast/cost.h"

double dt_cost_matrix_elements(const struct dt_layout *layout, size_t u)
{
    const struct dt_unit *unit = &layout->units[u];
    double sum = 0;
    for (size_t i = 0; i < unit->param_count; i++) {
        const struct dt_param *param = &layout->params[unit->first_param + i];
        if (param->ndim == 2)
            sum += (double)param->count;
    }
    return sum;
}

/* Tokens that a token looks at, itself included, on average. */
static double tokens_seen(const struct dt_model_config *config, size_t u,
                          size_t T)
{
    double all = (double)T, window = (double)dt_model_window(config, u);
    if (window == 0 || window >= all)
        return (all + 1) / 2;
    return window - window * (window - 1) / (2 * all);
}

double dt_cost_block(const struct dt_model_config *config,
                     const struct dt_layout *layout, size_t u, size_t B,
                     size_t T)
{
    double tokens = (double)B * (double)T;
    double channels = (double)(config->n_head * config->head_size);
    return tokens * (2 * dt_cost_matrix_elements(layout, u) +
                     4 * channels * tokens_seen(config, u, T));
}

double dt_cost_head(const struct dt_model_config *config, size_t B, size_t T)
{
    double outputs = config->scores ? 1 : (double)config->vocab_size;
    return 6 * (double)B * (double)T * (double)config->n_embd * outputs;
}

/* The embedding reads and writes rows; its gradients are cleared first, unless
 * the head has put its share there.
 */
static struct dt_unit_seconds embedding_seconds(
    const struct dt_model_config *config, const struct dt_layout *layout,
    const struct dt_model_options *options, const struct dt_rates *rates)
{
    double rows = (double)(options->B * options->T) * (double)config->n_embd;
    double element = (double)dt_dtype_bytes(options->compute);
    double clear = layout->tied ? 0 : (double)layout->units[0].count;
    double memory = rates->of[DT_RATE_MEMORY];
    return (struct dt_unit_seconds){
        .forward = 2 * rows * element / memory,
        .backward =
            (sizeof(float) * (clear + 2 * rows) + rows * element) / memory,
    };
}

void dt_cost_units(const struct dt_model_config *config,
                   const struct dt_layout *layout,
                   const struct dt_model_options *options,
                   const struct dt_rates *rates,
                   struct dt_unit_seconds *seconds)
{
    size_t last = layout->unit_count - 1, B = options->B, T = options->T;
    double blocks = dt_rates_blocks(rates, options->compute);
    double head = dt_rates_head(rates, options->compute);
    const bool frozen = options->adapter.r > 0;
    seconds[0] = embedding_seconds(config, layout, options, rates);
    for (size_t u = 1; u < last; u++) {
        double pass = dt_cost_block(config, layout, u, B, T) / blocks;
        seconds[u].forward = pass;
        seconds[u].backward = (options->recompute ? 3 : 2) * pass;
        if (frozen)
            seconds[u].backward -= 2 * dt_cost_matrix_elements(layout, u) *
                                   (double)(B * T) / blocks;
    }
    seconds[last].forward = 0;
    seconds[last].backward =
        dt_cost_head(config, B, T) * (frozen ? 2.0 / 3 : 1) / head;
}
