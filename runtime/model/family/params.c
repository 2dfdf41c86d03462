/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - names, shapes and initial values of a model's parameters */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "model/family/family.h"
#include "model/family/roles.h"

/* A model or its tower, and what surrounds its parameters in a layout. */
struct source {
    const struct dt_model_config *config;
    const struct dt_vision_config *vision; /* of the tower and the projector */
    size_t text;                           /* C of the language model */
    const char
        *trunk; /* begins names in place of "model."; NULL: as they are */
    const char *other; /* ... and the others */
};

/* Values in a row of pixels; 0 of a text model. */
static size_t row_of(const struct source *from)
{
    return from->vision ? dt_vision_row(from->vision) : 0;
}

static size_t param_length(const struct source *from, enum dt_length length)
{
    const struct dt_model_config *config = from->config;
    const size_t queries = config->n_head * config->head_size;
    const size_t keys = config->n_kv_head * config->head_size;
    const size_t inner = from->vision ? from->vision->inner : 0;
    const size_t lengths[] = {
        [DT_ONE] = 1,
        [DT_V] = config->vocab_size,
        [DT_P] = config->n_positions,
        [DT_C] = config->n_embd,
        [DT_I] = config->n_inner,
        [DT_2I] = 2 * config->n_inner,
        [DT_HS] = config->head_size,
        [DT_QUERIES] = queries,
        [DT_KEYS] = keys,
        [DT_Q] = queries + 2 * keys,
        [DT_PATCH] = row_of(from),
        [DT_MERGED] = from->vision ? dt_vision_merged(from->vision) : 0,
        [DT_INNER] = inner,
        [DT_TEXT] = from->text,
    };
    return lengths[length];
}

static bool param_exists(const struct source *from, enum dt_when when)
{
    const struct dt_model_config *config = from->config;
    const struct dt_family *family = config->family;
    const struct dt_vision_config *vision = from->vision;
    const bool there[] = {
        [DT_ALWAYS] = true,
        [DT_QKV_BIASED] = config->qkv_bias,
        [DT_OUT_BIASED] = config->out_bias,
        [DT_MLP_BIASED] = config->mlp_bias,
        [DT_NORM_EACH] = family->head_norm == DT_HEAD_NORM_EACH,
        [DT_NORM_ALL] = family->head_norm == DT_HEAD_NORM_ALL,
        [DT_APART] = !family->fused,
        [DT_FUSED] = family->fused,
        [DT_PRE_NORM] = family->pre_norm,
        [DT_POST_NORM] = family->post_norm,
        [DT_PLAIN_NORM] = family->pre_norm && !family->post_norm,
        [DT_INNER_NORM] = family->pre_norm && family->post_norm,
        [DT_UNTIED] = !config->tie_word_embeddings && !config->scores,
        [DT_SCORED] = config->scores || config->value_head,
        [DT_CLASSED] = vision && vision->class_first,
        [DT_MERGE_BIASED] = vision && vision->projector_bias,
    };
    return there[when];
}

/* The shape of a parameter. Returns the number of dimensions: a matrix that
 * multiplies patches is stored as the weight of a convolution.
 */
static int param_shape(const struct source *from,
                       const struct dt_param_row *param,
                       size_t shape[DT_PARAM_MAX_DIMS])
{
    const struct dt_vision_config *vision = from->vision;
    int ndim = 0;
    shape[ndim++] = param_length(from, param->rows);
    if (param->cols == DT_PATCH) {
        shape[ndim++] = 3;
        if (vision->frames > 1)
            shape[ndim++] = vision->frames;
        shape[ndim++] = vision->patch;
        shape[ndim++] = vision->patch;
    } else if (param->cols > DT_DECAYED) {
        shape[ndim++] = param_length(from, param->cols);
    }
    return ndim;
}

/* "<block><own>" as files have it. The head with scores is of no part. */
static void print_name(char *name, size_t room, const struct source *from,
                       const char *block, const struct dt_param_row *param)
{
    static const char trunk[] = "model.";
    char plain[DT_NAME_BYTES];
    snprintf(plain, sizeof(plain), "%s%s", block, param->name);
    if (param->role == DT_SCORE)
        snprintf(name, room, "%s", plain);
    else if (from->trunk && !strncmp(plain, trunk, strlen(trunk)))
        snprintf(name, room, "%s%s", from->trunk, plain + strlen(trunk));
    else
        snprintf(name, room, "%s%s", from->other, plain);
}

/* Adds a parameter, joined to the previous one if they share a role. Weight
 * decay applies to matrices: everything except biases and norms, unless the
 * family says so.
 */
static int add_param(struct dt_layout *layout, const struct source *from,
                     const char *block, const struct dt_param_row *param,
                     bool joined, struct dt_error *err)
{
    char name[DT_NAME_BYTES];
    size_t shape[DT_PARAM_MAX_DIMS];
    const int ndim = param_shape(from, param, shape);
    print_name(name, sizeof(name), from, block, param);
    const bool decays = ndim > 1 || param->cols == DT_DECAYED;
    if (dt_layout_add_param(layout, name, decays, ndim, shape, err) < 0)
        return -1;
    if (joined)
        dt_layout_join(layout);
    return 0;
}

/* Opens a unit and adds the parameters of `params` up to its end. */
static int add_unit(struct dt_layout *layout, const struct source *from,
                    enum dt_unit_kind kind, enum dt_model_part part,
                    const char *block, const struct dt_param_row *params,
                    struct dt_error *err)
{
    enum dt_role last = DT_ROLES;
    if (dt_layout_add_unit(layout, kind, part, err) < 0)
        return -1;
    for (const struct dt_param_row *p = params; p->name; p++) {
        if (!param_exists(from, p->when))
            continue;
        if (add_param(layout, from, block, p, last == p->role, err) < 0)
            return -1;
        last = p->role;
    }
    return 0;
}

/* The part of the table after the next end of a unit. */
static const struct dt_param_row *next_unit(const struct dt_param_row *params)
{
    while (params->name)
        params++;
    return params + 1;
}

/* Adds the units of a model or of a tower, which has no tokens to look up. */
static int add_units(struct dt_layout *layout, const struct source *from,
                     struct dt_error *err)
{
    const struct dt_param_row *embedding = from->config->family->params;
    const struct dt_param_row *block = next_unit(embedding);
    const enum dt_model_part part =
        from->vision ? DT_PART_VISION : DT_PART_LANGUAGE;
    if (add_unit(layout, from, from->vision ? DT_UNIT_EDGE : DT_UNIT_EMBEDDING,
                 part, "", embedding, err) < 0)
        return -1;
    for (size_t l = 0; l < from->config->n_layer; l++) {
        char name[40];
        snprintf(name, sizeof(name), "%s%zu.", from->config->family->block, l);
        if (add_unit(layout, from, DT_UNIT_BLOCK, part, name, block, err) < 0)
            return -1;
    }
    return add_unit(layout, from, DT_UNIT_EDGE, part, "", next_unit(block),
                    err);
}

/* Adds what nothing of a tower is computed with: its blocks above the last one
 * that is read, and what begins as the family says.
 */
static int add_carried(struct dt_layout *layout,
                       const struct dt_vision_config *vision,
                       struct dt_error *err)
{
    const struct dt_family *family = vision->tower.family;
    const char *const *carried = family->carried;
    const char *prefix = vision->names[DT_NAMES_VISION];
    char begin[DT_NAME_BYTES];
    for (; carried && *carried; carried++) {
        snprintf(begin, sizeof(begin), "%s%s", prefix, *carried);
        if (dt_layout_carry(layout, begin, err) < 0)
            return -1;
    }
    for (size_t l = vision->tower.n_layer; l < vision->layers; l++) {
        snprintf(begin, sizeof(begin), "%s%s%zu.", prefix, family->block, l);
        if (dt_layout_carry(layout, begin, err) < 0)
            return -1;
    }
    return 0;
}

/* Adds the projectors of features that are added after blocks of the text. */
static int add_deep(struct dt_layout *layout, const struct source *tower,
                    struct dt_error *err)
{
    const struct dt_vision_config *vision = tower->vision;
    for (size_t k = 0; k < vision->deep_count; k++) {
        char name[64];
        snprintf(name, sizeof(name), "%s%zu.", vision->family->deep_names, k);
        if (add_unit(layout, tower, DT_UNIT_EDGE, DT_PART_PROJECTOR, name,
                     vision->family->deep, err) < 0)
            return -1;
    }
    return 0;
}

/* Adds the tower and its projectors. */
static int add_vision(struct dt_layout *layout,
                      const struct dt_model_config *config,
                      struct dt_error *err)
{
    const struct dt_vision_config *vision = config->vision;
    const struct source tower = {&vision->tower, vision, config->n_embd, NULL,
                                 vision->names[DT_NAMES_VISION]};
    const struct source projector = {&vision->tower, vision, config->n_embd,
                                     NULL, vision->names[DT_NAMES_PROJECTOR]};
    return add_carried(layout, vision, err) < 0 ||
                   add_units(layout, &tower, err) < 0 ||
                   add_unit(layout, &projector, DT_UNIT_EDGE, DT_PART_PROJECTOR,
                            "", vision->family->projector, err) < 0 ||
                   add_deep(layout, &tower, err) < 0
               ? -1
               : 0;
}

struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err)
{
    const struct dt_vision_config *vision = config->vision;
    const struct source text = {config, NULL, config->n_embd,
                                vision ? vision->names[DT_NAMES_TRUNK] : NULL,
                                vision ? vision->names[DT_NAMES_HEAD] : ""};
    struct dt_layout *layout = dt_layout_create(err);
    if (!layout || (vision && add_vision(layout, config, err) < 0) ||
        add_units(layout, &text, err) < 0) {
        dt_layout_destroy(layout);
        return NULL;
    }
    if (dt_model_tied(config))
        layout->tied_unit = dt_model_first_unit(config);
    layout->stored_rows = config->stored_vocab;
    dt_layout_finish(layout, world);
    return layout;
}

/* Finds the ranges of the roles of a unit; all projectors have the same. */
static void find_unit(const struct source *from,
                      const struct dt_param_row *params,
                      struct dt_role_range ranges[DT_ROLES])
{
    size_t i = 0; /* in the unit */
    for (const struct dt_param_row *p = params; p->name; p++)
        if (param_exists(from, p->when)) {
            if (ranges[p->role].count++ == 0)
                ranges[p->role].first = i;
            i++;
        }
}

void dt_params_find(const struct dt_model_config *config,
                    const struct dt_vision_config *vision,
                    struct dt_role_range ranges[DT_ROLES])
{
    const struct source from = {config, vision, 0, NULL, ""};
    const struct dt_param_row *params = config->family->params;
    memset(ranges, 0, DT_ROLES * sizeof(*ranges));
    for (int unit = 0; unit < 3; unit++, params = next_unit(params))
        find_unit(&from, params, ranges);
    if (vision)
        find_unit(&from, vision->family->projector, ranges);
}

struct dt_view dt_params_view(const struct dt_layout *layout,
                              const struct dt_places *places, size_t u,
                              struct dt_role_range range)
{
    if (range.count == 0)
        return (struct dt_view){0};
    return dt_layout_params(layout, places,
                            layout->units[u].first_param + range.first,
                            range.count);
}

void dt_model_init_unit(const struct dt_model_config *config,
                        const struct dt_layout *layout, size_t u,
                        struct dt_view weights, uint64_t seed)
{
    const struct dt_unit *unit = &layout->units[u];
    uint64_t first = 0; /* elements before the parameter, without padding */
    const struct dt_vision_config *vision =
        u < dt_model_first_unit(config) ? config->vision : NULL;
    const struct dt_model_config *own = vision ? &vision->tower : config;
    const bool shifted = vision && unit->part == DT_PART_PROJECTOR
                             ? vision->family->shifted
                             : own->family->shifted;
    const float one = shifted ? 0.0f : 1.0f;
    for (size_t i = 0; i < unit->first_param; i++)
        first += layout->params[i].count;
    for (size_t i = 0; i < unit->param_count; i++) {
        const struct dt_param *param = &layout->params[unit->first_param + i];
        float *w = dt_view_f32(
            dt_view_slice(weights, param->offset - unit->offset, param->count));
        double std = own->initializer_range;
        /* GPT-2: the residual stream has 2 n_layer such summands */
        if (dt_str_ends_with(param->name, "c_proj.weight"))
            std /= sqrt(2.0 * (double)config->n_layer);
        const bool weight = dt_str_ends_with(param->name, ".weight");
        const bool bias = dt_str_ends_with(param->name, ".bias");
        const bool drawn = param->ndim > 1 || (!weight && !bias);
        const float constant = weight ? one : 0.0f;
        const size_t row =
            param->ndim > 1 ? param->count / param->shape[0] : param->count;
#pragma omp parallel for
        for (size_t j = 0; j < param->count; j += row) {
            if (drawn)
                dt_rng_normals(w + j, row, (float)std, seed, DT_RNG_INIT,
                               first + j);
            else
                for (size_t k = 0; k < row; k++)
                    w[k] = constant;
        }
        first += param->count;
    }
    if (u == dt_model_first_unit(config) && config->padding_row >= 0) {
        const size_t row = config->n_embd;
        const size_t at = (size_t)config->padding_row * row;
        memset(dt_view_f32(dt_view_slice(weights, at, row)), 0,
               row * sizeof(float));
    }
}
