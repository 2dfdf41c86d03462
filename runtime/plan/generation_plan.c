/* SPDX-License-Identifier: Apache-2.0 */
/* generation_plan.c - memory of reward models, and seconds of sampling */
#include "config.h"

#include <limits.h>

#include "forecast/cost.h"
#include "forecast/rollout_cost.h"
#include "model/decode.h"
#include "plan/generation_plan.h"
#include "plan/plan.h"
#include "reward/scorer.h"
#include "run/sharing.h"
#include "sampling/sampling.h"
#include "weights/weights.h"

/* --- reward models --- */

/* Adds a reward model: its bytes, and the floating-point operations for a
 * completion of full length with its prompt.
 */
static int add_model(struct dt_spec *spec,
                     const struct dt_conf_reward *function,
                     enum dt_dtype compute, struct dt_error *err)
{
    struct dt_sampling_spec *s = &spec->sampling;
    struct dt_model_config config = {0};
    struct dt_layout *layout = NULL;
    char found[PATH_MAX];
    size_t longest = spec->T + 1; /* with the token that ends it */
    int rc = dt_weights_find(function->path, found, err);
    if (rc == 0)
        rc = dt_weights_config(found, &config, err);
    if (rc == 0 && !(layout = dt_model_layout(&config, 1, err)))
        rc = -1;
    if (rc == 0) {
        if (longest > config.n_positions)
            longest = config.n_positions;
        s->reward_bytes +=
            layout->count * dt_dtype_bytes(compute) +
            dt_scorer_bytes(&config, spec->exec.ops, compute, longest);
        for (size_t u = 1; u + 1 < layout->unit_count; u++)
            s->reward_operations +=
                dt_cost_block(&config, layout, u, 1, longest);
    }
    dt_layout_destroy(layout);
    dt_model_config_fini(&config);
    return rc < 0 ? dt_error_prefix(err, "reward %s", function->name) : 0;
}

int dt_plan_reward_models(struct dt_spec *spec,
                          const struct dt_model_options *options,
                          struct dt_error *err)
{
    const struct dt_conf_rewards *rewards = &spec->conf.reward;
    spec->sampling.reward_bytes = 0;
    spec->sampling.reward_operations = 0;
    for (size_t i = 0; i < rewards->count; i++)
        if (rewards->functions[i].type == DT_CONF_REWARD_MODEL &&
            add_model(spec, &rewards->functions[i], options->compute, err) < 0)
            return -1;
    return 0;
}

/* --- passes --- */

double dt_forward_seconds(const struct dt_learner_spec *learner,
                          const struct dt_rates *rates, enum dt_dtype compute,
                          double rows, size_t T, double values)
{
    const struct dt_model_config *config = &learner->config;
    const struct dt_layout *layout = dt_learner_model_layout(learner);
    double operations = 0, head = 0;
    for (size_t u = 1; u + 1 < layout->unit_count; u++)
        operations += rows * dt_cost_block(config, layout, u, 1, T);
    if (!config->scores) /* a third of the cost with gradients */
        head = dt_cost_head(config, 1, 1) / 3 * values;
    return operations / dt_rates_blocks(rates, compute) +
           head / dt_rates_head(rates, compute);
}

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Sides of a pair are as long as data.max_length. */
struct dt_step_shape dt_step_shape_of(const struct dt_spec *spec)
{
    const struct dt_sampling_spec *s = &spec->sampling;
    struct dt_step_shape shape = {spec->A, spec->B, spec->T, 0, 0};
    if (spec->algo->pick && !spec->algo->advantages)
        shape.rows *= 2;
    if (spec->algo->advantages) {
        size_t rows = divide_up(s->step_rows, (size_t)spec->world);
        size_t most = spec->tokens / spec->T;
        shape.micro_batches = divide_up(rows, most > 0 ? most : 1);
        shape.rows = divide_up(rows, shape.micro_batches);
        shape.values =
            shape.rows * (size_t)spec->conf.rollout.max_completion_length;
    }
    shape.references =
        dt_spec_needs_reference(spec) && !spec->algo->critic_loss &&
        spec->conf.dpo.reference.mode != DT_CONF_REFERENCE_PRECOMPUTE;
    return shape;
}

/* --- a generation --- */

/* Mean number of completions that a rank samples. */
static double rank_rows(const struct dt_spec *spec)
{
    return (double)(spec->sampling.groups * spec->sampling.copies) /
           (double)spec->world;
}

static struct dt_rollout_work work_of(const struct dt_spec *spec,
                                      const struct dt_rollout_options *options)
{
    const struct dt_ops *ops = spec->exec.ops;
    const size_t prompt = options->max_prompt;
    const size_t groups = divide_up(spec->sampling.groups, (size_t)spec->world);
    const size_t left = groups * options->copies % options->slots;
    return (struct dt_rollout_work){
        .prompts = groups,
        .copies = options->copies,
        .prompt = prompt,
        .tokens = options->max_tokens,
        /* position at which the next prompt begins */
        .padded =
            dt_decoder_place(&spec->learner.config, ops,
                             prompt + options->max_tokens, prompt, prompt),
        .slots = options->slots,
        .rows = dt_rollout_rows(ops, options, options->slots),
        .last_rows = dt_rollout_rows(ops, options, left),
        .compute = options->compute,
    };
}

/* Seconds of the passes without gradients through all models before the first
 * update.
 */
static double before_training(const struct dt_spec *spec,
                              const struct dt_rates *rates,
                              enum dt_dtype compute)
{
    const double rows = rank_rows(spec);
    const double values =
        rows * (double)spec->conf.rollout.max_completion_length;
    const double policy = dt_forward_seconds(&spec->learner, rates, compute,
                                             rows, spec->T, values);
    double seconds = spec->sampling.stores_old ? policy : 0;
    if (spec->algo->critic_loss && dt_spec_needs_reference(spec))
        seconds += policy;
    if (spec->critic.layout)
        seconds += dt_forward_seconds(&spec->critic, rates, compute, rows,
                                      spec->T, values);
    return seconds;
}

/* Seconds to gather all weights on each rank, if a rank has only its parts. */
static double gather_seconds(const struct dt_spec *spec,
                             const struct dt_rates *rates,
                             enum dt_dtype compute, int node_size)
{
    const struct dt_parallel_options parallel =
        dt_spec_parallel_options(spec, compute);
    const double world = spec->world;
    const bool within = spec->world <= node_size;
    if (spec->world == 1 || (parallel.strategy != DT_ZERO3 && !parallel.hybrid))
        return 0;
    return (double)dt_learner_model_layout(&spec->learner)->count *
           (double)dt_dtype_bytes(compute) * (world - 1) / world /
           rates->of[within ? DT_RATE_NODE : DT_RATE_NETWORK];
}

struct dt_generation_plan dt_generation_plan_make(
    const struct dt_spec *spec, const struct dt_model_options *options,
    const struct dt_rates *rates, int node_size)
{
    const struct dt_sampling_spec *s = &spec->sampling;
    const struct dt_model_config *config = &spec->learner.config;
    if (!spec->algo->advantages)
        return (struct dt_generation_plan){0};
    const struct dt_rollout_options rollout =
        dt_sampling_rollout_options(spec, options);
    const struct dt_rollout_work work = work_of(spec, &rollout);
    const struct dt_rollout_seconds seconds = dt_rollout_cost(
        config, dt_learner_model_layout(&spec->learner), rates, &work);
    const size_t blocks =
        divide_up(rollout.max_prompt + rollout.max_tokens, DT_KV_BLOCK);
    return (struct dt_generation_plan){
        .completions = s->groups * s->copies,
        .uses = s->uses,
        .slots = rollout.slots,
        .bytes = rollout.slots * blocks *
                 dt_decoder_block_bytes(config, rollout.compute),
        .gather = gather_seconds(spec, rates, options->compute, node_size),
        .prefill = seconds.prefill,
        .decode = seconds.decode,
        .scoring = rank_rows(spec) * s->reward_operations /
                   dt_rates_blocks(rates, options->compute),
        .before = before_training(spec, rates, options->compute),
    };
}

double dt_generation_seconds(const struct dt_generation_plan *plan)
{
    return plan->gather + plan->prefill + plan->decode + plan->scoring +
           plan->before;
}
