/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tower.c - pictures become features: the units in front of a language model
 *
 *     x     = norm_0(patches w + b, class + positions)
 *     x     = blocks(x), and a norm after them
 *
 * Families have some of these; projector.c has what follows. The blocks are
 * those of any model; a batch of pictures is one row of theirs, within which a
 * picture, or a window of it, sees itself alone. Without pictures there are no
 * rows, and gradients are 0: the unit takes part in what ranks do together all
 * the same.
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

static bool has_role(const struct dt_tower *t, enum dt_role role)
{
    return t->model->roles[role].count > 0;
}

/* --- memory --- */

static void take_statistics(struct dt_norm *norm, struct dt_arena *arena,
                            size_t rows, bool centered)
{
    norm->rstd = dt_arena_take(arena, DT_F32, rows, 1);
    if (centered)
        norm->mean = dt_arena_take(arena, DT_F32, rows, 1);
}

/* What a plan depends on. */
struct sizes {
    const struct dt_vision_config *v;
    const struct dt_role_range *roles;
    size_t N, M, K, width; /* width: C of the text */
    bool gathers;
};

/* Takes the tensors of projector k. Its norm is of patches or, of others than
 * the first, of what these are merged to.
 */
static void take_projector(struct dt_projector_acts *a, struct dt_arena *arena,
                           const struct sizes *s, size_t k)
{
    const enum dt_dtype X = arena->compute;
    const size_t C = k > 0 ? s->K : s->v->tower.n_embd;
    if (s->gathers)
        a->merged = dt_arena_take(arena, X, s->M, s->K);
    if (s->roles[DT_MERGE_NORM_W].count > 0) {
        a->norm.out = dt_arena_take(arena, X, s->M, s->K);
        take_statistics(&a->norm, arena, s->M * s->K / C,
                        s->roles[DT_MERGE_NORM_B].count > 0);
    }
    a->hidden = dt_arena_take(arena, X, s->M, s->v->inner);
    a->act = dt_arena_take(arena, X, s->M, s->v->inner);
    a->features = dt_arena_take(arena, X, s->M, s->width);
}

/* Takes what the backward passes of projectors leave, and their workspaces. */
static void take_gradients(struct dt_tower_acts *a, struct dt_arena *arena,
                           const struct sizes *s)
{
    const enum dt_dtype X = arena->compute;
    for (size_t k = 0; k <= s->v->deep_count; k++) {
        a->projectors[k].d_features = dt_arena_take(arena, X, s->M, s->width);
        a->projectors[k].d_merged = dt_arena_take(arena, X, s->M, s->K);
    }
    a->d_act = dt_arena_take(arena, X, s->M, s->v->inner);
    if (s->roles[DT_MERGE_NORM_W].count > 0)
        a->d_input = dt_arena_take(arena, X, s->M, s->K);
}

/* Places the tensors of these pictures in buf, or only counts if it is NULL.
 * Returns their bytes.
 */
static size_t plan(struct dt_tower_acts *a, struct dt_buffer *buf,
                   const struct dt_tower_for *tower,
                   const struct dt_tower_size *pictures)
{
    const struct dt_vision_config *v = tower->vision;
    struct dt_role_range roles[DT_ROLES];
    const struct sizes s = {
        .v = v,
        .roles = roles,
        .N = pictures->rows,
        .M = pictures->features,
        .K = dt_vision_merged(v),
        .width = tower->width,
        .gathers = dt_tower_rows_gather(v, pictures),
    };
    const size_t C = v->tower.n_embd;
    struct dt_arena arena = {.buf = buf, .compute = tower->options->compute};
    const enum dt_dtype X = arena.compute;
    dt_params_find(&v->tower, v, roles);
    *a = (struct dt_tower_acts){0};
    if (roles[DT_NORM_0_W].count > 0) {
        a->embedded = dt_arena_take(&arena, X, s.N, C);
        take_statistics(&a->norm_0, &arena, s.N, v->tower.family->centered);
    }
    if (v->tap_count > 1)
        a->tap = dt_arena_take(&arena, X, s.M * v->merge * v->merge, C);
    for (size_t k = 0; k <= v->deep_count; k++)
        take_projector(&a->projectors[k], &arena, &s, k);

    size_t start = arena.used;
    a->patches = dt_arena_take(&arena, X, pictures->patches, dt_vision_row(v));
    a->cells = dt_arena_take(&arena, X, pictures->patches + 1, C);
    arena.used = start;
    if (tower->options->train)
        take_gradients(a, &arena, &s);
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
        .ahead = true,
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

/* Adds what table(P, C) has for places between its rows to x(N, C). */
static void add_places(const struct dt_tower *t, struct dt_view x,
                       struct dt_view table)
{
    const struct dt_model *m = t->model;
    m->ops->sparse_matmul(m->stream, x, table, &t->pictures.places.plain, m->N,
                          m->config.n_embd, true);
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
    const struct dt_view out = normed ? a->embedded : x;
    const struct dt_view table = dt_model_weight(m, 0, DT_WPE);
    if (v->tap_count > 1)
        m->ops->zero(m->stream, a->projectors[0].merged);
    look_up(t);
    dt_linear_forward(m, 0, DT_PATCH_W, dt_view_slice(a->cells, 0, P * C),
                      a->patches, P, dt_vision_row(v), C);
    if (v->class_first)
        m->ops->combine(m->stream, dt_view_slice(a->cells, P * C, C),
                        dt_model_weight(m, 0, DT_CLASS), 1.0f, NONE, 0.0f);
    m->ops->embedding_forward(m->stream, out, t->pictures.cells,
                              m->inputs.positions, a->cells,
                              v->places > 0 ? NONE : table, m->N, C, &none);
    if (v->places > 0)
        add_places(t, out, table);
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

/* The gradient of learned positions, from that of x. */
static void places_backward(const struct dt_tower *t, struct dt_view d,
                            bool accumulate)
{
    const struct dt_model *m = t->model;
    const struct dt_view grad = dt_model_grad(m, 0, DT_WPE);
    const size_t places = t->vision->places;
    if (places == 0)
        sum_rows(m, grad, d, m->inputs.positions, accumulate);
    else if (grad.count > 0)
        m->ops->sparse_matmul(m->stream, grad, d,
                              &t->pictures.places.transposed, places * places,
                              m->config.n_embd, accumulate);
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
    places_backward(t, d, accumulate);
    sum_rows(m, dt_model_grad(m, 0, DT_CLASS), d, t->pictures.classes,
             accumulate);
    m->ops->embedding_forward(m->stream, d_cells, t->pictures.cell_rows, NONE,
                              d, NONE, P, C, &none);
    look_up(t);
    dt_linear_backward(m, 0, DT_PATCH_W, NONE, d_cells, a->patches, P,
                       dt_vision_row(v), C, accumulate);
}

/* --- after the blocks --- */

static void tail_forward(struct dt_tower *t)
{
    struct dt_model *m = t->model;
    const size_t L = t->vision->tower.n_layer;
    struct dt_view x = dt_block_output(m, L);
    if (has_role(t, DT_NORM_F_W)) {
        dt_norm_forward(m, tail_unit(t), DT_NORM_F_W, &m->acts.norm, x);
        x = m->acts.norm.out;
    }
    dt_tap_forward(t, L, x);
}

/* From d_merged to d_stream, the gradient of the last block's output. */
static void tail_backward(struct dt_tower *t, bool accumulate)
{
    struct dt_model *m = t->model;
    const size_t L = t->vision->tower.n_layer;
    m->ops->zero(m->stream, m->acts.d_stream);
    if (!has_role(t, DT_NORM_F_W)) {
        dt_tap_backward(t, L, m->acts.d_stream);
        return;
    }
    m->ops->zero(m->stream, m->acts.branch);
    dt_tap_backward(t, L, m->acts.branch);
    dt_norm_backward(m, tail_unit(t), DT_NORM_F_W, &m->acts.norm, m->acts.top,
                     accumulate);
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
        dt_projector_forward(t, u - dt_projector_unit(t, 0));
    if (u < t->vision->tower.n_layer && dt_tower_taps(t->vision, u))
        dt_tap_forward(t, u, dt_block_output(m, u));
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
        dt_projector_backward(t, u - dt_projector_unit(t, 0), accumulate);
    if (u > 0 && u < tail_unit(t))
        dt_tap_backward(t, u - 1, m->acts.d_stream);
}
