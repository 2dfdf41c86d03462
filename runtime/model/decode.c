/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - forward passes of prompts and of next tokens, with a cache */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "model/decode.h"
#include "model/model_impl.h"

struct dt_decoder {
    struct dt_model *model;
    struct dt_decoder_options options;
    struct dt_cache cache;
    struct dt_view logits;     /* (rows, V) F32 */
    struct dt_view draws;      /* (rows) F64 */
    struct dt_view seen;       /* (rows, V / 32) I32, or absent */
    struct dt_view ids, logps; /* (rows) I32, F32 */
};

size_t dt_decoder_most_blocks(const struct dt_decoder_options *options)
{
    return (options->length + DT_KV_BLOCK - 1) / DT_KV_BLOCK;
}

static struct dt_model_options model_options(
    const struct dt_decoder_options *options, struct dt_buffer *memory)
{
    return (struct dt_model_options){
        .B = 1,
        .T = options->tokens,
        .patches = options->patches,
        .pictures = options->pictures,
        .colors = options->colors,
        .compute = options->compute,
        .documents = true,
        .exact_rows = true,
        .decode = options->length,
        .table = options->rows * dt_decoder_most_blocks(options),
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
    const struct dt_model_options model = model_options(options, NULL);
    const size_t rows = options->rows, V = config->vocab_size;
    const size_t block = dt_decoder_block_bytes(config, options->compute) /
                         dt_dtype_bytes(options->compute);
    struct dt_arena arena = {
        .buf = memory, .used = dt_model_memory_bytes(config, ops, &model)};
    d->logits = dt_arena_take(&arena, DT_F32, rows, V);
    d->draws = dt_arena_take(&arena, DT_F64, rows, 1);
    d->seen = dt_arena_take(&arena, DT_I32, rows,
                            options->penalty ? (V + 31) / 32 : 0);
    d->ids = dt_arena_take(&arena, DT_I32, rows, 1);
    d->logps = dt_arena_take(&arena, DT_F32, rows, 1);
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
    const struct dt_model_options model = model_options(options, NULL);
    size_t all = dt_model_activation_bytes(config, ops, &model);
    return all == SIZE_MAX ? all
                           : all - dt_model_memory_bytes(config, ops, &model);
}

struct dt_decoder *dt_decoder_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights,
                                     struct dt_buffer *memory,
                                     const struct dt_decoder_options *options,
                                     struct dt_error *err)
{
    const struct dt_model_options model = model_options(options, memory);
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
    dt_model_destroy(d->model);
    free(d);
}

void dt_decoder_use(struct dt_decoder *d, struct dt_places weights)
{
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
static int forward_batch(struct dt_decoder *d, const struct dt_batch *batch,
                         struct dt_error *err)
{
    if (dt_model_bind(d->model, batch, false, err) < 0)
        return -1;
    const size_t last = d->model->first_unit + d->model->config.n_layer;
    for (size_t u = 0; u <= last; u++)
        dt_model_forward(d->model, u);
    return 0;
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
    return forward_batch(d, &batch, err);
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

/* Copies the first `count` elements from the host. */
static int upload(struct dt_decoder *d, struct dt_view to, const void *from,
                  size_t count, struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    if (count == 0)
        return 0;
    return exec->device->copy(exec->stream, dt_view_data(to), from,
                              count * dt_dtype_bytes(to.dtype), err);
}

/* The first `count` elements to the host. */
static int download(struct dt_decoder *d, void *to, struct dt_view from,
                    size_t count, struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    return exec->device->copy(exec->stream, to, dt_view_data(from),
                              count * dt_dtype_bytes(from.dtype), err);
}

/* Queues the logits of rows [first, first + count) of a step. */
static int forward_rows(struct dt_decoder *d, const struct dt_step_rows *rows,
                        size_t first, size_t count, struct dt_error *err)
{
    const struct dt_batch batch = {
        .B = count, .T = 1, .inputs = rows->ids + first};
    const size_t V = d->model->config.vocab_size;
    d->cache.places = rows->places + first;
    d->cache.indices = rows->indices + first;
    d->cache.positions = rows->positions + first;
    d->cache.table = rows->table + first * d->cache.blocks;
    if (forward_batch(d, &batch, err) < 0)
        return -1;
    dt_model_head(d->model, dt_view_slice(d->logits, first * V, count * V), 0,
                  count);
    return 0;
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

int dt_decoder_step(struct dt_decoder *d, const struct dt_step_rows *rows,
                    const struct dt_sampling *sampling, int32_t *ids,
                    float *logps, struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    const struct dt_sampling drawn =
        without_placeholders(sampling, &d->model->config);
    size_t n = rows->count, V = d->model->config.vocab_size;
    size_t words = rows->seen ? n * ((V + 31) / 32) : 0;
    size_t most = exec->ops->some_rows > 0 ? exec->ops->some_rows : n;
    if (n > d->options.rows)
        return dt_error_set(err, EX_SOFTWARE,
                            "a step decodes %zu rows, but there is memory for "
                            "%zu: please report this",
                            n, d->options.rows);
    /* as many rows as can be computed together without changing a row's bits
     */
    for (size_t first = 0; first < n; first += most)
        if (forward_rows(d, rows, first, n - first < most ? n - first : most,
                         err) < 0)
            return -1;
    if (upload(d, d->draws, rows->draws, n, err) < 0 ||
        upload(d, d->seen, rows->seen, words, err) < 0)
        return -1;
    exec->ops->sample(exec->stream, dt_view_slice(d->ids, 0, n),
                      dt_view_slice(d->logps, 0, n),
                      dt_view_slice(d->logits, 0, n * V),
                      dt_view_slice(d->draws, 0, n),
                      dt_view_slice(d->seen, 0, words), &drawn, n, V);
    if (download(d, ids, d->ids, n, err) < 0 ||
        download(d, logps, d->logps, n, err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}
