/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - names, shapes and initial values of a model's parameters */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"
#include "model/family.h"
#include "model/model_impl.h"

static size_t param_length(const struct dt_model_config *config,
                           enum dt_length length)
{
    size_t queries = config->n_head * config->head_size;
    size_t keys = config->n_kv_head * config->head_size;
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
    };
    return lengths[length];
}

static bool param_exists(const struct dt_model_config *config,
                         enum dt_when when)
{
    const struct dt_family *family = config->family;
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
    };
    return there[when];
}

/* Adds a parameter, joined to the previous one if they share a role. Weight
 * decay applies to matrices: everything except biases and norms.
 */
static int add_param(struct dt_layout *layout,
                     const struct dt_model_config *config, const char *prefix,
                     const struct dt_param_row *param, bool joined,
                     struct dt_error *err)
{
    char name[96];
    const size_t shape[] = {param_length(config, param->rows),
                            param_length(config, param->cols)};
    bool matrix = param->cols != DT_NONE;
    snprintf(name, sizeof(name), "%s%s", prefix, param->name);
    if (dt_layout_add_param(layout, name, matrix, matrix ? 2 : 1, shape, err) <
        0)
        return -1;
    if (joined)
        dt_layout_join(layout);
    return 0;
}

/* Opens a unit and adds the parameters of `params` up to its end. */
static int add_unit(struct dt_layout *layout,
                    const struct dt_model_config *config, const char *prefix,
                    const struct dt_param_row *params, struct dt_error *err)
{
    enum dt_role last = DT_ROLES;
    if (dt_layout_add_unit(layout, err) < 0)
        return -1;
    for (const struct dt_param_row *p = params; p->name; p++) {
        if (!param_exists(config, p->when))
            continue;
        if (add_param(layout, config, prefix, p, last == p->role, err) < 0)
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

struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err)
{
    const struct dt_param_row *embedding = config->family->params;
    const struct dt_param_row *block = next_unit(embedding),
                              *head = next_unit(block);
    struct dt_layout *layout = dt_layout_create(err);
    if (!layout || add_unit(layout, config, "", embedding, err) < 0)
        goto error;
    for (size_t l = 0; l < config->n_layer; l++) {
        char prefix[40];
        snprintf(prefix, sizeof(prefix), "%s%zu.", config->family->block, l);
        if (add_unit(layout, config, prefix, block, err) < 0)
            goto error;
    }
    if (add_unit(layout, config, "", head, err) < 0)
        goto error;
    layout->tied = dt_model_tied(config);
    layout->stored_rows = config->stored_vocab;
    dt_layout_finish(layout, world);
    return layout;
error:
    dt_layout_destroy(layout);
    return NULL;
}

void dt_params_find(const struct dt_model_config *config,
                    struct dt_role_range ranges[DT_ROLES])
{
    const struct dt_param_row *params = config->family->params;
    memset(ranges, 0, DT_ROLES * sizeof(*ranges));
    for (int unit = 0; unit < 3; unit++, params = next_unit(params)) {
        size_t i = 0; /* in the unit */
        for (const struct dt_param_row *p = params; p->name; p++)
            if (param_exists(config, p->when)) {
                if (ranges[p->role].count++ == 0)
                    ranges[p->role].first = i;
                i++;
            }
    }
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
    const float one = config->family->shifted ? 0.0f : 1.0f;
    for (size_t i = 0; i < unit->first_param; i++)
        first += layout->params[i].count;
    for (size_t i = 0; i < unit->param_count; i++) {
        const struct dt_param *param = &layout->params[unit->first_param + i];
        float *w = dt_view_f32(
            dt_view_slice(weights, param->offset - unit->offset, param->count));
        double std = config->initializer_range;
        /* GPT-2: the residual stream has 2 n_layer such summands */
        if (dt_str_ends_with(param->name, "c_proj.weight"))
            std /= sqrt(2.0 * (double)config->n_layer);
        float constant = dt_str_ends_with(param->name, ".weight") ? one : 0.0f;
        size_t row = param->ndim == 2 ? param->shape[1] : param->count;
#pragma omp parallel for
        for (size_t j = 0; j < param->count; j += row) {
            if (param->ndim == 2)
                dt_rng_normals(w + j, row, (float)std, seed, DT_RNG_INIT,
                               first + j);
            else
                for (size_t k = 0; k < row; k++)
                    w[k] = constant;
        }
        first += param->count;
    }
    if (u == 0 && config->padding_row >= 0) {
        const size_t row = config->n_embd;
        const size_t at = (size_t)config->padding_row * row;
        memset(dt_view_f32(dt_view_slice(weights, at, row)), 0,
               row * sizeof(float));
    }
}
