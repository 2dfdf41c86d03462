/* SPDX-License-Identifier: Apache-2.0 */
/* qwen2_5_vl.c - Qwen2.5-VL: qwen2_vl with RMSNorm, a gate, and windows */
#include "config.h"

#include "model/family/vision/vision_rows.h"

/* The norms' weights decay: transformers' Trainer knows norms of its own
 * classes by their names, which these do not have.
 */
static const struct dt_param_row qwen2_5_vl_params[] = {
    DT_QWEN_PATCHES,
    {0},
    DT_ROW(DT_NORM_1_W, "norm1.weight", DT_C, DT_DECAYED),
    DT_QWEN_ATTENTION,
    DT_ROW(DT_NORM_2_W, "norm2.weight", DT_C, DT_DECAYED),
    DT_ROW(DT_FC_W, "mlp.gate_proj.weight", DT_I, DT_C),
    DT_ROW(DT_FC_W, "mlp.up_proj.weight", DT_I, DT_C),
    DT_VECTOR(DT_FC_B, "mlp.gate_proj.bias", DT_I),
    DT_VECTOR(DT_FC_B, "mlp.up_proj.bias", DT_I),
    DT_ROW(DT_PROJ_W, "mlp.down_proj.weight", DT_C, DT_I),
    DT_VECTOR(DT_PROJ_B, "mlp.down_proj.bias", DT_C),
    {0},
    {0},
};

static const struct dt_tower_traits qwen2_5_vl_tower = {
    .family =
        {
            .type = "qwen2_5_vl_vision",
            .fields =
                DT_FIELDS(DT_TOWER_FIELDS("hidden_size", "depth", "num_heads"),
                          DT_COUNT("intermediate_size", true, n_inner, 1 << 20),
                          DT_REAL("rope_theta", rope_theta, 1, 1e12)),
            .params = qwen2_5_vl_params,
            .gated = true,
            .gate = DT_SILU,
            DT_QWEN_TOWER,
            DT_SIZES(0, 0, 3584, 32, 16, 3420),
        },
    .channels = "in_channels",
    .patch = 14,
    .frames = 2,
};

static const struct dt_family qwen2_5_vl_text = {
    .type = "qwen2_5_vl_text",
    .base = "Qwen2_5_VLTextModel",
    DT_QWEN_TEXT,
};

static const struct dt_param_row qwen2_5_vl_projector[] = {
    DT_ROW(DT_MERGE_NORM_W, "ln_q.weight", DT_C, DT_DECAYED),
    DT_QWEN_MERGER,
    {0},
};

/* fullatt_block_indexes: blocks without windows. Numbers of none are ignored,
 * as in transformers.
 */
static void qwen2_5_vl_parse_full(struct dt_model_config *config,
                                  const json_t *tower,
                                  struct dt_error *problems)
{
    static const size_t usual[] = {7, 15, 23, 31};
    const char *key = "fullatt_block_indexes";
    const json_t *list = dt_config_value(tower, key);
    for (size_t i = 0; !list && i < sizeof(usual) / sizeof(*usual); i++)
        if (usual[i] < config->n_layer)
            dt_layers_add(&config->full, usual[i]);
    if (list && !json_is_array(list))
        dt_config_unexpected(problems, "vision_config.", key,
                             "a list of numbers of blocks", list);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t l = json_integer_value(item);
        if (!json_is_integer(item))
            dt_config_unexpected(problems, "vision_config.", key,
                                 "a list of numbers of blocks", item);
        else if (l >= 0 && l < (json_int_t)config->n_layer)
            dt_layers_add(&config->full, (size_t)l);
    }
}

static void qwen2_5_vl_parse(struct dt_vision_config *vision,
                             const struct dt_model_config *text,
                             const json_t *root, const json_t *tower,
                             struct dt_error *problems)
{
    size_t pixels = 112, side;
    (void)root;
    qwen_parse(vision, text, tower, "out_hidden_size", problems);
    dt_config_parse_size(tower, "vision_config.", "window_size", 1 << 14,
                         &pixels, problems);
    vision->window = pixels / vision->merge / vision->patch;
    side = vision->window * vision->merge;
    if (side == 0)
        dt_error_add(problems, EX_DATAERR,
                     "vision_config.window_size: expected at least %zu, the "
                     "side of a feature, got %zu",
                     vision->merge * vision->patch, pixels);
    vision->tower.window = side * side;
    qwen2_5_vl_parse_full(&vision->tower, tower, problems);
}

const struct dt_vision_family dt_vision_qwen2_5_vl = {
    .type = "qwen2_5_vl",
    .causal = "Qwen2_5_VLForConditionalGeneration",
    .base = "Qwen2_5_VLModel",
    .text = &qwen2_5_vl_text,
    .towers = (const struct dt_tower_traits *const[]){&qwen2_5_vl_tower, NULL},
    DT_QWEN_NAMES,
    .projector = qwen2_5_vl_projector,
    .token = 151655,
    .video = 151656,
    .parse = qwen2_5_vl_parse,
};
