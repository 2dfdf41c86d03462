/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.c - forward and backward of one block
 *
 *     x_mid = x     + post_1(out(attention(rope(qkv(norm_1(x))))))
 *     x'    = x_mid + post_2(proj(activation(fc(norm_2(x_mid)))))
 *
 * Most families have no post norms, and OLMo 2 no others. The unit above
 * computes the second sum, since it adds and norms in one pass: between units
 * the residual stream is the pair (x_mid, branch). Where a linear layer can add
 * the residual itself, it is x', which the block below has computed.
 */
#include "config.h"

#include <assert.h>

#include "model/family/family.h"
#include "model/model_adapter.h"
#include "model/model_impl.h"

/* --- the pairs of an adapter --- */

/* Dropouts of adapters come after those of the model (model_impl.h). */
enum { FIRST_PLACE = 1 << 15 };

/* The parameters of a role of unit u, in the layout of the model. */
static struct dt_role_range params_of(const struct dt_model *m, size_t u,
                                      enum dt_role role)
{
    struct dt_role_range range = m->roles[role];
    range.first += m->layout->units[m->first_unit + u].first_param;
    return range;
}

/* The pair of parameter i. */
static struct dt_low_rank pair_of(const struct dt_model *m, size_t i,
                                  size_t width, size_t first)
{
    const struct dt_model_adapter *adapter = &m->options.adapter;
    const struct dt_adapter_sizes sizes =
        dt_adapter_sizes_of(&m->config, &m->layout->params[i], adapter->r);
    const size_t a = (size_t)m->adapted[i].a, b = (size_t)m->adapted[i].b;
    const bool drops = m->train && m->options.dropout && adapter->dropout > 0;
    assert(i < FIRST_PLACE);
    return (struct dt_low_rank){
        .a = dt_layout_params(adapter->layout, &m->trained, a, 1),
        .b = dt_layout_params(adapter->layout, &m->trained, b, 1),
        .C = sizes.C,
        .R = sizes.R,
        .OC = sizes.OC,
        .width = width,
        .first = first,
        .scale = adapter->scale,
        .dropout = {.rate = drops ? adapter->dropout : 0,
                    .seed = m->options.seed,
                    .place = FIRST_PLACE + (uint32_t)i,
                    .rows = m->inputs.rows},
        .low = m->acts.low,
        .dropped = m->acts.dropped,
    };
}

/* Whether a role of unit u has a pair. */
static bool has_pair(const struct dt_model *m, size_t u, enum dt_role role)
{
    const struct dt_role_range range = params_of(m, u, role);
    for (size_t i = 0; m->adapter_on && i < range.count; i++)
        if (m->adapted[range.first + i].a >= 0)
            return true;
    return false;
}

/* Adds to out(N, OC) of the linear layer of a role of unit u the product of its
 * pairs with x(N, C); nothing without any.
 */
static void low_rank_forward(const struct dt_model *m, size_t u,
                             enum dt_role role, struct dt_view out,
                             struct dt_view x, size_t N, size_t OC)
{
    const struct dt_role_range range = params_of(m, u, role);
    size_t first = 0;
    if (!has_pair(m, u, role))
        return;
    for (size_t i = range.first; i < range.first + range.count; i++) {
        if (m->adapted[i].a >= 0) {
            const struct dt_low_rank pair = pair_of(m, i, OC, first);
            m->ops->low_rank_forward(m->stream, out, x, &pair, N);
        }
        first += dt_adapter_sizes_of(&m->config, &m->layout->params[i], 1).OC;
    }
}

/* Adds to dx, and computes the gradients of the pairs. */
static void low_rank_backward(const struct dt_model *m, size_t u,
                              enum dt_role role, struct dt_view dx,
                              struct dt_view dout, struct dt_view x, size_t N,
                              size_t OC, bool accumulate)
{
    const struct dt_layout *layout = m->options.adapter.layout;
    const struct dt_places *grads = &m->options.adapter.grads;
    const struct dt_role_range range = params_of(m, u, role);
    size_t first = 0;
    if (!has_pair(m, u, role))
        return;
    for (size_t i = range.first; i < range.first + range.count; i++) {
        if (m->adapted[i].a >= 0) {
            const struct dt_low_rank pair = pair_of(m, i, OC, first);
            const size_t a = (size_t)m->adapted[i].a;
            m->ops->low_rank_backward(m->stream, dx,
                                      dt_layout_params(layout, grads, a, 1),
                                      dt_layout_params(layout, grads, a + 1, 1),
                                      dout, x, &pair, N, accumulate);
        }
        first += dt_adapter_sizes_of(&m->config, &m->layout->params[i], 1).OC;
    }
}

/* `count` rows from `first` of a tensor with N rows; it may be absent. */
static struct dt_view slice_rows(const struct dt_model *m, struct dt_view v,
                                 size_t first, size_t count)
{
    size_t cols = v.count / m->N;
    return dt_view_slice(v, first * cols, count * cols);
}

static bool is_gated(const struct dt_model *m)
{
    return m->family->gated;
}

static enum dt_weight_order weight_order(const struct dt_model *m,
                                         enum dt_role role)
{
    const bool in_out =
        role < DT_MERGE_NORM_W ? m->family->in_out : m->projects_in_out;
    return in_out ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
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

void dt_linear_forward(const struct dt_model *m, size_t u, enum dt_role role,
                       struct dt_view out, struct dt_view x, size_t N, size_t C,
                       size_t OC)
{
    const bool exact = m->options.exact_rows;
    for (size_t n = 0, rows; n < N; n += rows) {
        rows = exact ? dt_ops_exact_rows(m->ops, x.dtype, N - n) : N - n;
        const struct dt_view to = dt_view_slice(out, n * OC, rows * OC);
        const struct dt_view from = dt_view_slice(x, n * C, rows * C);
        m->ops->linear_forward(m->stream, to, from, dt_model_weight(m, u, role),
                               dt_model_weight(m, u, role + 1),
                               weight_order(m, role), rows, C, OC);
        low_rank_forward(m, u, role, to, from, rows, OC);
    }
}

static void linear_forward(const struct dt_model *m, size_t u,
                           enum dt_role role, struct dt_view out,
                           struct dt_view x, size_t C, size_t OC)
{
    dt_linear_forward(m, u, role, out, x, m->N, C, OC);
}

/* The place for the gradient of the bias that follows `role`: absent if it is
 * the sum of d_stream, which norm_backward has left in d_sums.
 */
static struct dt_view bias_grad(const struct dt_model *m, size_t u,
                                enum dt_role role, struct dt_view dout,
                                bool accumulate)
{
    const struct dt_view sums = m->acts.d_sums;
    struct dt_view db = dt_model_grad(m, u, role + 1);
    if (db.count == 0 || sums.count == 0 ||
        dt_view_data(dout) != dt_view_data(m->acts.d_stream))
        return db;
    if (accumulate)
        m->ops->add(m->stream, db, sums);
    else
        m->ops->convert(m->stream, db, sums);
    return (struct dt_view){0};
}

/* Whether out and proj add the residual: nothing comes between the two. */
static bool adds_residual(const struct dt_model *m)
{
    return m->ops->linear_add_forward && !m->family->post_norm &&
           m->scales.branch == 1.0f &&
           dt_model_dropout(m, m->config.resid_dropout, 1, DT_PLACE_MLP_BRANCH)
                   .rate == 0;
}

/* sum(N, C) = base(N, C) + x(N, width) w + b, if adds_residual; else the output
 * of the layer is branch, or `own` if it is normed.
 */
static void last_linear_forward(const struct dt_model *m, size_t u,
                                enum dt_role role, struct dt_view sum,
                                struct dt_view base, struct dt_view own,
                                struct dt_view x, size_t width)
{
    size_t C = m->config.n_embd;
    if (!adds_residual(m)) {
        linear_forward(m, u, role, m->family->post_norm ? own : m->acts.branch,
                       x, width, C);
        return;
    }
    m->ops->linear_add_forward(
        m->stream, sum, base, x, dt_model_weight(m, u, role),
        dt_model_weight(m, u, role + 1), weight_order(m, role), m->N, width, C);
    low_rank_forward(m, u, role, sum, x, m->N, C);
}

void dt_linear_backward(const struct dt_model *m, size_t u, enum dt_role role,
                        struct dt_view dx, struct dt_view dout,
                        struct dt_view x, size_t N, size_t C, size_t OC,
                        bool accumulate)
{
    m->ops->linear_backward(m->stream, dx, dt_model_grad(m, u, role),
                            bias_grad(m, u, role, dout, accumulate), dout, x,
                            dt_model_weight(m, u, role), weight_order(m, role),
                            N, C, OC, accumulate);
    low_rank_backward(m, u, role, dx, dout, x, N, OC, accumulate);
}

static void linear_backward(const struct dt_model *m, size_t u,
                            enum dt_role role, struct dt_view dx,
                            struct dt_view dout, struct dt_view x, size_t C,
                            size_t OC, bool accumulate)
{
    dt_linear_backward(m, u, role, dx, dout, x, m->N, C, OC, accumulate);
}

/* Only LayerNorm has a bias. */
static struct dt_view norm_bias(const struct dt_model *m, size_t u,
                                enum dt_role role)
{
    return m->family->centered ? dt_model_weight(m, u, role + 1)
                               : (struct dt_view){0};
}

static void norm_rows_forward(const struct dt_model *m, size_t u,
                              enum dt_role role, const struct dt_norm *norm,
                              struct dt_view x, size_t first, size_t count)
{
    m->ops->norm_forward(m->stream, slice_rows(m, norm->out, first, count),
                         slice_rows(m, norm->mean, first, count),
                         slice_rows(m, norm->rstd, first, count),
                         slice_rows(m, x, first, count),
                         dt_model_weight(m, u, role), norm_bias(m, u, role),
                         dt_model_norm_rule(m), count, m->config.n_embd);
}

void dt_norm_forward(const struct dt_model *m, size_t u, enum dt_role role,
                     const struct dt_norm *norm, struct dt_view x)
{
    norm_rows_forward(m, u, role, norm, x, 0, m->N);
}

struct dt_view dt_block_output(struct dt_model *m, size_t u)
{
    const bool last = u == m->config.n_layer;
    if (u == 0)
        return m->blocks[0].x;
    if (adds_residual(m))
        return last ? m->acts.top : m->blocks[u].x;
    m->ops->combine(m->stream, m->acts.top, m->blocks[u - 1].x_mid, 1.0f,
                    m->acts.branch, 1.0f);
    return m->acts.top;
}

struct dt_view dt_block_last(const struct dt_model *m, size_t u)
{
    if (!adds_residual(m))
        return m->acts.branch;
    return u == m->config.n_layer ? m->acts.top : m->blocks[u].x;
}

void dt_residual_norm_forward(struct dt_model *m, size_t u, enum dt_role role,
                              const struct dt_norm *norm, struct dt_view sum,
                              struct dt_view x, size_t first, size_t count,
                              const struct dt_dropout *dropout)
{
    if (adds_residual(m)) {
        norm_rows_forward(m, u, role, norm, sum, first, count);
        return;
    }
    m->ops->residual_norm_forward(
        m->stream, slice_rows(m, sum, first, count),
        slice_rows(m, norm->out, first, count),
        slice_rows(m, norm->mean, first, count),
        slice_rows(m, norm->rstd, first, count), slice_rows(m, x, first, count),
        slice_rows(m, m->acts.branch, first, count),
        dt_model_weight(m, u, role), norm_bias(m, u, role),
        dt_model_norm_rule(m), count, m->config.n_embd, dropout);
}

/* dx += the gradient of x through its norm, and the sums of dx unless absent */
static void add_norm_backward(const struct dt_model *m, size_t u,
                              enum dt_role role, struct dt_view dx,
                              struct dt_view sums, struct dt_view dout,
                              struct dt_view x, struct dt_view mean,
                              struct dt_view rstd, bool accumulate)
{
    struct dt_view db = {0};
    if (m->family->centered)
        db = dt_model_grad(m, u, role + 1);
    m->ops->norm_backward(m->stream, dx, dt_model_grad(m, u, role), db, sums,
                          dout, x, dt_model_weight(m, u, role), mean, rstd,
                          dt_model_norm_rule(m).shift, m->N, m->config.n_embd,
                          accumulate);
}

void dt_norm_backward(struct dt_model *m, size_t u, enum dt_role role,
                      const struct dt_norm *norm, struct dt_view x,
                      bool accumulate)
{
    add_norm_backward(m, u, role, m->acts.d_stream, m->acts.d_sums,
                      m->acts.branch, x, norm->mean, norm->rstd, accumulate);
}

/* The stream sum = x + dropout of branch, and its norm, if blocks norm their
 * inputs.
 */
static void residual_forward(struct dt_model *m, size_t u, enum dt_role role,
                             const struct dt_norm *norm, struct dt_view sum,
                             struct dt_view x, const struct dt_dropout *dropout)
{
    if (m->family->pre_norm)
        dt_residual_norm_forward(m, u, role, norm, sum, x, 0, m->N, dropout);
    else
        m->ops->combine(m->stream, sum, x, 1.0f, m->acts.branch, 1.0f);
}

/* The input of a branch of a block: x, or its norm. */
static struct dt_view branch_input(const struct dt_model *m,
                                   const struct dt_norm *norm, struct dt_view x)
{
    return m->family->pre_norm ? norm->out : x;
}

/* branch from `raw`, the output of the last layer: its norm, with rstd(N), or a
 * multiple.
 */
static void branch_forward(const struct dt_model *m, size_t u,
                           enum dt_role role, struct dt_view raw,
                           struct dt_view rstd)
{
    const struct dt_norm post = {.out = m->acts.branch, .rstd = rstd};
    if (m->family->post_norm)
        dt_norm_forward(m, u, role, &post, raw);
    if (m->scales.branch != 1.0f)
        m->ops->combine(m->stream, post.out, post.out, m->scales.branch,
                        (struct dt_view){0}, 0.0f);
}

/* --- the MLP --- */

static void activation_forward(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    if (is_gated(m))
        m->ops->glu_forward(m->stream, b->act, b->fc, m->config.gate, m->N,
                            m->config.n_inner);
    else
        m->ops->activation_forward(m->stream, b->act, b->fc, m->config.gate);
}

/* fc and its activation. GELU is fused only if the result is saved: a fused
 * kernel may round differently, and recomputation must give the same bits.
 */
static void mlp_up(const struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    size_t C = m->config.n_embd, I = m->config.n_inner;
    if (!is_gated(m) && m->options.save_activations &&
        !has_pair(m, u, DT_FC_W)) {
        m->ops->linear_activation_forward(
            m->stream, b->act, b->fc, b->norm_2.out,
            dt_model_weight(m, u, DT_FC_W), dt_model_weight(m, u, DT_FC_W + 1),
            weight_order(m, DT_FC_W), m->config.gate, m->N, C, I);
        return;
    }
    linear_forward(m, u, DT_FC_W, b->fc, branch_input(m, &b->norm_2, b->x_mid),
                   C, fc_width(m));
    activation_forward(m, u);
}

/* The place of the gradient of act. */
static struct dt_view d_act_of(const struct dt_model *m, size_t u)
{
    return m->acts.d_act.count > 0 ? m->acts.d_act : m->blocks[u - 1].act;
}

/* Backward of proj and the activation: returns the gradient of fc, from that of
 * the MLP's output.
 */
static struct dt_view mlp_down_backward(const struct dt_model *m, size_t u,
                                        struct dt_view d_out, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_view d_act = d_act_of(m, u);
    size_t C = m->config.n_embd, I = m->config.n_inner;
    if (is_gated(m)) {
        linear_backward(m, u, DT_PROJ_W, d_act, d_out, b->act, I, C,
                        accumulate);
        m->ops->glu_backward(m->stream, b->fc, d_act, b->fc, m->config.gate,
                             m->N, I);
        return b->fc;
    }
    if (has_pair(m, u, DT_PROJ_W)) {
        linear_backward(m, u, DT_PROJ_W, d_act, d_out, b->act, I, C,
                        accumulate);
        m->ops->activation_backward(m->stream, d_act, d_act, b->fc,
                                    m->config.gate);
        return d_act;
    }
    m->ops->linear_activation_backward(
        m->stream, d_act, dt_model_grad(m, u, DT_PROJ_W),
        bias_grad(m, u, DT_PROJ_W, d_out, accumulate), d_out, b->act, b->fc,
        dt_model_weight(m, u, DT_PROJ_W), weight_order(m, DT_PROJ_W),
        m->config.gate, m->N, I, C, accumulate);
    return d_act;
}

/* --- the block --- */

/* Attention, from the norm of x to its output. */
static void attention_branch(struct dt_model *m, size_t u)
{
    const struct dt_block *b = &m->blocks[u - 1];
    size_t C = m->config.n_embd;
    linear_forward(m, u, DT_QKV_W, b->qkv, branch_input(m, &b->norm_1, b->x), C,
                   qkv_width(m));
    dt_attend_forward(m, u);
    last_linear_forward(m, u, DT_OUT_W, b->x_mid, b->x, b->out, b->attention,
                        q_width(m));
    branch_forward(m, u, DT_POST_1_W, b->out, b->out_rstd);
}

void dt_block_forward(struct dt_model *m, size_t u, bool recompute)
{
    const struct dt_block *b = &m->blocks[u - 1];
    double rate = m->config.resid_dropout;
    struct dt_dropout below =
        dt_model_dropout(m, rate, u - 1, DT_PLACE_MLP_BRANCH);
    struct dt_dropout middle =
        dt_model_dropout(m, rate, u, DT_PLACE_ATTENTION_BRANCH);

    /* the MLP's residual of the block below, if there is one, and norm_1 */
    if (u > 1 && !recompute)
        residual_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x, b[-1].x_mid,
                         &below);
    else if (m->family->pre_norm)
        dt_norm_forward(m, u, DT_NORM_1_W, &b->norm_1, b->x);

    attention_branch(m, u);

    /* the residual of attention, and norm_2 */
    residual_forward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, b->x, &middle);

    mlp_up(m, u);
    if (recompute && !m->family->post_norm)
        return;
    last_linear_forward(m, u, DT_PROJ_W,
                        u < m->config.n_layer ? b[1].x : m->acts.top, b->x_mid,
                        b->proj, b->act, m->config.n_inner);
    branch_forward(m, u, DT_POST_2_W, b->proj, b->proj_rstd);
}

/* The gradient of the last layer of a branch: d_stream, through dropout, a
 * multiple, or the norm `role` of raw, with rstd.
 */
static struct dt_view residual_backward(const struct dt_model *m, size_t u,
                                        enum dt_place place, enum dt_role role,
                                        struct dt_view raw, struct dt_view rstd,
                                        bool accumulate)
{
    const struct dt_acts *a = &m->acts;
    const struct dt_view none = {0};
    struct dt_dropout dropout =
        dt_model_dropout(m, m->config.resid_dropout, u, place);
    if (m->family->post_norm) {
        m->ops->zero(m->stream, a->branch);
        add_norm_backward(m, u, role, a->branch, none, a->d_stream, raw, none,
                          rstd, accumulate);
        return a->branch;
    }
    if (m->scales.branch != 1.0f) {
        m->ops->combine(m->stream, a->branch, a->d_stream, m->scales.branch,
                        none, 0.0f);
        return a->branch;
    }
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
    if (m->family->pre_norm && !m->options.save_activations)
        dt_norm_forward(m, u, role, norm, x);
}

/* Adds to d_stream the gradient through the input of a branch; that of the
 * input itself is in branch.
 */
static void input_backward(struct dt_model *m, size_t u, enum dt_role role,
                           const struct dt_norm *norm, struct dt_view x,
                           bool accumulate)
{
    const struct dt_view d_stream = m->acts.d_stream;
    if (m->family->pre_norm)
        dt_norm_backward(m, u, role, norm, x, accumulate);
    else
        m->ops->combine(m->stream, d_stream, d_stream, 1.0f, m->acts.branch,
                        1.0f);
}

static void mlp_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    struct dt_view d_out =
        residual_backward(m, u, DT_PLACE_MLP_BRANCH, DT_POST_2_W, b->proj,
                          b->proj_rstd, accumulate);
    struct dt_view d_fc = mlp_down_backward(m, u, d_out, accumulate);
    restore_norm(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid);
    linear_backward(m, u, DT_FC_W, m->acts.branch, d_fc,
                    branch_input(m, &b->norm_2, b->x_mid), m->config.n_embd,
                    fc_width(m), accumulate);
    input_backward(m, u, DT_NORM_2_W, &b->norm_2, b->x_mid, accumulate);
}

/* Whether nothing that is trained needs the gradient of attention's input. */
static bool ends_at(const struct dt_model *m, size_t u)
{
    return m->first_unit + u == m->options.lowest &&
           (!m->family->pre_norm ||
            dt_model_grad(m, u, DT_NORM_1_W).count == 0);
}

void dt_block_backward(struct dt_model *m, size_t u, bool accumulate)
{
    const struct dt_block *b = &m->blocks[u - 1];
    const struct dt_acts *a = &m->acts;
    const bool ends = ends_at(m, u);
    size_t C = m->config.n_embd;
    struct dt_view d_out;

    /* the last block has just been computed: only its act is gone */
    if (m->options.recompute && u < m->config.n_layer)
        dt_block_forward(m, u, true);
    else if (!m->options.save_activations)
        activation_forward(m, u);

    mlp_backward(m, u, accumulate);

    d_out = residual_backward(m, u, DT_PLACE_ATTENTION_BRANCH, DT_POST_1_W,
                              b->out, b->out_rstd, accumulate);
    linear_backward(m, u, DT_OUT_W, a->d_attention, d_out, b->attention,
                    q_width(m), C, accumulate);
    dt_attend_backward(m, u, accumulate);
    restore_norm(m, u, DT_NORM_1_W, &b->norm_1, b->x);
    linear_backward(m, u, DT_QKV_W, ends ? (struct dt_view){0} : a->branch,
                    a->d_qkv, branch_input(m, &b->norm_1, b->x), C,
                    qkv_width(m), accumulate);
    if (!ends)
        input_backward(m, u, DT_NORM_1_W, &b->norm_1, b->x, accumulate);
}
