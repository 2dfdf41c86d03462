/* SPDX-License-Identifier: Apache-2.0 */
/* rollout.c - the loop of steps, and its memory */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rollout/rollout_impl.h"

/* Rows of a step are a multiple of ROWS: few sizes, and at least this many, so
 * that a matrix multiplication goes over a row as it does with more rows. Where
 * there are fewer slots, and the device goes over a row as if it were alone,
 * there are only the rows that are needed. PROMPT_TOKENS and PROMPT_PATCHES are
 * enough for one at full speed.
 */
enum { ROWS = 16, PROMPT_TOKENS = 2048, PROMPT_PATCHES = 2048 };

/* --- sizes --- */

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Tokens of prompts at a time, without the last one of each: as many as fill
 * the slots, but not very many.
 */
static size_t prompt_tokens(const struct dt_model_config *config,
                            const struct dt_ops *ops,
                            const struct dt_rollout_options *options,
                            size_t length)
{
    size_t prompts = (options->slots + options->copies - 1) / options->copies;
    size_t count = options->max_prompt - 1, used = count;
    for (size_t i = 1; i < prompts; i++) {
        size_t first = dt_decoder_place(config, ops, length, used, count);
        if (first + count > PROMPT_TOKENS)
            break;
        used = first + count;
    }
    return used;
}

/* Prompts whose pictures are computed at a time: as many as fill the slots, but
 * not very many patches.
 */
static size_t prompts_with_pictures(const struct dt_rollout_options *options)
{
    const size_t prompts =
        (options->slots + options->copies - 1) / options->copies;
    const size_t one = options->patches;
    if (options->exact || one == 0 || one > PROMPT_PATCHES)
        return 1;
    return min_size(prompts, PROMPT_PATCHES / one);
}

/* Of what the rows of a step are a multiple. */
static size_t row_multiple(const struct dt_ops *ops,
                           const struct dt_rollout_options *options)
{
    return !options->exact && options->slots < ops->few_rows ? 1 : ROWS;
}

static struct dt_decoder_options limits_of(
    const struct dt_model_config *config, const struct dt_ops *ops,
    const struct dt_rollout_options *options)
{
    size_t most = dt_model_room(config);
    size_t pictures = prompts_with_pictures(options);
    struct dt_decoder_options limits = {
        .compute = options->compute,
        .rows = dt_round_up(options->slots, row_multiple(ops, options)),
        .length = options->max_prompt < most &&
                          options->max_tokens < most - options->max_prompt
                      ? options->max_prompt + options->max_tokens
                      : most,
        .blocks = options->blocks,
        .patches = pictures * options->patches,
        .pictures = pictures * options->pictures,
        .colors = options->colors,
        .penalty = options->sampling.repetition_penalty != 1,
        .adapter = options->adapter,
    };
    limits.tokens =
        dt_round_up(max_size(prompt_tokens(config, ops, options, limits.length),
                             limits.rows),
                    DT_PROMPT_MULTIPLE);
    if (limits.blocks == 0) /* and those of prompts that are computed early */
        limits.blocks = options->slots * dt_decoder_most_blocks(&limits) +
                        limits.tokens / DT_KV_BLOCK + options->slots;
    return limits;
}

/* The fewest blocks with which every sequence can be completed: one copies a
 * block of its prompt.
 */
static size_t fewest_blocks(const struct dt_decoder_options *limits)
{
    return dt_decoder_most_blocks(limits) + 1;
}

size_t dt_rollout_bytes(const struct dt_model_config *config,
                        const struct dt_ops *ops,
                        const struct dt_rollout_options *options)
{
    struct dt_decoder_options limits = limits_of(config, ops, options);
    return dt_decoder_bytes(config, ops, &limits);
}

size_t dt_rollout_own_bytes(const struct dt_model_config *config,
                            const struct dt_ops *ops,
                            const struct dt_rollout_options *options)
{
    const struct dt_decoder_options limits = limits_of(config, ops, options);
    return dt_decoder_own_bytes(config, ops, &limits);
}

size_t dt_rollout_rows(const struct dt_ops *ops,
                       const struct dt_rollout_options *options,
                       size_t sequences)
{
    return dt_round_up(options->exact ? options->slots : sequences,
                       row_multiple(ops, options));
}

/* Fewer blocks where memory has no room for all of them. */
static int fit_memory(struct dt_rollout *r,
                      const struct dt_model_config *config,
                      const struct dt_ops *ops, size_t bytes,
                      struct dt_error *err)
{
    struct dt_decoder_options least = r->limits;
    size_t block = dt_decoder_block_bytes(config, r->options.compute);
    least.blocks = fewest_blocks(&r->limits);
    size_t need = dt_decoder_bytes(config, ops, &least);
    if (r->options.blocks == 0 && need <= bytes)
        r->limits.blocks =
            min_size(r->limits.blocks, least.blocks + (bytes - need) / block);
    if (r->limits.blocks < least.blocks)
        return dt_error_set(err, EX_CONFIG,
                            "%zu blocks of %d positions, but a sequence of %zu "
                            "tokens needs %zu of them",
                            r->limits.blocks, (int)DT_KV_BLOCK,
                            r->limits.length, least.blocks);
    if (dt_decoder_bytes(config, ops, &r->limits) > bytes)
        return dt_error_set(err, EX_CONFIG,
                            "%zu slots of %zu tokens need %zu bytes, and there "
                            "are %zu",
                            r->options.slots, r->limits.length,
                            dt_decoder_bytes(config, ops, &r->limits), bytes);
    return 0;
}

/* --- create, destroy --- */

static int allocate_sequence(const struct dt_rollout *r, struct dt_sequence *s)
{
    size_t tokens = min_size(r->options.max_tokens, r->limits.length);
    s->table = calloc(r->most_blocks, sizeof(*s->table));
    s->ids = calloc(tokens, sizeof(*s->ids));
    s->logps = calloc(tokens, sizeof(*s->logps));
    if (r->words > 0)
        s->seen = calloc(r->words, sizeof(*s->seen));
    if (r->longest_string > 0)
        s->tail = calloc(r->longest_string + DT_TOKEN_BYTES, 1);
    return s->table && s->ids && s->logps && (s->seen || r->words == 0) &&
                   (s->tail || r->longest_string == 0)
               ? 0
               : -1;
}

static int allocate_arrays(struct dt_rollout *r)
{
    struct dt_step_arrays *step = &r->step;
    size_t rows = r->limits.rows, tokens = r->limits.tokens;
    step->ids = calloc(rows, sizeof(*step->ids));
    step->indices = calloc(rows, sizeof(*step->indices));
    step->positions = calloc(rows, sizeof(*step->positions));
    step->places = calloc(rows, sizeof(*step->places));
    step->table = calloc(rows * r->most_blocks, sizeof(*step->table));
    step->draws = calloc(rows, sizeof(*step->draws));
    step->drawn = calloc(rows, sizeof(*step->drawn));
    step->logps = calloc(rows, sizeof(*step->logps));
    r->pack.ids = calloc(tokens, sizeof(*r->pack.ids));
    r->pack.starts = calloc(tokens, sizeof(*r->pack.starts));
    r->pack.places = calloc(tokens, sizeof(*r->pack.places));
    r->pack.pictures =
        calloc(r->limits.pictures + 1, sizeof(*r->pack.pictures));
    r->pack.pixels = calloc(r->limits.patches + 1, r->patch_bytes + 1);
    if (r->words > 0 &&
        !(step->seen = calloc(rows * r->words, sizeof(*step->seen))))
        return -1;
    return step->ids && step->indices && step->positions && step->places &&
                   step->table && step->draws && step->drawn && step->logps &&
                   r->pack.ids && r->pack.starts && r->pack.places &&
                   r->pack.pictures && r->pack.pixels
               ? 0
               : -1;
}

static int allocate(struct dt_rollout *r, struct dt_error *err)
{
    int result = 0;
    r->slots = calloc(r->options.slots, sizeof(*r->slots));
    for (size_t i = 0; r->slots && i < r->options.slots && result == 0; i++)
        result = allocate_sequence(r, &r->slots[i]);
    if (!r->slots || result < 0 || allocate_arrays(r) < 0)
        return dt_error_set(err, EX_OSERR, "out of memory for %zu slots",
                            r->options.slots);
    return dt_blocks_init(&r->blocks, r->limits.blocks, err);
}

struct dt_rollout *dt_rollout_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights,
                                     struct dt_buffer *memory,
                                     const struct dt_rollout_options *options,
                                     struct dt_error *err)
{
    struct dt_rollout *r;
    if (options->max_prompt >= dt_model_room(config)) {
        dt_error_set(err, EX_DATAERR,
                     "a prompt of %zu tokens leaves no room: the model has %zu "
                     "positions%s",
                     options->max_prompt, dt_model_room(config),
                     dt_model_two_lengths(config)
                         ? " before longrope changes all of them"
                         : "");
        return NULL;
    }
    r = calloc(1, sizeof(*r));
    if (!r) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    r->options = *options;
    r->last = &r->entries;
    r->row_multiple = row_multiple(exec->ops, options);
    r->limits = limits_of(config, exec->ops, options);
    r->most_blocks = dt_decoder_most_blocks(&r->limits);
    r->config = config;
    r->ops = exec->ops;
    r->patch_bytes = config->vision ? dt_vision_row_bytes(config->vision) : 0;
    r->words = r->limits.penalty ? (config->vocab_size + 31) / 32 : 0;
    for (size_t i = 0; i < options->string_count; i++)
        r->longest_string =
            max_size(r->longest_string, strlen(options->strings[i]));
    if (fit_memory(r, config, exec->ops, memory->bytes, err) < 0 ||
        allocate(r, err) < 0 ||
        !(r->decoder = dt_decoder_create(config, layout, exec, weights, memory,
                                         &r->limits, err))) {
        dt_rollout_destroy(r);
        return NULL;
    }
    return r;
}

static void free_arrays(struct dt_rollout *r)
{
    struct dt_step_arrays *step = &r->step;
    free(step->ids);
    free(step->indices);
    free(step->positions);
    free(step->places);
    free(step->table);
    free(step->draws);
    free(step->seen);
    free(step->drawn);
    free(step->logps);
    free(r->pack.ids);
    free(r->pack.starts);
    free(r->pack.places);
    free(r->pack.pictures);
    free(r->pack.pixels);
}

void dt_rollout_destroy(struct dt_rollout *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->slots && i < r->options.slots; i++) {
        free(r->slots[i].table);
        free(r->slots[i].ids);
        free(r->slots[i].logps);
        free(r->slots[i].seen);
        free(r->slots[i].tail);
    }
    free(r->slots);
    free_arrays(r);
    dt_blocks_fini(&r->blocks);
    dt_decoder_destroy(r->decoder);
    free(r);
}

void dt_rollout_use(struct dt_rollout *r, struct dt_places weights)
{
    dt_decoder_use(r->decoder, weights);
}

struct dt_rollout_counts dt_rollout_counts(const struct dt_rollout *r)
{
    return r->counts;
}

/* --- steps --- */

/* Row i of the step: the last token of s, at its index. */
static void fill_row(const struct dt_rollout *r, const struct dt_sequence *s,
                     size_t i)
{
    const struct dt_step_arrays *step = &r->step;
    const struct dt_entry *prompt = s->prompt;
    size_t index = prompt->count - 1 + s->count;
    step->ids[i] =
        s->count > 0 ? s->ids[s->count - 1] : prompt->ids[prompt->count - 1];
    step->indices[i] = (int32_t)index;
    step->positions[i] = (int32_t)index + prompt->shift;
    step->places[i] = s->table[index / DT_KV_BLOCK] * DT_KV_BLOCK +
                      (int32_t)(index % DT_KV_BLOCK);
    memcpy(step->table + i * r->most_blocks, s->table,
           s->blocks * sizeof(*s->table));
    step->draws[i] = dt_rng_draw(r->options.seed, prompt->number, s->copy,
                                 (uint32_t)s->count);
    if (step->seen)
        memcpy(step->seen + i * r->words, s->seen, r->words * sizeof(*s->seen));
}

/* A row of no sequence. */
static void fill_nothing(const struct dt_rollout *r, size_t i)
{
    const struct dt_step_arrays *step = &r->step;
    step->ids[i] = step->indices[i] = step->positions[i] = 0;
    step->places[i] = -1;
    step->table[i * r->most_blocks] = 0;
    step->draws[i] = -1;
}

/* Draws the next token of every sequence. */
static int draw_tokens(struct dt_rollout *r, struct dt_error *err)
{
    const struct dt_step_arrays *step = &r->step;
    struct dt_step_rows rows = {
        .count = r->options.exact ? r->limits.rows
                                  : dt_round_up(r->running, r->row_multiple),
        .ids = step->ids,
        .indices = step->indices,
        .positions = step->positions,
        .places = step->places,
        .table = step->table,
        .draws = step->draws,
        .seen = step->seen,
    };
    for (size_t i = 0; i < rows.count; i++) {
        if (i < r->running)
            fill_row(r, &r->slots[i], i);
        else
            fill_nothing(r, i);
    }
    r->counts.steps++;
    return dt_decoder_step(r->decoder, &rows, &r->options.sampling, step->drawn,
                           step->logps, err);
}

/* Appends the drawn tokens, and hands out what has ended. */
static int take_tokens(struct dt_rollout *r, const struct dt_rollout_io *io,
                       struct dt_error *err)
{
    const struct dt_step_arrays *step = &r->step;
    for (size_t i = 0; i < r->running; i++) {
        struct dt_sequence *s = &r->slots[i];
        struct dt_completion completion = {
            .prompt = s->prompt->number,
            .copy = s->copy,
            .ids = s->ids,
            .logps = s->logps,
        };
        s->has_ended = dt_sequence_append(r, s, step->drawn[i], step->logps[i],
                                          &completion.end);
        if (io->token)
            io->token(io->ctx, completion.prompt, s->copy, step->drawn[i]);
        completion.count = s->count;
        if (s->has_ended && io->done(io->ctx, &completion, err) < 0)
            return -1;
    }
    dt_rollout_remove_ended(r);
    return 0;
}

static int run_steps(struct dt_rollout *r, const struct dt_rollout_io *io,
                     struct dt_error *err)
{
    for (;;) {
        if (io->stop && io->stop())
            return 1;
        if (dt_rollout_admit(r, io, err) < 0)
            return -1;
        if (r->running == 0)
            break;
        dt_rollout_grow(r);
        if (draw_tokens(r, err) < 0 || take_tokens(r, io, err) < 0)
            return -1;
    }
    assert(!r->entries);
    return 0;
}

int dt_rollout_run(struct dt_rollout *r, const struct dt_rollout_io *io,
                   struct dt_error *err)
{
    int result = run_steps(r, io, err);
    dt_rollout_clear(r);
    return result;
}
