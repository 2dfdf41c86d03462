/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - operations and seconds of passes, and of completing prompts */
#include "config.h"

#include <math.h>

#include "forecast/cost.h"

bool dt_cost_is_block(const struct dt_model_config *config,
                      const struct dt_layout *layout, size_t u)
{
    return u >= dt_model_first_unit(config) &&
           layout->units[u].kind == DT_UNIT_BLOCK;
}

double dt_cost_matrix_elements(const struct dt_layout *layout, size_t u)
{
    const struct dt_unit *unit = &layout->units[u];
    double sum = 0;
    for (size_t i = 0; i < unit->param_count; i++) {
        const struct dt_param *param = &layout->params[unit->first_param + i];
        if (param->ndim > 1)
            sum += (double)param->count;
    }
    return sum;
}

/* The window of block u of the text, which may come after a tower. */
static double window_of(const struct dt_model_config *config, size_t u)
{
    return (double)dt_model_window(config, u - dt_model_first_unit(config));
}

/* Tokens that a token looks at, itself included, on average. */
static double tokens_seen(const struct dt_model_config *config, size_t u,
                          size_t T)
{
    double all = (double)T, window = window_of(config, u);
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
    size_t u, const struct dt_model_options *options,
    const struct dt_rates *rates)
{
    double rows = (double)(options->B * options->T) * (double)config->n_embd;
    double element = (double)dt_dtype_bytes(options->compute);
    double clear =
        dt_layout_is_tied(layout, u) ? 0 : (double)layout->units[u].count;
    double memory = rates->of[DT_RATE_MEMORY];
    return (struct dt_unit_seconds){
        .forward = 2 * rows * element / memory,
        .backward =
            (sizeof(float) * (clear + 2 * rows) + rows * element) / memory,
    };
}

/* Operations of a unit that is neither the text's embedding nor its head: those
 * of its weights, and of attention.
 */
struct operations {
    double weights, attention;
};

/* Of a tower's patches each sees its picture, or its window of it. */
static struct operations tower_operations(const struct dt_model_config *config,
                                          const struct dt_layout *layout,
                                          size_t u, double patches,
                                          double pictures)
{
    const struct dt_vision_config *vision = config->vision;
    const struct dt_model_config *tower = &vision->tower;
    const struct dt_unit *unit = &layout->units[u];
    double seen = pictures > 0 ? patches / pictures : patches;
    double rows = patches;
    if (unit->part == DT_PART_PROJECTOR)
        rows /= (double)(vision->merge * vision->merge);
    struct operations operations = {
        .weights = 2 * rows * dt_cost_matrix_elements(layout, u)};
    if (unit->kind != DT_UNIT_BLOCK)
        return operations;
    if (dt_model_window(tower, u) > 0)
        seen = fmin(seen, (double)dt_model_window(tower, u));
    operations.attention =
        4 * rows * (double)(tower->n_head * tower->head_size) * seen;
    return operations;
}

double dt_cost_tower(const struct dt_model_config *config,
                     const struct dt_layout *layout, size_t first,
                     double patches, double pictures)
{
    double sum = 0;
    for (size_t u = first; u < dt_model_first_unit(config); u++) {
        const struct operations of =
            tower_operations(config, layout, u, patches, pictures);
        sum += of.weights + of.attention;
    }
    return sum;
}

static struct operations unit_operations(const struct dt_model_config *config,
                                         const struct dt_layout *layout,
                                         size_t u,
                                         const struct dt_model_options *options)
{
    if (!dt_cost_is_block(config, layout, u))
        return tower_operations(config, layout, u, (double)options->patches,
                                (double)options->pictures);
    const size_t B = options->B, T = options->T;
    const double weights =
        2 * dt_cost_matrix_elements(layout, u) * (double)(B * T);
    const double all = dt_cost_block(config, layout, u, B, T);
    return (struct operations){weights, all - weights};
}

/* Seconds of passes through such a unit. */
static struct dt_unit_seconds unit_passes(
    const struct dt_model_config *config, const struct dt_layout *layout,
    size_t u, const struct dt_model_options *options, double rate, bool frozen)
{
    const struct operations of = unit_operations(config, layout, u, options);
    const double pass = (of.weights + of.attention) / rate;
    const bool twice =
        options->recompute && layout->units[u].kind == DT_UNIT_BLOCK;
    struct dt_unit_seconds seconds = {.forward = pass,
                                      .backward = (twice ? 3 : 2) * pass};
    if (frozen)
        seconds.backward -= of.weights / rate;
    return seconds;
}

void dt_cost_units(const struct dt_model_config *config,
                   const struct dt_layout *layout,
                   const struct dt_layout *trained,
                   const struct dt_model_options *options,
                   const struct dt_rates *rates,
                   struct dt_unit_seconds *seconds)
{
    const size_t last = layout->unit_count - 1;
    const double blocks = dt_rates_blocks(rates, options->compute);
    const double head = dt_rates_head(rates, options->compute);
    for (size_t u = 0; u <= last; u++) {
        const bool frozen =
            options->adapter.r > 0 || trained->units[u].count == 0;
        if (layout->units[u].kind == DT_UNIT_EMBEDDING)
            seconds[u] = embedding_seconds(config, layout, u, options, rates);
        else if (u < last)
            seconds[u] =
                unit_passes(config, layout, u, options, blocks, frozen);
        else
            seconds[u] = (struct dt_unit_seconds){
                .backward = dt_cost_head(config, options->B, options->T) *
                            (frozen ? 2.0 / 3 : 1) / head};
        if (u < options->lowest)
            seconds[u].backward = 0;
    }
}

/* --- completing prompts --- */

/* Seconds of so many floating-point operations that read so many bytes. */
static double slower(double operations, double rate, double bytes,
                     double memory)
{
    return fmax(operations / rate, bytes / memory);
}

/* Tokens that the next token of a sequence looks at, in layer u - 1. */
static double tokens_seen_next(const struct dt_model_config *config, size_t u,
                               const struct dt_rollout_work *work)
{
    double all = (double)work->prompt + ((double)work->tokens + 1) / 2;
    const double window = window_of(config, u);
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
    const double cached = rows * tokens_seen_next(config, u, work);
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
    for (size_t u = 0; u < layout->unit_count; u++)
        if (dt_cost_is_block(config, layout, u))
            seconds +=
                block_seconds(config, layout, u, rates, work, (double)rows);
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
    for (size_t u = 0; u < layout->unit_count; u++)
        if (dt_cost_is_block(config, layout, u))
            seconds.prefill +=
                dt_cost_block(config, layout, u, work->prompts, work->padded) /
                dt_rates_blocks(rates, work->compute);
    seconds.prefill +=
        (double)work->prompts *
        dt_cost_tower(config, layout, 0, work->patches, work->pictures) /
        dt_rates_blocks(rates, work->compute);
    return seconds;
}
