/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - forward passes of prompts and of next tokens, with a cache */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/decode.h"
#include "model/graphs.h"
#include "model/model_impl.h"

struct dt_decoder {
    struct dt_model *model;
    struct dt_decoder_options options;
    struct dt_cache cache;
    struct dt_graphs *graphs; /* of the logits of a number of rows */
    struct dt_view logits;    /* (rows, V) F32 */
    struct dt_view drawn;     /* (2, rows) of 4 bytes: ids, log-probabilities */
    void *staging;            /* as drawn */
};

size_t dt_decoder_most_blocks(const struct dt_decoder_options *options)
{
    return (options->length + DT_KV_BLOCK - 1) / DT_KV_BLOCK;
}

/* Words of a bit for each token. */
static size_t seen_words(const struct dt_model_config *config)
{
    return (config->vocab_size + 31) / 32;
}

static struct dt_model_options model_options(
    const struct dt_model_config *config,
    const struct dt_decoder_options *options, struct dt_buffer *memory)
{
    const size_t words = seen_words(config);
    return (struct dt_model_options){
        .B = 1,
        .T = options->tokens,
        .patches = options->patches,
        .pictures = options->pictures,
        .colors = options->colors,
        .compute = options->compute,
        .documents = true,
        .document = options->length,
        .exact_rows = true,
        .decode = options->length,
        .table = options->rows * dt_decoder_most_blocks(options),
        .draws = options->rows,
        .seen = options->penalty ? options->rows * words : 0,
        .adapter = options->adapter,
        .memory = memory,
    };
}

size_t dt_decoder_block_bytes(const struct dt_model_config *config,
                              enum dt_dtype compute)
{
    return config->n_layer * 2 * DT_KV_BLOCK * config->n_kv_head *
           config->head_size * dt_dtype_bytes(compute);
}

/* Places the tensors of d after those of its model, or only counts if memory is
 * NULL. Returns the bytes of both, SIZE_MAX if that overflows.
 */
static size_t place_views(struct dt_decoder *d,
                          const struct dt_model_config *config,
                          const struct dt_ops *ops,
                          const struct dt_decoder_options *options,
                          struct dt_buffer *memory)
{
    const struct dt_model_options model = model_options(config, options, NULL);
    const size_t rows = options->rows, V = config->vocab_size;
    const size_t block = dt_decoder_block_bytes(config, options->compute) /
                         dt_dtype_bytes(options->compute);
    struct dt_arena arena = {
        .buf = memory, .used = dt_model_memory_bytes(config, ops, &model)};
    d->logits = dt_arena_take(&arena, DT_F32, rows, V);
    d->drawn = dt_arena_take(&arena, DT_I32, 2 * rows, 1);
    d->cache.blocks = dt_decoder_most_blocks(options);
    d->cache.pool =
        dt_arena_take(&arena, options->compute, options->blocks, block);
    return arena.used;
}

size_t dt_decoder_bytes(const struct dt_model_config *config,
                        const struct dt_ops *ops,
                        const struct dt_decoder_options *options)
{
    struct dt_decoder none;
    return place_views(&none, config, ops, options, NULL);
}

size_t dt_decoder_own_bytes(const struct dt_model_config *config,
                            const struct dt_ops *ops,
                            const struct dt_decoder_options *options)
{
    const struct dt_model_options model = model_options(config, options, NULL);
    size_t all = dt_model_activation_bytes(config, ops, &model);
    return all == SIZE_MAX ? all
                           : all - dt_model_memory_bytes(config, ops, &model);
}

/* Bytes of drawn tokens and their log-probabilities. */
static size_t drawn_bytes(size_t rows)
{
    return rows * (sizeof(int32_t) + sizeof(float));
}

struct dt_decoder *dt_decoder_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights,
                                     struct dt_buffer *memory,
                                     const struct dt_decoder_options *options,
                                     struct dt_error *err)
{
    const struct dt_model_options model =
        model_options(config, options, memory);
    struct dt_decoder *d = calloc(1, sizeof(*d));
    if (!d) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    assert(options->rows <= options->tokens);
    d->options = *options;
    d->model = dt_model_create(config, layout, exec, weights,
                               (struct dt_places){0}, &model, err);
    if (!d->model) {
        free(d);
        return NULL;
    }
    d->model->cache = &d->cache;
    d->cache.words = seen_words(config);
    d->graphs = dt_graphs_create(exec, 1, err);
    if (!d->graphs || exec->device->allocate_staging(drawn_bytes(options->rows),
                                                     &d->staging, err) < 0) {
        dt_decoder_destroy(d);
        return NULL;
    }
    const size_t bytes = place_views(d, config, exec->ops, options, memory);
    if (bytes <= memory->bytes)
        return d;
    dt_error_set(err, EX_SOFTWARE,
                 "a decoder of %zu rows takes %zu bytes, but %zu bytes are "
                 "there: please report this",
                 options->rows, bytes, memory->bytes);
    dt_decoder_destroy(d);
    return NULL;
}

void dt_decoder_destroy(struct dt_decoder *d)
{
    if (!d)
        return;
    dt_graphs_destroy(d->graphs);
    if (d->staging)
        d->model->exec.device->release_staging(d->staging,
                                               drawn_bytes(d->options.rows));
    dt_model_destroy(d->model);
    free(d);
}

void dt_decoder_use(struct dt_decoder *d, struct dt_places weights)
{
    dt_graphs_forget(d->graphs);
    dt_model_use(d->model, weights);
}

/* Where attention tells no more, its tiles are taken to be of 64 keys, and to
 * begin where the window of 256 queries does.
 */
size_t dt_decoder_place(const struct dt_model_config *config,
                        const struct dt_ops *ops, size_t length, size_t used,
                        size_t count)
{
    const bool window = config->window > 0 && config->window < length;
    size_t tile = ops->key_tile > 0 ? ops->key_tile : window ? 256 : 64;
    size_t left = (tile - used % tile) % tile;
    return ops->key_tile > 0 && count <= left ? used : used + left;
}

/* Forward of all units except the last. */
static void forward_units(struct dt_decoder *d)
{
    const size_t last = d->model->first_unit + d->model->config.n_layer;
    for (size_t u = 0; u <= last; u++)
        dt_model_forward(d->model, u);
}

static void search_apart(const struct dt_decoder *d, bool apart)
{
    const struct dt_ops *ops = d->model->exec.ops;
    if (ops->search_apart)
        ops->search_apart(apart);
}

int dt_decoder_prefill(struct dt_decoder *d, const struct dt_prompt_rows *rows,
                       struct dt_error *err)
{
    const struct dt_batch batch = {
        .B = 1,
        .T = rows->count,
        .inputs = rows->ids,
        .doc_start = rows->doc_start,
        .pictures = rows->pictures,
        .picture_count = rows->picture_count,
        .pixels = rows->pixels,
    };
    d->cache.places = rows->places;
    d->cache.indices = d->cache.positions = d->cache.table = NULL;
    d->cache.draws = NULL;
    d->cache.seen = NULL;
    if (dt_model_bind(d->model, &batch, false, err) < 0)
        return -1;
    search_apart(d, true);
    forward_units(d);
    search_apart(d, false);
    return 0;
}

int32_t dt_decoder_shift(const struct dt_model_config *config,
                         const struct dt_batch_picture *pictures, size_t count)
{
    int32_t shift = 0;
    if (dt_rope_axes(config) == 1)
        return 0;
    for (size_t i = 0; i < count; i++)
        shift +=
            (int32_t)dt_picture_positions(&pictures[i], config->vision->merge) -
            (int32_t)pictures[i].tokens;
    return shift;
}

int dt_decoder_copy(struct dt_decoder *d, int32_t to, int32_t from,
                    struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    size_t bytes =
        dt_decoder_block_bytes(&d->model->config, d->options.compute);
    char *pool = dt_view_data(d->cache.pool);
    return exec->device->copy(exec->stream, pool + (size_t)to * bytes,
                              pool + (size_t)from * bytes, bytes, err);
}

/* The logits of the bound rows. */
static void forward_rows(void *ctx)
{
    struct dt_decoder *d = ctx;
    const size_t N = d->model->N, V = d->model->config.vocab_size;
    forward_units(d);
    dt_model_head(d->model, dt_view_slice(d->logits, 0, N * V), 0, N);
}

/* Uploads rows [first, first + count) of a step, and queues their logits. Units
 * of a tower, although it has no rows then, are not recorded.
 */
static int queue_rows(struct dt_decoder *d, const struct dt_step_rows *rows,
                      size_t first, size_t count, struct dt_error *err)
{
    const struct dt_batch batch = {
        .B = count, .T = 1, .inputs = rows->ids + first};
    const struct dt_graph_shape shape = {.B = count, .T = 1};
    struct dt_cache *cache = &d->cache;
    int rc = 0;
    cache->places = rows->places + first;
    cache->indices = rows->indices + first;
    cache->positions = rows->positions + first;
    cache->table = rows->table + first * cache->blocks;
    cache->draws = rows->draws + first;
    cache->seen = rows->seen ? rows->seen + first * cache->words : NULL;
    if (dt_model_bind(d->model, &batch, false, err) < 0)
        return -1;
    search_apart(d, true);
    if (d->model->config.vision)
        forward_rows(d);
    else
        rc = dt_graphs_run(d->graphs, &shape, 0, forward_rows, d, err);
    search_apart(d, false);
    return rc;
}

/* Queues the draws of these rows. */
static void draw_rows(struct dt_decoder *d, const struct dt_sampling *sampling,
                      size_t first, size_t count)
{
    const struct dt_inputs *inputs = &d->model->inputs;
    const size_t V = d->model->config.vocab_size;
    struct dt_view logps =
        dt_view_slice(d->drawn, d->options.rows + first, count);
    logps.dtype = DT_F32;
    d->model->ops->sample(d->model->stream,
                          dt_view_slice(d->drawn, first, count), logps,
                          dt_view_slice(d->logits, 0, count * V), inputs->draws,
                          inputs->seen, sampling, count, V);
}

/* As `sampling` says, without the placeholders of pictures: they have no
 * embedding of their own.
 */
static struct dt_sampling without_placeholders(
    const struct dt_sampling *sampling, const struct dt_model_config *config)
{
    const struct dt_vision_config *vision = config->vision;
    const int32_t ids[] = {vision ? vision->token : -1,
                           vision ? vision->video : -1};
    struct dt_sampling result = *sampling;
    result.never_count = 0;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] >= 0 && (size_t)ids[i] < config->vocab_size &&
            (i == 0 || ids[i] != ids[0]))
            result.never[result.never_count++] = ids[i];
    return result;
}

/* Goes by as many rows as can be computed together without changing a row's
 * bits; on a GPU these are all. One copy brings the drawn tokens.
 */
int dt_decoder_step(struct dt_decoder *d, const struct dt_step_rows *rows,
                    const struct dt_sampling *sampling, int32_t *ids,
                    float *logps, struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    const struct dt_sampling drawn =
        without_placeholders(sampling, &d->model->config);
    const size_t n = rows->count;
    const size_t most = exec->ops->some_rows > 0 ? exec->ops->some_rows : n;
    const int32_t *staging = d->staging;
    if (n > d->options.rows)
        return dt_error_set(err, EX_SOFTWARE,
                            "a step decodes %zu rows, but there is memory for "
                            "%zu: please report this",
                            n, d->options.rows);
    for (size_t first = 0; first < n; first += most) {
        const size_t count = n - first < most ? n - first : most;
        if (queue_rows(d, rows, first, count, err) < 0)
            return -1;
        draw_rows(d, &drawn, first, count);
    }
    if (exec->device->copy(exec->stream, d->staging, dt_view_data(d->drawn),
                           drawn_bytes(d->options.rows), err) < 0 ||
        exec->device->stream_wait(exec->stream, err) < 0)
        return -1;
    memcpy(ids, staging, n * sizeof(*ids));
    memcpy(logps, staging + d->options.rows, n * sizeof(*logps));
    return 0;
}
