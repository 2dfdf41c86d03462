/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.c - forward and backward of one block
 *
 *     x_mid = x     + out(attention(rope(qkv(norm_1(x)))))
 *     x'    = x_mid + proj(activation(fc(norm_2(x_mid))))
 *
 * The unit above computes the second sum, since it adds and norms in one pass:
 * between units the residual stream is the pair (x_mid, branch).
 */
#include "config.h"

#include "model/block.h"
#include "model/low_rank.h"

/* `count` rows from `first` of a tensor with N rows; it may be absent. */
static struct dt_view slice_rows(const struct dt_model *m, struct dt_view v,
                                 size_t first, size_t count)
{
    size_t cols = v.count / m->N;
    return dt_view_slice(v, first * cols, count * cols);
}

static bool is_gated(const struct dt_model *m)
{
    return m->config.family != DT_GPT2;
}

static enum dt_weight_order weight_order(const struct dt_model *m)
{
    return m->config.family == DT_GPT2 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
}

/* Widths of fc, of all heads of q, and of all heads of q, k and v. */
static size_t fc_width(const struct dt_model *m)
{
    return is_gated(m) ? 2 * m->config.n_inner : m->config.n_inner;
}

static size_t q_width(const struct dt_model *m)
{
    return m->config.n_head * m->config.head_size;
}

static size_t qkv_width(const struct dt_model *m)
{
    return q_width(m) + 2 * m->config.n_kv_head * m->config.head_size;
}

/* --- linear layers and norms; a bias is the role after its weight --- */

/* out(N, OC) = x(N, C) w + b */
static void linear_forward(const struct dt_model *m, size_t u,
                           enum dt_role role, struct dt_view out,
                           struct dt_view x, size_t C, size_t OC)
{
    m->ops->linear_forward(m->stream, out, x, dt_model_weight(m, u, role),
                           dt_model_weight(m, u, role + 1), weight_order(m),
                           m->N, C, OC);
    dt_low_rank_forward(m, u, role, out, x, OC);
}

/* dx(N, C) and the gradients of w and b from dout(N, OC) */
static void linear_backward(const struct dt_model *m, size_t u,
                            enum dt_role role, struct dt_view dx,
                            struct dt_view dout, struct dt_view x, size_t C,
                            size_t OC, bool accumulate)
{
    m->ops->linear_backward(m->stream, dx, dt_model_grad(m, u, role),
                            dt_model_grad(m, u, role + 1), dout, x,
                            dt_model_weight(m, u, role), weight_order(m), m->N,
                            C, OC, accumulate);
    dt_low_rank_backward(m, u, role, dx, dout, x, OC, accumulate);
}

static void norm_forward(const struct dt_model *m, size_t u, enum dt_role role,
                         const struct dt_norm *norm, struct dt_view x)
{
    m->ops->norm_forward(m->stream, norm->out, norm->mean, norm->rstd, x,
                         dt_model_weight(m, u, role),
                         dt_model_weight(m, u, role + 1),
                         (float)m->config.norm_epsilon, m->N, m->config.n_embd);
}

void dt_residual_norm_forward(struct dt_model *m, size_t u, enum dt_role role,
                              const struct dt_norm *norm, struct dt_view sum,
                              struct dt_view x, size_t first, size_t count,
                              const struct dt_dropout *dropout)
{
    m->ops->residual_norm_forward(
        m->stream, slice_rows(m, sum, first, count),
        slice_rows(m, norm->out, first, count),
        slice_rows(m, norm->mean, first, count),
        slice_rows(m, norm->rstd, first, count), slice_rows(m, x, first, count),
        slice_rows(m, m->acts.branch, first, count),
        dt_model_weight(m, u, role), dt_model_weight(m, u, role + 1),
        (float)m->config.norm_epsilon, count, m->config.n_embd, dropout);
}

void dt_norm_backward(struct dt_model *m, size_t u, enum dt_role role,
                      const struct dt_norm *norm, struct dt_view x,
                      bool accumulate)
{
    m->ops->norm_backward(m->stream, m->acts.d_stream,
                          dt_model_grad(m, u, role),
                          dt_model_grad(m, u, role + 1), m->acts.branch, x,
                          dt_model_weight(m, u, role), norm->mean, norm->rstd,
                          m->N, m->config.n_embd, accumulate);
}

/* --- attention --- */

static struct dt_attention attention_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    return (struct dt_attention){
        .B = m->B,
        .T = m->T,
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .window = u - 1 >= c->window_from ? c->window : 0,
        .doc_start = m->inputs.doc_start,
        .dropout = dt_model_dropout(m, c->attn_dropout, u, DT_PLACE_ATTENTION),
    };
}

static struct dt_rope rope_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    return (struct dt_rope){
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .positions = m->inputs.positions,
        .table = dt_view_of(m->rope_buf, DT_F32),
        .q_norm = dt_model_weight(m, u, DT_Q_NORM),
        .k_norm = dt_model_weight(m, u, DT_K_NORM),
        .eps = (float)c->norm_epsilon,
    };
}

/* Returns q, k and v with heads of q and k normed and rotated: in place, or in
 * another buffer if they are normed, since backward needs both.
 */
static struct dt_view rope_forward(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_view out = m->acts.heads.count > 0 ? m->acts.heads : b->qkv;
    struct dt_rope rope;
    if (m->rope_buf) {
        rope = rope_of(m, u);
        m->ops->rope_forward(m->stream, out, m->acts.head_rstd, b->qkv, m->N,
                             &rope);
    }
    return out;
}

static void rope_backward(const struct dt_model *m, size_t u, bool accumulate)
{
    struct dt_rope rope;
    if (!m->rope_buf)
        return;
    rope = rope_of(m, u);
    m->ops->rope_backward(m->stream, m->acts.d_qkv,
                          dt_model_grad(m, u, DT_Q_NORM),
                          dt_model_grad(m, u, DT_K_NORM), m->blocks[u - 1].qkv,
                          m->acts.head_rstd, m->N, &rope, accumulate);
}

/* The cache of block u. */
static struct dt_kv kv_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    struct dt_view pool = m->cache->pool;
    size_t keys = DT_KV_BLOCK * c->n_kv_head * c->head_size;
    size_t first = (u - 1) * 2 * keys;
    return (struct dt_kv){
        .B = m->N,
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .window = u - 1 >= c->window_from ? c->window : 0,
        .blocks = m->cache->blocks,
        .stride = c->n_layer * 2 * keys,
        .k = dt_view_slice(pool, first, pool.count - first),
        .v = dt_view_slice(pool, first + keys, pool.count - first - keys),
        .table = m->inputs.table,
    };
}

/* Attention of the batch to itself, or to the cache. */
static void attention_forward(const struct dt_model *m, size_t u,
                              struct dt_view qkv)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_attention attention = attention_of(m, u);
    struct dt_kv kv;
    if (m->cache) {
        kv = kv_of(m, u);
        m->ops->kv_store(m->stream, &kv, qkv, m->inputs.places, m->N);
    }
    if (m->cache && m->cache->positions)
        m->ops->kv_attention(m->stream, b->attention, qkv, m->inputs.positions,
                             &kv);
    else
        m->ops->attention_forward(m->stream, b->attention, b->lse, qkv,
                                  &attention);
}

/* d_qkv from d_attention */
static void attention_backward(const struct dt_model *m, size_t u,
                               struct dt_view qkv)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    struct dt_attention attention = attention_of(m, u);
    m->ops->attention_backward(m->stream, a->d_qkv, a->d_attention,
                               b->attention, b->lse, qkv,
                               a->attention_workspace, &attention);
}

/* --- the MLP --- */

static void activation_forward(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    if (is_gated(m))
        m->ops->swiglu_forward(m->stream, b->act, b->fc, m->N,
                               m->config.n_inner);
    else
        m->ops->gelu_forward(m->stream, b->act, b->fc);
}

/* fc and its activation. GELU is fused only if the result is saved: a fused
 * kernel may round differently, and recomputation must give the same bits.
 */
static void mlp_up(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    size_t C = m->config.n_embd, I = m->config.n_inner;
    if (!is_gated(m) && m->options.save_activations &&
        !dt_low_rank_any(m, u, DT_FC_W)) {
        m->ops->linear_gelu_forward(m->stream, b->act, b->fc, b->norm_2.out,
                                    dt_model_weight(m, u, DT_FC_W),
                                    dt_model_weight(m, u, DT_FC_W + 1),
                                    weight_order(m), m->N, C, I);
        return;
    }
    linear_forward(m, u, DT_FC_W, b->fc, b->norm_2.out, C, fc_width(m));
    activation_forward(m, u);
}

/* Backward of proj and the activation: returns the gradient of fc, from that of
 * the MLP's output.
 */
static struct dt_view mlp_down_backward(const struct dt_model *m, size_t u,
                                        struct dt_view d_out, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd, I = m->config.n_inner;
    if (is_gated(m)) {
        linear_backward(m, u, DT_PROJ_W, a->d_act, d_out, b->act, I, C,
                        accumulate);
        m->ops->swiglu_backward(m->stream, b->fc, a->d_act, b->fc, m->N, I);
        return b->fc;
    }
    if (dt_low_rank_any(m, u, DT_PROJ_W)) {
        linear_backward(m, u, DT_PROJ_W, a->d_act, d_out, b->act, I, C,
                        accumulate);
        m->ops->gelu_backward(m->stream, a->d_act, a->d_act, b->fc);
        return a->d_act;
    }
    m->ops->linear_gelu_backward(
        m->stream, a->d_act, dt_model_grad(m, u, DT_PROJ_W),
        dt_model_grad(m, u, DT_PROJ_W + 1), d_out, b->act, b->fc,
        dt_model_weight(m, u, DT_PROJ_W), weight_order(m), m->N, I, C,
        accumulate);
    return a->d_act;
}

/* --- the block --- */

void dt_block_forward(struct dt_model *m, size_t u, bool recompute)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd, I = m->config.n_inner;
    double rate = m->config.resid_dropout;
    struct dt_dropout below =
        dt_model_dropout(m, rate, u - 1, DT_PLACE_MLP_BRANCH);
    struct dt_dropout middle =
        dt_model_dropout(m, rate, u, DT_PLACE_ATTENTION_BRANCH);

    /* the MLP's residual of the block below, if there is one, and norm_1 */
    if (u == 1 || recompute)
        norm_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x);
    else
        dt_residual_norm_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x,
                                 b[-1].x_mid, 0, m->N, &below);

    linear_forward(m, u, DT_QKV_W, b->qkv, b->norm_1.out, C, qkv_width(m));
    struct dt_view qkv = rope_forward(m, u);
    attention_forward(m, u, qkv);
    linear_forward(m, u, DT_OUT_W, a->branch, b->attention, q_width(m), C);

    /* the residual of attention, and norm_2 */
    dt_residual_norm_forward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, b->x, 0,
                             m->N, &middle);

    mlp_up(m, u);
    if (!recompute)
        linear_forward(m, u, DT_PROJ_W, a->branch, b->act, I, C);
}

/* The gradient of a branch's output: d_stream, through dropout. */
static struct dt_view residual_backward(const struct dt_model *m, size_t u,
                                        enum dt_place place)
{
    const struct dt_acts *a = &m->acts;
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.resid_dropout, u, place);
    if (dropout.rate == 0)
        return a->d_stream;
    m->ops->dropout_backward(m->stream, a->branch, a->d_stream, m->N,
                             m->config.n_embd, &dropout);
    return a->branch;
}

/* Recomputes a norm that was not saved. */
static void restore_norm(const struct dt_model *m, size_t u, enum dt_role role,
                         const struct dt_norm *norm, struct dt_view x)
{
    if (!m->options.save_activations)
        norm_forward(m, u, role, norm, x);
}

void dt_block_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd;
    struct dt_view d_out, d_fc, qkv;

    /* the last block has just been computed: only its act is gone */
    if (m->options.recompute && u < m->config.n_layer)
        dt_block_forward(m, u, true);
    else if (!m->options.save_activations)
        activation_forward(m, u);

    d_out = residual_backward(m, u, DT_PLACE_MLP_BRANCH);
    d_fc = mlp_down_backward(m, u, d_out, accumulate);
    restore_norm(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid);
    linear_backward(m, u, DT_FC_W, a->branch, d_fc, b->norm_2.out, C,
                    fc_width(m), accumulate);
    dt_norm_backward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, accumulate);

    /* normed heads were not saved, others are in qkv */
    qkv = a->heads.count > 0 ? rope_forward(m, u) : b->qkv;
    d_out = residual_backward(m, u, DT_PLACE_ATTENTION_BRANCH);
    linear_backward(m, u, DT_OUT_W, a->d_attention, d_out, b->attention,
                    q_width(m), C, accumulate);
    attention_backward(m, u, qkv);
    rope_backward(m, u, accumulate);
    restore_norm(m, u, DT_NORM_1_W, &b->norm_1, b->x);
    linear_backward(m, u, DT_QKV_W, a->branch, a->d_qkv, b->norm_1.out, C,
                    qkv_width(m), accumulate);
    dt_norm_backward(m, u, DT_NORM_1_W, &b->norm_1, b->x, accumulate);
}
