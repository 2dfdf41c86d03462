/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c - the units of a model: embedding, blocks, head and loss */
#include "config.h"

#include <assert.h>

#include "model/model.h"
#include "model/model_impl.h"

static const struct dt_view NONE;

size_t dt_score_token(const int32_t *ids, size_t count, int32_t pad)
{
    size_t t = count - 1;
    while (t > 0 && ids[t] == pad)
        t--;
    return t;
}

void dt_score_forward(const struct dt_exec *exec, const struct dt_score *s,
                      struct dt_view scores)
{
    const struct dt_dropout dropout = {0};

    exec->ops->embedding_forward(exec->stream, s->h, s->rows, NONE, s->x, NONE,
                                 s->M, s->C, &dropout);
    for (size_t m = 0, rows; m < s->M; m += rows) {
        rows = dt_ops_exact_rows(exec->ops, s->h.dtype, s->M - m);
        exec->ops->linear_forward(exec->stream, dt_view_slice(scores, m, rows),
                                  dt_view_slice(s->h, m * s->C, rows * s->C),
                                  s->w, NONE, DT_WEIGHT_OUT_IN, rows, s->C, 1);
    }
}

void dt_score_backward(const struct dt_exec *exec, const struct dt_score *s,
                       struct dt_view dx, struct dt_view dw,
                       struct dt_view dscores, struct dt_view workspace,
                       bool accumulate)
{
    const struct dt_view dh = dt_view_slice(workspace, 0, s->M * s->C);
    const struct dt_view dout = dt_view_slice(workspace, dh.count, s->M);

    exec->ops->convert(exec->stream, dout, dscores);
    exec->ops->linear_backward(exec->stream, dh, dw, NONE, dout, s->h, s->w,
                               DT_WEIGHT_OUT_IN, s->M, s->C, 1, accumulate);
    exec->ops->scatter_rows(exec->stream, dx, dh, s->rows, s->N, s->C, s->M);
}

/* The unit that owns the matrix of the head, and its role there. */
static size_t head_unit(const struct dt_model *m)
{
    return dt_model_tied(&m->config) ? 0 : m->config.n_layer + 1;
}

static enum dt_role head_role(const struct dt_model *m)
{
    return dt_model_tied(&m->config) ? DT_WTE : DT_HEAD;
}

/* x = factor x */
static void scale(const struct dt_model *m, struct dt_view x, float factor)
{
    if (factor != 1.0f)
        m->ops->combine(m->stream, x, x, factor, (struct dt_view){0}, 0.0f);
}

static struct dt_logit_rule rule_of(const struct dt_model *m, float temperature)
{
    return (struct dt_logit_rule){
        .scale = m->scales.logits,
        .softcap = (float)m->config.logits_softcap,
        .temperature = temperature,
    };
}

/* --- forward --- */

static void embedding_forward(struct dt_model *m)
{
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    m->ops->embedding_forward(
        m->stream, m->blocks[0].x, m->inputs.ids, m->inputs.positions,
        dt_model_weight(m, 0, DT_WTE), dt_model_weight(m, 0, DT_WPE), m->N,
        m->config.n_embd, &dropout);
    if (!m->tower) {
        scale(m, m->blocks[0].x, m->scales.embedding);
        return;
    }
    const bool after = m->scales.features;
    scale(m, m->blocks[0].x, after ? 1.0f : m->scales.embedding);
    dt_tower_add_features(m->tower, 0, m->blocks[0].x, m->N);
    scale(m, m->blocks[0].x, after ? m->scales.embedding : 1.0f);
}

static void block_forward(struct dt_model *m, size_t u)
{
    dt_block_forward(m, u, false);
    if (m->tower)
        dt_tower_add_features(m->tower, u, dt_block_last(m, u), m->N);
}

void dt_model_forward(struct dt_model *m, size_t u)
{
    if (u < m->kept)
        return;
    if (u < m->first_unit)
        dt_tower_forward(m->tower, u);
    else if (u == m->first_unit)
        embedding_forward(m);
    else
        block_forward(m, u - m->first_unit);
}

/* The output of the last block and its norm, for `count` rows from `first`. */
static void final_norm(struct dt_model *m, size_t first, size_t count)
{
    size_t L = m->config.n_layer;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.resid_dropout, L, DT_PLACE_MLP_BRANCH);
    dt_residual_norm_forward(m, L + 1, DT_NORM_F_W, &m->acts.norm, m->acts.top,
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
    const struct dt_logit_rule rule = rule_of(m, 1.0f);
    if (rule.scale != 1.0f || rule.softcap > 0.0f)
        m->ops->apply_logit_rule(m->stream, logits, &rule);
}

/* --- backward --- */

void dt_model_loss_and_backward(struct dt_model *m, struct dt_view step,
                                bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    const struct dt_logit_rule rule = rule_of(m, 1.0f);
    struct dt_view dw = {0}, dx = {0};
    if (m->train) {
        dx = a->branch;
        dw = dt_model_grad(m, head_unit(m), head_role(m));
    }
    final_norm(m, 0, m->N);
    m->ops->linear_cross_entropy(
        m->stream, step, dx, dw, a->norm.out,
        dt_model_weight(m, head_unit(m), head_role(m)), m->inputs.targets,
        a->logits, &rule, m->options.label_smoothing, m->N, m->config.n_embd,
        m->config.vocab_size, accumulate);
    if (m->train) {
        m->ops->zero(m->stream, a->d_stream);
        dt_norm_backward(m, m->config.n_layer + 1, DT_NORM_F_W, &a->norm,
                         a->top, accumulate);
    }
}

/* --- values of picked tokens --- */

struct dt_values dt_model_values(const struct dt_model *m)
{
    size_t count = m->inputs.picked.count;
    struct dt_values values = {
        .value = dt_view_slice(m->acts.value, 0, count),
        .weight = dt_view_slice(m->acts.weight, 0, count),
    };
    if (m->options.collisions)
        values.collision = dt_view_slice(m->acts.collision, 0, count);
    if (m->options.entropies || m->options.logits)
        values.entropy = dt_view_slice(m->acts.entropy, 0, count);
    if (m->options.entropies)
        values.entropy_weight = dt_view_slice(m->acts.entropy_weight, 0, count);
    if (m->options.logits) {
        values.mean = dt_view_slice(m->acts.mean, 0, count);
        values.top = dt_view_slice(m->acts.likeliest, 0, count);
    }
    if (m->config.value_head) {
        values.score = dt_view_slice(m->acts.score, 0, count);
        values.score_weight = dt_view_slice(m->acts.score_weight, 0, count);
    }
    return values;
}

static struct dt_logit_rule sampling_rule_of(const struct dt_model *m)
{
    return rule_of(m,
                   m->options.temperature > 0 ? m->options.temperature : 1.0f);
}

static struct dt_score score_of(const struct dt_model *m)
{
    size_t count = m->inputs.picked.count, C = m->config.n_embd;
    return (struct dt_score){
        .N = m->N,
        .C = C,
        .M = count,
        .x = m->acts.norm.out,
        .rows = m->inputs.picked,
        .w = dt_model_weight(m, m->config.n_layer + 1, DT_SCORE),
        .h = dt_view_slice(m->acts.picked, 0, count * C),
    };
}

void dt_model_values_forward(struct dt_model *m)
{
    const struct dt_dropout none = {0};
    const struct dt_view absent = {0};
    const struct dt_values values = dt_model_values(m);
    const struct dt_logit_rule rule = sampling_rule_of(m);
    struct dt_score score = score_of(m);
    final_norm(m, 0, m->N);
    if (m->config.scores) {
        dt_score_forward(&m->exec, &score, values.value);
        return;
    }
    m->ops->embedding_forward(m->stream, score.h, score.rows, absent, score.x,
                              absent, score.M, score.C, &none);
    const struct dt_logprobs out = {
        .logp = values.value,
        .lse = dt_view_slice(m->acts.lse, 0, score.M),
        .entropy = values.entropy,
        .collision = values.collision,
        .mean = values.mean,
        .top = values.top,
    };
    m->ops->linear_logprob_forward(
        m->stream, &out, score.h,
        dt_model_weight(m, head_unit(m), head_role(m)),
        m->inputs.picked_targets, m->acts.logits, &rule, score.M, score.C,
        m->config.vocab_size);
    if (m->config.value_head)
        m->ops->linear_forward(m->stream, values.score, score.h, score.w,
                               absent, DT_WEIGHT_OUT_IN, score.M, score.C, 1);
}

/* From values.weight to dx, the gradient of the final norm's output, and to
 * that of the head's matrix.
 */
static void logprob_backward(struct dt_model *m, struct dt_view step,
                             struct dt_view dx, bool accumulate)
{
    struct dt_values values = dt_model_values(m);
    const struct dt_logit_rule rule = sampling_rule_of(m);
    struct dt_score score = score_of(m);
    struct dt_view dh = dt_view_slice(m->acts.d_picked, 0, score.M * score.C);
    m->ops->linear_logprob_backward(
        m->stream, step, dh, dt_model_grad(m, head_unit(m), head_role(m)),
        values.weight, values.entropy_weight,
        dt_view_slice(m->acts.lse, 0, score.M), values.entropy, score.h,
        dt_model_weight(m, head_unit(m), head_role(m)),
        m->inputs.picked_targets, m->acts.logits, &rule, score.M, score.C,
        m->config.vocab_size, accumulate);
    m->ops->scatter_rows(m->stream, dx, dh, score.rows, score.N, score.C,
                         score.M);
}

/* The same from the derivatives by scores, which include the loss scale. */
static void score_backward(struct dt_model *m, struct dt_view weight,
                           struct dt_view dx, bool accumulate)
{
    const struct dt_score score = score_of(m);
    dt_score_backward(&m->exec, &score, dx,
                      dt_model_grad(m, m->config.n_layer + 1, DT_SCORE), weight,
                      m->acts.d_picked, accumulate);
}

/* The gradients of two heads meet in the residual stream, to which the backward
 * pass of the final norm adds.
 */
void dt_model_values_backward(struct dt_model *m, struct dt_view step,
                              bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    const struct dt_values values = dt_model_values(m);
    size_t last = m->config.n_layer + 1;
    if (m->config.scores)
        score_backward(m, values.weight, a->branch, accumulate);
    else
        logprob_backward(m, step, a->branch, accumulate);
    m->ops->zero(m->stream, a->d_stream);
    dt_norm_backward(m, last, DT_NORM_F_W, &a->norm, a->top, accumulate);
    if (!m->config.value_head)
        return;
    score_backward(m, values.score_weight, a->branch, accumulate);
    dt_norm_backward(m, last, DT_NORM_F_W, &a->norm, a->top, true);
}

/* --- the embedding --- */

/* The op always adds to dwte: with a tied head it has the head's gradient
 * already, also that of the padding row.
 */
static void embedding_backward(struct dt_model *m, bool accumulate)
{
    struct dt_view d_stream = m->acts.d_stream;
    struct dt_view dwte = dt_model_grad(m, 0, DT_WTE);
    if (dwte.count == 0 && !m->tower)
        return;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.embd_dropout, 0, DT_PLACE_EMBEDDING);
    if (dropout.rate > 0)
        m->ops->dropout_backward(m->stream, d_stream, d_stream, m->N,
                                 m->config.n_embd, &dropout);
    const bool after = m->tower && m->scales.features;
    if (m->tower && !after)
        dt_tower_take_gradients(m->tower, 0, d_stream);
    scale(m, d_stream, m->scales.embedding);
    if (after)
        dt_tower_take_gradients(m->tower, 0, d_stream);
    if (dwte.count == 0)
        return;
    if (!dt_model_tied(&m->config) && !accumulate)
        m->ops->zero(m->stream, dwte);
    m->ops->embedding_backward(m->stream, dwte, dt_model_grad(m, 0, DT_WPE),
                               d_stream, m->inputs.ids, m->inputs.positions,
                               m->config.padding_row, m->N, m->config.n_embd,
                               accumulate);
}

static void block_backward(struct dt_model *m, size_t u, bool accumulate)
{
    if (m->tower)
        dt_tower_take_gradients(m->tower, u, m->acts.d_stream);
    dt_block_backward(m, u, accumulate);
}

void dt_model_backward(struct dt_model *m, size_t u, bool accumulate)
{
    if (u < m->first_unit)
        dt_tower_backward(m->tower, u, accumulate);
    else if (u == m->first_unit)
        embedding_backward(m, accumulate);
    else
        block_backward(m, u - m->first_unit, accumulate);
}
