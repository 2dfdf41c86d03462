/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tower.c - pictures become features: the units in front of a language model
 *
 *     x     = norm_0(patches w + b, class + positions)
 *     x     = blocks(x), and a norm behind them
 *     f     = w_2 activation(w_1 merge(norm(taps of x)))
 *
 * Families have some of these. The blocks are those of any model; a batch of
 * pictures is one row of theirs, within which a picture, or a window of it,
 * sees itself alone. Without pictures there are no rows, and gradients are 0:
 * the unit takes part in what ranks do together all the same.
 */
#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "model/family/family.h"
#include "model/model_impl.h"

static const struct dt_view NONE;

/* Units of a tower of L blocks. */
static size_t tail_unit(const struct dt_tower *t)
{
    return t->vision->tower.n_layer + 1;
}

static size_t projector_unit(const struct dt_tower *t)
{
    return t->vision->tower.n_layer + 2;
}

static bool has_role(const struct dt_tower *t, enum dt_role role)
{
    return t->model->roles[role].count > 0;
}

/* --- memory --- */

/* Rows, features and their parts of these pictures. */
struct sizes {
    size_t P, N, M, parts;
};

static struct sizes sizes_of(const struct dt_vision_config *v,
                             const struct dt_tower_size *pictures)
{
    const size_t M = pictures->features;
    return (struct sizes){pictures->patches, pictures->rows, M,
                          M * v->merge * v->merge};
}

static void take_statistics(struct dt_norm *norm, struct dt_arena *arena,
                            const struct dt_vision_config *v, size_t rows)
{
    norm->rstd = dt_arena_take(arena, DT_F32, rows, 1);
    if (v->tower.family->centered)
        norm->mean = dt_arena_take(arena, DT_F32, rows, 1);
}

/* Places the tensors of these pictures in buf, or only counts if it is NULL.
 * Returns their bytes.
 */
static size_t plan(struct dt_tower_acts *a, struct dt_buffer *buf,
                   const struct dt_tower_for *tower,
                   const struct dt_tower_size *pictures)
{
    const struct dt_vision_config *v = tower->vision;
    const struct sizes s = sizes_of(v, pictures);
    const size_t C = v->tower.n_embd, K = dt_vision_merged(v);
    struct dt_arena arena = {.buf = buf, .compute = tower->options->compute};
    const enum dt_dtype X = arena.compute;
    struct dt_role_range roles[DT_ROLES];
    dt_params_find(&v->tower, v, roles);
    const bool normed = roles[DT_MERGE_NORM_W].count > 0;
    *a = (struct dt_tower_acts){0};
    if (roles[DT_NORM_0_W].count > 0) {
        a->embedded = dt_arena_take(&arena, X, s.N, C);
        take_statistics(&a->norm_0, &arena, v, s.N);
    }
    if (v->tap_count > 1)
        a->tap = dt_arena_take(&arena, X, s.parts, C);
    if (dt_tower_rows_gather(v, pictures))
        a->merged = dt_arena_take(&arena, X, s.M, K);
    if (normed) {
        a->merge_norm.out = dt_arena_take(&arena, X, s.parts, C);
        take_statistics(&a->merge_norm, &arena, v, s.parts);
    }
    a->hidden = dt_arena_take(&arena, X, s.M, v->inner);
    a->act = dt_arena_take(&arena, X, s.M, v->inner);
    a->features = dt_arena_take(&arena, X, s.M, tower->width);

    size_t start = arena.used;
    a->patches = dt_arena_take(&arena, X, s.P, dt_vision_row(v));
    a->cells = dt_arena_take(&arena, X, s.P + 1, C);
    arena.used = start;
    if (tower->options->train) {
        a->d_features = dt_arena_take(&arena, X, s.M, tower->width);
        a->d_act = dt_arena_take(&arena, X, s.M, v->inner);
        a->d_merged = dt_arena_take(&arena, X, s.M, K);
        if (normed)
            a->d_input = dt_arena_take(&arena, X, s.M, K);
    }
    return arena.peak;
}

/* Tiles of attention that pictures must fit. */
static size_t tile_of(const struct dt_tower_for *tower,
                      const struct dt_ops *ops)
{
    return tower->options->exact_rows ? ops->key_tile : 0;
}

/* The most that a batch has. */
static struct dt_tower_size most_of(const struct dt_tower_for *tower,
                                    const struct dt_ops *ops)
{
    return dt_tower_rows_most(tower->vision, tower->options,
                              tile_of(tower, ops),
                              tower->options->exact_rows ? ops->few_rows : 0);
}

/* What the blocks of a tower are for. Its rows are one row of a batch; where no
 * batch has pictures there is memory for one, since none cannot be allocated.
 */
static struct dt_model_options options_of(const struct dt_tower_for *tower,
                                          const struct dt_ops *ops)
{
    const struct dt_model_options *options = tower->options;
    const size_t rows = most_of(tower, ops).rows;
    const bool trains =
        options->train && options->lowest < tower->vision->tower.n_layer + 2;
    return (struct dt_model_options){
        .B = 1,
        .T = rows > 0 ? rows : 1,
        .compute = options->compute,
        .train = trains,
        .lowest = options->lowest,
        .documents = true,
        .recompute = options->recompute,
        .save_activations = options->save_activations,
        .exact_rows = options->exact_rows,
        .dropout = options->dropout,
        .seed = options->seed,
        .adapter = options->adapter,
    };
}

size_t dt_tower_bytes(const struct dt_tower_for *tower,
                      const struct dt_ops *ops)
{
    const struct dt_model_options options = options_of(tower, ops);
    const struct dt_tower_size most = most_of(tower, ops);
    struct dt_tower_acts acts;
    const size_t blocks =
        dt_model_part_bytes(&tower->vision->tower, ops, &options);
    const size_t others = plan(&acts, NULL, tower, &most) +
                          dt_tower_rows_bytes(tower->vision, &most) +
                          3 * 256 * sizeof(float);
    size_t bytes;
    return blocks == SIZE_MAX || __builtin_add_overflow(blocks, others, &bytes)
               ? SIZE_MAX
               : bytes;
}

/* Copies the numbers that bytes of a color become. */
static int upload_colors(struct dt_tower *t, const float *colors,
                         struct dt_error *err)
{
    const struct dt_exec *exec = &t->model->exec;
    const size_t bytes = 3 * 256 * sizeof(*colors);
    t->colors = dt_buffer_create(exec->device, bytes, "colors", err);
    if (!t->colors)
        return -1;
    if (!colors)
        return 0;
    return exec->device->copy(exec->stream, t->colors->data, colors, bytes,
                              err);
}

struct dt_tower *dt_tower_create(const struct dt_tower_for *tower,
                                 const struct dt_layout *layout,
                                 const struct dt_exec *exec,
                                 struct dt_places weights,
                                 struct dt_places grads, struct dt_error *err)
{
    const struct dt_model_options options = options_of(tower, exec->ops);
    const struct dt_tower_size most = most_of(tower, exec->ops);
    const size_t bytes = plan(&(struct dt_tower_acts){0}, NULL, tower, &most);
    struct dt_tower *t = calloc(1, sizeof(*t));
    if (!t) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    t->config = *tower->vision;
    t->options = *tower->options;
    t->vision = &t->config;
    t->plan = (struct dt_tower_for){t->vision, &t->options, tower->width};
    t->model = dt_model_create_part(&t->config.tower, t->vision, layout, exec,
                                    weights, grads, &options, err);
    if (t->model)
        t->buf = dt_buffer_create(exec->device, bytes, "features", err);
    if (!t->model || !t->buf ||
        upload_colors(t, tower->options->colors, err) < 0 ||
        dt_tower_rows_init(&t->pictures, t->vision, exec, &most, err) < 0) {
        dt_tower_destroy(t);
        return NULL;
    }
    return t;
}

void dt_tower_destroy(struct dt_tower *t)
{
    if (!t)
        return;
    dt_tower_rows_fini(&t->pictures);
    dt_buffer_destroy(t->colors);
    dt_buffer_destroy(t->buf);
    dt_model_destroy_part(t->model);
    free(t);
}

int dt_tower_bind(struct dt_tower *t, const struct dt_batch *batch, bool train,
                  struct dt_error *err)
{
    struct dt_tower_rows *pictures = &t->pictures;
    struct dt_model *m = t->model;
    if (dt_tower_rows_upload(pictures, &m->inputs, batch, err) < 0)
        return -1;
    plan(&t->acts, t->buf, &t->plan, &pictures->size);
    return dt_model_bind_rows(m, 1, pictures->size.rows, train, err);
}

/* --- the embedding of patches --- */

/* patches(P, row) of the batch, in the compute type */
static void look_up(const struct dt_tower *t)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    m->ops->patch_rows(m->stream, t->acts.patches, t->pictures.pixels, NONE,
                       dt_view_of(t->colors, DT_F32), v->frames,
                       t->pictures.size.patches, 3 * v->patch * v->patch);
}

/* The products of patches come first, and the class after them, so that one
 * gather makes the rows and adds their positions.
 */
static void embedding_forward(const struct dt_tower *t)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_tower_acts *a = &t->acts;
    const struct dt_dropout none = {0};
    const size_t P = t->pictures.size.patches, C = v->tower.n_embd;
    const struct dt_view x = m->blocks[0].x;
    const bool normed = a->embedded.count > 0;
    if (v->tap_count > 1)
        m->ops->zero(m->stream, a->merged);
    look_up(t);
    dt_linear_forward(m, 0, DT_PATCH_W, dt_view_slice(a->cells, 0, P * C),
                      a->patches, P, dt_vision_row(v), C);
    if (v->class_first)
        m->ops->combine(m->stream, dt_view_slice(a->cells, P * C, C),
                        dt_model_weight(m, 0, DT_CLASS), 1.0f, NONE, 0.0f);
    m->ops->embedding_forward(m->stream, normed ? a->embedded : x,
                              t->pictures.cells, m->inputs.positions, a->cells,
                              dt_model_weight(m, 0, DT_WPE), m->N, C, &none);
    if (normed)
        m->ops->norm_forward(m->stream, x, a->norm_0.mean, a->norm_0.rstd,
                             a->embedded, dt_model_weight(m, 0, DT_NORM_0_W),
                             dt_model_weight(m, 0, DT_NORM_0_B),
                             dt_model_norm_rule(m), m->N, C);
}

/* grad(rows, C) = or += the sum of d at rows `ids` */
static void sum_rows(const struct dt_model *m, struct dt_view grad,
                     struct dt_view d, struct dt_view ids, bool accumulate)
{
    if (grad.count == 0)
        return;
    if (!accumulate)
        m->ops->zero(m->stream, grad);
    m->ops->embedding_backward(m->stream, grad, NONE, d, ids, NONE, -1, m->N,
                               m->config.n_embd, true);
}

/* d_stream is the gradient of the first block's input. */
static void embedding_backward(const struct dt_tower *t, bool accumulate)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_tower_acts *a = &t->acts;
    const struct dt_dropout none = {0};
    const size_t P = t->pictures.size.patches, C = v->tower.n_embd;
    const struct dt_view d_cells = dt_view_slice(a->cells, 0, P * C);
    struct dt_view d = m->acts.d_stream;
    if (a->embedded.count > 0) {
        d = m->acts.branch;
        m->ops->zero(m->stream, d);
        m->ops->norm_backward(
            m->stream, d, dt_model_grad(m, 0, DT_NORM_0_W),
            dt_model_grad(m, 0, DT_NORM_0_B), NONE, m->acts.d_stream,
            a->embedded, dt_model_weight(m, 0, DT_NORM_0_W), a->norm_0.mean,
            a->norm_0.rstd, dt_model_norm_rule(m).shift, m->N, C, accumulate);
    }
    sum_rows(m, dt_model_grad(m, 0, DT_WPE), d, m->inputs.positions,
             accumulate);
    sum_rows(m, dt_model_grad(m, 0, DT_CLASS), d, t->pictures.classes,
             accumulate);
    m->ops->embedding_forward(m->stream, d_cells, t->pictures.cell_rows, NONE,
                              d, NONE, P, C, &none);
    look_up(t);
    dt_linear_backward(m, 0, DT_PATCH_W, NONE, d_cells, a->patches, P,
                       dt_vision_row(v), C, accumulate);
}

/* --- from the blocks to what features are made of --- */

static bool is_tap(const struct dt_tower *t, size_t u, size_t k)
{
    return t->vision->taps[k] == u;
}

/* Where the rows of tap k go. */
static struct dt_view slots_of(const struct dt_tower *t, size_t k)
{
    const size_t parts = t->pictures.sources.count;
    return dt_view_slice(t->pictures.slots, k * parts, parts);
}

/* Adds the rows of tap k of several, which are in acts.tap. */
static void add_tap(const struct dt_tower *t, size_t k)
{
    const struct dt_model *m = t->model;
    const size_t parts = t->pictures.sources.count;
    m->ops->add_rows(m->stream, t->acts.merged, t->acts.tap, slots_of(t, k),
                     parts * t->vision->tap_count, t->vision->tower.n_embd,
                     parts);
}

/* Takes the rows of features from x, the output of block u or of the norm
 * behind the last one, if it is a tap.
 */
static void tap_forward(struct dt_tower *t, size_t u, struct dt_view x)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    const bool alone = v->tap_count == 1;
    struct dt_tower_acts *a = &t->acts;
    for (size_t k = 0; k < v->tap_count; k++) {
        if (!is_tap(t, u, k))
            continue;
        if (!dt_tower_rows_gather(v, &t->pictures.size)) {
            a->merged = x;
            return;
        }
        m->ops->embedding_forward(
            m->stream, alone ? a->merged : a->tap, t->pictures.sources, NONE, x,
            NONE, t->pictures.sources.count, v->tower.n_embd, &none);
        if (!alone)
            add_tap(t, k);
    }
}

/* d += the gradients of the rows of features from block u */
static void tap_backward(const struct dt_tower *t, size_t u, struct dt_view d)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    const size_t parts = t->pictures.sources.count, C = v->tower.n_embd;
    for (size_t k = 0; k < v->tap_count; k++) {
        struct dt_view d_tap = t->acts.d_merged;
        if (!is_tap(t, u, k))
            continue;
        if (!dt_tower_rows_gather(v, &t->pictures.size)) {
            m->ops->combine(m->stream, d, d, 1.0f, d_tap, 1.0f);
            return;
        }
        if (v->tap_count > 1) {
            d_tap = t->acts.tap;
            m->ops->embedding_forward(m->stream, d_tap, slots_of(t, k), NONE,
                                      t->acts.d_merged, NONE, parts, C, &none);
        }
        m->ops->add_rows(m->stream, d, d_tap, t->pictures.sources, m->N, C,
                         parts);
    }
}

static void tail_forward(struct dt_tower *t)
{
    struct dt_model *m = t->model;
    const size_t L = t->vision->tower.n_layer;
    struct dt_view x = dt_block_output(m, L);
    if (has_role(t, DT_NORM_F_W)) {
        dt_norm_forward(m, tail_unit(t), DT_NORM_F_W, &m->acts.norm, x);
        x = m->acts.norm.out;
    }
    tap_forward(t, L, x);
}

/* From d_merged to d_stream, the gradient of the last block's output. */
static void tail_backward(struct dt_tower *t, bool accumulate)
{
    struct dt_model *m = t->model;
    const size_t L = t->vision->tower.n_layer;
    m->ops->zero(m->stream, m->acts.d_stream);
    if (!has_role(t, DT_NORM_F_W)) {
        tap_backward(t, L, m->acts.d_stream);
        return;
    }
    m->ops->zero(m->stream, m->acts.branch);
    tap_backward(t, L, m->acts.branch);
    dt_norm_backward(m, tail_unit(t), DT_NORM_F_W, &m->acts.norm, m->acts.top,
                     accumulate);
}

/* --- the projector --- */

/* The input of its first matrix. */
static struct dt_view projector_input(const struct dt_tower *t)
{
    return has_role(t, DT_MERGE_NORM_W) ? t->acts.merge_norm.out
                                        : t->acts.merged;
}

static void projector_forward(const struct dt_tower *t)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_tower_acts *a = &t->acts;
    const size_t u = projector_unit(t), K = dt_vision_merged(v);
    const struct sizes s = sizes_of(v, &t->pictures.size);
    const struct dt_view x = projector_input(t);
    if (has_role(t, DT_MERGE_NORM_W))
        m->ops->norm_forward(m->stream, x, a->merge_norm.mean,
                             a->merge_norm.rstd, a->merged,
                             dt_model_weight(m, u, DT_MERGE_NORM_W),
                             dt_model_weight(m, u, DT_MERGE_NORM_B),
                             dt_model_norm_rule(m), s.parts, v->tower.n_embd);
    if (v->inner == 0) {
        dt_linear_forward(m, u, DT_MERGE_1_W, a->features, x, s.M, K,
                          t->plan.width);
        return;
    }
    dt_linear_forward(m, u, DT_MERGE_1_W, a->hidden, x, s.M, K, v->inner);
    m->ops->activation_forward(m->stream, a->act, a->hidden, v->activation);
    dt_linear_forward(m, u, DT_MERGE_2_W, a->features, a->act, s.M, v->inner,
                      t->plan.width);
}

/* From d_features to d_merged, unless nothing below is trained. */
static void projector_backward(const struct dt_tower *t, bool accumulate)
{
    const struct dt_vision_config *v = t->vision;
    const struct dt_model *m = t->model;
    const struct dt_tower_acts *a = &t->acts;
    const size_t u = projector_unit(t), K = dt_vision_merged(v);
    const struct sizes s = sizes_of(v, &t->pictures.size);
    const bool normed = has_role(t, DT_MERGE_NORM_W);
    const struct dt_view d_last = normed ? a->d_input : a->d_merged;
    const struct dt_view dx = m->options.train || normed ? d_last : NONE;
    struct dt_view d = a->d_features;
    if (v->inner > 0) {
        dt_linear_backward(m, u, DT_MERGE_2_W, a->d_act, d, a->act, s.M,
                           v->inner, t->plan.width, accumulate);
        m->ops->activation_backward(m->stream, a->d_act, a->d_act, a->hidden,
                                    v->activation);
        d = a->d_act;
    }
    dt_linear_backward(m, u, DT_MERGE_1_W, dx, d, projector_input(t), s.M, K,
                       v->inner > 0 ? v->inner : t->plan.width, accumulate);
    if (!normed)
        return;
    m->ops->zero(m->stream, a->d_merged);
    m->ops->norm_backward(
        m->stream, a->d_merged, dt_model_grad(m, u, DT_MERGE_NORM_W),
        dt_model_grad(m, u, DT_MERGE_NORM_B), NONE, a->d_input, a->merged,
        dt_model_weight(m, u, DT_MERGE_NORM_W), a->merge_norm.mean,
        a->merge_norm.rstd, dt_model_norm_rule(m).shift, s.parts,
        v->tower.n_embd, accumulate);
}

/* --- units --- */

void dt_tower_forward(struct dt_tower *t, size_t u)
{
    struct dt_model *m = t->model;
    if (m->N == 0)
        return;
    if (u == 0)
        embedding_forward(t);
    else if (u < tail_unit(t))
        dt_block_forward(m, u, false);
    else if (u == tail_unit(t))
        tail_forward(t);
    else
        projector_forward(t);
    if (u < t->vision->tower.n_layer && t->vision->tap_count > 1)
        tap_forward(t, u, dt_block_output(m, u));
}

void dt_tower_backward(struct dt_tower *t, size_t u, bool accumulate)
{
    struct dt_model *m = t->model;
    if (m->N == 0) {
        const struct dt_view grads = dt_model_unit_grads(m, u);
        if (!accumulate && grads.count > 0)
            m->ops->zero(m->stream, grads);
        return;
    }
    if (u == 0)
        embedding_backward(t, accumulate);
    else if (u < tail_unit(t))
        dt_block_backward(m, u, accumulate);
    else if (u == tail_unit(t))
        tail_backward(t, accumulate);
    else
        projector_backward(t, accumulate);
    if (u > 0 && u < tail_unit(t))
        tap_backward(t, u - 1, m->acts.d_stream);
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

void dt_tower_add_features(const struct dt_tower *t, struct dt_view x, size_t N)
{
    const struct dt_model *m = t->model;
    const struct dt_tower_rows *pictures = &t->pictures;
    const size_t M = pictures->tokens.count, C = t->plan.width;
    if (M > 0)
        m->ops->add_rows(m->stream, x, t->acts.features, pictures->tokens, N, C,
                         M);
    for (size_t i = 0; i < pictures->run_count; i++) {
        const struct dt_tower_run *run = &pictures->runs[i];
        m->ops->add_rows(m->stream, x, features_of(t, run, t->acts.features),
                         dt_view_slice(pictures->copies, run->at, run->count),
                         N, C, run->count);
    }
}

/* Adds the gradients of copies to those of their pictures, in their order. The
 * features are of no more use, and their memory takes those of a run.
 */
static void add_copies(const struct dt_tower *t, struct dt_view d)
{
    const struct dt_model *m = t->model;
    const struct dt_tower_rows *pictures = &t->pictures;
    const struct dt_dropout none = {0};
    for (size_t i = 0; i < pictures->run_count; i++) {
        const struct dt_tower_run *run = &pictures->runs[i];
        const struct dt_view sum = features_of(t, run, t->acts.d_features);
        const struct dt_view own = features_of(t, run, t->acts.features);
        m->ops->embedding_forward(
            m->stream, own,
            dt_view_slice(pictures->copies, run->at, run->count), NONE, d, NONE,
            run->count, t->plan.width, &none);
        m->ops->combine(m->stream, sum, sum, 1.0f, own, 1.0f);
    }
}

void dt_tower_take_gradients(const struct dt_tower *t, struct dt_view d)
{
    const struct dt_model *m = t->model;
    const struct dt_dropout none = {0};
    const size_t M = t->pictures.tokens.count;
    if (M > 0)
        m->ops->embedding_forward(m->stream, t->acts.d_features,
                                  t->pictures.tokens, NONE, d, NONE, M,
                                  t->plan.width, &none);
    add_copies(t, d);
}
