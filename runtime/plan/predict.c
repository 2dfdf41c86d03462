/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - predicts a step of a run, and the sampling before it */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "forecast/cost.h"
#include "model/decode.h"
#include "plan/plan.h"
#include "plan/predict.h"
#include "run/sharing.h"
#include "sampling/sampling.h"

/* --- passes --- */

/* A forward pass of full rows through a model whose head computes values of
 * `values` tokens. What pictures go through is left out below unit `first`.
 */
struct pass {
    double rows, values;
    size_t first;
};

/* Seconds of such a pass. */
static double pass_seconds(const struct dt_spec *spec,
                           const struct dt_learner_spec *learner,
                           const struct dt_rates *rates, enum dt_dtype compute,
                           const struct pass *pass)
{
    const struct dt_model_config *config = &learner->config;
    const struct dt_layout *layout = dt_learner_model_layout(learner);
    const double tokens = pass->rows * (double)spec->T;
    double head = 0;
    double operations = dt_cost_tower(config, layout, pass->first,
                                      spec->images.patches * tokens,
                                      spec->images.pictures * tokens);
    for (size_t u = 0; u < layout->unit_count; u++)
        if (dt_cost_is_block(config, layout, u))
            operations +=
                pass->rows * dt_cost_block(config, layout, u, 1, spec->T);
    if (!config->scores) /* a third of the cost with gradients */
        head = dt_cost_head(config, 1, 1) / 3 * pass->values;
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
        .patches = spec->images.patches * (double)spec->T,
        .pictures = spec->images.pictures * (double)spec->T,
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
    struct pass pass = {
        .rows = rows,
        .values = rows * (double)spec->conf.rollout.max_completion_length};
    double seconds = 0;
    if (spec->critic.layout)
        seconds += pass_seconds(spec, &spec->critic, rates, compute, &pass);
    if (spec->sampling.stores_old)
        seconds += pass_seconds(spec, &spec->learner, rates, compute, &pass);
    pass.first = dt_spec_reference_shared(spec);
    if (spec->algo->critic_loss && dt_spec_needs_reference(spec))
        seconds += pass_seconds(spec, &spec->learner, rates, compute, &pass);
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
        .scoring = (rank_rows(spec) * s->reward_operations +
                    (double)work.prompts * s->reward_looks) /
                   dt_rates_blocks(rates, options->compute),
        .before = before_training(spec, rates, options->compute),
    };
}

double dt_generation_seconds(const struct dt_generation_plan *plan)
{
    return plan->gather + plan->prefill + plan->decode + plan->scoring +
           plan->before;
}

/* --- a step --- */

static int need_rate(const struct dt_rates *rates, enum dt_rate rate,
                     struct dt_error *err)
{
    if (dt_rates_has(rates, rate))
        return 0;
    return dt_error_set(err, EX_DATAERR,
                        "%s has no rate '%s', which this job needs; measure it "
                        "with disttrain doctor --rates in a step of as many "
                        "nodes and ranks, or add a line 'like: NAME'",
                        rates->from, dt_rate_name(rate));
}

int dt_predict_check_offload(const struct dt_rates *rates, int state,
                             struct dt_error *err)
{
    static const enum dt_rate gpu[] = {DT_RATE_PCIE_UP, DT_RATE_PCIE_DOWN,
                                       DT_RATE_HOST_MEMORY};
    static const enum dt_rate drive[] = {DT_RATE_DRIVE_READ,
                                         DT_RATE_DRIVE_WRITE};
    if (state == DT_CONF_OFFLOAD_NONE)
        return 0;
    for (int i = 0; rates->gpu && i < 3; i++)
        if (need_rate(rates, gpu[i], err) < 0)
            return -1;
    for (int i = 0; state == DT_CONF_OFFLOAD_NVME && i < 2; i++)
        if (need_rate(rates, drive[i], err) < 0)
            return -1;
    return 0;
}

int dt_predict_check(const struct dt_predictor *predictor,
                     const struct dt_conf *conf, struct dt_error *err)
{
    const struct dt_rates *rates = predictor->rates;
    if ((predictor->ranks > 1 && need_rate(rates, DT_RATE_NODE, err) < 0) ||
        (predictor->nodes > 1 && need_rate(rates, DT_RATE_NETWORK, err) < 0))
        return -1;
    return dt_predict_check_offload(
        rates, conf->distributed.offload_optimizer.device, err);
}

/* What a micro-batch has, if a token has so many. */
static size_t share_of(double each, const struct dt_step_shape *shape)
{
    return (size_t)(each * (double)(shape->rows * shape->T) + 0.5);
}

/* Seconds of the units of a learner in a micro-batch. */
static void fill_units(const struct dt_spec *spec,
                       const struct dt_model_options *model,
                       const struct dt_learner_spec *learner,
                       const struct dt_rates *rates,
                       struct dt_unit_seconds *units)
{
    const struct dt_step_shape shape = dt_step_shape_of(spec);
    const enum dt_dtype compute = model->compute;
    struct dt_model_options options = *model;
    options.B = shape.rows;
    options.T = shape.T;
    options.lowest = dt_learner_lowest(learner);
    options.patches = share_of(spec->images.patches, &shape);
    options.pictures = share_of(spec->images.pictures, &shape);
    dt_cost_units(&learner->config, dt_learner_model_layout(learner),
                  learner->layout, &options, rates, units);
    if (learner != &spec->learner)
        return;
    if (shape.values > 0) /* logits of values are computed twice */
        units[learner->layout->unit_count - 1].backward =
            dt_cost_head(&learner->config, 1, shape.values) * 8 / 6 /
            dt_rates_head(rates, compute);
    const struct pass pass = {
        .rows = (double)shape.rows,
        .values =
            (double)(shape.values > 0 ? shape.values : shape.rows * shape.T),
        .first = dt_spec_reference_shared(spec)};
    if (shape.references)
        units[0].forward += pass_seconds(spec, learner, rates, compute, &pass);
}

static void add_step(struct dt_timeline *to, const struct dt_timeline *from)
{
    to->seconds += from->seconds;
    to->in_node += from->in_node;
    to->out_of_node += from->out_of_node;
    to->drive_read += from->drive_read;
    to->drive_written += from->drive_written;
    for (int i = 0; i < DT_RESOURCES; i++)
        to->busy[i] += from->busy[i];
}

/* Times the passes through frozen weights. The rest of the step is then that of
 * the trained ones.
 */
static int time_frozen(const struct dt_learner_spec *learner,
                       const struct dt_timeline_options *like,
                       const struct dt_parallel_options *parallel,
                       struct dt_unit_seconds *units, struct dt_timeline *step,
                       struct dt_error *err)
{
    const struct dt_parallel_options frozen =
        dt_learner_frozen_options(learner, parallel);
    struct dt_timeline_options options = *like;
    struct dt_timeline own;
    options.layout = learner->frozen;
    options.parallel = &frozen;
    if (dt_timeline_make(&options, &own, err) < 0)
        return -1;
    add_step(step, &own);
    for (size_t u = 0; u < learner->frozen->unit_count; u++)
        if (learner->frozen->units[u].count > 0)
            units[u] = (struct dt_unit_seconds){0};
    return 0;
}

/* Adds up the steps of all learners, which take turns. */
static int time_learners(const struct dt_predictor *predictor,
                         const struct dt_spec *spec,
                         const struct dt_model_options *model,
                         const struct dt_parallel_options *parallel,
                         struct dt_unit_seconds *units,
                         struct dt_timeline *step, struct dt_error *err)
{
    const struct dt_rates rates =
        dt_rates_for(predictor->rates, predictor->ranks);
    const struct dt_learner_spec *learners[] = {&spec->learner, &spec->critic};
    struct dt_timeline own;
    *step = (struct dt_timeline){0};
    for (size_t i = 0; i < 2 && learners[i]->layout; i++) {
        const struct dt_parallel_options shared =
            i == 0 ? *parallel : dt_spec_critic_sharing(spec, parallel);
        const struct dt_parallel_options trained =
            dt_learner_trained_options(learners[i], &shared);
        fill_units(spec, model, learners[i], &rates, units);
        struct dt_timeline_options timeline = {
            .layout = learners[i]->layout,
            .parallel = &trained,
            .rates = &rates,
            .units = units,
            .micro_batches = dt_step_shape_of(spec).micro_batches,
            .world = spec->world,
            .node_size = predictor->ranks,
            .rings = predictor->gpu,
        };
        if (learners[i]->frozen &&
            time_frozen(learners[i], &timeline, &shared, units, step, err) < 0)
            return -1;
        if (dt_timeline_make(&timeline, &own, err) < 0)
            return -1;
        add_step(step, &own);
    }
    return 0;
}

/* Adds a step's share of its generation. During it the device waits only for
 * weights.
 */
static void add_generation(const struct dt_generation_plan *plan,
                           struct dt_timeline *step)
{
    struct dt_timeline share = {0};
    if (plan->completions == 0)
        return;
    share.seconds = dt_generation_seconds(plan) / (double)plan->uses;
    share.busy[DT_ON_DEVICE] =
        share.seconds - plan->gather / (double)plan->uses;
    add_step(step, &share);
}

/* Units of the largest learner. */
static size_t most_units(const struct dt_spec *spec)
{
    const struct dt_layout *critic = spec->critic.layout;
    size_t most = dt_learner_model_layout(&spec->learner)->unit_count;
    return critic && critic->unit_count > most ? critic->unit_count : most;
}

int dt_predict_step(const struct dt_predictor *predictor,
                    const struct dt_spec *spec,
                    const struct dt_model_options *options,
                    const struct dt_parallel_options *parallel,
                    struct dt_timeline *step,
                    struct dt_generation_plan *generation, struct dt_error *err)
{
    const struct dt_rates rates =
        dt_rates_for(predictor->rates, predictor->ranks);
    struct dt_unit_seconds *units = calloc(most_units(spec), sizeof(*units));
    if (!units)
        return dt_error_set(err, EX_OSERR, "out of memory");
    int rc =
        time_learners(predictor, spec, options, parallel, units, step, err);
    free(units);
    *generation =
        dt_generation_plan_make(spec, options, &rates, predictor->ranks);
    add_generation(generation, step);
    return rc;
}
