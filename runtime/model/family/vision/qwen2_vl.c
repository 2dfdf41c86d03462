/* SPDX-License-Identifier: Apache-2.0 */
/* qwen2_vl.c - Qwen2-VL: rotations by row and column, and M-RoPE in qwen2 */
#include "config.h"

#include "model/family/vision/vision_rows.h"

static const struct dt_param_row qwen2_vl_params[] = {
    DT_QWEN_PATCHES, {0}, DT_QWEN_BLOCK("mlp.fc1", "mlp.fc2"), {0}, {0},
};

static const struct dt_tower_traits qwen2_vl_tower = {
    .family =
        {
            .type = "qwen2_vl_vision",
            .fields =
                DT_FIELDS(DT_TOWER_FIELDS("embed_dim", "depth", "num_heads"),
                          DT_REAL("rope_theta", rope_theta, 1, 1e12)),
            .params = qwen2_vl_params,
            .centered = true,
            .gate = DT_QUICK_GELU,
            DT_QWEN_TOWER,
            DT_SIZES(0, 0, 1280, 32, 16, 0),
        },
    .channels = "in_channels",
    .patch = 14,
    .frames = 2,
};

static const struct dt_family qwen2_vl_text = {
    .type = "qwen2_vl_text",
    .base = "Qwen2VLTextModel",
    DT_QWEN_TEXT,
};

static const struct dt_param_row qwen2_vl_projector[] = {
    DT_VECTOR(DT_MERGE_NORM_W, "ln_q.weight", DT_C),
    DT_VECTOR(DT_MERGE_NORM_B, "ln_q.bias", DT_C),
    DT_QWEN_MERGER,
    {0},
};

static void qwen2_vl_parse(struct dt_vision_config *vision,
                           const struct dt_model_config *text,
                           const json_t *root, const json_t *tower,
                           struct dt_error *problems)
{
    size_t ratio = 4;
    (void)root;
    dt_config_parse_size(tower, "vision_config.", "mlp_ratio", 64, &ratio,
                         problems);
    vision->tower.n_inner = ratio * vision->tower.n_embd;
    qwen_parse(vision, text, tower, "hidden_size", problems);
}

const struct dt_vision_family dt_vision_qwen2_vl = {
    .type = "qwen2_vl",
    .causal = "Qwen2VLForConditionalGeneration",
    .base = "Qwen2VLModel",
    .text = &qwen2_vl_text,
    .towers = (const struct dt_tower_traits *const[]){&qwen2_vl_tower, NULL},
    DT_QWEN_NAMES,
    .projector = qwen2_vl_projector,
    .token = 151655,
    .video = 151656,
    .parse = qwen2_vl_parse,
};
