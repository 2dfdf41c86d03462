/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose_weights.c - the tensors of both halves, and a random projector
 *
 * Each is read when it is written, so that memory holds the largest one, and of
 * random weights a unit.
 */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/safetensors.h"
#include "compose/compose_impl.h"
#include "weights/weights.h"

#define PROJECTOR_STD 0.02

/* Where a tensor comes from. */
enum origin {
    OF_TOWER,    /* the tensor `source` of the tower's files */
    OF_LANGUAGE, /* parameter `param` of the language model */
    DRAWN,       /* parameter `param` of the whole model */
    ONES,
    ZEROS,
};

struct piece {
    enum origin origin;
    const char *source; /* owned by the files */
    size_t param;
};

struct dt_compose_weights {
    const struct dt_compose *compose;
    struct dt_model_config config; /* all blocks of the tower are parameters */
    struct dt_layout *layout;
    struct dt_model_config language;
    struct dt_layout *language_layout;
    struct dt_safetensors *tower;   /* NULL: it is random */
    struct dt_weights *weights;     /* NULL: the language model is random */
    enum dt_dtype dtype;            /* to be written */
    struct dt_ckpt_tensor *tensors; /* (count), their names are owned */
    struct piece *pieces;           /* (count) */
    size_t count, room;
    struct dt_buffer *buf;  /* of a tensor */
    struct dt_buffer *unit; /* of drawn weights, of unit ... */
    size_t drawn;           /* ... this, or SIZE_MAX */
};

enum dt_dtype dt_compose_weights_dtype(const struct dt_compose_weights *w)
{
    return w->dtype;
}

/* --- configs and layouts --- */

/* Has all blocks of the tower as parameters, whichever are computed. */
static int parse_whole(struct dt_compose_weights *w, const char *text,
                       struct dt_error *err)
{
    json_t *root = json_loads(text, 0, NULL);
    if (!root || json_object_set_new(root, "vision_feature_layer",
                                     json_integer(-1)) < 0) {
        json_decref(root);
        return dt_error_set(err, EX_OSERR, "out of memory");
    }
    char *all = dt_compose_dump(root, err);
    int rc =
        all ? dt_model_config_parse(&w->config, all, "config.json", err) : -1;
    free(all);
    return rc;
}

static int make_layouts(struct dt_compose_weights *w,
                        const struct dt_composed *composed,
                        struct dt_error *err)
{
    if (parse_whole(w, composed->config, err) < 0 ||
        dt_model_config_load(&w->language, w->compose->language, err) < 0)
        return -1;
    dt_model_config_grow(&w->language, composed->vocab_size);
    w->layout = dt_model_layout(&w->config, 1, err);
    w->language_layout =
        w->layout ? dt_model_layout(&w->language, 1, err) : NULL;
    return w->language_layout ? 0 : -1;
}

/* --- the files --- */

/* Says how to begin without the weights, if `dir` has none. Returns -1. */
static int tell_random(const char *dir, struct dt_error *err)
{
    if (!dt_compose_has_weights(dir))
        dt_error_add(err, err->status, "model.init: random makes new ones");
    return -1;
}

static int open_language(struct dt_compose_weights *w, struct dt_error *err)
{
    const char *dir = w->compose->language;
    w->dtype = DT_F32;
    if (w->compose->random && !dt_compose_has_weights(dir))
        return 0;
    w->weights = dt_weights_open(dir, w->language_layout, err);
    if (!w->weights)
        return tell_random(dir, err);
    if (dt_weights_check_twins(w->weights, err) < 0)
        return -1;
    return dt_weights_dtype(dir, w->language_layout, &w->dtype, err);
}

static int open_tower(struct dt_compose_weights *w, struct dt_error *err)
{
    const char *dir = w->compose->vision;
    if (w->compose->random && !dt_compose_has_weights(dir))
        return 0;
    w->tower = dt_safetensors_open_model(dir, err);
    return w->tower ? 0 : tell_random(dir, err);
}

/* --- the list of tensors --- */

static int add_piece(struct dt_compose_weights *w, const char *name,
                     const struct dt_ckpt_tensor *like,
                     const struct piece *piece, struct dt_error *err)
{
    if (w->count == w->room) {
        const size_t room = w->room ? 2 * w->room : 64;
        void *tensors = realloc(w->tensors, room * sizeof(*w->tensors));
        if (tensors)
            w->tensors = tensors;
        void *pieces = realloc(w->pieces, room * sizeof(*w->pieces));
        if (pieces)
            w->pieces = pieces;
        if (!tensors || !pieces)
            return dt_error_set(err, EX_OSERR, "out of memory");
        w->room = room;
    }
    struct dt_ckpt_tensor *tensor = &w->tensors[w->count];
    *tensor = *like;
    tensor->name = strdup(name);
    if (!tensor->name)
        return dt_error_set(err, EX_OSERR, "out of memory");
    size_t elements = 1;
    for (int d = 0; d < tensor->ndim; d++)
        elements *= tensor->shape[d];
    tensor->view = (struct dt_view){.count = elements, .dtype = w->dtype};
    tensor->stored = w->dtype;
    w->pieces[w->count++] = *piece;
    return 0;
}

/* The name of a tensor of the tower's files in those of the whole model, or
 * false: it is not the tower's. Releases of transformers since 5 write towers
 * alone without "vision_model.".
 */
static bool name_in_whole(const struct dt_compose_weights *w, const char *name,
                          char whole[DT_NAME_BYTES])
{
    static const char prefix[] = "vision_model.";
    static const char *const parts[] = {"embeddings.", "pre_layrnorm.",
                                        "encoder.", "post_layernorm.", "head."};
    const char *rest = name;
    if (!strncmp(name, prefix, sizeof(prefix) - 1))
        rest += sizeof(prefix) - 1;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        if (!strncmp(rest, parts[i], strlen(parts[i]))) {
            snprintf(whole, DT_NAME_BYTES, "%s%s",
                     w->config.vision->names[DT_NAMES_VISION], rest);
            return true;
        }
    return false;
}

/* The tensor of the tower's files for a parameter, or NULL. */
static const char *find_source(const struct dt_compose_weights *w,
                               const char *param)
{
    char whole[DT_NAME_BYTES];
    for (size_t t = 0; t < dt_safetensors_count(w->tower); t++) {
        const char *name = dt_safetensors_name(w->tower, t);
        if (name_in_whole(w, name, whole) && !strcmp(whole, param))
            return name;
    }
    return NULL;
}

static int check_tower(const struct dt_compose_weights *w, const char **missing,
                       size_t count, struct dt_error *err)
{
    char text[DT_ERROR_TEXT_BYTES / 2];
    if (count == 0)
        return 0;
    dt_tensor_names_print(text, sizeof(text), missing, count);
    return dt_error_set(err, EX_DATAERR, "%s: missing %s", w->compose->vision,
                        text);
}

/* The parameters of the tower, from its files. */
static int list_tower(struct dt_compose_weights *w, size_t end,
                      struct dt_error *err)
{
    const char **missing = calloc(end + 1, sizeof(*missing));
    size_t missing_count = 0;
    int rc = missing ? 0 : dt_error_set(err, EX_OSERR, "out of memory");
    for (size_t i = 0; i < end && rc == 0; i++) {
        const struct dt_param *param = &w->layout->params[i];
        const struct dt_ckpt_tensor like =
            dt_weights_tensor(w->layout, i, param->name);
        const struct piece piece = {OF_TOWER, find_source(w, param->name), i};
        if (!piece.source)
            missing[missing_count++] = param->name;
        else if (dt_safetensors_check(w->tower, piece.source, param->ndim,
                                      param->shape, DT_F32, err) < 0)
            rc = -1;
        else
            rc = add_piece(w, param->name, &like, &piece, err);
    }
    if (rc == 0)
        rc = check_tower(w, missing, missing_count, err);
    free(missing);
    return rc;
}

/* What nothing is computed with: the end of the tower, as its files have it. */
static int list_carried(struct dt_compose_weights *w, struct dt_error *err)
{
    for (size_t t = 0; t < dt_safetensors_count(w->tower); t++) {
        const char *name = dt_safetensors_name(w->tower, t);
        const struct piece piece = {OF_TOWER, name, 0};
        struct dt_ckpt_tensor like;
        char whole[DT_NAME_BYTES];
        if (!name_in_whole(w, name, whole) || !dt_carried_is(w->layout, whole))
            continue;
        if (dt_safetensors_describe(w->tower, name, &like, err) < 0 ||
            add_piece(w, whole, &like, &piece, err) < 0)
            return -1;
    }
    return 0;
}

/* The same of a random tower. */
static int fill_carried(struct dt_compose_weights *w, struct dt_error *err)
{
    const struct dt_vision_config *vision = w->config.vision;
    const char *const names[] = {"post_layernorm.weight",
                                 "post_layernorm.bias"};
    for (int i = 0; i < 2; i++) {
        const struct dt_ckpt_tensor like = {.ndim = 1,
                                            .shape = {vision->tower.n_embd}};
        const struct piece piece = {i == 0 ? ONES : ZEROS, NULL, 0};
        char whole[DT_NAME_BYTES];
        snprintf(whole, sizeof(whole), "%s%s", vision->names[DT_NAMES_VISION],
                 names[i]);
        if (add_piece(w, whole, &like, &piece, err) < 0)
            return -1;
    }
    return 0;
}

/* Parameters [first, end) of the whole model; of origin OF_LANGUAGE, those of
 * the language model are as many, in the same order.
 */
static int list_params(struct dt_compose_weights *w, size_t first, size_t end,
                       enum origin origin, struct dt_error *err)
{
    for (size_t i = first; i < end; i++) {
        const char *name = w->layout->params[i].name;
        const struct dt_ckpt_tensor like =
            dt_weights_tensor(w->layout, i, name);
        const struct piece piece = {origin, NULL,
                                    origin == OF_LANGUAGE ? i - first : i};
        if (add_piece(w, name, &like, &piece, err) < 0)
            return -1;
    }
    return 0;
}

static int list_tensors(struct dt_compose_weights *w, struct dt_error *err)
{
    const size_t text = dt_model_first_unit(&w->config);
    const size_t projector = w->layout->units[text - 1].first_param;
    const size_t language = w->layout->units[text].first_param;
    assert(w->layout->param_count - language ==
           w->language_layout->param_count);
    int rc = w->tower ? list_tower(w, projector, err)
                      : list_params(w, 0, projector, DRAWN, err);
    if (rc == 0)
        rc = w->tower ? list_carried(w, err) : fill_carried(w, err);
    if (rc == 0)
        rc = list_params(w, projector, language, DRAWN, err);
    if (rc == 0)
        rc = list_params(w, language, w->layout->param_count,
                         w->weights ? OF_LANGUAGE : DRAWN, err);
    return rc;
}

struct dt_compose_weights *dt_compose_weights_open(
    const struct dt_compose *compose, const struct dt_composed *composed,
    struct dt_error *err)
{
    struct dt_compose_weights *w = calloc(1, sizeof(*w));
    if (!w) {
        dt_error_set(err, EX_OSERR, "out of memory");
        return NULL;
    }
    w->compose = compose;
    w->drawn = SIZE_MAX;
    int rc = make_layouts(w, composed, err);
    if (rc == 0 && open_language(w, err) < 0)
        rc = dt_error_prefix(err, "model.language");
    if (rc == 0 && (open_tower(w, err) < 0 || list_tensors(w, err) < 0))
        rc = dt_error_prefix(err, "model.vision");
    if (rc == 0)
        return w;
    dt_compose_weights_close(w);
    return NULL;
}

void dt_compose_weights_close(struct dt_compose_weights *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        free((char *)(uintptr_t)w->tensors[i].name);
    free(w->tensors);
    free(w->pieces);
    dt_buffer_destroy(w->buf);
    dt_buffer_destroy(w->unit);
    dt_safetensors_close(w->tower);
    dt_weights_close(w->weights);
    dt_layout_destroy(w->layout);
    dt_layout_destroy(w->language_layout);
    dt_model_config_fini(&w->config);
    dt_model_config_fini(&w->language);
    free(w);
}

/* --- writing --- */

/* Room for `bytes` in *buf, whose content may be lost. */
static int reserve(struct dt_buffer **buf, size_t bytes, struct dt_error *err)
{
    if (*buf && (*buf)->bytes >= bytes)
        return 0;
    dt_buffer_destroy(*buf);
    *buf = dt_buffer_create(&dt_cpu, bytes, "a tensor", err);
    return *buf ? 0 : -1;
}

/* Random weights of a whole unit, which its next parameters are taken from. The
 * projector's deviation is not that of the tower.
 */
static int draw(struct dt_compose_weights *w, size_t u, struct dt_error *err)
{
    const struct dt_unit *unit = &w->layout->units[u];
    double *std = &w->config.vision->tower.initializer_range;
    const double of_tower = *std;
    if (w->drawn == u)
        return 0;
    if (reserve(&w->unit, unit->count * sizeof(float), err) < 0)
        return -1;
    if (unit->part == DT_PART_PROJECTOR)
        *std = PROJECTOR_STD;
    dt_model_init_unit(&w->config, w->layout, u, dt_view_of(w->unit, DT_F32),
                       w->compose->seed);
    *std = of_tower;
    w->drawn = u;
    return 0;
}

static int fetch_drawn(struct dt_compose_weights *w, size_t i,
                       struct dt_view *view, struct dt_error *err)
{
    const struct dt_param *param = &w->layout->params[i];
    if (draw(w, param->unit, err) < 0)
        return -1;
    *view = dt_view_slice(dt_view_of(w->unit, DT_F32),
                          param->offset - w->layout->units[param->unit].offset,
                          param->count);
    return 0;
}

static int read_tower(const struct dt_compose_weights *w,
                      const struct dt_ckpt_tensor *tensor, const char *source,
                      struct dt_view view, struct dt_error *err)
{
    struct dt_ckpt_tensor from = *tensor;
    from.name = source;
    from.view = view;
    from.finite = true;
    return dt_safetensors_read_all(w->tower, &from, 1, err);
}

/* Sets *view to the elements of one of the tensors, see dt_ckpt_source. */
static int fetch(void *ctx, const struct dt_ckpt_tensor *tensor,
                 struct dt_view *view, struct dt_error *err)
{
    struct dt_compose_weights *w = ctx;
    const struct piece *piece = &w->pieces[tensor - w->tensors];
    const size_t count = tensor->view.count;
    const bool is_float = piece->origin == ONES || piece->origin == ZEROS;
    const enum dt_dtype dtype = is_float ? DT_F32 : w->dtype;
    if (piece->origin == DRAWN)
        return fetch_drawn(w, piece->param, view, err);
    if (reserve(&w->buf, count * dt_dtype_bytes(dtype), err) < 0)
        return -1;
    *view = dt_view_slice(dt_view_of(w->buf, dtype), 0, count);
    if (piece->origin == OF_TOWER)
        return read_tower(w, tensor, piece->source, *view, err);
    if (piece->origin == OF_LANGUAGE)
        return dt_weights_read(
            w->weights,
            (struct dt_range){w->language_layout->params[piece->param].offset,
                              count},
            *view, err);
    for (size_t i = 0; i < count; i++)
        dt_view_f32(*view)[i] = piece->origin == ONES ? 1.0f : 0.0f;
    return 0;
}

int dt_compose_weights_add(struct dt_compose_weights *w,
                           struct dt_ckpt_writer *writer, struct dt_error *err)
{
    const struct dt_ckpt_source source = {.fetch = fetch, .ctx = w};
    return dt_ckpt_add_model(writer, 1, w->tensors, w->count,
                             w->compose->max_shard_bytes, &source, err);
}
