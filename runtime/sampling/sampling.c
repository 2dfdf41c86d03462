/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - creates the rollout and the rewards of a run */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rollout/engine.h"
#include "sampling/sampling_impl.h"
#include "tokenizer/chat/chat.h"

enum { HOST_SLOTS = 64, DEVICE_SLOTS = 512, FEWEST_SLOTS = 8 };

/* --- sizes --- */

static void resolve_grpo(struct dt_spec *spec)
{
    const struct dt_conf_grpo *conf = &spec->conf.grpo;
    struct dt_sampling_spec *s = &spec->sampling;
    size_t generation = (size_t)conf->generation_batch_size;
    s->copies = (size_t)conf->num_generations;
    s->groups = generation / s->copies;
    s->step_rows = spec->B * spec->A * (size_t)spec->world;
    s->parts = generation / s->step_rows;
    s->uses = s->parts * (size_t)conf->num_iterations;
    s->stores_old = s->uses > 1 || conf->top_entropy_quantile < 1;
}

/* PPO samples a batch at once and trains on it in parts. */
static void resolve_ppo(struct dt_spec *spec)
{
    const struct dt_conf_ppo *conf = &spec->conf.ppo;
    struct dt_sampling_spec *s = &spec->sampling;
    s->copies = 1;
    s->groups = spec->B * spec->A * (size_t)spec->world;
    s->parts = (size_t)conf->num_mini_batches;
    s->step_rows = s->groups / s->parts;
    s->uses = s->parts * (size_t)conf->epochs;
    s->stores_old = true;
}

void dt_sampling_resolve(struct dt_spec *spec)
{
    if (!spec->algo->advantages)
        return;
    if (spec->algo->critic_loss)
        resolve_ppo(spec);
    else
        resolve_grpo(spec);
}

/* The most completions of a rank. */
static size_t rank_rows(const struct dt_spec *spec)
{
    const struct dt_sampling_spec *s = &spec->sampling;
    const size_t world = (size_t)spec->world;
    return (s->groups + world - 1) / world * s->copies;
}

static size_t rollout_bytes(const struct dt_spec *spec,
                            const struct dt_rollout_options *rollout)
{
    return dt_rollout_bytes(&spec->learner.config, spec->exec.ops, rollout);
}

/* Keeps draws apart from those of training, whose prompts have the same
 * numbers.
 */
#define HELD_OUT_DRAWS UINT64_C(0x68656c64)

/* The options with which held-out prompts are completed. */
static struct dt_rollout_options held_out_options(
    const struct dt_spec *spec, const struct dt_rollout_options *of)
{
    struct dt_rollout_options options = *of;
    options.copies = (size_t)spec->conf.rollout.eval_generations;
    options.sampling.temperature = spec->conf.rollout.eval_temperature;
    options.seed = of->seed ^ HELD_OUT_DRAWS;
    return options;
}

static size_t own_bytes(const struct dt_spec *spec,
                        const struct dt_rollout_options *rollout)
{
    return dt_rollout_own_bytes(&spec->learner.config, spec->exec.ops, rollout);
}

struct dt_rollout_options dt_sampling_rollout_options(
    const struct dt_spec *spec, const struct dt_model_options *options)
{
    const struct dt_conf_rollout *conf = &spec->conf.rollout;
    const bool here = spec->exec.device->is_host;
    const size_t rows = rank_rows(spec);
    size_t most = here ? HOST_SLOTS : DEVICE_SLOTS;
    struct dt_rollout_options rollout = {
        .compute = options->compute,
        .copies = spec->sampling.copies,
        .max_prompt = (size_t)spec->conf.data.max_prompt_length,
        .patches = spec->sampling.patches,
        .pictures = spec->sampling.pictures,
        .colors = options->colors,
        .max_tokens = (size_t)conf->max_completion_length,
        .sampling = {.temperature = conf->temperature,
                     .top_k = (size_t)conf->top_k,
                     .top_p = conf->top_p,
                     .min_p = conf->min_p,
                     .repetition_penalty = 1},
        .seed = spec->conf.run.seed,
        .exact = conf->exact == DT_CONF_AUTO_CHOICE
                     ? here || spec->conf.run.deterministic
                     : conf->exact == DT_CONF_TRUE,
        .slots = (size_t)conf->slots,
        .adapter = options->adapter,
    };
    if (rollout.slots > 0)
        return rollout;
    size_t train =
        dt_model_memory_bytes(&spec->learner.config, spec->exec.ops, options);
    for (rollout.slots = rows < most ? rows : most;
         rollout.slots > FEWEST_SLOTS && rollout_bytes(spec, &rollout) > train;)
        rollout.slots /= 2;
    return rollout;
}

/* Bytes of the memory that activations and rollouts share. */
static size_t shared_bytes(const struct dt_spec *spec,
                           const struct dt_model_options *options)
{
    const struct dt_rollout_options rollout =
        dt_sampling_rollout_options(spec, options);
    size_t train =
        dt_model_memory_bytes(&spec->learner.config, spec->exec.ops, options);
    const struct dt_rollout_options held_out = held_out_options(spec, &rollout);
    size_t sampling = rollout_bytes(spec, &rollout);
    if (dt_run_holds_out(&spec->conf) &&
        rollout_bytes(spec, &held_out) > sampling)
        sampling = rollout_bytes(spec, &held_out);
    size_t critic = dt_spec_critic_memory(spec, options);
    if (critic > train)
        train = critic;
    return sampling > train ? sampling : train;
}

size_t dt_sampling_extra(const struct dt_spec *spec,
                         const struct dt_model_options *options, bool gathers)
{
    if (!spec->algo->advantages)
        return 0;
    const struct dt_rollout_options rollout =
        dt_sampling_rollout_options(spec, options);
    const struct dt_rollout_options held_out = held_out_options(spec, &rollout);
    size_t weights = dt_learner_model_layout(&spec->learner)->count *
                     dt_dtype_bytes(options->compute);
    return own_bytes(spec, &rollout) +
           (dt_run_holds_out(&spec->conf) ? own_bytes(spec, &held_out) : 0) +
           shared_bytes(spec, options) -
           dt_model_memory_bytes(&spec->learner.config, spec->exec.ops,
                                 options) +
           (gathers ? weights : 0);
}

int dt_run_samples_memory(struct dt_run *run, struct dt_model_options *options,
                          struct dt_error *err)
{
    if (!run->spec.algo->advantages)
        return 0;
    options->memory = run->samples.memory =
        dt_buffer_create(run->spec.exec.device,
                         shared_bytes(&run->spec, options), "activations", err);
    return options->memory ? 0 : -1;
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
    const struct dt_spec *spec = &run->spec;
    struct dt_samples *s = &run->samples;
    const struct dt_model_config *config = &spec->learner.config;
    const struct dt_conf_list *ids = &spec->conf.rollout.stop_ids;
    int32_t found[DT_SAMPLES_STOPS];
    size_t count = 0;
    int32_t eos = dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_EOS);
    if (spec->conf.model.path &&
        dt_stops_read(spec->conf.model.path, config->vocab_size, found,
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

/* The token that ends answers in the data; -1: none, or unknown. */
static int32_t find_end(const struct dt_conf *conf,
                        const struct dt_tokenizer *tokenizer)
{
    const struct dt_example_options options =
        dt_run_example_options(conf, NULL);
    enum dt_format format;
    if (!tokenizer || conf->data.kind != DT_KIND_LINES ||
        dt_examples_format(conf->data.train.text[0], &options, &format, NULL) <
            0 ||
        format != DT_FORMAT_MESSAGES)
        return -1;
    struct dt_chat *chat = dt_chat_create(
        options.chat_template, options.chat_variables, tokenizer, NULL);
    int32_t end = chat ? dt_chat_end(chat) : -1;
    dt_chat_destroy(chat);
    return end;
}

/* Whether `generate` would stop at a token. */
static bool is_stop(const struct dt_run *run, int32_t id)
{
    const struct dt_model_config *config = &run->spec.learner.config;
    int32_t ids[DT_SAMPLES_STOPS];
    size_t count = 0;
    if (id == dt_tokenizer_special(run->data.tokenizer, DT_TOKEN_EOS))
        return true;
    for (size_t i = 0; i < config->eos_count; i++)
        if (config->eos[i] == id)
            return true;
    if (run->spec.conf.model.path)
        dt_stops_read(run->spec.conf.model.path, config->vocab_size, ids,
                      DT_SAMPLES_STOPS, &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

void dt_run_warn_answers(const struct dt_run *run)
{
    struct dt_detokenizer state = {.tokenizer = run->data.tokenizer};
    char text[256];
    int32_t end = find_end(&run->spec.conf, run->data.tokenizer);
    if (end < 0 || is_stop(run, end))
        return;
    dt_detokenize(&state, end, text, sizeof(text));
    dt_log(DT_LOG_WARN, "algo",
           "the chat template ends answers with %s, token %d, which is no end "
           "token of the model: `disttrain generate` will not stop there "
           "unless it is named in eos_token_id of generation_config.json",
           text, end);
}

/* --- creation --- */

/* Opens the rewards that run on this rank. */
static int open_rewards(struct dt_run *run, struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_conf_rewards *rewards = &spec->conf.reward;
    for (size_t i = 0; i < rewards->count; i++) {
        int where = rewards->functions[i].where;
        const struct dt_reward_options options = {
            .where = where,
            .exec = &spec->exec,
            .dtype = run->learner.compute,
            .rooms = spec->sampling.reward_rooms,
            .images = spec->images.there ? &spec->images.options : NULL,
        };
        struct dt_rewards **here = &run->samples.rewards[where];
        if (*here || (where == DT_CONF_RANK0 && spec->rank != 0))
            continue;
        if (!(*here = dt_rewards_open(&spec->conf, &options, err)))
            return -1;
    }
    return 0;
}

static int create_batches(struct dt_run *run, size_t patches,
                          struct dt_error *err)
{
    const struct dt_spec *spec = &run->spec;
    const struct dt_sample_batches_options options = {
        .rows = spec->sampling.step_rows,
        .limit = spec->tokens,
        .multiple_of = dt_spec_length_step(spec),
        .patches = patches,
        .rank = spec->rank,
        .world = spec->world,
        .longest = spec->conf.ppo.score_at == DT_SCORE_AT_TRL_NEXT
                       ? (size_t)spec->conf.rollout.max_completion_length
                       : 0,
        .seed = spec->conf.run.data_seed,
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
    if (dt_learner_adapts(learner->spec))
        own.adapter.weights = dt_parallel_weights(learner->parallel);
    return dt_rollout_create(&learner->spec->config,
                             dt_learner_model_layout(learner->spec),
                             &run->spec.exec, dt_learner_weights(learner),
                             dt_model_memory(learner->model), &own, err);
}

static int create_rollouts(struct dt_run *run, struct dt_error *err)
{
    struct dt_samples *s = &run->samples;
    const struct dt_rollout_options held_out =
        held_out_options(&run->spec, &s->options);
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
    const struct dt_conf_list *strings = &run->spec.conf.rollout.stop;
    if (!run->spec.algo->advantages)
        return 0;
    s->options = dt_sampling_rollout_options(&run->spec, of);
    s->options.stop = s->stops;
    s->options.strings = (const char *const *)strings->text;
    s->options.string_count = strings->count;
    s->options.tokenizer = run->data.tokenizer;
    if (find_stops(run, err) < 0 ||
        !(s->columns = dt_run_reward_columns(&run->spec.conf, err)) ||
        open_rewards(run, err) < 0 || create_batches(run, of->patches, err) < 0)
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
