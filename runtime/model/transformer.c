/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c - a model unit by unit: embedding, blocks, head and loss */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "model/rope.h"
#include "model/transformer.h"

size_t dt_model_activation_bytes(const struct dt_model_config *config,
                                 const struct dt_ops *ops,
                                 const struct dt_model_options *options)
{
    const struct dt_acts_for plan = {config, ops, options, options->B,
                                     options->T};
    struct dt_acts acts;
    return dt_acts_plan(&acts, NULL, NULL, &plan);
}

/* Lays the activations out for a batch, at most as large as created. */
static void lay_out(struct dt_model *m, size_t B, size_t T)
{
    const struct dt_acts_for plan = {&m->config, m->ops, &m->options, B, T};
    size_t bytes = dt_acts_plan(&m->acts, m->blocks, m->buf, &plan);
    assert(bytes <= m->buf->bytes && T <= m->options.T);
    (void)bytes;
}

struct dt_model *dt_model_create(const struct dt_model_config *config,
                                 const struct dt_layout *layout,
                                 const struct dt_ops *ops,
                                 struct dt_view weights, struct dt_view grads,
                                 const struct dt_model_options *options,
                                 struct dt_error *err)
{
    size_t bytes = dt_model_activation_bytes(config, ops, options);
    struct dt_model *m = calloc(1, sizeof(*m));
    struct dt_block *blocks = calloc(config->n_layer, sizeof(*blocks));
    if (!m || !blocks) {
        dt_error_set(err, EX_OSERR, "out of memory");
        goto error;
    }
    *m = (struct dt_model){.config = *config,
                           .options = *options,
                           .layout = layout,
                           .ops = ops,
                           .weights = weights,
                           .grads = grads,
                           .blocks = blocks};
    m->config.text = NULL;
    dt_params_find(config, m->roles);
    m->buf = dt_buffer_create(bytes, "activations", err);
    if (!m->buf)
        goto error;
    lay_out(m, options->B, options->T);
    if (m->acts.rope.count > 0)
        dt_rope_table(config, dt_view_f32(m->acts.rope), options->T);
    return m;
error:
    free(blocks);
    free(m);
    return NULL;
}

void dt_model_destroy(struct dt_model *m)
{
    if (!m)
        return;
    dt_buffer_destroy(m->buf);
    free(m->blocks);
    free(m);
}

struct dt_view dt_host_view(struct dt_buffer *buf, const void *data,
                            size_t count, enum dt_dtype dtype)
{
    *buf = (struct dt_buffer){(void *)(uintptr_t)data,
                              data ? count * dt_dtype_bytes(dtype) : 0};
    return dt_view_of(buf, dtype);
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
        .rows = m->rows,
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

/* Positions count from the start of a document. A sequence that is continued
 * has one in its cache, or has ended.
 */
static void set_positions(struct dt_model *m, const struct dt_batch *batch)
{
    int32_t *positions = dt_view_i32(m->acts.positions);
    for (size_t n = 0; n < m->N; n++) {
        int32_t t = (int32_t)(n % m->T);
        if (m->cache && m->cache->next)
            t = dt_view_i32(m->cache->places)[n];
        else if (batch->starts)
            t -= batch->starts[n];
        positions[n] = t > 0 ? t : 0;
        assert((size_t)positions[n] < m->config.n_positions);
    }
}

static void bind_batch(struct dt_model *m, const struct dt_batch *batch,
                       bool train)
{
    lay_out(m, batch->B, batch->T);
    m->B = batch->B;
    m->T = batch->T;
    m->N = batch->B * batch->T;
    m->train = train;
    m->starts = dt_host_view(&m->starts_buf, batch->starts, m->N, DT_I32);
    m->rows = dt_host_view(&m->rows_buf, batch->rows, m->B, DT_I64);
    set_positions(m, batch);
}

static void embedding_forward(struct dt_model *m, const struct dt_batch *batch)
{
    struct dt_buffer buf;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    m->ops->embedding_forward(
        NULL, m->blocks[0].x, dt_host_view(&buf, batch->inputs, m->N, DT_I32),
        m->acts.positions, dt_model_weight(m, 0, DT_WTE),
        dt_model_weight(m, 0, DT_WPE), m->N, m->config.n_embd, &dropout);
}

void dt_model_forward(struct dt_model *m, size_t u,
                      const struct dt_batch *batch, bool train)
{
    if (u == 0) {
        bind_batch(m, batch, train);
        embedding_forward(m, batch);
    } else {
        dt_block_forward(m, u);
    }
}

/* The stream at the top and its norm, for `count` rows from `first`. */
static void final_norm(struct dt_model *m, size_t first, size_t count)
{
    size_t L = m->config.n_layer;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.resid_dropout, L, DT_PLACE_MLP_BRANCH);
    dt_norm_add_forward(m, L + 1, DT_NORM_F_W, m->acts.top,
                        m->blocks[L - 1].x_mid, first, count, &dropout);
}

void dt_model_head(struct dt_model *m, struct dt_view logits, size_t first,
                   size_t count)
{
    size_t C = m->config.n_embd;
    assert(!m->train || !m->options.dropout);
    final_norm(m, first, count);
    m->ops->linear_forward(
        NULL, logits, dt_view_slice(m->acts.norm.out, first * C, count * C),
        dt_model_weight(m, head_unit(m), head_role(m)), (struct dt_view){0},
        DT_WEIGHT_OUT_IN, count, C, m->config.vocab_size);
}

void dt_model_logits(struct dt_model *m, size_t b, size_t t, float *logits)
{
    struct dt_buffer buf;
    dt_model_head(m, dt_host_view(&buf, logits, m->config.vocab_size, DT_F32),
                  b * m->T + t, 1);
}

/* --- backward --- */

double dt_model_loss(struct dt_model *m, const struct dt_batch *batch,
                     bool train, float scale, bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    struct dt_view none = {0};
    struct dt_buffer buf;

    final_norm(m, 0, m->N);
    double loss = m->ops->linear_cross_entropy(
        NULL, train ? a->branch : none,
        train ? dt_model_grad(m, head_unit(m), head_role(m)) : none,
        a->norm.out, dt_model_weight(m, head_unit(m), head_role(m)),
        dt_host_view(&buf, batch->targets, m->N, DT_I32), a->logits, scale,
        train ? m->options.label_smoothing : 0.0f, m->N, m->config.n_embd,
        m->config.vocab_size, accumulate);
    if (train) {
        m->ops->zero(NULL, a->d_stream);
        dt_norm_backward(m, m->config.n_layer + 1, DT_NORM_F_W, a->top,
                         accumulate);
    }
    return loss;
}

/* The lookup always adds: with a tied head wte has the head's share already. */
static void embedding_backward(struct dt_model *m, const struct dt_batch *batch,
                               bool accumulate)
{
    struct dt_view d_stream = m->acts.d_stream;
    struct dt_view dwte = dt_model_grad(m, 0, DT_WTE);
    struct dt_buffer buf;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    if (dropout.rate > 0)
        m->ops->dropout_backward(NULL, d_stream, d_stream, m->N,
                                 m->config.n_embd, &dropout);
    if (!m->config.tie_word_embeddings && !accumulate)
        m->ops->zero(NULL, dwte);
    m->ops->embedding_backward(
        NULL, dwte, dt_model_grad(m, 0, DT_WPE), d_stream,
        dt_host_view(&buf, batch->inputs, m->N, DT_I32), m->acts.positions,
        m->N, m->config.n_embd, accumulate);
}

void dt_model_backward(struct dt_model *m, size_t u,
                       const struct dt_batch *batch, bool accumulate)
{
    if (u == 0)
        embedding_backward(m, batch, accumulate);
    else
        dt_block_backward(m, u, accumulate);
}
