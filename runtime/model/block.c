/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.c - forward and backward of one block
 *
 *     x_mid = x     + out(attention(rotary(qkv(norm_1(x)))))
 *     x'    = x_mid + proj(activation(fc(norm_2(x_mid))))
 *
 * The second sum is left to the unit above, which adds and norms in one pass:
 * between units the residual stream is the pair (x_mid, branch).
 */
#include "config.h"

#include "model/transformer.h"

/* `count` rows from `first` of a tensor with N rows, which may be absent. */
static struct dt_view rows(const struct dt_model *m, struct dt_view v,
                           size_t first, size_t count)
{
    size_t cols = v.count / m->N;
    return dt_view_slice(v, first * cols, count * cols);
}

static bool gated(const struct dt_model *m)
{
    return m->config.family != DT_GPT2;
}

static enum dt_weight_order order(const struct dt_model *m)
{
    return m->config.family == DT_GPT2 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
}

/* Width of fc, of all heads of q, and of those of q, k and v. */
static size_t wide(const struct dt_model *m)
{
    return gated(m) ? 2 * m->config.n_inner : m->config.n_inner;
}

static size_t queries(const struct dt_model *m)
{
    return m->config.n_head * m->config.head_size;
}

static size_t all_heads(const struct dt_model *m)
{
    return queries(m) + 2 * m->config.n_kv_head * m->config.head_size;
}

/* --- linear layers and norms; a bias is the role after its weight --- */

/* out(N, OC) = x(N, C) w + b */
static void linear(const struct dt_model *m, size_t u, enum dt_role role,
                   struct dt_view out, struct dt_view x, size_t C, size_t OC)
{
    m->ops->linear_forward(m->stream, out, x, dt_model_weight(m, u, role),
                           dt_model_weight(m, u, role + 1), order(m), m->N, C,
                           OC);
}

/* dx(N, C) and the gradients of w and b from dout(N, OC) */
static void d_linear(const struct dt_model *m, size_t u, enum dt_role role,
                     struct dt_view dx, struct dt_view dout, struct dt_view x,
                     size_t C, size_t OC, bool accumulate)
{
    m->ops->linear_backward(m->stream, dx, dt_model_grad(m, u, role),
                            dt_model_grad(m, u, role + 1), dout, x,
                            dt_model_weight(m, u, role), order(m), m->N, C, OC,
                            accumulate);
}

static void norm_forward(const struct dt_model *m, size_t u, enum dt_role role,
                         const struct dt_norm *norm, struct dt_view x)
{
    m->ops->norm_forward(m->stream, norm->out, norm->mean, norm->rstd, x,
                         dt_model_weight(m, u, role),
                         dt_model_weight(m, u, role + 1),
                         (float)m->config.norm_epsilon, m->N, m->config.n_embd);
}

void dt_norm_add_forward(struct dt_model *m, size_t u, enum dt_role role,
                         const struct dt_norm *norm, struct dt_view sum,
                         struct dt_view x, size_t first, size_t count,
                         const struct dt_dropout *dropout)
{
    m->ops->residual_norm_forward(
        m->stream, rows(m, sum, first, count), rows(m, norm->out, first, count),
        rows(m, norm->mean, first, count), rows(m, norm->rstd, first, count),
        rows(m, x, first, count), rows(m, m->acts.branch, first, count),
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
        .starts = m->feed.starts,
        .dropout = dt_model_dropout(m, c->attn_dropout, u, DT_PLACE_ATTENTION),
    };
}

static struct dt_rotary rotary_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    return (struct dt_rotary){
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .positions = m->feed.positions,
        .table = m->acts.rope,
        .q_norm = dt_model_weight(m, u, DT_Q_NORM),
        .k_norm = dt_model_weight(m, u, DT_K_NORM),
        .eps = (float)c->norm_epsilon,
    };
}

/* q, k and v as attention takes them, made of what the product gave; with
 * norms of heads both are needed later.
 */
static struct dt_view heads_forward(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_view out = m->acts.heads.count > 0 ? m->acts.heads : b->qkv;
    struct dt_rotary rotary = rotary_of(m, u);
    if (m->acts.rope.count > 0)
        m->ops->rotary_forward(m->stream, out, m->acts.head_rstd, b->qkv, m->N,
                               &rotary);
    return out;
}

/* The sequences of a cache that the batch holds, in block u. */
static struct dt_kv kv_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    const struct dt_cache *cache = m->cache;
    size_t row = cache->S * c->n_kv_head * c->head_size;
    size_t first = ((u - 1) * cache->rows + cache->first) * row;
    return (struct dt_kv){
        .B = m->B,
        .S = cache->S,
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .window = u - 1 >= c->window_from ? c->window : 0,
        .k = dt_view_slice(cache->k, first, m->B * row),
        .v = dt_view_slice(cache->v, first, m->B * row),
    };
}

/* The block's attention(N, NH*HS) of q, k and v. */
static void attend(const struct dt_model *m, size_t u, struct dt_view qkv)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_attention attention = attention_of(m, u);
    struct dt_kv kv;
    if (m->cache) {
        kv = kv_of(m, u);
        m->ops->kv_store(m->stream, &kv, qkv, m->feed.places, m->T);
    }
    if (m->cache && m->cache->next)
        m->ops->kv_attention(m->stream, b->attention, qkv, m->feed.positions,
                             &kv);
    else
        m->ops->attention_forward(m->stream, b->attention, b->lse, qkv,
                                  &attention);
}

/* --- forward --- */

/* The stream coming in and its norm. */
static void begin(struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_dropout dropout = dt_model_dropout(m, m->config.resid_dropout,
                                                 u - 1, DT_PLACE_MLP_BRANCH);
    if (u == 1)
        norm_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x);
    else
        dt_norm_add_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x, b[-1].x_mid, 0,
                            m->N, &dropout);
}

static void activate(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    if (gated(m))
        m->ops->swiglu_forward(m->stream, b->act, b->fc, m->N,
                               m->config.n_inner);
    else
        m->ops->gelu_forward(m->stream, b->act, b->fc);
}

/* fc and what comes of it: in one operation if it stays, which a library may
 * round in another way than two that can be repeated one by one.
 */
static void widen(struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    size_t C = m->config.n_embd, I = m->config.n_inner;
    if (!gated(m) && m->options.keep) {
        m->ops->linear_gelu_forward(m->stream, b->act, b->fc, b->norm_2.out,
                                    dt_model_weight(m, u, DT_FC_W),
                                    dt_model_weight(m, u, DT_FC_W + 1),
                                    order(m), m->N, C, I);
        return;
    }
    linear(m, u, DT_FC_W, b->fc, b->norm_2.out, C, wide(m));
    activate(m, u);
}

/* From norm_1 to act: all that the block keeps, and what its end needs. */
static void middle(struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd;
    struct dt_dropout dropout = dt_model_dropout(m, m->config.resid_dropout, u,
                                                 DT_PLACE_ATTENTION_BRANCH);

    linear(m, u, DT_QKV_W, b->qkv, b->norm_1.out, C, all_heads(m));
    attend(m, u, heads_forward(m, u));
    linear(m, u, DT_OUT_W, a->branch, b->attention, queries(m), C);
    dt_norm_add_forward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, b->x, 0, m->N,
                        &dropout);
    widen(m, u);
}

void dt_block_forward(struct dt_model *m, size_t u)
{
    begin(m, u);
    middle(m, u);
    linear(m, u, DT_PROJ_W, m->acts.branch, m->blocks[u - 1].act,
           m->config.n_inner, m->config.n_embd);
}

/* --- backward --- */

/* What was not kept: twice the same bits. */
static void activate_again(const struct dt_model *m, size_t u)
{
    if (!m->options.keep)
        activate(m, u);
}

static void norm_again(const struct dt_model *m, size_t u, enum dt_role role,
                       const struct dt_norm *norm, struct dt_view x)
{
    if (!m->options.keep)
        norm_forward(m, u, role, norm, x);
}

/* The gradient of what a branch gave: that of the stream, through dropout. */
static struct dt_view d_branch(const struct dt_model *m, size_t u,
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

/* fc and act are there. The gradient of fc goes to d_act, or in its place. */
static void mlp_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd, I = m->config.n_inner;
    struct dt_view d_out = d_branch(m, u, DT_PLACE_MLP_BRANCH);
    struct dt_view d_fc = gated(m) ? b->fc : a->d_act;

    if (gated(m)) {
        d_linear(m, u, DT_PROJ_W, a->d_act, d_out, b->act, I, C, accumulate);
        m->ops->swiglu_backward(m->stream, d_fc, a->d_act, b->fc, m->N, I);
    } else {
        m->ops->linear_gelu_backward(
            m->stream, d_fc, dt_model_grad(m, u, DT_PROJ_W),
            dt_model_grad(m, u, DT_PROJ_W + 1), d_out, b->act, b->fc,
            dt_model_weight(m, u, DT_PROJ_W), order(m), m->N, I, C, accumulate);
    }
    norm_again(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid);
    d_linear(m, u, DT_FC_W, a->branch, d_fc, b->norm_2.out, C, wide(m),
             accumulate);
    dt_norm_backward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, accumulate);
}

static void heads_backward(const struct dt_model *m, size_t u, bool accumulate)
{
    struct dt_rotary rotary = rotary_of(m, u);
    if (m->acts.rope.count > 0)
        m->ops->rotary_backward(
            m->stream, m->acts.d_qkv, dt_model_grad(m, u, DT_Q_NORM),
            dt_model_grad(m, u, DT_K_NORM), m->blocks[u - 1].qkv,
            m->acts.head_rstd, m->N, &rotary, accumulate);
}

static void attention_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    size_t C = m->config.n_embd;
    struct dt_attention attention = attention_of(m, u);
    /* heads are rotated for good unless they are normed */
    struct dt_view qkv = a->heads.count > 0 ? heads_forward(m, u) : b->qkv;

    d_linear(m, u, DT_OUT_W, a->d_attention,
             d_branch(m, u, DT_PLACE_ATTENTION_BRANCH), b->attention,
             queries(m), C, accumulate);
    m->ops->attention_backward(m->stream, a->d_qkv, a->d_attention,
                               b->attention, b->lse, qkv, a->scratch,
                               &attention);
    heads_backward(m, u, accumulate);
    norm_again(m, u, DT_NORM_1_W, &b->norm_1, b->x);
    d_linear(m, u, DT_QKV_W, a->branch, a->d_qkv, b->norm_1.out, C,
             all_heads(m), accumulate);
    dt_norm_backward(m, u, DT_NORM_1_W, &b->norm_1, b->x, accumulate);
}

void dt_block_backward(struct dt_model *m, size_t u, bool accumulate)
{
    /* the last block has only just been computed */
    if (m->options.checkpointing && u < m->config.n_layer) {
        norm_forward(m, u, DT_NORM_1_W, &m->acts.norm, m->blocks[u - 1].x);
        middle(m, u);
    } else {
        activate_again(m, u);
    }
    mlp_backward(m, u, accumulate);
    attention_backward(m, u, accumulate);
}
