/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c - a model unit by unit: embedding, blocks, head and loss */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "model/rope_table.h"
#include "model/transformer.h"

size_t dt_model_activation_bytes(const struct dt_model_config *config,
                                 const struct dt_ops *ops,
                                 const struct dt_model_options *options)
{
    const struct dt_acts_for plan = {config, ops, options, options->B,
                                     options->T};
    struct dt_acts acts;
    size_t bytes = dt_acts_plan(&acts, NULL, NULL, &plan);
    size_t N = options->B * options->T; /* a plan of all that overflows fails */
    if (bytes == SIZE_MAX ||
        __builtin_add_overflow(bytes, dt_feed_bytes(options->B, N), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Lays the activations out for a batch, at most as large as created. */
static void lay_out(struct dt_model *m, size_t B, size_t T)
{
    const struct dt_acts_for plan = {&m->config, m->ops, &m->options, B, T};
    size_t bytes = dt_acts_plan(&m->acts, m->blocks, m->buf, &plan);
    assert(bytes <= m->buf->bytes && T <= m->options.T);
    (void)bytes;
}

/* The table of rotary embeddings, made here and copied. */
static int upload_rope(struct dt_model *m, struct dt_error *err)
{
    struct dt_view to = m->acts.rope;
    if (to.count == 0)
        return 0;
    float *table = malloc(to.count * sizeof(*table));
    if (!table)
        return dt_error_set(err, EX_OSERR, "out of memory");
    dt_rope_table(&m->config, table, m->options.T);
    int result = m->exec.device->copy(m->stream, dt_view_data(to), table,
                                      to.count * sizeof(*table), err);
    free(table);
    return result;
}

static int allocate(struct dt_model *m, struct dt_error *err)
{
    const struct dt_model_options *options = &m->options;
    const struct dt_acts_for plan = {&m->config, m->ops, options, options->B,
                                     options->T};
    size_t bytes = dt_acts_plan(&m->acts, NULL, NULL, &plan);
    if (dt_feed_init(&m->feed, &m->exec, options->B, options->B * options->T,
                     err) < 0)
        return -1;
    m->buf = dt_buffer_create(m->exec.device, bytes, "activations", err);
    if (!m->buf)
        return -1;
    lay_out(m, options->B, options->T);
    return upload_rope(m, err);
}

struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 struct dt_view weights, struct dt_view grads,
                                 const struct dt_model_options *options,
                                 struct dt_error *err)
{
    struct dt_model *m = calloc(1, sizeof(*m));
    struct dt_block *blocks = calloc(config->n_layer, sizeof(*blocks));
    if (!m || !blocks) {
        dt_error_set(err, EX_OSERR, "out of memory");
        free(blocks);
        free(m);
        return NULL;
    }
    *m = (struct dt_model){.config = *config,
                           .options = *options,
                           .layout = layout,
                           .exec = *exec,
                           .ops = exec->ops,
                           .stream = exec->stream,
                           .weights = weights,
                           .grads = grads,
                           .blocks = blocks};
    m->config.text = NULL;
    dt_params_find(config, m->roles);
    if (allocate(m, err) < 0) {
        dt_model_destroy(m);
        return NULL;
    }
    return m;
}

void dt_model_destroy(struct dt_model *m)
{
    if (!m)
        return;
    dt_feed_fini(&m->feed);
    dt_buffer_destroy(m->buf);
    free(m->blocks);
    free(m);
}

struct dt_view dt_model_weight(const struct dt_model *m, size_t u,
                               enum dt_role role)
{
    return dt_params_view(m->layout, m->weights, u, m->roles[role]);
}

struct dt_view dt_model_grad(const struct dt_model *m, size_t u,
                             enum dt_role role)
{
    return dt_params_view(m->layout, m->grads, u, m->roles[role]);
}

struct dt_dropout dt_model_dropout(const struct dt_model *m, double rate,
                                   size_t u, enum dt_place place)
{
    bool on = m->train && m->options.dropout;
    return (struct dt_dropout){
        .rate = on ? rate : 0,
        .seed = m->options.seed,
        .place = u > 0 ? (uint32_t)(3 * (u - 1)) + place : place,
        .rows = m->feed.rows,
    };
}

/* The unit that has the matrix of the head, and its role there. */
static size_t head_unit(const struct dt_model *m)
{
    return m->config.tie_word_embeddings ? 0 : m->config.n_layer + 1;
}

static enum dt_role head_role(const struct dt_model *m)
{
    return m->config.tie_word_embeddings ? DT_WTE : DT_HEAD;
}

/* --- forward --- */

int dt_model_bind(struct dt_model *m, const struct dt_batch *batch, bool train,
                  struct dt_error *err)
{
    const struct dt_cache *cache = m->cache;
    lay_out(m, batch->B, batch->T);
    m->B = batch->B;
    m->T = batch->T;
    m->N = batch->B * batch->T;
    m->train = train;
    return dt_feed_batch(&m->feed, batch, cache ? cache->places : NULL,
                         cache && cache->next, err);
}

static void embedding_forward(struct dt_model *m)
{
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    m->ops->embedding_forward(m->stream, m->blocks[0].x, m->feed.inputs,
                              m->feed.positions, dt_model_weight(m, 0, DT_WTE),
                              dt_model_weight(m, 0, DT_WPE), m->N,
                              m->config.n_embd, &dropout);
}

void dt_model_forward(struct dt_model *m, size_t u)
{
    if (u == 0)
        embedding_forward(m);
    else
        dt_block_forward(m, u);
}

/* The stream at the top and its norm, for `count` rows from `first`. */
static void final_norm(struct dt_model *m, size_t first, size_t count)
{
    size_t L = m->config.n_layer;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.resid_dropout, L, DT_PLACE_MLP_BRANCH);
    dt_norm_add_forward(m, L + 1, DT_NORM_F_W, &m->acts.norm, m->acts.top,
                        m->blocks[L - 1].x_mid, first, count, &dropout);
}

void dt_model_head(struct dt_model *m, struct dt_view logits, size_t first,
                   size_t count)
{
    size_t C = m->config.n_embd;
    assert(!m->train || !m->options.dropout);
    final_norm(m, first, count);
    m->ops->linear_forward(
        m->stream, logits,
        dt_view_slice(m->acts.norm.out, first * C, count * C),
        dt_model_weight(m, head_unit(m), head_role(m)), (struct dt_view){0},
        DT_WEIGHT_OUT_IN, count, C, m->config.vocab_size);
}

int dt_model_logits(struct dt_model *m, size_t b, size_t t, float *logits,
                    struct dt_error *err)
{
    const struct dt_device *device = m->exec.device;
    size_t V = m->config.vocab_size;
    struct dt_view row = dt_view_slice(m->acts.logits, 0, V);
    dt_model_head(m, row, b * m->T + t, 1);
    if (device->copy(m->stream, logits, dt_view_data(row), V * sizeof(*logits),
                     err) < 0)
        return -1;
    return device->stream_wait(m->stream, err);
}

/* --- backward --- */

void dt_model_loss(struct dt_model *m, struct dt_view step, bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    struct dt_view dw = {0}, dx = {0};
    if (m->train) {
        dx = a->branch;
        dw = dt_model_grad(m, head_unit(m), head_role(m));
    }
    final_norm(m, 0, m->N);
    m->ops->linear_cross_entropy(
        m->stream, step, dx, dw, a->norm.out,
        dt_model_weight(m, head_unit(m), head_role(m)), m->feed.targets,
        a->logits, m->train ? m->options.label_smoothing : 0.0f, m->N,
        m->config.n_embd, m->config.vocab_size, accumulate);
    if (m->train) {
        m->ops->zero(m->stream, a->d_stream);
        dt_norm_backward(m, m->config.n_layer + 1, DT_NORM_F_W, &a->norm,
                         a->top, accumulate);
    }
}

/* The lookup always adds: with a tied head wte has the head's share already. */
static void embedding_backward(struct dt_model *m, bool accumulate)
{
    struct dt_view d_stream = m->acts.d_stream;
    struct dt_view dwte = dt_model_grad(m, 0, DT_WTE);
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    if (dropout.rate > 0)
        m->ops->dropout_backward(m->stream, d_stream, d_stream, m->N,
                                 m->config.n_embd, &dropout);
    if (!m->config.tie_word_embeddings && !accumulate)
        m->ops->zero(m->stream, dwte);
    m->ops->embedding_backward(m->stream, dwte, dt_model_grad(m, 0, DT_WPE),
                               d_stream, m->feed.inputs, m->feed.positions,
                               m->N, m->config.n_embd, accumulate);
}

void dt_model_backward(struct dt_model *m, size_t u, bool accumulate)
{
    if (u == 0)
        embedding_backward(m, accumulate);
    else
        dt_block_backward(m, u, accumulate);
}
