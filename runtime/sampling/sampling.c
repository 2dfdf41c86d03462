/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - creates the rollout and the rewards of a run */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rollout/stops.h"
#include "run/run.h"
#include "sampling/sampling.h"

enum { HOST_SLOTS = 64, DEVICE_SLOTS = 512, FEWEST_SLOTS = 8 };

/* --- sizes --- */

static void resolve_grpo(struct dt_run *run)
{
    const struct dt_conf_grpo *conf = &run->conf.grpo;
    struct dt_samples *s = &run->samples;
    size_t generation = (size_t)conf->generation_batch_size;
    s->copies = (size_t)conf->num_generations;
    s->groups = generation / s->copies;
    s->step_rows = run->B * run->A * (size_t)run->world;
    s->parts = generation / s->step_rows;
    s->uses = s->parts * (size_t)conf->num_iterations;
    s->stores_old = s->uses > 1 || conf->top_entropy_quantile < 1;
}

/* PPO samples a batch at once and trains on it in parts. */
static void resolve_ppo(struct dt_run *run)
{
    const struct dt_conf_ppo *conf = &run->conf.ppo;
    struct dt_samples *s = &run->samples;
    s->copies = 1;
    s->groups = run->B * run->A * (size_t)run->world;
    s->parts = (size_t)conf->num_mini_batches;
    s->step_rows = s->groups / s->parts;
    s->uses = s->parts * (size_t)conf->epochs;
    s->stores_old = true;
}

void dt_run_samples_resolve(struct dt_run *run)
{
    if (!run->algo->advantages)
        return;
    if (run->algo->critic_loss)
        resolve_ppo(run);
    else
        resolve_grpo(run);
}

/* The most completions of a rank. */
static size_t rank_rows(const struct dt_run *run)
{
    const struct dt_samples *s = &run->samples;
    const size_t world = (size_t)run->world;
    return (s->groups + world - 1) / world * s->copies;
}

static size_t rollout_bytes(const struct dt_run *run,
                            const struct dt_rollout_options *rollout)
{
    return dt_rollout_bytes(&run->learner.model_config, run->exec.ops, rollout);
}

/* Keeps draws apart from those of training, whose prompts have the same
 * numbers.
 */
#define HELD_OUT_DRAWS UINT64_C(0x68656c64)

/* The options with which held-out prompts are completed. */
static struct dt_rollout_options held_out_options(
    const struct dt_run *run, const struct dt_rollout_options *of)
{
    struct dt_rollout_options options = *of;
    options.copies = (size_t)run->conf.rollout.eval_generations;
    options.sampling.temperature = run->conf.rollout.eval_temperature;
    options.seed = of->seed ^ HELD_OUT_DRAWS;
    return options;
}

static size_t own_bytes(const struct dt_run *run,
                        const struct dt_rollout_options *rollout)
{
    return dt_rollout_own_bytes(&run->learner.model_config, run->exec.ops,
                                rollout);
}

struct dt_rollout_options dt_run_rollout_options(
    const struct dt_run *run, const struct dt_model_options *options)
{
    const struct dt_conf_rollout *conf = &run->conf.rollout;
    const bool here = run->exec.device->is_host;
    const size_t rows = rank_rows(run);
    size_t most = here ? HOST_SLOTS : DEVICE_SLOTS;
    struct dt_rollout_options rollout = {
        .compute = options->compute,
        .copies = run->samples.copies,
        .max_prompt = (size_t)run->conf.data.max_prompt_length,
        .max_tokens = (size_t)conf->max_completion_length,
        .sampling = {.temperature = conf->temperature,
                     .top_k = (size_t)conf->top_k,
                     .top_p = conf->top_p,
                     .min_p = conf->min_p,
                     .repetition_penalty = 1},
        .seed = run->conf.run.seed,
        .exact = conf->exact == DT_CONF_AUTO_CHOICE
                     ? here || run->conf.run.deterministic
                     : conf->exact == DT_CONF_TRUE,
        .slots = (size_t)conf->slots,
        .adapter = options->adapter,
    };
    if (rollout.slots > 0)
        return rollout;
    size_t train = dt_model_memory_bytes(&run->learner.model_config,
                                         run->exec.ops, options);
    for (rollout.slots = rows < most ? rows : most;
         rollout.slots > FEWEST_SLOTS && rollout_bytes(run, &rollout) > train;)
        rollout.slots /= 2;
    return rollout;
}

size_t dt_run_samples_bytes(const struct dt_run *run,
                            const struct dt_model_options *options)
{
    const struct dt_rollout_options rollout =
        dt_run_rollout_options(run, options);
    size_t train = dt_model_memory_bytes(&run->learner.model_config,
                                         run->exec.ops, options);
    const struct dt_rollout_options held_out = held_out_options(run, &rollout);
    size_t sampling = rollout_bytes(run, &rollout);
    if (dt_run_holds_out(&run->conf) &&
        rollout_bytes(run, &held_out) > sampling)
        sampling = rollout_bytes(run, &held_out);
    size_t critic = dt_run_critic_memory(run, options);
    if (critic > train)
        train = critic;
    return sampling > train ? sampling : train;
}

size_t dt_run_samples_extra(const struct dt_run *run,
                            const struct dt_model_options *options,
                            bool gathers)
{
    if (!run->algo->advantages)
        return 0;
    const struct dt_rollout_options rollout =
        dt_run_rollout_options(run, options);
    const struct dt_rollout_options held_out = held_out_options(run, &rollout);
    size_t weights = dt_learner_model_layout(&run->learner)->count *
                     dt_dtype_bytes(options->compute);
    return own_bytes(run, &rollout) +
           (dt_run_holds_out(&run->conf) ? own_bytes(run, &held_out) : 0) +
           dt_run_samples_bytes(run, options) -
           dt_model_memory_bytes(&run->learner.model_config, run->exec.ops,
                                 options) +
           (gathers ? weights : 0);
}

int dt_run_samples_memory(struct dt_run *run, struct dt_model_options *options,
                          struct dt_error *err)
{
    if (!run->algo->advantages)
        return 0;
    options->memory = run->samples.memory =
        dt_buffer_create(run->exec.device, dt_run_samples_bytes(run, options),
                         "activations", err);
    return options->memory ? 0 : -1;
}

double dt_run_prompts_of_step(const struct dt_run *run)
{
    return (double)run->samples.groups / (double)run->samples.uses;
}

/* --- stop tokens --- */

static int add_stop(struct dt_samples *s, int32_t id, struct dt_error *err)
{
    size_t *count = &s->options.stop_count;
    for (size_t i = 0; i < *count; i++)
        if (s->stops[i] == id)
            return 0;
    if (*count == DT_SAMPLES_STOPS)
        return dt_error_set(err, EX_CONFIG,
                            "rollout.stop_ids: more than %d tokens end a "
                            "completion",
                            DT_SAMPLES_STOPS);
    s->stops[(*count)++] = id;
    return 0;
}

/* Collects the stop tokens of the model's files, the tokenizer and the
 * configuration.
 */
static int find_stops(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct dt_model_config *config = &run->learner.model_config;
    const struct dt_conf_list *ids = &run->conf.rollout.stop_ids;
    int32_t found[DT_SAMPLES_STOPS];
    size_t count = 0;
    int32_t eos = dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_EOS);
    if (run->conf.model.path &&
        dt_stops_read(run->conf.model.path, config->vocab_size, found,
                      DT_SAMPLES_STOPS, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < config->eos_count; i++)
        if (add_stop(s, config->eos[i], err) < 0)
            return -1;
    for (size_t i = 0; i < count; i++)
        if (add_stop(s, found[i], err) < 0)
            return -1;
    for (size_t i = 0; i < ids->count; i++)
        if (add_stop(s, (int32_t)strtol(ids->text[i], NULL, 10), err) < 0)
            return -1;
    return eos < 0 ? 0 : add_stop(s, eos, err);
}

/* --- creation --- */

/* Opens the rewards that run on this rank. */
static int open_rewards(struct dt_run *run, struct dt_error *err)
{
    const struct dt_conf_rewards *rewards = &run->conf.reward;
    for (size_t i = 0; i < rewards->count; i++) {
        int where = rewards->functions[i].where;
        const struct dt_reward_options options = {
            .where = where,
            .exec = &run->exec,
            .dtype = run->learner.compute,
        };
        struct dt_rewards **here = &run->samples.rewards[where];
        if (*here || (where == DT_CONF_RANK0 && run->rank != 0))
            continue;
        if (!(*here = dt_rewards_open(&run->conf, &options, err)))
            return -1;
    }
    return 0;
}

static int create_batches(struct dt_run *run, struct dt_error *err)
{
    const struct dt_sample_batches_options options = {
        .rows = run->samples.step_rows,
        .limit = run->tokens,
        .multiple_of = dt_run_length_step(run),
        .rank = run->rank,
        .world = run->world,
        .longest = run->conf.ppo.score_at == DT_SCORE_AT_TRL_NEXT
                       ? (size_t)run->conf.rollout.max_completion_length
                       : 0,
        .seed = run->conf.run.data_seed,
    };
    return dt_sample_batches_init(&run->samples.batches, &options,
                                  run->data.prompts, err);
}

/* Creates a rollout in the memory of the model. */
static struct dt_rollout *create_rollout(
    struct dt_run *run, const struct dt_rollout_options *options,
    struct dt_error *err)
{
    const struct dt_learner *learner = &run->learner;
    struct dt_rollout_options own = *options;
    if (learner->frozen.layout)
        own.adapter.weights = dt_parallel_weights(learner->parallel);
    return dt_rollout_create(
        &learner->model_config, dt_learner_model_layout(learner), &run->exec,
        dt_parallel_weights(dt_learner_model_engine(learner)),
        dt_model_memory(learner->model), &own, err);
}

static int create_rollouts(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct dt_rollout_options held_out =
        held_out_options(run, &s->options);
    if (!(s->rollout = create_rollout(run, &s->options, err)))
        return -1;
    if (run->data.held_out &&
        !(s->held_out = create_rollout(run, &held_out, err)))
        return -1;
    return 0;
}

int dt_run_samples_init(struct dt_run *run, const struct dt_model_options *of,
                        struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct dt_conf_list *strings = &run->conf.rollout.stop;
    if (!run->algo->advantages)
        return 0;
    s->options = dt_run_rollout_options(run, of);
    s->options.stop = s->stops;
    s->options.strings = (const char *const *)strings->text;
    s->options.string_count = strings->count;
    s->options.tokenizer = run->data.tokenizer;
    if (find_stops(run, err) < 0 ||
        !(s->columns = dt_run_reward_columns(&run->conf, err)) ||
        open_rewards(run, err) < 0 || create_batches(run, err) < 0)
        return -1;
    dt_run_name_numbers(run);
    return create_rollouts(run, err);
}

void dt_run_samples_fini(struct dt_run *run)
{
    struct dt_samples *s = &run->samples;
    dt_scoring_fini(run);
    for (int where = 0; where < DT_WHERES; where++)
        dt_rewards_close(s->rewards[where]);
    dt_rollout_destroy(s->rollout);
    dt_rollout_destroy(s->held_out);
    dt_sample_batches_fini(&s->batches);
    dt_experience_fini(&s->experience);
    dt_experience_fini(&s->ahead);
    dt_buffer_destroy(s->memory);
    free(s->columns);
}
