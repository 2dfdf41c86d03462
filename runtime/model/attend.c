/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c - norms of heads, RoPE, attention, and the cache of a block */
#include "config.h"

#include "model/family/family.h"
#include "model/model_impl.h"

static struct dt_attention attention_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    const struct dt_inputs *inputs = &m->inputs;
    const bool near = dt_model_window(c, u) > 0 && inputs->near_first.count > 0;
    return (struct dt_attention){
        .B = m->B,
        .T = m->T,
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .window = dt_model_window(c, u),
        .scale = dt_model_attention_scale(c),
        .softcap = (float)c->attention_softcap,
        .first = near ? inputs->near_first : inputs->first,
        .last = near ? inputs->near_last : inputs->last,
        .documents = inputs->documents,
        .dropout = dt_model_dropout(m, c->attn_dropout, u, DT_PLACE_ATTENTION),
    };
}

/* The angles of block u: of a model with two lengths of documents both tables,
 * one after the other.
 */
static struct dt_view angles_of(const struct dt_model *m, size_t u)
{
    const struct dt_view all = dt_view_of(m->rope_buf, DT_F32);
    const size_t half = all.count / 2;
    if (m->config.rope_local_theta == 0)
        return all;
    return dt_view_slice(all, dt_model_window(&m->config, u) > 0 ? half : 0,
                         half);
}

/* Which row of positions turns each pair; absent: there is one. */
static struct dt_view axes_of(const struct dt_model *m)
{
    return m->axes_buf ? dt_view_of(m->axes_buf, DT_I32) : (struct dt_view){0};
}

/* With norms of each head. */
static struct dt_rope rope_of(const struct dt_model *m, size_t u)
{
    const struct dt_model_config *c = &m->config;
    struct dt_rope rope = {
        .NH = c->n_head,
        .NKV = c->n_kv_head,
        .HS = c->head_size,
        .R = dt_model_rotary(c),
        .positions = m->inputs.positions,
        .axis = axes_of(m),
        .table = angles_of(m, u),
        .norm = dt_model_norm_rule(m),
    };
    if (m->family->head_norm == DT_HEAD_NORM_EACH) {
        rope.q_norm = dt_model_weight(m, u, DT_Q_NORM);
        rope.k_norm = dt_model_weight(m, u, DT_K_NORM);
    }
    return rope;
}

static struct dt_heads_norm heads_norm_of(const struct dt_model *m, size_t u)
{
    return (struct dt_heads_norm){
        .NH = m->config.n_head,
        .NKV = m->config.n_kv_head,
        .HS = m->config.head_size,
        .q_norm = dt_model_weight(m, u, DT_Q_NORM),
        .k_norm = dt_model_weight(m, u, DT_K_NORM),
        .eps = dt_model_norm_rule(m).eps,
    };
}

static bool is_rotated(const struct dt_model *m, size_t u)
{
    return m->rope_buf && !dt_layers_have(&m->config.unrotated, u - 1);
}

/* Returns q, k and v with heads of q and k normed and rotated: in place, or in
 * another buffer if they are normed, since backward needs both.
 */
static struct dt_view rope_forward(const struct dt_model *m, size_t u)
{
    const struct dt_view qkv = m->blocks[u - 1].qkv;
    struct dt_view from = qkv, out = qkv;
    struct dt_heads_norm norm;
    struct dt_rope rope;
    if (m->acts.heads.count > 0)
        out = m->acts.heads;
    if (m->family->head_norm == DT_HEAD_NORM_ALL) {
        norm = heads_norm_of(m, u);
        m->ops->heads_norm_forward(m->stream, out, m->acts.head_rstd, qkv, m->N,
                                   &norm);
        from = out;
    }
    if (is_rotated(m, u)) {
        rope = rope_of(m, u);
        m->ops->rope_forward(m->stream, out, m->acts.head_rstd, from, m->N,
                             &rope);
    }
    return out;
}

static void rope_backward(const struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    const bool all = m->family->head_norm == DT_HEAD_NORM_ALL;
    const struct dt_view none = {0};
    struct dt_view dq = none, dk = none;
    struct dt_heads_norm norm;
    struct dt_rope rope;
    if (m->family->head_norm != DT_HEAD_NORM_NONE) {
        dq = dt_model_grad(m, u, DT_Q_NORM);
        dk = dt_model_grad(m, u, DT_K_NORM);
    }
    if (is_rotated(m, u)) {
        rope = rope_of(m, u);
        m->ops->rope_backward(m->stream, a->d_qkv, all ? none : dq,
                              all ? none : dk, m->blocks[u - 1].qkv,
                              a->head_rstd, m->N, &rope, accumulate);
    }
    if (all) {
        norm = heads_norm_of(m, u);
        m->ops->heads_norm_backward(m->stream, a->d_qkv, dq, dk,
                                    m->blocks[u - 1].qkv, a->head_rstd, m->N,
                                    &norm, accumulate);
    }
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
        .window = dt_model_window(c, u),
        .scale = dt_model_attention_scale(c),
        .softcap = (float)c->attention_softcap,
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
    if (m->cache && m->cache->indices)
        m->ops->kv_attention(m->stream, b->attention, qkv, m->inputs.indices,
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

void dt_attend_forward(struct dt_model *m, size_t u)
{
    struct dt_view qkv = rope_forward(m, u);
    attention_forward(m, u, qkv);
}

void dt_attend_backward(struct dt_model *m, size_t u, bool accumulate)
{
    /* normed heads were not saved, others are in qkv */
    struct dt_view qkv =
        m->acts.heads.count > 0 ? rope_forward(m, u) : m->blocks[u - 1].qkv;
    attention_backward(m, u, qkv);
    rope_backward(m, u, accumulate);
}
