/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.c - sequences that are generated token by token, with a cache
 *
 * Every row has its own length: prompts are stored without their padding, so
 * the position of a token is its slot in the cache.
 */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model/transformer.h"

/* Tokens of prompts that are computed at a time, if they are more than one
 * prompt: enough for matrix multiplications at full speed.
 */
enum { PROMPT_TOKENS = 2048 };

struct dt_decoder {
    struct dt_model *model;
    struct dt_buffer *buf;        /* keys and values */
    struct dt_buffer *logits_buf; /* (rows, V) F32 */
    struct dt_cache cache;
    size_t *lengths; /* (rows) */
    size_t tokens;   /* most of a batch */
    int32_t *ids;    /* (tokens) of the current batch */
    int32_t *slots;  /* (tokens) its cache.slots */
};

/* Bytes of keys and values; SIZE_MAX if that overflows. */
static size_t cache_bytes(const struct dt_model_config *config,
                          enum dt_dtype dtype, size_t rows, size_t length)
{
    size_t bytes = 2 * dt_dtype_bytes(dtype) * config->n_layer *
                   config->n_kv_head * config->head_size;
    if (__builtin_mul_overflow(bytes, rows, &bytes) ||
        __builtin_mul_overflow(bytes, length, &bytes))
        return SIZE_MAX;
    return bytes;
}

static int allocate_cache(struct dt_decoder *d,
                          const struct dt_model_config *config,
                          enum dt_dtype dtype, struct dt_error *err)
{
    const struct dt_device *device = d->model->exec.device;
    d->buf = dt_buffer_create(
        device, cache_bytes(config, dtype, d->cache.rows, d->cache.S),
        "keys and values", err);
    d->logits_buf = dt_buffer_create(
        device, d->cache.rows * config->vocab_size * sizeof(float), "logits",
        err);
    if (!d->buf || !d->logits_buf)
        return -1;
    struct dt_view all = dt_view_of(d->buf, dtype);
    d->cache.k = dt_view_slice(all, 0, all.count / 2);
    d->cache.v = dt_view_slice(all, all.count / 2, all.count / 2);
    d->lengths = calloc(d->cache.rows, sizeof(*d->lengths));
    d->ids = calloc(d->tokens, sizeof(*d->ids));
    d->slots = calloc(d->tokens, sizeof(*d->slots));
    d->cache.slots = d->slots;
    if (!d->lengths || !d->ids || !d->slots)
        return dt_error_set(err, EX_OSERR, "out of memory");
    return 0;
}

/* Rows of a batch of prompts of `length` tokens; with one token each, all rows
 * are a batch.
 */
static size_t batch_rows(size_t rows, size_t length)
{
    size_t many = PROMPT_TOKENS / length, least = (rows + length - 1) / length;
    size_t some = many < rows ? many : rows;
    return some > least ? some : least;
}

struct dt_decoder *dt_decoder_create(const struct dt_model_config *config,
                                     const struct dt_layout *layout,
                                     const struct dt_exec *exec,
                                     struct dt_places weights, size_t rows,
                                     size_t length, struct dt_error *err)
{
    const enum dt_dtype compute = dt_places_dtype(&weights);
    const struct dt_model_options options = {
        .B = batch_rows(rows, length), .T = length, .compute = compute};
    struct dt_decoder *d = calloc(1, sizeof(*d));
    if (!d) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    if (length > config->n_positions) {
        dt_error_set(err, EX_USAGE,
                     "%zu tokens do not fit into the %zu positions of the "
                     "model",
                     length, config->n_positions);
        goto error;
    }
    *d = (struct dt_decoder){
        .cache = {.rows = rows, .S = length},
        .tokens = options.B * options.T,
    };
    d->model = dt_model_create(config, layout, exec, weights,
                               (struct dt_places){0}, &options, err);
    if (!d->model || allocate_cache(d, config, compute, err) < 0)
        goto error;
    d->model->cache = &d->cache;
    return d;
error:
    dt_decoder_destroy(d);
    return NULL;
}

void dt_decoder_destroy(struct dt_decoder *d)
{
    if (!d)
        return;
    dt_model_destroy(d->model);
    dt_buffer_destroy(d->buf);
    dt_buffer_destroy(d->logits_buf);
    free(d->lengths);
    free(d->ids);
    free(d->slots);
    free(d);
}

/* Forward of all units except the last for B x T tokens in d->ids. */
static int forward_batch(struct dt_decoder *d, size_t B, size_t T,
                         struct dt_error *err)
{
    const struct dt_batch batch = {.B = B, .T = T, .inputs = d->ids};
    assert(B * T <= d->tokens);
    if (dt_model_bind(d->model, &batch, false, err) < 0)
        return -1;
    for (size_t u = 0; u <= d->model->config.n_layer; u++)
        dt_model_forward(d->model, u);
    return 0;
}

/* Copies all logits to the host. */
static int copy_logits(struct dt_decoder *d, float *logits,
                       struct dt_error *err)
{
    const struct dt_exec *exec = &d->model->exec;
    if (exec->device->copy(exec->stream, logits, d->logits_buf->data,
                           d->logits_buf->bytes, err) < 0)
        return -1;
    return exec->device->stream_wait(exec->stream, err);
}

int dt_decoder_begin(struct dt_decoder *d, const int32_t *ids,
                     const size_t *counts, size_t T, float *logits,
                     struct dt_error *err)
{
    size_t V = d->model->config.vocab_size, rows = d->cache.rows;
    size_t some = d->tokens / T < rows ? d->tokens / T : rows;
    struct dt_view all = dt_view_of(d->logits_buf, DT_F32);
    assert(T <= d->cache.S);
    d->cache.next = false;
    for (size_t first = 0; first < rows; first += some) {
        size_t B = some < rows - first ? some : rows - first;
        for (size_t i = 0; i < B * T; i++) {
            bool padding = i % T >= counts[first + i / T];
            d->ids[i] = padding ? 0 : ids[first * T + i];
            d->slots[i] = padding ? -1 : (int32_t)(i % T);
        }
        d->cache.first = first;
        if (forward_batch(d, B, T, err) < 0)
            return -1;
        for (size_t b = 0; b < B; b++) {
            size_t count = d->lengths[first + b] = counts[first + b];
            dt_model_head(d->model, dt_view_slice(all, (first + b) * V, V),
                          b * T + count - 1, 1);
        }
    }
    return copy_logits(d, logits, err);
}

int dt_decoder_next(struct dt_decoder *d, const int32_t *ids, float *logits,
                    struct dt_error *err)
{
    size_t rows = d->cache.rows;
    for (size_t b = 0; b < rows; b++) {
        bool ended = ids[b] < 0;
        assert(ended || d->lengths[b] < d->cache.S);
        d->ids[b] = ended ? 0 : ids[b];
        d->slots[b] = ended ? -1 : (int32_t)d->lengths[b]++;
    }
    d->cache.first = 0;
    d->cache.next = true;
    if (forward_batch(d, rows, 1, err) < 0)
        return -1;
    dt_model_head(d->model, dt_view_of(d->logits_buf, DT_F32), 0, rows);
    return copy_logits(d, logits, err);
}
