/* SPDX-License-Identifier: Apache-2.0 */
/* gpt2_params.c - names, shapes and first values of GPT-2's parameters */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "model/gpt2.h"
#include "model/model.h"

/* A parameter of a unit: (rows), or (rows, cols) if cols > 0. */
struct shape {
    const char *name;
    size_t rows, cols;
};

/* Opens a unit of the layout and adds its parameters. Weight decay applies to
 * matrices: in GPT-2 that is everything but biases and norms.
 */
static int add_unit(struct dt_layout *layout, const char *prefix,
                    const struct shape *shapes, size_t count,
                    struct dt_error *err)
{
    if (dt_layout_add_unit(layout, err))
        return -1;
    for (size_t i = 0; i < count; i++) {
        char name[64];
        bool matrix = shapes[i].cols > 0;
        snprintf(name, sizeof(name), "%s%s", prefix, shapes[i].name);
        size_t dims[] = {shapes[i].rows, shapes[i].cols};
        if (dt_layout_add_param(layout, name, matrix, matrix ? 2 : 1, dims,
                                err) < 0)
            return -1;
    }
    return 0;
}

static int add_embedding(struct dt_layout *layout, size_t V, size_t P, size_t C,
                         struct dt_error *err)
{
    const struct shape shapes[] = {
        [WTE] = {"wte.weight", V, C},
        [WPE] = {"wpe.weight", P, C},
    };
    return add_unit(layout, "transformer.", shapes, 2, err);
}

static int add_block(struct dt_layout *layout, size_t l, size_t C, size_t I,
                     struct dt_error *err)
{
    const struct shape shapes[] = {
        [LN_1_W] = {"ln_1.weight", C, 0},
        [LN_1_B] = {"ln_1.bias", C, 0},
        [C_ATTN_W] = {"attn.c_attn.weight", C, 3 * C},
        [C_ATTN_B] = {"attn.c_attn.bias", 3 * C, 0},
        [ATTN_PROJ_W] = {"attn.c_proj.weight", C, C},
        [ATTN_PROJ_B] = {"attn.c_proj.bias", C, 0},
        [LN_2_W] = {"ln_2.weight", C, 0},
        [LN_2_B] = {"ln_2.bias", C, 0},
        [C_FC_W] = {"mlp.c_fc.weight", C, I},
        [C_FC_B] = {"mlp.c_fc.bias", I, 0},
        [MLP_PROJ_W] = {"mlp.c_proj.weight", I, C},
        [MLP_PROJ_B] = {"mlp.c_proj.bias", C, 0},
    };
    char prefix[40];
    snprintf(prefix, sizeof(prefix), "transformer.h.%zu.", l);
    return add_unit(layout, prefix, shapes, MLP_PROJ_B + 1, err);
}

static int add_head(struct dt_layout *layout, size_t V, size_t C, bool tied,
                    struct dt_error *err)
{
    const struct shape shapes[] = {
        [LN_F_W] = {"transformer.ln_f.weight", C, 0},
        [LN_F_B] = {"transformer.ln_f.bias", C, 0},
        [LM_HEAD] = {"lm_head.weight", V, C},
    };
    return add_unit(layout, "", shapes, tied ? LM_HEAD : LM_HEAD + 1, err);
}

struct dt_layout *dt_model_layout(const struct dt_model_config *config,
                                  int world, struct dt_error *err)
{
    size_t V = config->vocab_size, C = config->n_embd;
    struct dt_layout *layout = dt_layout_create(err);
    if (!layout || add_embedding(layout, V, config->n_positions, C, err))
        goto error;
    for (size_t l = 0; l < config->n_layer; l++)
        if (add_block(layout, l, C, config->n_inner, err))
            goto error;
    if (add_head(layout, V, C, config->tie_word_embeddings, err))
        goto error;
    dt_layout_finish(layout, world);
    return layout;
error:
    dt_layout_destroy(layout);
    return NULL;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

void dt_model_init_weights(const struct dt_model_config *config,
                           const struct dt_layout *layout,
                           struct dt_view weights, uint64_t seed)
{
    uint64_t first = 0; /* elements before this parameter, padding left out */
    for (size_t i = 0; i < layout->param_count; i++) {
        const struct dt_param *param = &layout->params[i];
        float *w = dt_view_f32(dt_layout_param(layout, weights, i));
        double std = config->initializer_range;
        /* what is added to the residual stream 2 n_layer times */
        if (ends_with(param->name, "c_proj.weight"))
            std /= sqrt(2.0 * (double)config->n_layer);
        float constant = ends_with(param->name, ".weight") ? 1.0f : 0.0f;
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
}
