/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_rows.h - towers, and traits that several families with one have
 *
 * For the files of this folder alone, which family.c includes one after the
 * other: a function of theirs begins with the family's name.
 */
#ifndef DT_MODEL_VISION_VISION_ROWS_H
#define DT_MODEL_VISION_VISION_ROWS_H

#include "model/family/text/family_rows.h"

#define DT_ROW(role, name, rows, cols)                                         \
    {                                                                          \
        role, name, rows, cols, DT_ALWAYS                                      \
    }
#define DT_VECTOR(role, name, rows) DT_ROW(role, name, rows, DT_NONE)

/* --- towers with learned positions: CLIP, SigLIP, those of Idefics --- */

#define DT_LEARNED_BLOCK                                                       \
    DT_VECTOR(DT_NORM_1_W, "layer_norm1.weight", DT_C),                        \
        DT_VECTOR(DT_NORM_1_B, "layer_norm1.bias", DT_C),                      \
        DT_ROW(DT_QKV_W, "self_attn.q_proj.weight", DT_QUERIES, DT_C),         \
        DT_ROW(DT_QKV_W, "self_attn.k_proj.weight", DT_KEYS, DT_C),            \
        DT_ROW(DT_QKV_W, "self_attn.v_proj.weight", DT_KEYS, DT_C),            \
        DT_VECTOR(DT_QKV_B, "self_attn.q_proj.bias", DT_QUERIES),              \
        DT_VECTOR(DT_QKV_B, "self_attn.k_proj.bias", DT_KEYS),                 \
        DT_VECTOR(DT_QKV_B, "self_attn.v_proj.bias", DT_KEYS),                 \
        DT_ROW(DT_OUT_W, "self_attn.out_proj.weight", DT_C, DT_QUERIES),       \
        DT_VECTOR(DT_OUT_B, "self_attn.out_proj.bias", DT_C),                  \
        DT_VECTOR(DT_NORM_2_W, "layer_norm2.weight", DT_C),                    \
        DT_VECTOR(DT_NORM_2_B, "layer_norm2.bias", DT_C),                      \
        DT_ROW(DT_FC_W, "mlp.fc1.weight", DT_I, DT_C),                         \
        DT_VECTOR(DT_FC_B, "mlp.fc1.bias", DT_I),                              \
        DT_ROW(DT_PROJ_W, "mlp.fc2.weight", DT_C, DT_I),                       \
        DT_VECTOR(DT_PROJ_B, "mlp.fc2.bias", DT_C)

#define DT_LEARNED_PATCHES                                                     \
    DT_ROW(DT_PATCH_W, "embeddings.patch_embedding.weight", DT_C, DT_PATCH)
#define DT_PATCH_BIAS                                                          \
    DT_VECTOR(DT_PATCH_B, "embeddings.patch_embedding.bias", DT_C)
#define DT_LEARNED_POSITIONS                                                   \
    DT_ROW(DT_WPE, "embeddings.position_embedding.weight", DT_P, DT_C)

/* A tower's dropout is none: its keys, and those of its width and depth. */
#define DT_TOWER_FIELDS(width, depth, heads)                                   \
    DT_COUNT(width, true, n_embd, 1 << 16),                                    \
        DT_COUNT(depth, true, n_layer, DT_MODEL_MAX_LAYERS),                   \
        DT_COUNT(heads, true, n_head, 1 << 16),                                \
        DT_REAL("initializer_range", initializer_range, 0, 10),                \
        DT_REAL("attention_dropout", attn_dropout, 0, 0)

#define DT_LEARNED                                                             \
    .fields = DT_FIELDS(DT_TOWER_FIELDS("hidden_size", "num_hidden_layers",    \
                                        "num_attention_heads"),                \
                        DT_COUNT("intermediate_size", true, n_inner, 1 << 20), \
                        DT_REAL("layer_norm_eps", norm_epsilon, 1e-12, 1)),    \
    .block = "encoder.layers.", .centered = true, .learns_positions = true,    \
    .pads_nothing = true, .pre_norm = true, .qkv_biased = true,                \
    .mlp_biased = true, .activation = "hidden_act",                            \
    .windows = DT_WINDOWS_NONE, .pad = -1

/* SigLIP's with the norm behind its blocks. */
static const struct dt_param_row normed_params[] = {
    DT_LEARNED_PATCHES,
    DT_PATCH_BIAS,
    DT_LEARNED_POSITIONS,
    {0},
    DT_LEARNED_BLOCK,
    {0},
    DT_VECTOR(DT_NORM_F_W, "post_layernorm.weight", DT_C),
    DT_VECTOR(DT_NORM_F_B, "post_layernorm.bias", DT_C),
    {0},
};

/* LLaVA's and Gemma's */
#define DT_LLAVA_NAMES                                                         \
    .names = {                                                                 \
        [DT_NAMES_VISION] = {"vision_tower.vision_model.", "vision_tower.",    \
                             "model.vision_tower.vision_model.",               \
                             "model.vision_tower."},                           \
        [DT_NAMES_PROJECTOR] = {"multi_modal_projector.",                      \
                                "model.multi_modal_projector."},               \
        [DT_NAMES_TRUNK] = {"language_model.model.", "model.language_model."}, \
        [DT_NAMES_HEAD] = {"language_model.", ""},                             \
    }

/* --- Idefics 3 and SmolVLM: a SigLIP of full tiles --- */

#define DT_IDEFICS_TOWER(name)                                                 \
    {                                                                          \
        .family = {.type = name,                                               \
                   DT_LEARNED,                                                 \
                   .params = normed_params,                                    \
                   .gate = DT_GELU_TANH,                                       \
                   .norm_epsilon = 1e-6,                                       \
                   DT_SIZES(0, 0, 1152, 12, 16, 3072)},                        \
        .channels = "num_channels", .image = 224, .patch = 32,                 \
    }

static const struct dt_param_row idefics_projector[] = {
    DT_ROW(DT_MERGE_1_W, "modality_projection.proj.weight", DT_TEXT, DT_MERGED),
    {0},
};

/* Element k of the `count` of torch.arange(step, 1, step) in fp32, as a CPU
 * computes it: each 8 from the first of them, which is rounded, and what is
 * left of pairs of 8 one by one.
 */
static float idefics_boundary(size_t k, size_t count, double step)
{
    const size_t first = k / 8 * 8;
    if (k / 16 * 16 + 16 > count)
        return (float)(step + step * (double)k);
    const float rounded = (float)(step + step * (double)first);
    return (float)((double)rounded + (double)(k - first) * step);
}

/* How many of these boundaries are at most i / grid: i, but where rounding
 * gives a patch the place of its neighbor.
 */
static size_t idefics_place(size_t grid, size_t i)
{
    const double step = 1.0 / (double)grid;
    const size_t count = (size_t)ceil((1.0 - step) / step);
    const float at =
        fminf((float)i * (1.0f / (float)grid), (float)(1.0 - 1e-6));
    size_t place = 0;
    for (size_t k = 0; k < count; k++)
        place += idefics_boundary(k, count, step) <= at;
    return place;
}

static void idefics_parse(struct dt_vision_config *vision,
                          const struct dt_model_config *text,
                          const json_t *root, const json_t *tower,
                          struct dt_error *problems)
{
    (void)text;
    (void)tower;
    vision->merge = 2;
    dt_config_parse_size(root, "", vision->family->merge_key, 64,
                         &vision->merge, problems);
    if (vision->grid % vision->merge != 0)
        dt_error_add(problems, EX_DATAERR,
                     "scale_factor: %zu does not divide the %zu patches of a "
                     "side (vision_config.image_size / patch_size)",
                     vision->merge, vision->grid);
}

#define DT_IDEFICS                                                             \
    .names = {{"model.vision_model."},                                         \
              {"model.connector."},                                            \
              {"model.text_model."},                                           \
              {""}},                                                           \
    .projector = idefics_projector, .ties_root = true,                         \
    .merge_key = "scale_factor", .token = 128257, .place = idefics_place,      \
    .parse = idefics_parse

/* --- Qwen2-VL to 3: pictures of any size, in frames --- */

#define DT_QWEN_PATCHES                                                        \
    DT_ROW(DT_PATCH_W, "patch_embed.proj.weight", DT_C, DT_PATCH)
#define DT_QWEN_ATTENTION                                                      \
    DT_ROW(DT_QKV_W, "attn.qkv.weight", DT_Q, DT_C),                           \
        DT_VECTOR(DT_QKV_B, "attn.qkv.bias", DT_Q),                            \
        DT_ROW(DT_OUT_W, "attn.proj.weight", DT_C, DT_QUERIES),                \
        DT_VECTOR(DT_OUT_B, "attn.proj.bias", DT_C)
/* A block with layer norms, and the names of its MLP. */
#define DT_QWEN_BLOCK(up, down)                                                \
    DT_VECTOR(DT_NORM_1_W, "norm1.weight", DT_C),                              \
        DT_VECTOR(DT_NORM_1_B, "norm1.bias", DT_C), DT_QWEN_ATTENTION,         \
        DT_VECTOR(DT_NORM_2_W, "norm2.weight", DT_C),                          \
        DT_VECTOR(DT_NORM_2_B, "norm2.bias", DT_C),                            \
        DT_ROW(DT_FC_W, up ".weight", DT_I, DT_C),                             \
        DT_VECTOR(DT_FC_B, up ".bias", DT_I),                                  \
        DT_ROW(DT_PROJ_W, down ".weight", DT_C, DT_I),                         \
        DT_VECTOR(DT_PROJ_B, down ".bias", DT_C)
#define DT_QWEN_MERGER                                                         \
    DT_ROW(DT_MERGE_1_W, "mlp.0.weight", DT_INNER, DT_MERGED),                 \
        DT_VECTOR(DT_MERGE_1_B, "mlp.0.bias", DT_INNER),                       \
        DT_ROW(DT_MERGE_2_W, "mlp.2.weight", DT_TEXT, DT_INNER),               \
        DT_VECTOR(DT_MERGE_2_B, "mlp.2.bias", DT_TEXT)

#define DT_QWEN_TOWER                                                          \
    .block = "blocks.", .axial = true, .pads_nothing = true, .pre_norm = true, \
    .qkv_biased = true, .mlp_biased = true, .activation = "hidden_act",        \
    .norm_epsilon = 1e-6, .theta = 1e4, .windows = DT_WINDOWS_NONE, .pad = -1

#define DT_QWEN_TEXT                                                           \
    .pre_norm = true, DT_GATED_BY_SILU, .pad = -1, .norm_epsilon = 1e-5,       \
    .theta = 1e6, .sections = {16, 24, 24}, .windows = DT_WINDOWS_LATE,        \
    .windows_number = 80, .windows_key = "max_window_layers",                  \
    .asks_window = true, .types_ask = true, .window = 4096,                    \
    .fields = DT_FIELDS(DT_ROTARY_FIELDS), .qkv_biased = true,                 \
    .out_plain = true, .n_kv_head = 8,                                         \
    DT_SIZES(152064, 32768, 8192, 80, 64, 29568)

/* The merger, a multilayer perceptron as wide as its input; `width` is the
 * key of the width of its output.
 */
static void qwen_parse(struct dt_vision_config *vision,
                       const struct dt_model_config *text, const json_t *tower,
                       const char *width, struct dt_error *problems)
{
    size_t features = 3584;
    vision->merge = 2;
    dt_config_parse_size(tower, "vision_config.", "spatial_merge_size", 64,
                         &vision->merge, problems);
    dt_config_parse_size(tower, "vision_config.", width, 1 << 16, &features,
                         problems);
    vision->activation = DT_GELU_ERF;
    vision->projector_bias = true;
    vision->inner = dt_vision_merged(vision);
    if (features != text->n_embd)
        dt_error_add(problems, EX_DATAERR,
                     "vision_config.%s: expected %zu, the hidden_size of the "
                     "language model, got %zu",
                     width, text->n_embd, features);
    if (vision->tower.head_size % 4 != 0)
        dt_error_add(problems, EX_DATAERR,
                     "vision_config.num_heads: expected heads of a size that "
                     "divides by 4, got %zu",
                     vision->tower.head_size);
}

#define DT_QWEN_NAMES                                                          \
    .merge_key = "vision_config.spatial_merge_size",                           \
    .names = {                                                                 \
        [DT_NAMES_VISION] = {"visual.", "model.visual."},                      \
        [DT_NAMES_PROJECTOR] = {"visual.merger.", "model.visual.merger."},     \
        [DT_NAMES_TRUNK] = {"model.", "model.language_model."},                \
        [DT_NAMES_HEAD] = {""},                                                \
    }

#endif /* DT_MODEL_VISION_VISION_ROWS_H */
