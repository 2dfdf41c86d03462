/* SPDX-License-Identifier: Apache-2.0 */
/*
 * projector.c - from blocks of a tower to the stream of the text
 *
 *     f     = w_2 activation(w_1 norm(merge(taps of x)))
 *
 * or without some of these. A tap is the output of a block; a feature is made
 * of the rows of its patches, side by side or their mean. The first projector
 * has the features in the place of tokens, each other one those that are added
 * to them after a block of the text.
 */
#include "config.h"

#include "model/family/family.h"
#include "model/model_impl.h"

static const struct dt_view NONE;

/* --- from the blocks to what features are made of --- */

bool dt_tower_taps(const struct dt_vision_config *vision, size_t u)
{
    bool tapped = false;
    for (size_t k = 0; k < vision->tap_count; k++)
        tapped |= vision->taps[k] == u;
    for (size_t k = 0; k < vision->deep_count; k++)
        tapped |= vision->deep[k] == u;
    return tapped;
}

/* to(M, K) = the rows of features from x(N, C) */
static void gather(const struct dt_tower *t, struct dt_view to,
                   struct dt_view x)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_tower_rows *rows = &t->pictures;
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    const size_t C = v->tower.n_embd;
    if (v->pooled)
        m->ops->sparse_matmul(m->stream, to, x, &rows->pool.plain,
                              rows->size.features, C, false);
    else
        m->ops->embedding_forward(m->stream, to, rows->sources, NONE, x, NONE,
                                  rows->sources.count, C, &none);
}

/* d(N, C) += d_rows(M, K) where they came from */
static void scatter(const struct dt_tower *t, struct dt_view d,
                    struct dt_view d_rows)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_tower_rows *rows = &t->pictures;
    const struct dt_model *m = t->model;
    if (!dt_tower_rows_gather(v, &rows->size))
        m->ops->combine(m->stream, d, d, 1.0f, d_rows, 1.0f);
    else if (v->pooled)
        m->ops->sparse_matmul(m->stream, d, d_rows, &rows->pool.transposed,
                              m->N, v->tower.n_embd, true);
    else
        m->ops->add_rows(m->stream, d, d_rows, rows->sources, m->N,
                         v->tower.n_embd, rows->sources.count);
}

/* Where the rows of tap k of several go. */
static struct dt_view slots_of(const struct dt_tower *t, size_t k)
{
    const size_t parts = t->pictures.sources.count;
    return dt_view_slice(t->pictures.slots, k * parts, parts);
}

/* Takes the rows of the k-th of the first projector's taps. */
static void first_tap_forward(struct dt_tower *t, size_t k, struct dt_view x)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const size_t parts = t->pictures.sources.count;
    struct dt_view *merged = &t->acts.projectors[0].merged;
    if (!dt_tower_rows_gather(v, &t->pictures.size)) {
        *merged = x;
        return;
    }
    gather(t, v->tap_count > 1 ? t->acts.tap : *merged, x);
    if (v->tap_count > 1)
        m->ops->add_rows(m->stream, *merged, t->acts.tap, slots_of(t, k),
                         parts * v->tap_count, v->tower.n_embd, parts);
}

static void first_tap_backward(const struct dt_tower *t, size_t k,
                               struct dt_view d)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    struct dt_view d_tap = t->acts.projectors[0].d_merged;
    if (v->tap_count > 1) {
        m->ops->embedding_forward(m->stream, t->acts.tap, slots_of(t, k), NONE,
                                  d_tap, NONE, t->pictures.sources.count,
                                  v->tower.n_embd, &none);
        d_tap = t->acts.tap;
    }
    scatter(t, d, d_tap);
}

void dt_tap_forward(struct dt_tower *t, size_t u, struct dt_view x)
{
    const struct dt_vision_config *v = t->vision;
    for (size_t k = 0; k < v->tap_count; k++)
        if (v->taps[k] == u)
            first_tap_forward(t, k, x);
    for (size_t k = 0; k < v->deep_count; k++)
        if (v->deep[k] == u)
            gather(t, t->acts.projectors[k + 1].merged, x);
}

void dt_tap_backward(const struct dt_tower *t, size_t u, struct dt_view d)
{
    const struct dt_vision_config *v = t->vision;
    for (size_t k = 0; k < v->tap_count; k++)
        if (v->taps[k] == u)
            first_tap_backward(t, k, d);
    for (size_t k = 0; k < v->deep_count; k++)
        if (v->deep[k] == u)
            scatter(t, d, t->acts.projectors[k + 1].d_merged);
}

/* --- projectors --- */

/* Projector k and its sizes: M features, each of K numbers; the norm is of rows
 * of C.
 */
struct projector {
    const struct dt_model *m;
    const struct dt_projector_acts *a;
    size_t u, M, K, C;
    struct dt_norm_rule rule;
};

/* C is 0 without a norm. */
static struct projector projector_of(const struct dt_tower *t, size_t k)
{
    const struct dt_vision_config *v = t->vision;
    const size_t u = dt_projector_unit(t, k);
    return (struct projector){
        .m = t->model,
        .a = &t->acts.projectors[k],
        .u = u,
        .M = t->pictures.size.features,
        .K = dt_vision_merged(v),
        .C = dt_model_weight(t->model, u, DT_MERGE_NORM_W).count,
        .rule = {.eps = (float)v->tower.norm_epsilon,
                 .shift = v->family->shifted ? 1.0f : 0.0f},
    };
}

/* The input of its first matrix. */
static struct dt_view input_of(const struct projector *p)
{
    return p->C > 0 ? p->a->norm.out : p->a->merged;
}

void dt_projector_forward(const struct dt_tower *t, size_t k)
{
    const struct projector p = projector_of(t, k);
    const struct dt_projector_acts *a = p.a;
    const struct dt_model *m = p.m;
    const size_t inner = t->vision->inner, width = t->plan.width;
    const struct dt_view x = input_of(&p);
    if (p.C > 0)
        m->ops->norm_forward(m->stream, x, a->norm.mean, a->norm.rstd,
                             a->merged,
                             dt_model_weight(m, p.u, DT_MERGE_NORM_W),
                             dt_model_weight(m, p.u, DT_MERGE_NORM_B), p.rule,
                             p.M * p.K / p.C, p.C);
    if (inner == 0) {
        dt_linear_forward(m, p.u, DT_MERGE_1_W, a->features, x, p.M, p.K,
                          width);
        return;
    }
    dt_linear_forward(m, p.u, DT_MERGE_1_W, a->hidden, x, p.M, p.K, inner);
    m->ops->activation_forward(m->stream, a->act, a->hidden,
                               t->vision->activation);
    dt_linear_forward(m, p.u, DT_MERGE_2_W, a->features, a->act, p.M, inner,
                      width);
}

static void norm_backward(const struct projector *p, struct dt_view d_input,
                          bool accumulate)
{
    const struct dt_projector_acts *a = p->a;
    const struct dt_model *m = p->m;
    m->ops->zero(m->stream, a->d_merged);
    m->ops->norm_backward(
        m->stream, a->d_merged, dt_model_grad(m, p->u, DT_MERGE_NORM_W),
        dt_model_grad(m, p->u, DT_MERGE_NORM_B), NONE, d_input, a->merged,
        dt_model_weight(m, p->u, DT_MERGE_NORM_W), a->norm.mean, a->norm.rstd,
        p->rule.shift, p->M * p->K / p->C, p->C, accumulate);
}

void dt_projector_backward(const struct dt_tower *t, size_t k, bool accumulate)
{
    const struct projector p = projector_of(t, k);
    const struct dt_projector_acts *a = p.a;
    const struct dt_model *m = p.m;
    const size_t inner = t->vision->inner, width = t->plan.width;
    const bool normed = p.C > 0;
    const struct dt_view d_last = normed ? t->acts.d_input : a->d_merged;
    const struct dt_view dx = m->options.train || normed ? d_last : NONE;
    struct dt_view d = a->d_features;
    if (inner > 0) {
        dt_linear_backward(m, p.u, DT_MERGE_2_W, t->acts.d_act, d, a->act, p.M,
                           inner, width, accumulate);
        d = t->acts.d_act;
        m->ops->activation_backward(m->stream, d, d, a->hidden,
                                    t->vision->activation);
    }
    dt_linear_backward(m, p.u, DT_MERGE_1_W, dx, d, input_of(&p), p.M, p.K,
                       inner > 0 ? inner : width, accumulate);
    if (normed)
        norm_backward(&p, d_last, accumulate);
}

/* --- features in the stream of the text --- */

/* The features of a run of `features`. */
static struct dt_view features_of(const struct dt_tower *t,
                                  const struct dt_tower_run *run,
                                  struct dt_view features)
{
    const size_t C = t->plan.width;
    return dt_view_slice(features, run->feature * C, run->count * C);
}

void dt_tower_add_features(const struct dt_tower *t, size_t u, struct dt_view x,
                           size_t N)
{
    const struct dt_model *m = t->model;
    const struct dt_tower_rows *pictures = &t->pictures;
    const size_t M = pictures->tokens.count, C = t->plan.width;
    if (M == 0 || u > t->vision->deep_count)
        return;
    const struct dt_view features = t->acts.projectors[u].features;
    m->ops->add_rows(m->stream, x, features, pictures->tokens, N, C, M);
    for (size_t i = 0; i < pictures->run_count; i++) {
        const struct dt_tower_run *run = &pictures->runs[i];
        m->ops->add_rows(m->stream, x, features_of(t, run, features),
                         dt_view_slice(pictures->copies, run->at, run->count),
                         N, C, run->count);
    }
}

/* Adds the gradients of copies to those of their pictures, in their order. The
 * features are of no more use, and their memory takes those of a run.
 */
static void add_copies(const struct dt_tower *t,
                       const struct dt_projector_acts *a, struct dt_view d)
{
    const struct dt_model *m = t->model;
    const struct dt_tower_rows *pictures = &t->pictures;
    const struct dt_dropout none = {0};
    for (size_t i = 0; i < pictures->run_count; i++) {
        const struct dt_tower_run *run = &pictures->runs[i];
        const struct dt_view sum = features_of(t, run, a->d_features);
        const struct dt_view own = features_of(t, run, a->features);
        m->ops->embedding_forward(
            m->stream, own,
            dt_view_slice(pictures->copies, run->at, run->count), NONE, d, NONE,
            run->count, t->plan.width, &none);
        m->ops->combine(m->stream, sum, sum, 1.0f, own, 1.0f);
    }
}

void dt_tower_take_gradients(const struct dt_tower *t, size_t u,
                             struct dt_view d)
{
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    const size_t M = t->pictures.tokens.count;
    if (M == 0 || u > t->vision->deep_count)
        return;
    const struct dt_projector_acts *a = &t->acts.projectors[u];
    m->ops->embedding_forward(m->stream, a->d_features, t->pictures.tokens,
                              NONE, d, NONE, M, t->plan.width, &none);
    add_copies(t, a, d);
}
