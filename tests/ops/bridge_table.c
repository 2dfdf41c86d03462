/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_table.c - one wrapper for each operation; see bridge.h */
#include "config.h"

#include "bridge.h"
#include "harness.h"

/* Structs of arguments, with the views of this pass; until the next one. */

static const struct dt_dropout *dropout_at(const struct dt_dropout *dropout)
{
    static struct dt_dropout there;

    there = *dropout;
    there.rows = at(dropout->rows);
    return &there;
}

static const struct dt_attention *attention_at(
    const struct dt_attention *attention)
{
    static struct dt_attention there;

    there = *attention;
    there.first = at(attention->first);
    there.last = at(attention->last);
    there.documents.spans = at(attention->documents.spans);
    there.dropout.rows = at(attention->dropout.rows);
    return &there;
}

static const struct dt_rope *rope_at(const struct dt_rope *rope)
{
    static struct dt_rope there;

    there = *rope;
    there.positions = at(rope->positions);
    there.axis = at(rope->axis);
    there.table = at(rope->table);
    there.q_norm = at(rope->q_norm);
    there.k_norm = at(rope->k_norm);
    return &there;
}

static const struct dt_heads_norm *heads_at(const struct dt_heads_norm *norm)
{
    static struct dt_heads_norm there;

    there = *norm;
    there.q_norm = at(norm->q_norm);
    there.k_norm = at(norm->k_norm);
    return &there;
}

static const struct dt_kv *kv_at(const struct dt_kv *kv)
{
    static struct dt_kv there;

    there = *kv;
    there.k = at(kv->k);
    there.v = at(kv->v);
    there.table = at(kv->table);
    return &there;
}

static const struct dt_sparse *sparse_at(const struct dt_sparse *a)
{
    static struct dt_sparse there;

    there.starts = at(a->starts);
    there.columns = at(a->columns);
    there.values = at(a->values);
    return &there;
}

static const struct dt_logprobs *logprobs_at(const struct dt_logprobs *out)
{
    static struct dt_logprobs there;

    there.logp = at(out->logp);
    there.lse = at(out->lse);
    there.entropy = at(out->entropy);
    there.collision = at(out->collision);
    there.mean = at(out->mean);
    there.top = at(out->top);
    return &there;
}

static const struct dt_adamw *adamw_at(const struct dt_adamw *args)
{
    static struct dt_adamw there;

    there = *args;
    there.bounds = at(args->bounds);
    return &there;
}

static const char *library(void)
{
    return bridge_ops->library();
}

static const char *emulation(enum dt_dtype type)
{
    return bridge_ops->emulation(type);
}

static void embedding_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view ids, struct dt_view positions,
                              struct dt_view wte, struct dt_view wpe, size_t N,
                              size_t C, const struct dt_dropout *dropout)
{
    (void)stream;
    CALL(embedding_forward, 0.0, at(out), at(ids), at(positions), at(wte),
         at(wpe), N, C, dropout_at(dropout));
}

static void embedding_backward(struct dt_stream *stream, struct dt_view dwte,
                               struct dt_view dwpe, struct dt_view dout,
                               struct dt_view ids, struct dt_view positions,
                               int32_t skip, size_t N, size_t C,
                               bool accumulate)
{
    (void)stream;
    CALL(embedding_backward, 0.0, at(dwte), at(dwpe), at(dout), at(ids),
         at(positions), skip, N, C, accumulate);
}

static void scatter_rows(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, struct dt_view rows, size_t N,
                         size_t C, size_t M)
{
    (void)stream;
    CALL(scatter_rows, 0.0, at(out), at(x), at(rows), N, C, M);
}

static void add_rows(struct dt_stream *stream, struct dt_view out,
                     struct dt_view x, struct dt_view rows, size_t N, size_t C,
                     size_t M)
{
    (void)stream;
    CALL(add_rows, 0.0, at(out), at(x), at(rows), N, C, M);
}

static void patch_rows(struct dt_stream *stream, struct dt_view out,
                       struct dt_view pixels, struct dt_view rows,
                       struct dt_view table, size_t frames, size_t M, size_t W)
{
    (void)stream;
    CALL(patch_rows, 0.0, at(out), at(pixels), at(rows), at(table), frames, M,
         W);
}

static void sparse_matmul(struct dt_stream *stream, struct dt_view out,
                          struct dt_view x, const struct dt_sparse *a, size_t N,
                          size_t C, bool accumulate)
{
    (void)stream;
    CALL(sparse_matmul, 0.0, at(out), at(x), sparse_at(a), N, C, accumulate);
}

static void linear_forward(struct dt_stream *stream, struct dt_view out,
                           struct dt_view x, struct dt_view w, struct dt_view b,
                           enum dt_weight_order order, size_t N, size_t C,
                           size_t OC)
{
    (void)stream;
    CALL(linear_forward, 0.0, at(out), at(x), at(w), at(b), order, N, C, OC);
}

static void linear_backward(struct dt_stream *stream, struct dt_view dx,
                            struct dt_view dw, struct dt_view db,
                            struct dt_view dout, struct dt_view x,
                            struct dt_view w, enum dt_weight_order order,
                            size_t N, size_t C, size_t OC, bool accumulate)
{
    (void)stream;
    CALL(linear_backward, 0.0, at(dx), at(dw), at(db), at(dout), at(x), at(w),
         order, N, C, OC, accumulate);
}

static void norm_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view mean, struct dt_view rstd,
                         struct dt_view x, struct dt_view w, struct dt_view b,
                         struct dt_norm_rule rule, size_t N, size_t C)
{
    (void)stream;
    CALL(norm_forward, 0.0, at(out), at(mean), at(rstd), at(x), at(w), at(b),
         rule, N, C);
}

static void residual_norm_forward(struct dt_stream *stream, struct dt_view sum,
                                  struct dt_view out, struct dt_view mean,
                                  struct dt_view rstd, struct dt_view x,
                                  struct dt_view y, struct dt_view w,
                                  struct dt_view b, struct dt_norm_rule rule,
                                  size_t N, size_t C,
                                  const struct dt_dropout *dropout)
{
    (void)stream;
    /* a device may round an element of y that dropout scales together with the
     * sum, and the norm is one of the sum as it is stored
     */
    const double slack = dropout->rate > 0.0 ? inner(x.dtype) : 0.0;
    CALL(residual_norm_forward, slack, at(sum), at(out), at(mean), at(rstd),
         at(x), at(y), at(w), at(b), rule, N, C, dropout_at(dropout));
}

static void dropout_backward(struct dt_stream *stream, struct dt_view dx,
                             struct dt_view dout, size_t N, size_t C,
                             const struct dt_dropout *dropout)
{
    (void)stream;
    CALL(dropout_backward, 0.0, at(dx), at(dout), N, C, dropout_at(dropout));
}

static void linear_activation_forward(struct dt_stream *stream,
                                      struct dt_view out, struct dt_view pre,
                                      struct dt_view x, struct dt_view w,
                                      struct dt_view b,
                                      enum dt_weight_order order,
                                      enum dt_activation activation, size_t N,
                                      size_t C, size_t OC)
{
    (void)stream;
    CALL(linear_activation_forward, inner(x.dtype), at(out), at(pre), at(x),
         at(w), at(b), order, activation, N, C, OC);
}

static void linear_activation_backward(struct dt_stream *stream,
                                       struct dt_view dpre, struct dt_view dw,
                                       struct dt_view db, struct dt_view dout,
                                       struct dt_view x, struct dt_view pre,
                                       struct dt_view w,
                                       enum dt_weight_order order,
                                       enum dt_activation activation, size_t N,
                                       size_t C, size_t OC, bool accumulate)
{
    (void)stream;
    CALL(linear_activation_backward, inner(x.dtype), at(dpre), at(dw), at(db),
         at(dout), at_lost(x), at(pre), at(w), order, activation, N, C, OC,
         accumulate);
}

static void activation_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view x, enum dt_activation activation)
{
    (void)stream;
    CALL(activation_forward, 0.0, at(out), at(x), activation);
}

static void activation_backward(struct dt_stream *stream, struct dt_view dx,
                                struct dt_view dout, struct dt_view x,
                                enum dt_activation activation)
{
    (void)stream;
    CALL(activation_backward, 0.0, at(dx), at(dout), at(x), activation);
}

static void glu_forward(struct dt_stream *stream, struct dt_view out,
                        struct dt_view x, enum dt_activation activation,
                        size_t N, size_t I)
{
    (void)stream;
    CALL(glu_forward, 0.0, at(out), at(x), activation, N, I);
}

static void glu_backward(struct dt_stream *stream, struct dt_view dx,
                         struct dt_view dout, struct dt_view x,
                         enum dt_activation activation, size_t N, size_t I)
{
    (void)stream;
    CALL(glu_backward, 0.0, at(dx), at(dout), at(x), activation, N, I);
}

static void heads_norm_forward(struct dt_stream *stream, struct dt_view out,
                               struct dt_view rstd, struct dt_view qkv,
                               size_t N, const struct dt_heads_norm *norm)
{
    (void)stream;
    CALL(heads_norm_forward, 0.0, at(out), at(rstd), at(qkv), N,
         heads_at(norm));
}

static void heads_norm_backward(struct dt_stream *stream, struct dt_view dqkv,
                                struct dt_view dq_norm, struct dt_view dk_norm,
                                struct dt_view qkv, struct dt_view rstd,
                                size_t N, const struct dt_heads_norm *norm,
                                bool accumulate)
{
    (void)stream;
    CALL(heads_norm_backward, 0.0, at(dqkv), at(dq_norm), at(dk_norm), at(qkv),
         at(rstd), N, heads_at(norm), accumulate);
}

static void rope_forward(struct dt_stream *stream, struct dt_view out,
                         struct dt_view rstd, struct dt_view qkv, size_t N,
                         const struct dt_rope *rope)
{
    (void)stream;
    CALL(rope_forward, 0.0, at(out), at(rstd), at(qkv), N, rope_at(rope));
}

static void rope_backward(struct dt_stream *stream, struct dt_view dqkv,
                          struct dt_view dq_norm, struct dt_view dk_norm,
                          struct dt_view qkv, struct dt_view rstd, size_t N,
                          const struct dt_rope *rope, bool accumulate)
{
    (void)stream;
    CALL(rope_backward, 0.0, at(dqkv), at(dq_norm), at(dk_norm), at(qkv),
         at(rstd), N, rope_at(rope), accumulate);
}

static void attention_forward(struct dt_stream *stream, struct dt_view out,
                              struct dt_view lse, struct dt_view qkv,
                              const struct dt_attention *attention)
{
    (void)stream;
    CALL(attention_forward, inner(qkv.dtype), at(out), at(lse), at(qkv),
         attention_at(attention));
}

static void attention_backward(struct dt_stream *stream, struct dt_view dqkv,
                               struct dt_view dout, struct dt_view out,
                               struct dt_view lse, struct dt_view qkv,
                               struct dt_view workspace,
                               const struct dt_attention *attention)
{
    (void)stream;
    CALL(attention_backward, inner(qkv.dtype), at(dqkv), at(dout), at(out),
         at(lse), at(qkv),
         at_workspace(workspace,
                      dt_ops_cpu()->attention_workspace(qkv.dtype, attention)),
         attention_at(attention));
}

static size_t attention_workspace(enum dt_dtype type,
                                  const struct dt_attention *attention)
{
    bridge_begin("attention_workspace", bridge_ops->attention_workspace != NULL,
                 0.0);
    return bridge_ops->attention_workspace(type, attention);
}

static void kv_store(struct dt_stream *stream, const struct dt_kv *kv,
                     struct dt_view qkv, struct dt_view places, size_t N)
{
    (void)stream;
    CALL(kv_store, 0.0, kv_at(kv), at(qkv), at(places), N);
}

static void kv_attention(struct dt_stream *stream, struct dt_view out,
                         struct dt_view qkv, struct dt_view positions,
                         const struct dt_kv *kv)
{
    (void)stream;
    CALL(kv_attention, 0.0, at(out), at(qkv), at(positions), kv_at(kv));
}

static void sample(struct dt_stream *stream, struct dt_view ids,
                   struct dt_view logp, struct dt_view logits,
                   struct dt_view draws, struct dt_view seen,
                   const struct dt_sampling *sampling, size_t B, size_t V)
{
    (void)stream;
    CALL(sample, 0.0, at(ids), at(logp), at_lost(logits), at(draws), at(seen),
         sampling, B, V);
}

static void linear_cross_entropy(struct dt_stream *stream, struct dt_view step,
                                 struct dt_view dx, struct dt_view dw,
                                 struct dt_view x, struct dt_view w,
                                 struct dt_view targets,
                                 struct dt_view workspace,
                                 const struct dt_logit_rule *rule,
                                 float smoothing, size_t N, size_t C, size_t V,
                                 bool accumulate)
{
    (void)stream;
    CALL(linear_cross_entropy, inner(x.dtype), at(step), at(dx), at(dw), at(x),
         at(w), at(targets), at_workspace(workspace, V + 2 * C), rule,
         smoothing, N, C, V, accumulate);
}

static void linear_logprob_forward(
    struct dt_stream *stream, const struct dt_logprobs *out, struct dt_view x,
    struct dt_view w, struct dt_view targets, struct dt_view workspace,
    const struct dt_logit_rule *rule, size_t N, size_t C, size_t V)
{
    (void)stream;
    CALL(linear_logprob_forward, 0.0, logprobs_at(out), at(x), at(w),
         at(targets), at_workspace(workspace, V + 2 * C), rule, N, C, V);
}

static void linear_logprob_backward(struct dt_stream *stream,
                                    struct dt_view step, struct dt_view dx,
                                    struct dt_view dw, struct dt_view dlogp,
                                    struct dt_view dentropy, struct dt_view lse,
                                    struct dt_view entropy, struct dt_view x,
                                    struct dt_view w, struct dt_view targets,
                                    struct dt_view workspace,
                                    const struct dt_logit_rule *rule, size_t N,
                                    size_t C, size_t V, bool accumulate)
{
    (void)stream;
    CALL(linear_logprob_backward, inner(x.dtype), at(step), at(dx), at(dw),
         at(dlogp), at(dentropy), at(lse), at(entropy), at(x), at(w),
         at(targets), at_workspace(workspace, V + 2 * C), rule, N, C, V,
         accumulate);
}

static void apply_logit_rule(struct dt_stream *stream, struct dt_view logits,
                             const struct dt_logit_rule *rule)
{
    (void)stream;
    CALL(apply_logit_rule, 0.0, at(logits), rule);
}

static size_t loss_workspace(enum dt_dtype type, size_t N, size_t C, size_t V,
                             bool whole)
{
    bridge_begin("loss_workspace", bridge_ops->loss_workspace != NULL, 0.0);
    return bridge_ops->loss_workspace(type, N, C, V, whole);
}

static void zero(struct dt_stream *stream, struct dt_view x)
{
    (void)stream;
    CALL(zero, 0.0, at(x));
}

static void convert(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x)
{
    (void)stream;
    CALL(convert, 0.0, at(out), at(x));
}

static void add(struct dt_stream *stream, struct dt_view out, struct dt_view x)
{
    (void)stream;
    CALL(add, 0.0, at(out), at(x));
}

static void add_dithered(struct dt_stream *stream, struct dt_view out,
                         struct dt_view x, bool accumulate,
                         const struct dt_dither *dither)
{
    (void)stream;
    CALL(add_dithered, 0.0, at(out), at(x), accumulate, dither);
}

static void combine(struct dt_stream *stream, struct dt_view out,
                    struct dt_view x, float a, struct dt_view y, float b)
{
    (void)stream;
    CALL(combine, 0.0, at(out), at(x), a, at(y), b);
}

static void hash(struct dt_stream *stream, struct dt_view sum, struct dt_view x)
{
    (void)stream;
    CALL(hash, 0.0, at(sum), at(x));
}

static void step_begin(struct dt_stream *stream, struct dt_view step,
                       const struct dt_step_params params[DT_STEP_OUTCOMES])
{
    (void)stream;
    CALL(step_begin, 0.0, at(step), params);
}

static void step_add(struct dt_stream *stream, struct dt_view step,
                     double targets, double stop)
{
    (void)stream;
    CALL(step_add, 0.0, at(step), targets, stop);
}

static void sum_of_squares(struct dt_stream *stream, struct dt_view step,
                           struct dt_view x)
{
    (void)stream;
    CALL(sum_of_squares, 0.0, at(step), at(x));
}

static void clip_and_check(struct dt_stream *stream, struct dt_view step,
                           double max_norm)
{
    (void)stream;
    CALL(clip_and_check, 0.0, at(step), max_norm);
}

static void adamw(struct dt_stream *stream, struct dt_view step,
                  struct dt_view p, struct dt_view w, struct dt_view g,
                  struct dt_view m, struct dt_view v,
                  const struct dt_adamw *args)
{
    (void)stream;
    CALL(adamw, 0.0, at(step), at(p), at(w), at(g), at(m), at(v),
         adamw_at(args));
}

struct dt_ops bridge_table = {
    .library = library,
    .emulation = emulation,
    .embedding_forward = embedding_forward,
    .embedding_backward = embedding_backward,
    .scatter_rows = scatter_rows,
    .add_rows = add_rows,
    .patch_rows = patch_rows,
    .sparse_matmul = sparse_matmul,
    .linear_forward = linear_forward,
    .linear_add_forward = bridge_linear_add_forward,
    .linear_backward = linear_backward,
    .norm_forward = norm_forward,
    .residual_norm_forward = residual_norm_forward,
    .norm_backward = bridge_norm_backward,
    .dropout_backward = dropout_backward,
    .linear_activation_forward = linear_activation_forward,
    .linear_activation_backward = linear_activation_backward,
    .activation_forward = activation_forward,
    .activation_backward = activation_backward,
    .low_rank_forward = bridge_low_rank_forward,
    .low_rank_backward = bridge_low_rank_backward,
    .glu_forward = glu_forward,
    .glu_backward = glu_backward,
    .heads_norm_forward = heads_norm_forward,
    .heads_norm_backward = heads_norm_backward,
    .rope_forward = rope_forward,
    .rope_backward = rope_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .attention_workspace = attention_workspace,
    .kv_store = kv_store,
    .kv_attention = kv_attention,
    .sample = sample,
    .linear_cross_entropy = linear_cross_entropy,
    .linear_logprob_forward = linear_logprob_forward,
    .linear_logprob_backward = linear_logprob_backward,
    .apply_logit_rule = apply_logit_rule,
    .loss_workspace = loss_workspace,
    .zero = zero,
    .convert = convert,
    .add = add,
    .add_dithered = add_dithered,
    .combine = combine,
    .hash = hash,
    .step_begin = step_begin,
    .step_add = step_add,
    .sum_of_squares = sum_of_squares,
    .clip_and_check = clip_and_check,
    .adamw = adamw,
};
