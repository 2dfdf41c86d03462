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

/* Lengths, see ops.h. */
enum size { NONE, ONE, V, P, C, I, I2, HS, QUERIES, KEYS, Q };

/* When a parameter exists. */
enum when {
    ALWAYS,
    QKV_BIAS,
    OUT_BIAS,
    MLP_BIAS,
    HEAD_NORM, /* over a head */
    ALL_NORM,  /* over all heads */
    APART,     /* tensors that other families have fused */
    FUSED,
    PRE_NORM,
    POST_NORM,
    PLAIN_NORM, /* the one before the MLP, of blocks without others ... */
    INNER_NORM, /* ... and of blocks that norm outputs as well */
    UNTIED,
    SCORES
};

struct param {
    enum dt_role role;
    const char *name;
    enum size rows, cols; /* cols NONE: a vector */
    enum when when;
};

/* In the order of the layout. An entry without a name ends a unit: embedding,
 * block, head.
 */
static const struct param gpt2[] = {
    {DT_WTE, "transformer.wte.weight", V, C, ALWAYS},
    {DT_WPE, "transformer.wpe.weight", P, C, ALWAYS},
    {0},
    {DT_NORM_1_W, "ln_1.weight", C, NONE, ALWAYS},
    {DT_NORM_1_B, "ln_1.bias", C, NONE, ALWAYS},
    {DT_QKV_W, "attn.c_attn.weight", C, Q, ALWAYS},
    {DT_QKV_B, "attn.c_attn.bias", Q, NONE, ALWAYS},
    {DT_OUT_W, "attn.c_proj.weight", C, C, ALWAYS},
    {DT_OUT_B, "attn.c_proj.bias", C, NONE, ALWAYS},
    {DT_NORM_2_W, "ln_2.weight", C, NONE, ALWAYS},
    {DT_NORM_2_B, "ln_2.bias", C, NONE, ALWAYS},
    {DT_FC_W, "mlp.c_fc.weight", C, I, ALWAYS},
    {DT_FC_B, "mlp.c_fc.bias", I, NONE, ALWAYS},
    {DT_PROJ_W, "mlp.c_proj.weight", I, C, ALWAYS},
    {DT_PROJ_B, "mlp.c_proj.bias", C, NONE, ALWAYS},
    {0},
    {DT_NORM_F_W, "transformer.ln_f.weight", C, NONE, ALWAYS},
    {DT_NORM_F_B, "transformer.ln_f.bias", C, NONE, ALWAYS},
    {DT_HEAD, "lm_head.weight", V, C, UNTIED},
    {DT_SCORE, "score.weight", ONE, C, SCORES},
    {0},
};

static const struct param llama[] = {
    {DT_WTE, "model.embed_tokens.weight", V, C, ALWAYS},
    {0},
    {DT_NORM_1_W, "input_layernorm.weight", C, NONE, PRE_NORM},
    {DT_QKV_W, "self_attn.q_proj.weight", QUERIES, C, APART},
    {DT_QKV_W, "self_attn.k_proj.weight", KEYS, C, APART},
    {DT_QKV_W, "self_attn.v_proj.weight", KEYS, C, APART},
    {DT_QKV_W, "self_attn.qkv_proj.weight", Q, C, FUSED},
    {DT_QKV_B, "self_attn.q_proj.bias", QUERIES, NONE, QKV_BIAS},
    {DT_QKV_B, "self_attn.k_proj.bias", KEYS, NONE, QKV_BIAS},
    {DT_QKV_B, "self_attn.v_proj.bias", KEYS, NONE, QKV_BIAS},
    {DT_Q_NORM, "self_attn.q_norm.weight", HS, NONE, HEAD_NORM},
    {DT_K_NORM, "self_attn.k_norm.weight", HS, NONE, HEAD_NORM},
    {DT_Q_NORM, "self_attn.q_norm.weight", QUERIES, NONE, ALL_NORM},
    {DT_K_NORM, "self_attn.k_norm.weight", KEYS, NONE, ALL_NORM},
    {DT_OUT_W, "self_attn.o_proj.weight", C, QUERIES, ALWAYS},
    {DT_OUT_B, "self_attn.o_proj.bias", C, NONE, OUT_BIAS},
    {DT_POST_1_W, "post_attention_layernorm.weight", C, NONE, POST_NORM},
    {DT_NORM_2_W, "post_attention_layernorm.weight", C, NONE, PLAIN_NORM},
    {DT_NORM_2_W, "pre_feedforward_layernorm.weight", C, NONE, INNER_NORM},
    {DT_FC_W, "mlp.gate_proj.weight", I, C, APART},
    {DT_FC_W, "mlp.up_proj.weight", I, C, APART},
    {DT_FC_W, "mlp.gate_up_proj.weight", I2, C, FUSED},
    {DT_FC_B, "mlp.gate_proj.bias", I, NONE, MLP_BIAS},
    {DT_FC_B, "mlp.up_proj.bias", I, NONE, MLP_BIAS},
    {DT_PROJ_W, "mlp.down_proj.weight", C, I, ALWAYS},
    {DT_PROJ_B, "mlp.down_proj.bias", C, NONE, MLP_BIAS},
    {DT_POST_2_W, "post_feedforward_layernorm.weight", C, NONE, POST_NORM},
    {0},
    {DT_NORM_F_W, "model.norm.weight", C, NONE, ALWAYS},
    {DT_HEAD, "lm_head.weight", V, C, UNTIED},
    {DT_SCORE, "score.weight", ONE, C, SCORES},
    {0},
};

static const struct param *table_of(const struct dt_model_config *config)
{
    return config->family->centered ? gpt2 : llama;
}

static size_t param_length(const struct dt_model_config *config, enum size size)
{
    size_t queries = config->n_head * config->head_size;
    size_t keys = config->n_kv_head * config->head_size;
    const size_t lengths[] = {
        [ONE] = 1,
        [V] = config->vocab_size,
        [P] = config->n_positions,
        [C] = config->n_embd,
        [I] = config->n_inner,
        [I2] = 2 * config->n_inner,
        [HS] = config->head_size,
        [QUERIES] = queries,
        [KEYS] = keys,
        [Q] = queries + 2 * keys,
    };
    return lengths[size];
}

static bool param_exists(const struct dt_model_config *config, enum when when)
{
    const struct dt_family *family = config->family;
    const bool there[] = {
        [ALWAYS] = true,
        [QKV_BIAS] = config->qkv_bias,
        [OUT_BIAS] = config->out_bias,
        [MLP_BIAS] = config->mlp_bias,
        [HEAD_NORM] = family->head_norm == DT_HEAD_NORM_EACH,
        [ALL_NORM] = family->head_norm == DT_HEAD_NORM_ALL,
        [APART] = !family->fused,
        [FUSED] = family->fused,
        [PRE_NORM] = family->pre_norm,
        [POST_NORM] = family->post_norm,
        [PLAIN_NORM] = family->pre_norm && !family->post_norm,
        [INNER_NORM] = family->pre_norm && family->post_norm,
        [UNTIED] = !config->tie_word_embeddings && !config->scores,
        [SCORES] = config->scores || config->value_head,
    };
    return there[when];
}

/* Adds a parameter, joined to the previous one if they share a role. Weight
 * decay applies to matrices: everything except biases and norms.
 */
static int add_param(struct dt_layout *layout,
                     const struct dt_model_config *config, const char *prefix,
                     const struct param *param, bool joined,
                     struct dt_error *err)
{
    char name[96];
    const size_t shape[] = {param_length(config, param->rows),
                            param_length(config, param->cols)};
    bool matrix = param->cols != NONE;
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
                    const struct param *params, struct dt_error *err)
{
    enum dt_role last = DT_ROLES;
    if (dt_layout_add_unit(layout, err) < 0)
        return -1;
    for (const struct param *p = params; p->name; p++) {
        if (!param_exists(config, p->when))
            continue;
        if (add_param(layout, config, prefix, p, last == p->role, err) < 0)
            return -1;
        last = p->role;
    }
    return 0;
}

/* The part of the table after the next end of a unit. */
static const struct param *next_unit(const struct param *params)
{
    while (params->name)
        params++;
    return params + 1;
}

struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err)
{
    const struct param *embedding = table_of(config);
    const struct param *block = next_unit(embedding), *head = next_unit(block);
    struct dt_layout *layout = dt_layout_create(err);
    if (!layout || add_unit(layout, config, "", embedding, err) < 0)
        goto error;
    for (size_t l = 0; l < config->n_layer; l++) {
        char prefix[40];
        snprintf(prefix, sizeof(prefix),
                 config->family->centered ? "transformer.h.%zu."
                                          : "model.layers.%zu.",
                 l);
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
    const struct param *params = table_of(config);
    memset(ranges, 0, DT_ROLES * sizeof(*ranges));
    for (int unit = 0; unit < 3; unit++, params = next_unit(params)) {
        size_t i = 0; /* in the unit */
        for (const struct param *p = params; p->name; p++)
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
